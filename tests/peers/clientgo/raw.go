package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"

	"pilothouse/peers/pods"
)

// raw reads the watch and nothing else: how late events are before any client has done anything with them. The
// annotation is looked for in the bytes.
func raw(config *rest.Config, proto bool) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	get := func(query string) (*http.Response, error) {
		request, err := http.NewRequest(http.MethodGet, config.Host+"/api/v1/pods?"+query, nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept", config.AcceptContentTypes)
		response, err := client.Do(request)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", response.Status)
		}
		return response, err
	}
	list, err := get("limit=1")
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, list.Body); err != nil {
		return err
	}
	_ = list.Body.Close()
	// The replay server knows no version that is too new.
	watch, err := get("watch=true&resourceVersion=9999999999")
	if err != nil {
		return err
	}
	events := &latencies{}
	go func() {
		name := []byte(pods.SentAnnotation)
		in := bufio.NewReaderSize(watch.Body, 64<<10)
		for {
			event, err := next(in, proto)
			if err != nil {
				return
			}
			// Before the value: `":"` in JSON, a tag and a length in protobuf.
			skip := 3
			if proto {
				skip = 2
			}
			if at := bytes.Index(event, name); at >= 0 {
				begin := at + len(name) + skip
				events.came(string(event[begin : begin+20]))
			}
		}
	}()
	return converse(events, func() int { return 0 })
}

func next(in *bufio.Reader, proto bool) ([]byte, error) {
	if !proto {
		return in.ReadBytes('\n')
	}
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(in, frame)
	return frame, err
}
