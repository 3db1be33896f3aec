package main

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	runtimeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"pilothouse/peers/pods"
)

// controllers runs controllers of controller-runtime on one manager until the benchmark says quit. Each reads three fields of
// every pod from the manager's cache, as guests/fixtures/pod-reader does. It says how it fares once each controller has
// reconciled each pod; what it calls objects are reconciles.
func controllers(flags *flag.FlagSet, args []string) error {
	kubeconfig := flags.String("kubeconfig", "", "of the server")
	count := flags.Int("controllers", 1, "on the manager")
	objects, _ := setFlags(flags)
	proto := flags.Bool("protobuf", true, "speak protobuf")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := unlimited(*kubeconfig, *proto)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logr.Discard())
	options := manager.Options{Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}}
	mgr, err := manager.New(config, options)
	if err != nil {
		return err
	}
	var reconciles atomic.Int64
	events := &latencies{}
	reader := mgr.GetClient()
	for number := range *count {
		named := ctrl.NewControllerManagedBy(mgr).Named(fmt.Sprintf("pod-reader-%06d", number)).For(&corev1.Pod{})
		err := named.Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			var pod corev1.Pod
			if err := reader.Get(ctx, request.NamespacedName, &pod); err != nil {
				return reconcile.Result{}, runtimeclient.IgnoreNotFound(err)
			}
			if len(pod.Name)+len(pod.Spec.NodeName)+len(pod.Status.Phase) == 0 {
				return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("a pod without fields"))
			}
			reconciles.Add(1)
			// Many controllers would wait for each other here.
			if *count == 1 {
				events.came(pod.Annotations[pods.SentAnnotation])
			}
			return reconcile.Result{}, nil
		}))
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	for reconciles.Load() < int64(*count)*int64(*objects) {
		select {
		case err := <-ended:
			return fmt.Errorf("the manager ended: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return converse(events, func() int { return int(reconciles.Load()) })
}
