package main

import (
	"fmt"

	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// runAPIServer is the API server's child: kube-apiserver's own command, which also sees to SIGTERM.
func runAPIServer(args []string) int { return runChild(app.NewAPIServerCommand(), args) }

// apiServerArgs are the flags of the API server's child. Later flags win, so what the user adds comes last.
func (o *serveOptions) apiServerArgs(port int, etcd string, p pki) []string {
	args := []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		// Named, since it would otherwise be searched for among the machine's interfaces.
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + p.path(servingCert),
		"--tls-private-key-file=" + p.path(servingKey),
		"--client-ca-file=" + p.path(caCert),
		"--token-auth-file=" + p.path(tokenFile),
		"--authorization-mode=Node,RBAC",
		"--requestheader-client-ca-file=" + p.path(proxyCACert),
		"--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.path(proxyCert),
		"--proxy-client-key-file=" + p.path(proxyKey),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.path(accountKey),
		"--service-account-signing-key-file=" + p.path(accountKey),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true",
		// A loopback address is refused as an endpoint of the kubernetes service.
		"--endpoint-reconciler-type=none",
		// Only POST /compact compacts, so that tests know when.
		"--etcd-compaction-interval=0",
		"--etcd-count-metric-poll-period=0",
		"--etcd-db-metric-poll-interval=0",
		// Otherwise a stop under an open watch takes a minute.
		"--shutdown-watch-termination-grace-period=200ms",
		fmt.Sprintf("--watch-cache=%t", o.watchCache),
	}
	if o.minRequestTimeout > 0 {
		args = append(args, fmt.Sprintf("--min-request-timeout=%d", o.minRequestTimeout))
	}
	if !o.makesServiceAccounts() {
		// Nobody would make the service account that this plugin demands for each pod.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return append(args, o.apiServerFlags...)
}
