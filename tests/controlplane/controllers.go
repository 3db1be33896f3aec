package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// runControllers is the controllers' child: kube-controller-manager's own command.
func runControllers(args []string) int { return runChild(app.NewControllerManagerCommand(), args) }

// controllerArgs are the flags of the controllers' child.
func (o *serveOptions) controllerArgs(kubeconfig string, p pki) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--controllers=" + strings.Join(o.controllers, ","),
		"--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file=" + p.path(accountKey),
		"--root-ca-file=" + p.path(caCert),
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--controller-start-interval=0s",
		"--controller-shutdown-timeout=2s",
	}
}

// controllerManager is kube-controller-manager alone, against a server that is not this program's own. Arguments behind
// `--` are its own. It ends when its standard input does, so that it does not outlive who started it.
func controllerManager(args []string) error {
	flags := flag.NewFlagSet("controlplane controller-manager", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the server")
	list := flags.String("controllers", "*", "the controllers that run, as kube-controller-manager's own flag has them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *kubeconfig == "" {
		return errors.New("needs --kubeconfig")
	}
	if err := checkControllers(strings.Split(*list, ",")); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	command := app.NewControllerManagerCommand()
	command.SetArgs(append([]string{
		"--kubeconfig=" + *kubeconfig,
		"--controllers=" + *list,
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--controller-start-interval=0s",
	}, flags.Args()...))
	if code := cli.Run(command); code != 0 {
		return fmt.Errorf("kube-controller-manager ended with %d", code)
	}
	return nil
}

// checkControllers refuses unknown names at once: the controllers' child would end only after the API server's start.
func checkControllers(names []string) error {
	known, aliases := app.KnownControllers(), app.ControllerAliases()
	for _, name := range names {
		plain := strings.TrimPrefix(name, "-")
		if _, alias := aliases[plain]; name != "*" && !alias && !slices.Contains(known, plain) {
			return fmt.Errorf("no controller is called %q; there are: %s", plain, strings.Join(known, " "))
		}
	}
	return nil
}

// makesServiceAccounts tells whether a controller runs that makes the `default` service account of each namespace.
func (o *serveOptions) makesServiceAccounts() bool {
	for _, name := range o.controllers {
		if name == "*" || name == "serviceaccount" || name == "serviceaccount-controller" {
			return true
		}
	}
	return false
}
