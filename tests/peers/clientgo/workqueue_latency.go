package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
)

// As in host/workqueue/benches/workqueue.
const (
	// queues is how many there are, of which one is busy.
	queues = 1_000
	// wakes is how often one of the others is woken.
	wakes     = 2_000
	wakePause = time.Millisecond
)

// scattered is splitmix64: numbers without order, the same in every run and for every contender.
func scattered(number uint64) uint64 {
	z := (number + 1) * 0x9E3779B97F4A7C15
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

// delay is between one and ten seconds.
func delay(number int) time.Duration {
	return time.Second + time.Duration(scattered(uint64(number))%uint64(9*time.Second))
}

// late adds a million keys with delays; how long after their time consumers have them, and the processor time of it all.
func (c contender[T]) late() map[string]float64 {
	keys, queue := c.keys(million), c.open(nil)
	// Nanoseconds since `began`.
	wanted, late := make([]int64, million), make([]float64, million)
	var taken atomic.Int64
	var all sync.WaitGroup
	cpu, began := cpuMicros(), time.Now()
	for range hands {
		all.Go(func() {
			for {
				key, shutdown := queue.Get()
				if shutdown {
					return
				}
				n := c.number(key)
				late[n] = float64(int64(time.Since(began))-wanted[n]) / 1e6
				queue.Done(key)
				if taken.Add(1) == million {
					queue.ShutDown()
				}
			}
		})
	}
	for n, key := range keys {
		wanted[n] = int64(time.Since(began) + delay(n))
		queue.AddAfter(key, delay(n))
	}
	all.Wait()
	spent := (cpuMicros() - cpu) / 1e6
	slices.Sort(late)
	return map[string]float64{"cpu_s": spent, "p50_ms": late[million/2], "p99_ms": late[million/100*99]}
}

// many opens queues with a worker each and wakes one after the other: alone, and beside one that is never at rest.
func (c contender[T]) many() map[string]float64 {
	all := make([]clientgo.TypedRateLimitingInterface[T], queues)
	keys, came := c.keys(queues), make(chan time.Time, 1)
	var handedOut atomic.Int64
	for n := range all {
		all[n] = c.open(nil)
		go func() {
			for {
				key, shutdown := all[n].Get()
				if shutdown {
					return
				}
				if n > 0 {
					came <- time.Now()
				} else {
					handedOut.Add(1)
				}
				all[n].Done(key)
			}
		}()
	}
	// Until all wait.
	time.Sleep(200 * time.Millisecond)
	wake := func() (float64, float64) {
		micros := make([]float64, wakes)
		for n := range micros {
			time.Sleep(wakePause)
			of := 1 + int(scattered(uint64(n))%(queues-1))
			began := time.Now()
			all[of].Add(keys[of])
			micros[n] = float64((<-came).Sub(began).Nanoseconds()) / 1e3
		}
		slices.Sort(micros)
		return micros[wakes/2], micros[wakes*99/100]
	}
	figures := map[string]float64{}
	figures["quiet_p50_us"], figures["quiet_p99_us"] = wake()
	go func() {
		for {
			for _, key := range keys {
				all[0].Add(key)
			}
			// The priority queue keeps what was added, every time, until it takes it in; without this it grows without end.
			_ = all[0].Len()
		}
	}()
	began := time.Now()
	figures["busy_p50_us"], figures["busy_p99_us"] = wake()
	figures["busy_ns"] = since(began, int(handedOut.Load()))
	return figures
}
