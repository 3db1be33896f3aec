package main

import (
	"runtime"
	"runtime/debug"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
)

// far is a delay that does not end during a run.
const far = time.Hour

// queued is the memory of a million keys that wait.
func (c contender[T]) queued() map[string]float64 {
	return c.memory(func(keys []T) any {
		queue := c.open(nil)
		for _, key := range keys {
			queue.Add(key)
		}
		settle(queue)
		return queue
	})
}

// delayed is the memory of a million keys that wait for a time.
func (c contender[T]) delayed() map[string]float64 {
	return c.waiting(nil, func(queue clientgo.TypedRateLimitingInterface[T], key T) { queue.AddAfter(key, far) })
}

// failing is the memory of a million keys that failed and wait for their next try.
func (c contender[T]) failing() map[string]float64 {
	limiter := clientgo.NewTypedItemExponentialFailureRateLimiter[T](far, 1000*far)
	return c.waiting(limiter, func(queue clientgo.TypedRateLimitingInterface[T], key T) { queue.AddRateLimited(key) })
}

// waiting is the memory of a million keys that add makes wait.
func (c contender[T]) waiting(limiter clientgo.TypedRateLimiter[T], add func(clientgo.TypedRateLimitingInterface[T], T)) map[string]float64 {
	return c.memory(func(keys []T) any {
		queue := c.open(limiter)
		for _, key := range keys {
			add(queue, key)
		}
		// Comes out when all before it were taken in.
		last := c.key(len(keys))
		queue.AddAfter(last, time.Nanosecond)
		settle(queue)
		key, _ := queue.Get()
		queue.Done(key)
		settle(queue)
		return queue
	})
}

// settle lets the priority queue take in what was added. It keeps room for as many as it took in the last time: none.
func settle[T comparable](queue clientgo.TypedRateLimitingInterface[T]) {
	_, _ = queue.Len(), queue.Len()
}

// memory is what `hold` leaves for each key, in bytes, beside the keys and their strings: what is alive on the heap, what the
// process has got more after a collection, and after free memory was given back.
func (c contender[T]) memory(hold func(keys []T) any) map[string]float64 {
	keys := c.keys(million)
	heap := func() float64 {
		// What one collection finds to be finalised or pooled goes with the next.
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return float64(stats.HeapAlloc)
	}
	resident := func() float64 { return float64(kilobytes("smaps_rollup", "Rss")) * 1024 }
	heapBase := heap()
	debug.FreeOSMemory()
	base := resident()
	held := hold(keys)
	time.Sleep(time.Second)
	// Before a collection is asked for: as a process stands that is left alone.
	rss := resident()
	figures := map[string]float64{"rss": (rss - base) / million, "heap": (heap() - heapBase) / million}
	debug.FreeOSMemory()
	figures["trimmed"] = (resident() - base) / million
	runtime.KeepAlive(keys)
	runtime.KeepAlive(held)
	return figures
}
