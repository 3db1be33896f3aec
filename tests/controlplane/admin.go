package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"syscall"
)

// plane is what the admin port acts on. One action at a time; /status does not wait for one that runs.
type plane struct {
	etcd        *database
	probe       *probe
	args        []string
	logPath     string
	controllers *process

	acting sync.Mutex // held while the API server is stopped, started, paused or resumed
	state  sync.Mutex // guards what follows
	server *process
	paused bool
}

// status is the answer of GET /status; a pid is 0 while there is no such process.
type status struct {
	Revision         int64 `json:"revision"`
	PID              int   `json:"pid"`
	APIServerPID     int   `json:"apiserverPid"`
	ControllersPID   int   `json:"controllersPid"`
	APIServerRunning bool  `json:"apiserverRunning"`
	APIServerPaused  bool  `json:"apiserverPaused"`
}

// conflict is an action that does not fit the state of the API server; answered with 409.
type conflict string

func (c conflict) Error() string { return string(c) }

func (p *plane) current() (*process, error) {
	p.state.Lock()
	defer p.state.Unlock()
	if p.server == nil || !p.server.running() {
		return nil, conflict("the API server is not running")
	}
	return p.server, nil
}

// start returns when the API server is ready.
func (p *plane) start(ctx context.Context) error {
	if server, _ := p.current(); server != nil {
		return conflict("the API server is running already")
	}
	server, err := startProcess(apiServerCommand, p.args, p.logPath)
	if err != nil {
		return err
	}
	p.state.Lock()
	p.server, p.paused = server, false
	p.state.Unlock()
	return p.probe.ready(ctx, server)
}

// stop returns when the API server's process is gone.
func (p *plane) stop(sig syscall.Signal) error {
	server, err := p.current()
	if err != nil {
		return err
	}
	server.stop(sig)
	return nil
}

func (p *plane) setPaused(paused bool) error {
	server, err := p.current()
	if err != nil {
		return err
	}
	if err := server.setPaused(paused); err != nil {
		return err
	}
	p.state.Lock()
	p.paused = paused
	p.state.Unlock()
	return nil
}

// kill ends the API server with the parent.
func (p *plane) kill() {
	_ = p.stop(syscall.SIGKILL)
}

func (p *plane) status() status {
	s := status{Revision: p.etcd.revision(), PID: os.Getpid()}
	if p.controllers != nil && p.controllers.running() {
		s.ControllersPID = p.controllers.pid()
	}
	p.state.Lock()
	defer p.state.Unlock()
	if p.server != nil && p.server.running() {
		s.APIServerPID, s.APIServerRunning, s.APIServerPaused = p.server.pid(), true, p.paused
	}
	return s
}

// handler is the admin port's.
func (p *plane) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.status(), nil) })
	mux.HandleFunc("POST /compact", func(w http.ResponseWriter, r *http.Request) {
		revision, err := p.etcd.compact(r.Context())
		answer(w, map[string]int64{"revision": revision}, err)
	})
	action := func(pattern string, act func(r *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			p.acting.Lock()
			defer p.acting.Unlock()
			err := act(r)
			answer(w, p.status(), err)
		})
	}
	action("POST /apiserver/start", func(r *http.Request) error { return p.start(r.Context()) })
	action("POST /apiserver/stop", func(r *http.Request) error {
		sig, err := requestedSignal(r)
		if err != nil {
			return err
		}
		return p.stop(sig)
	})
	action("POST /apiserver/restart", func(r *http.Request) error {
		sig, err := requestedSignal(r)
		if err != nil {
			return err
		}
		if err := p.stop(sig); err != nil {
			return err
		}
		return p.start(r.Context())
	})
	action("POST /apiserver/pause", func(*http.Request) error { return p.setPaused(true) })
	action("POST /apiserver/resume", func(*http.Request) error { return p.setPaused(false) })
	return mux
}

// requestedSignal reads ?signal=KILL|TERM, which is KILL when absent.
func requestedSignal(r *http.Request) (syscall.Signal, error) {
	switch name := r.URL.Query().Get("signal"); name {
	case "", "KILL":
		return syscall.SIGKILL, nil
	case "TERM":
		return syscall.SIGTERM, nil
	default:
		return 0, conflict(fmt.Sprintf("signal must be KILL or TERM, not %q", name))
	}
}

func answer(w http.ResponseWriter, body any, err error) {
	if err != nil {
		code := http.StatusInternalServerError
		if errors.As(err, new(conflict)) {
			code = http.StatusConflict
		}
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}
