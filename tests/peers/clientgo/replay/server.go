// Package replay is an API server of pods that never change but on command: as cheap as it can be, so that it is not
// what is measured.
package replay

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"pilothouse/peers/pods"
)

// Server serves one set of pods.
type Server struct {
	set *pods.Set

	mu sync.RWMutex
	// The version of each pod, and the newest of all.
	versions []uint64
	newest   uint64
	// Watches from before this version are told that it is gone.
	oldest  uint64
	watches map[*watch]struct{}

	stats Stats
}

// Stats are what was asked for, by content type.
type Stats struct {
	JSONLists, ProtoLists, JSONWatches, ProtoWatches, WatchLists, Pages, Open atomic.Int64
}

// New makes a server of a set.
func New(set *pods.Set) *Server {
	s := &Server{set: set, versions: make([]uint64, set.Len()), watches: map[*watch]struct{}{}}
	for i := range s.versions {
		s.versions[i] = pods.FirstVersion + 1 + uint64(i)
	}
	s.newest = pods.FirstVersion + uint64(set.Len()) + 1
	s.oldest = s.newest
	return s
}

// Start serves on a port of its own until the context ends, and returns the kubeconfig.
func (s *Server) Start(ctx context.Context) (string, error) {
	identity, err := newIdentity()
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{
		Handler:   s.handler(),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{identity.certificate}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return identity.kubeconfig(listener.Addr().String()), nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	answer := func(path, body string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
		})
	}
	answer("/version", `{"major":"1","minor":"36","gitVersion":"v1.36.3","platform":"linux/amd64"}`)
	answer("/api", `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}`)
	answer("/apis", `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	answer("/api/v1", `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","watch"]}]}`)
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) {
		if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
			s.watch(w, r)
		} else {
			s.list(w, r)
		}
	})
	return mux
}

// state is a copy of the versions of some pods, and the newest version.
func (s *Server) state(from, to int) ([]uint64, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]uint64(nil), s.versions[from:to]...), s.newest
}

// fail answers with a Status.
func fail(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
}
