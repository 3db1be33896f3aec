package main

// What a server that speaks Kubernetes without being it has to know, taken from a running control plane: the names,
// verbs and table columns of the built-in resources, and the names and types of their fields. host/devserver holds the
// three files in its source. Names and types only: no descriptions are written.
//
// The files depend on the server's version and flags alone: what has no order of the server's own is sorted, so that
// two runs write the same bytes and a diff between two versions can be read.
//
// To make them again, from the root of the repository:
//
//	sh tests/controlplane/build.sh /tmp/controlplane
//	sleep infinity | /tmp/controlplane serve --dir /tmp/tables --ephemeral \
//	    --apiserver-flag=--runtime-config=api/all=true \
//	    --apiserver-flag=--feature-gates=AllAlpha=true,AllBeta=true    # in another terminal, until its line is printed
//	/tmp/controlplane tables --kubeconfig /tmp/tables/kubeconfig --out host/devserver/src/tables

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// tables writes DIR/resources.json, DIR/schemas.json and DIR/openapi.json.
func tables(args []string) error {
	flags := flag.NewFlagSet("controlplane tables", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the control plane to ask")
	out := flags.String("out", "", "folder for the files; made if absent")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *kubeconfig == "" || *out == "" || flags.NArg() > 0 {
		return fmt.Errorf("needs --kubeconfig and --out and no other arguments, got %q", flags.Args())
	}
	server, err := newSource(*kubeconfig)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for _, table := range []struct {
		name  string
		write func(*source, *bytes.Buffer) error
	}{
		{"resources.json", writeResources},
		{"schemas.json", writeSchemas},
		{"openapi.json", writeOpenAPI},
	} {
		var content bytes.Buffer
		if err := table.write(server, &content); err != nil {
			return fmt.Errorf("%s: %w", table.name, err)
		}
		if !json.Valid(content.Bytes()) {
			return fmt.Errorf("%s: what was made is not JSON", table.name)
		}
		if err := os.WriteFile(filepath.Join(*out, table.name), content.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// source is the control plane that is asked.
type source struct {
	base   string
	client *http.Client
}

func newSource(kubeconfig string) (*source, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	return &source{base: strings.TrimSuffix(config.Host, "/"), client: client}, err
}

// get decodes the answer to a GET into value.
func (s *source) get(path, accept string, value any) error {
	request, err := http.NewRequest(http.MethodGet, s.base+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", accept)
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", path, response.Status, content)
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// version is the server's, as in v1.36.3.
func (s *source) version() (string, error) {
	var info version.Info
	err := s.get("/version", "application/json", &info)
	return info.GitVersion, err
}

// compact is value as JSON on one line, with < and > as they are.
func compact(value any) (string, error) {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(content.String(), "\n"), err
}

// writeLines writes the parts between two brackets, one a line.
func writeLines(out *bytes.Buffer, open string, parts []string, end string) {
	out.WriteString(open + "\n")
	out.WriteString(strings.Join(parts, ",\n"))
	out.WriteString("\n" + end)
}
