package clientgo

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	leaseName     = "leader"
	leaseDuration = 2 * time.Second
)

// elector is a candidate that runs until it is stopped.
type elector struct {
	*leaderelection.LeaderElector
	stop func()
}

// startElector gives up a lease that it holds at its end only if it releases.
func startElector(ctx context.Context, t *testing.T, c clients, namespace, identity string, releases bool) elector {
	t.Helper()
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, leaseName, c.typed.CoreV1(), c.typed.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: identity})
	must(t, err)
	inner, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: identity, ReleaseOnCancel: releases,
		LeaseDuration: leaseDuration, RenewDeadline: leaseDuration * 3 / 4, RetryPeriod: leaseDuration / 10,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	must(t, err)
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		inner.Run(running)
	}()
	stop := func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return elector{inner, stop}
}

// TestLeaderElection passes a lease on, once released and once left to run out.
func TestLeaderElection(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	expect := func(holder string, transitions int32) {
		t.Helper()
		eventually(ctx, t, holder+" leads", func(ctx context.Context) error {
			lease, err := c.typed.CoordinationV1().Leases(namespace).Get(ctx, leaseName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			spec := lease.Spec
			if spec.HolderIdentity == nil || *spec.HolderIdentity != holder || spec.LeaseTransitions == nil || *spec.LeaseTransitions != transitions {
				return fmt.Errorf("the lease is %s", asJSON(spec))
			}
			if spec.LeaseDurationSeconds == nil || *spec.LeaseDurationSeconds != int32(leaseDuration/time.Second) || spec.AcquireTime == nil || spec.RenewTime == nil {
				return fmt.Errorf("the lease is not complete: %s", asJSON(spec))
			}
			return nil
		})
	}

	first := startElector(ctx, t, c, namespace, "first", true)
	expect("first", 0)
	second := startElector(ctx, t, c, namespace, "second", false)
	eventually(ctx, t, "the second knows of the first", func(context.Context) error {
		if leader := second.GetLeader(); leader != "first" {
			return fmt.Errorf("it takes %q for the leader", leader)
		}
		return nil
	})
	if !first.IsLeader() || second.IsLeader() {
		t.Errorf("the first leads: %v, the second leads: %v", first.IsLeader(), second.IsLeader())
	}

	first.stop()
	expect("second", 1)
	eventually(ctx, t, "the second leads", func(context.Context) error {
		if !second.IsLeader() {
			return fmt.Errorf("it takes %q for the leader", second.GetLeader())
		}
		return nil
	})

	second.stop()
	startElector(ctx, t, c, namespace, "third", true)
	expect("third", 2)
}
