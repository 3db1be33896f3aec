package clientgo

import (
	"net/http"
	"net/url"
	"slices"
	"sync"
)

// request is what a test may want to know of a request that was sent.
type request struct {
	method string
	path   string
	query  url.Values
	header http.Header
}

// requestLog records the requests of the clients it wraps.
type requestLog struct {
	mu   sync.Mutex
	sent []request
}

// wrap is a transport.WrapperFunc.
func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.sent = append(l.sent, request{method: r.Method, path: r.URL.Path, query: r.URL.Query(), header: r.Header.Clone()})
		l.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// all is what has been sent so far.
func (l *requestLog) all() []request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sent)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
