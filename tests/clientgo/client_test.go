package clientgo

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
)

// How long a test waits for what the server does on its own time.
const patience = 30 * time.Second

// How often a test looks again while it waits.
const interval = 20 * time.Millisecond

// clients are client-go's clients of the server, all of one configuration.
type clients struct {
	config   *rest.Config
	typed    *kubernetes.Clientset
	dynamic  *dynamic.DynamicClient
	metadata metadata.Interface
}

// newClients makes clients whose requests pass the wrappers.
func newClients(t *testing.T, wrappers ...transport.WrapperFunc) clients {
	t.Helper()
	config := newConfig(t)
	for _, wrapper := range wrappers {
		config.Wrap(wrapper)
	}
	typed, err := kubernetes.NewForConfig(config)
	must(t, err)
	untyped, err := dynamic.NewForConfig(config)
	must(t, err)
	meta, err := metadata.NewForConfig(config)
	must(t, err)
	return clients{config: config, typed: typed, dynamic: untyped, metadata: meta}
}

// contentVariable names the variable that, set to a media type, has the typed clients speak it; otherwise they speak what
// client-go chooses, which is protobuf for built-in kinds.
const contentVariable = "CLIENTGO_CONTENT_TYPE"

// newConfig is the kubeconfig's, without a limit on requests.
func newConfig(t *testing.T) *rest.Config {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		t.Fatal("KUBECONFIG must be set to the kubeconfig of the server to test")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatalf("KUBECONFIG=%s: %v", path, err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	config.ContentType = os.Getenv(contentVariable)
	config.AcceptContentTypes = os.Getenv(contentVariable)
	return config
}

// bounded is the test's context with an end, so that a server that hangs fails the test by name.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
