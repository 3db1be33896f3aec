package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"pilothouse/peers/pods"
)

const protobufType = "application/vnd.kubernetes.protobuf"

// unlimited is the configuration of a client without a rate limit, which speaks JSON or protobuf.
func unlimited(kubeconfig string, proto bool) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	// What is said if nothing else is.
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	if proto {
		config.ContentType, config.AcceptContentTypes = protobufType, protobufType+",application/json"
	}
	return config, nil
}

// client runs one client until the benchmark says quit. It says how it fares when it has synced.
func client(flags *flag.FlagSet, args []string) error {
	kubeconfig := flags.String("kubeconfig", "", "of the server")
	mode := flags.String("mode", "typed", "typed, dynamic or raw")
	proto := flags.Bool("protobuf", false, "speak protobuf")
	watchList := flags.Bool("watch-list", false, "stream the first list")
	strip := flags.Bool("strip", false, "drop managedFields")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// Read by client-go when the first reflector is made.
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", fmt.Sprint(*watchList)); err != nil {
		return err
	}
	config, err := unlimited(*kubeconfig, *proto)
	if err != nil {
		return err
	}
	if *mode == "raw" {
		return raw(config, *proto)
	}
	informer, err := newInformer(config, *mode)
	if err != nil {
		return err
	}
	return runInformer(informer, *strip)
}

func newInformer(config *rest.Config, mode string) (cache.SharedIndexInformer, error) {
	if mode == "dynamic" {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return dynamicinformer.NewFilteredDynamicInformer(client, corev1.SchemeGroupVersion.WithResource("pods"), "", 0, cache.Indexers{}, nil).Informer(), nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer(), nil
}

// nodeOf is the index function of the node index.
func nodeOf(object any) ([]string, error) {
	switch pod := object.(type) {
	case *corev1.Pod:
		return []string{pod.Spec.NodeName}, nil
	case *unstructured.Unstructured:
		node, _, err := unstructured.NestedString(pod.Object, "spec", "nodeName")
		return []string{node}, err
	}
	return nil, fmt.Errorf("not a pod: %T", object)
}

func runInformer(informer cache.SharedIndexInformer, strip bool) error {
	indexers := cache.Indexers{"node": nodeOf}
	if _, have := informer.GetIndexer().GetIndexers()[cache.NamespaceIndex]; !have {
		indexers[cache.NamespaceIndex] = cache.MetaNamespaceIndexFunc
	}
	if err := informer.AddIndexers(indexers); err != nil {
		return err
	}
	if strip {
		if err := informer.SetTransform(func(object any) (any, error) {
			if accessor, err := meta.Accessor(object); err == nil {
				accessor.SetManagedFields(nil)
			}
			return object, nil
		}); err != nil {
			return err
		}
	}
	events := &latencies{}
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) {
		if pod, ok := object.(metav1.Object); ok {
			events.came(pod.GetAnnotations()[pods.SentAnnotation])
		}
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go informer.RunWithContext(ctx)
	for !handler.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	return converse(events, func() int { return len(informer.GetStore().ListKeys()) })
}
