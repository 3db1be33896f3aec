package clientgo

import (
	"io"
	"net/http"
	"sync/atomic"
)

// Enough for all of an informer's initial events, and several times less than what a workload sends.
const brokenWatchBytes = 200_000

// brokenWatches ends each watch after some bytes, in the middle of an event.
type brokenWatches struct {
	ended atomic.Int64
}

// wrap is a transport.WrapperFunc.
func (b *brokenWatches) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && r.URL.Query().Get("watch") == "true" {
			response.Body = &brokenBody{ReadCloser: response.Body, left: brokenWatchBytes, broken: b}
		}
		return response, err
	})
}

// brokenBody ends after the bytes that are left.
type brokenBody struct {
	io.ReadCloser
	left   int
	broken *brokenWatches
}

func (b *brokenBody) Read(into []byte) (int, error) {
	if b.left == 0 {
		b.broken.ended.Add(1)
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(into[:min(len(into), b.left)])
	b.left -= n
	return n, err
}
