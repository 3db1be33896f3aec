// Command differential runs client-go's shared informer of the ConfigMaps of a namespace and writes a line for each event
// that its handler is told, for comparison with another informer on the same server:
//
//	differential KUBECONFIG NAMESPACE FILE
//
//	add NAMESPACE/NAME UID VERSION      (or update, delete; missing is a deletion whose last state is not known)
//
// When its standard input ends it stops the informer and writes a line for each object of the store, `store
// NAMESPACE/NAME UID VERSION`, and then `end`. KUBE_FEATURE_WatchListClient says how it lists.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: differential KUBECONFIG NAMESPACE FILE")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(kubeconfig, namespace, file string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	lines := &lineWriter{out: out}

	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { lines.write("add", object) },
		UpdateFunc: func(_, object any) { lines.write("update", object) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				lines.write("missing", tombstone.Obj)
				return
			}
			lines.write("delete", object)
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	factory.Start(ctx.Done())

	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	cancel()
	factory.Shutdown()
	if err := informer.RemoveEventHandler(registration); err != nil {
		return err
	}
	for _, object := range informer.GetStore().List() {
		lines.write("store", object)
	}
	lines.line("end\n")
	return lines.err
}

// lineWriter writes whole lines and remembers the first error.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
	err error
}

func (w *lineWriter) write(what string, object any) {
	o := object.(metav1.Object)
	w.line(fmt.Sprintf("%s %s/%s %s %s\n", what, o.GetNamespace(), o.GetName(), o.GetUID(), o.GetResourceVersion()))
}

func (w *lineWriter) line(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := io.WriteString(w.out, text); err != nil && w.err == nil {
		w.err = err
	}
}
