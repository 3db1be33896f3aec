package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
)

// decoded is what one reading of a list or a watch has cost; all clients of the benchmark of pilothouse-client say the same.
type decoded struct {
	// Processor time of the process from the request, or from the open watch, to the last object.
	CPU     float64 `json:"cpu_us"`
	Objects int     `json:"objects"`
	// Memory before, with all objects of a list held, and at most.
	Before int `json:"before_kb"`
	After  int `json:"after_kb"`
	Peak   int `json:"peak_kb"`
	// Lengths of all versions, so that each object is looked at.
	Sum int `json:"sum"`
}

// objects is a client of pods, typed or dynamic.
type objects struct {
	list  func(context.Context, metav1.ListOptions) (apiruntime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// decode reads all pods once, by pages, in one answer or from a watch, without a cache: the first line says that it is ready; a list
// begins when it is told to by a line, and the second line is what it cost. Managed fields are dropped.
func decode(flags *flag.FlagSet, args []string) error {
	kubeconfig := flags.String("kubeconfig", "", "of the server")
	mode := flags.String("mode", "typed", "typed or dynamic")
	proto := flags.Bool("protobuf", false, "speak protobuf")
	what := flags.String("what", "pages", "pages, whole or watch")
	count := flags.Int("objects", 10_000, "pods or events that come")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := unlimited(*kubeconfig, *proto)
	if err != nil {
		return err
	}
	client, err := newObjects(config, *mode)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The connection is there, and what is set up at the first use.
	first, err := client.list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	accessor, err := meta.ListAccessor(first)
	if err != nil {
		return err
	}
	if *what == "watch" {
		events, err := client.watch(ctx, metav1.ListOptions{ResourceVersion: accessor.GetResourceVersion()})
		if err != nil {
			return err
		}
		return follow(events, *count)
	}
	return collect(ctx, client, *what)
}

func newObjects(config *rest.Config, mode string) (*objects, error) {
	if mode == "dynamic" {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		pods := client.Resource(corev1.SchemeGroupVersion.WithResource("pods"))
		return &objects{
			list:  func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) { return pods.List(ctx, o) },
			watch: pods.Watch,
		}, nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	pods := client.CoreV1().Pods("")
	return &objects{
		list:  func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) { return pods.List(ctx, o) },
		watch: pods.Watch,
	}, nil
}

// collect reads a list and keeps its objects.
func collect(ctx context.Context, client *objects, what string) error {
	begin, err := ready()
	if err != nil {
		return err
	}
	if !bufio.NewScanner(os.Stdin).Scan() {
		return fmt.Errorf("nobody told to begin")
	}
	var kept []apiruntime.Object
	options := metav1.ListOptions{}
	if what == "whole" {
		options.ResourceVersion = "0"
	}
	cost := decoded{Before: begin.Before}
	start := cpuMicros()
	keep := func(object apiruntime.Object) error {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		accessor.SetManagedFields(nil)
		cost.Sum += len(accessor.GetResourceVersion())
		kept = append(kept, object)
		return nil
	}
	if what == "whole" {
		list, err := client.list(ctx, options)
		if err != nil {
			return err
		}
		if err := meta.EachListItem(list, keep); err != nil {
			return err
		}
	} else if err := pager.New(client.list).EachListItem(ctx, options, keep); err != nil {
		return err
	}
	cost.CPU = cpuMicros() - start
	cost.Objects = len(kept)
	return tell(&cost, kept)
}

// follow reads events of a watch and keeps none.
func follow(events watch.Interface, count int) error {
	defer events.Stop()
	begin, err := ready()
	if err != nil {
		return err
	}
	cost := decoded{Before: begin.Before}
	start := cpuMicros()
	for cost.Objects < count {
		event, open := <-events.ResultChan()
		if !open || event.Type != watch.Modified {
			return fmt.Errorf("after %d events: %v", cost.Objects, event)
		}
		accessor, err := meta.Accessor(event.Object)
		if err != nil {
			return err
		}
		accessor.SetManagedFields(nil)
		cost.Sum += len(accessor.GetResourceVersion())
		cost.Objects++
	}
	cost.CPU = cpuMicros() - start
	return tell(&cost, nil)
}

// ready says so, with the memory of now; the peak is counted from here.
func ready() (decoded, error) {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return decoded{}, err
	}
	now := decoded{Before: kilobytes("smaps_rollup", "Rss")}
	return now, say(now)
}

// tell says what it cost; memory is the smaller of what is held by itself and after garbage was given back.
func tell(cost *decoded, kept []apiruntime.Object) error {
	cost.Peak, cost.After = kilobytes("status", "VmHWM"), kilobytes("smaps_rollup", "Rss")
	debug.FreeOSMemory()
	cost.After = min(cost.After, kilobytes("smaps_rollup", "Rss"))
	runtime.KeepAlive(kept)
	return say(cost)
}
