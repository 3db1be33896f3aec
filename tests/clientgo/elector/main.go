// Command elector competes for a Lease with client-go's leader election, for tests of others that do:
//
//	elector KUBECONFIG NAMESPACE NAME IDENTITY LEASE RENEW RETRY
//
// LEASE, RENEW and RETRY are the three durations. It writes a line for what happens, with the time in nanoseconds since
// 1970:
//
//	leads NANOSECONDS
//	stops NANOSECONDS
//	leader IDENTITY
//
// When its standard input ends it stops its work, releases the lease and ends. `stops` is written before the lease is
// released: client-go calls OnStoppedLeading only afterwards, when another may lead.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	if len(os.Args) != 8 {
		log.Fatal("usage: elector KUBECONFIG NAMESPACE NAME IDENTITY LEASE RENEW RETRY")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:8]); err != nil {
		log.Fatal(err)
	}
}

func run(kubeconfig, namespace, name, identity string, times []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	durations := make([]time.Duration, len(times))
	for i, text := range times {
		if durations[i], err = time.ParseDuration(text); err != nil {
			return err
		}
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var state term
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: identity, ReleaseOnCancel: true,
		LeaseDuration: durations[0], RenewDeadline: durations[1], RetryPeriod: durations[2],
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { state.begin() },
			OnStoppedLeading: state.end,
			OnNewLeader:      func(leader string) { fmt.Println("leader", leader) },
		},
	})
	if err != nil {
		return err
	}
	go func() {
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			log.Print(err)
		}
		state.end()
		cancel()
	}()
	elector.Run(ctx)
	return nil
}

// term is what is told of the one time in which this process leads.
type term struct {
	mu          sync.Mutex
	leads, over bool
}

func (t *term) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.leads = true
		fmt.Println("leads", time.Now().UnixNano())
	}
}

func (t *term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leads && !t.over {
		fmt.Println("stops", time.Now().UnixNano())
	}
	t.over = true
}
