package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// rounds is how often all pods are added and taken out; as host/cache/benches/cache/fifo.rs.
const rounds = 200

// fifos gives the nanoseconds of adding an item and taking it out.
func fifos(objects []*corev1.Pod) map[string]float64 {
	known := cache.NewStore(cache.MetaNamespaceKeyFunc)
	single := func(queue cache.Queue) float64 {
		process := func(any, bool) error { return nil }
		return perItem(objects, queue, func() { _, _ = queue.Pop(process) })
	}
	// As the informer makes it with the feature gates of its release.
	real := func() *cache.RealFIFO {
		return cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{KeyFunction: cache.MetaNamespaceKeyFunc, AtomicEvents: true, UnlockWhileProcessing: true})
	}
	batched := real()
	taken := 0
	batch := func(deltas []cache.Delta, _ bool) error { taken += len(deltas); return nil }
	one := func(any, bool) error { taken++; return nil }
	return map[string]float64{
		"real_fifo":  single(real()),
		"delta_fifo": single(cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KeyFunction: cache.MetaNamespaceKeyFunc, KnownObjects: known})),
		"real_fifo_batch": perItem(objects, batched, func() {
			// Asked for as often as there are items, it would wait for more.
			if taken > 0 {
				taken--
				return
			}
			_ = batched.PopBatch(batch, one)
			taken--
		}),
	}
}

func perItem(objects []*corev1.Pod, queue cache.Queue, pop func()) float64 {
	began := time.Now()
	for range rounds {
		for _, pod := range objects {
			_ = queue.Update(pod)
		}
		for range objects {
			pop()
		}
	}
	return float64(time.Since(began).Nanoseconds()) / float64(rounds*len(objects))
}
