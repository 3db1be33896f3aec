// Package clientgo holds tests that run an unmodified client-go against the server that the kubeconfig in $KUBECONFIG
// names: a real control plane (tests/controlplane) or the dev server (host/devserver), which has to answer alike.
//
//	sleep infinity | controlplane serve --dir D --controllers namespace
//	KUBECONFIG=D/kubeconfig CGO_ENABLED=0 go test -trimpath -buildvcs=false -mod=readonly -count=1 ./...
//
// Invariants: each test works in namespaces of its own with a random suffix, so that the tests can be repeated on one
// server; no test needs admission, defaults, validation of schemas or a controller, but for the namespace controller
// (or a server that empties and removes deleted namespaces itself); nothing waits by sleeping.
package clientgo
