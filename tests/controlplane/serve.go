package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// serveOptions are the flags of `serve`.
type serveOptions struct {
	dir               string
	port              int
	watchCache        bool
	minRequestTimeout int
	ephemeral         bool
	controllers       []string
	apiServerFlags    []string
}

func parseServeOptions(args []string) (*serveOptions, error) {
	o := &serveOptions{}
	flags := flag.NewFlagSet("controlplane serve", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "", "folder for data, certificates, kubeconfigs and logs; a folder that was used before is continued")
	flags.IntVar(&o.port, "port", 0, "port of the API server; 0 picks a free one")
	flags.BoolVar(&o.watchCache, "watch-cache", true, "serve lists and watches from the API server's cache; without it a compaction shows at once")
	flags.IntVar(&o.minRequestTimeout, "min-request-timeout", 0, "end each watch after this many seconds to twice as many; 0 leaves the API server's default")
	flags.BoolVar(&o.ephemeral, "ephemeral", false, "remove the folder at the end")
	controllers := flags.String("controllers", "", "comma-separated controllers of kube-controller-manager to run; none by default")
	flags.Func("apiserver-flag", "a further flag for kube-apiserver, as in --apiserver-flag=--watch-cache-sizes=configmaps#0; may be repeated", func(value string) error {
		o.apiServerFlags = append(o.apiServerFlags, value)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if o.dir == "" || flags.NArg() > 0 {
		return nil, fmt.Errorf("needs --dir and no other arguments, got %q", flags.Args())
	}
	if *controllers != "" {
		o.controllers = strings.Split(*controllers, ",")
	}
	if err := checkControllers(o.controllers); err != nil {
		return nil, err
	}
	var err error
	o.dir, err = filepath.Abs(o.dir)
	return o, err
}

// ready is the one line on stdout.
type ready struct {
	Server          string `json:"server"`
	Kubeconfig      string `json:"kubeconfig"`
	KubeconfigToken string `json:"kubeconfigToken"`
	Admin           string `json:"admin"`
	PID             int    `json:"pid"`
}

// serve is the parent: it runs a control plane until its standard input closes or a signal comes.
func serve(args []string) error {
	o, err := parseServeOptions(args)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()

	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if o.ephemeral {
		// Runs last, when no process writes there any more.
		defer os.RemoveAll(o.dir)
	}
	port, err := reservePort(o.port)
	if err != nil {
		return err
	}
	server := fmt.Sprintf("https://127.0.0.1:%d", port)
	keys, err := makePKI(o.dir)
	if err != nil {
		return err
	}
	byCert, byToken, err := writeKubeconfigs(o.dir, server, keys)
	if err != nil {
		return err
	}
	etcd, err := startDatabase(o.dir)
	if err != nil {
		return err
	}
	defer etcd.etcd.Close()

	probe, err := newProbe(server, keys)
	if err != nil {
		return err
	}
	plane := &plane{
		etcd:    etcd,
		probe:   probe,
		args:    o.apiServerArgs(port, etcd.endpoint(), keys),
		logPath: filepath.Join(o.dir, "apiserver.log"),
	}
	defer plane.kill()
	if err := plane.start(ctx); err != nil {
		return orStopped(ctx, err)
	}
	if len(o.controllers) > 0 {
		controllers, err := startProcess(controllersCommand, o.controllerArgs(byCert, keys), filepath.Join(o.dir, "controllers.log"))
		if err != nil {
			return err
		}
		defer controllers.stop(syscall.SIGKILL)
		plane.controllers = controllers
	}
	if err := probe.ensureDefaults(ctx, plane.controllers, o.makesServiceAccounts()); err != nil {
		return orStopped(ctx, err)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	admin := &http.Server{Handler: plane.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = admin.Serve(listener) }()
	defer admin.Close()

	err = json.NewEncoder(os.Stdout).Encode(ready{
		Server:          server,
		Kubeconfig:      byCert,
		KubeconfigToken: byToken,
		Admin:           "http://" + listener.Addr().String(),
		PID:             os.Getpid(),
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// orStopped hides the errors of a start that was broken off on demand.
func orStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
