// Command controlplane is a real Kubernetes control plane for tests, in one static binary: kube-apiserver, etcd and
// kubectl, and kube-controller-manager for those who ask for it.
//
//	parent  `serve`                etcd, the admin port, the lifetime of all
//	  ├── child `apiserver`        kube-apiserver; can be killed, paused and started again alone
//	  └── child `controllers`      kube-controller-manager, only with --controllers
//
// Invariants: the parent ends when its standard input closes or a signal asks it to; no child outlives the parent,
// however that ends; the API server keeps its port and its data over restarts.
//
// For Linux (PDEATHSIG, /proc). It is started by the Rust harness (tests/src/controlplane), or by hand:
// `sleep infinity | controlplane serve --dir D`.
package main

import (
	"fmt"
	"os"

	"pilothouse/controlplane/fieldmanager"
)

const usage = `usage:
  controlplane serve --dir DIR [flags]   run a control plane; one JSON line on stdout tells that it is ready
  controlplane kubectl ARGS...           the kubectl of the same version
  controlplane controller-manager --kubeconfig FILE [--controllers LIST] [-- FLAGS...]
                                         kube-controller-manager against any server, until its standard input ends
  controlplane tables --kubeconfig FILE --out DIR
                                         write what a running control plane serves as resources.json and schemas.json
  controlplane protobuf --tables DIR --vectors FILE
                                         write how bodies in protobuf are encoded as protobuf.json, and test vectors
  controlplane defaults --tables DIR     write the values that absent fields are given as defaults.json
  controlplane objects [--tables DIR --random N --seed S]
                                         answer what a server reads of objects: of standard input, or random ones
  controlplane fieldmanager --seed S --cases N
                                         answer what server-side apply makes of random writers
  controlplane patterns --out FILE       write how regular expressions of Go are read, as test vectors
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	var err error
	switch command, args := os.Args[1], os.Args[2:]; command {
	case "serve":
		err = serve(args)
	case "kubectl":
		runKubectl(args)
	case "controller-manager":
		err = controllerManager(args)
	case "tables":
		err = tables(args)
	case "protobuf":
		err = protobufFile(args)
	case "defaults":
		err = defaults(args)
	case "objects":
		err = objects(args)
	case "fieldmanager":
		err = fieldmanager.Run(args)
	case "patterns":
		err = patterns(args)
	case apiServerCommand:
		os.Exit(runAPIServer(args))
	case controllersCommand:
		os.Exit(runControllers(args))
	default:
		fmt.Fprintf(os.Stderr, "unknown command %q\n%s", command, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "controlplane %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
