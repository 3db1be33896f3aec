package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// How long the API server may take to become ready; it takes 3 to 4 s on two idle cores.
const readyTimeout = 120 * time.Second

// probe asks the API server as the admin, on a new connection each time: one to an API server that was killed or
// stopped must not be asked again.
type probe struct {
	server string
	client *http.Client
}

func newProbe(server string, p pki) (*probe, error) {
	certificate, err := tls.LoadX509KeyPair(p.path(adminCert), p.path(adminKey))
	if err != nil {
		return nil, err
	}
	ca, err := p.read(caCert)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &probe{server: server, client: &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots},
			DisableKeepAlives: true,
		},
	}}, nil
}

// do answers the status code and the body.
func (p *probe) do(ctx context.Context, method, path, body string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.server+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// until asks again and again until done says so or gives up with an error.
func (p *probe) until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var last error
	for {
		ok, err := done()
		if ok {
			return err
		}
		if err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last answer: %v)", what, ctx.Err(), last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ready waits for /readyz, or fails as soon as the process has ended.
func (p *probe) ready(ctx context.Context, server *process) error {
	return p.until(ctx, "the API server to be ready", func() (bool, error) {
		if !server.running() {
			return true, server.ended()
		}
		code, body, err := p.do(ctx, http.MethodGet, "/readyz", "")
		if err == nil && code != http.StatusOK {
			err = errors.New(body)
		}
		return err == nil, err
	})
}

// ensureDefaults sees to what a test takes for granted: the namespace `default`, which the API server's own loop may
// make as late as a minute after its start, and, where a controller makes those, its service account.
func (p *probe) ensureDefaults(ctx context.Context, controllers *process, serviceAccount bool) error {
	const namespace = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}`
	err := p.until(ctx, "the namespace default", func() (bool, error) {
		code, body, err := p.do(ctx, http.MethodPost, "/api/v1/namespaces", namespace)
		if err == nil && code != http.StatusCreated && code != http.StatusConflict {
			err = errors.New(body)
		}
		return err == nil, err
	})
	if err != nil || !serviceAccount {
		return err
	}
	return p.until(ctx, "the service account default", func() (bool, error) {
		if !controllers.running() {
			return true, controllers.ended()
		}
		code, body, err := p.do(ctx, http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", "")
		if err == nil && code != http.StatusOK {
			err = errors.New(body)
		}
		return err == nil, err
	})
}
