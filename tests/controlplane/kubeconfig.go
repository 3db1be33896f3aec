package main

import (
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfigs writes DIR/kubeconfig (by client certificate) and DIR/kubeconfig-token (by bearer token), both of a
// user in system:masters and complete in themselves, and returns their paths.
func writeKubeconfigs(dir, server string, p pki) (byCert, byToken string, err error) {
	contents := map[string][]byte{caCert: nil, adminCert: nil, adminKey: nil, adminToken: nil}
	for name := range contents {
		if contents[name], err = p.read(name); err != nil {
			return "", "", err
		}
	}
	write := func(name string, user *api.AuthInfo) (string, error) {
		path := filepath.Join(dir, name)
		config := api.NewConfig()
		config.Clusters["controlplane"] = &api.Cluster{Server: server, CertificateAuthorityData: contents[caCert]}
		config.AuthInfos["admin"] = user
		config.Contexts["controlplane"] = &api.Context{Cluster: "controlplane", AuthInfo: "admin", Namespace: "default"}
		config.CurrentContext = "controlplane"
		return path, clientcmd.WriteToFile(*config, path)
	}
	byCert, err = write("kubeconfig", &api.AuthInfo{ClientCertificateData: contents[adminCert], ClientKeyData: contents[adminKey]})
	if err != nil {
		return "", "", err
	}
	byToken, err = write("kubeconfig-token", &api.AuthInfo{Token: string(contents[adminToken])})
	return byCert, byToken, err
}
