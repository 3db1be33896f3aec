package main

import (
	"slices"
	"sync"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// As in host/workqueue/benches/workqueue.
const (
	// keysInTurn are those of what is done with one key after the other.
	keysInTurn = 1_000
	// burst is how many come at once.
	burst         = 50
	contendedKeys = 400_000
	limitedKeys   = 100_000
	million       = 1_000_000
	// repeats is how often a process repeats what several goroutines do: on which processors they run is a matter of luck.
	repeats     = 5
	slowRepeats = 2
	// hands are the producers, and the consumers.
	hands = 4
)

// cycle adds, gets and gives back one key after the other; the same with three priorities.
func (c contender[T]) cycle() map[string]float64 {
	keys, queue := c.keys(keysInTurn), c.open(nil)
	began := time.Now()
	for n := range c.cycles {
		queue.Add(keys[n%keysInTurn])
		key, _ := queue.Get()
		queue.Done(key)
	}
	figures := map[string]float64{"ns": since(began, c.cycles)}
	if queue, ok := queue.(priorityqueue.PriorityQueue[T]); ok {
		began = time.Now()
		for n := range c.cycles {
			queue.AddWithOpts(addOptions[n%len(addOptions)], keys[n%keysInTurn])
			key, _, _ := queue.GetWithPriority()
			queue.Done(key)
		}
		figures["priorities_ns"] = since(began, c.cycles)
	}
	return figures
}

// bursts adds some keys and takes them out.
func (c contender[T]) bursts() map[string]float64 {
	keys, queue := c.keys(keysInTurn), c.open(nil)
	began := time.Now()
	for n := range c.cycles / burst {
		for of := range burst {
			queue.Add(keys[(n*burst+of)%keysInTurn])
		}
		for range burst {
			key, _ := queue.Get()
			queue.Done(key)
		}
	}
	return map[string]float64{"ns": since(began, c.cycles)}
}

var addOptions = func() (options [3]priorityqueue.AddOpts) {
	for n, value := range []int{-100, 0, 10} {
		options[n] = priorityqueue.AddOpts{Priority: &value}
	}
	return options
}()

// priorities adds all keys, each with one of three priorities, and takes them out.
func (c contender[T]) priorities() map[string]float64 {
	keys, queue := c.keys(keysInTurn), c.open(nil).(priorityqueue.PriorityQueue[T])
	began := time.Now()
	for range c.cycles / keysInTurn {
		for n, key := range keys {
			queue.AddWithOpts(addOptions[n%len(addOptions)], key)
		}
		for range keys {
			key, _, _ := queue.GetWithPriority()
			queue.Done(key)
		}
	}
	return map[string]float64{"ns": since(began, c.cycles)}
}

// median is the middle of some measurements, figure by figure.
func (c contender[T]) median(measure func() map[string]float64) map[string]float64 {
	count := repeats
	if c.cycles == slowCycles {
		count = slowRepeats
	}
	values := map[string][]float64{}
	for range count {
		for name, value := range measure() {
			values[name] = append(values[name], value)
		}
	}
	middles := map[string]float64{}
	for name, of := range values {
		slices.Sort(of)
		middles[name] = of[len(of)/2]
	}
	return middles
}

// contended hands out distinct keys from some producers to as many consumers.
func (c contender[T]) contended() map[string]float64 {
	keys := c.keys(contendedKeys)
	return c.median(func() map[string]float64 { return c.contend(keys) })
}

func (c contender[T]) contend(keys []T) map[string]float64 {
	const share = contendedKeys / hands
	queue := c.open(nil)
	var all sync.WaitGroup
	cpu, began := cpuMicros(), time.Now()
	for n := range hands {
		all.Go(func() {
			for _, key := range keys[n*share : (n+1)*share] {
				queue.Add(key)
			}
		})
		all.Go(func() {
			for range share {
				key, _ := queue.Get()
				queue.Done(key)
			}
		})
	}
	all.Wait()
	wall := since(began, contendedKeys)
	return map[string]float64{"ns": wall, "cpu_ns": (cpuMicros() - cpu) * 1e3 / contendedKeys}
}

// limited adds keys that fail for the first time, while another goroutine takes them with success.
func (c contender[T]) limited() map[string]float64 {
	keys := c.keys(limitedKeys)
	return c.median(func() map[string]float64 { return c.limit(keys) })
}

func (c contender[T]) limit(keys []T) map[string]float64 {
	queue := c.open(clientgo.NewTypedItemExponentialFailureRateLimiter[T](time.Millisecond, 1000*time.Second))
	var all sync.WaitGroup
	cpu, began := cpuMicros(), time.Now()
	all.Go(func() {
		for _, key := range keys {
			queue.AddRateLimited(key)
		}
	})
	all.Go(func() {
		for range keys {
			key, _ := queue.Get()
			queue.Forget(key)
			queue.Done(key)
		}
	})
	all.Wait()
	wall := since(began, limitedKeys)
	return map[string]float64{"ns": wall, "cpu_ns": (cpuMicros() - cpu) * 1e3 / limitedKeys}
}

// fill adds a million keys, and cycles with so many waiting and with one.
func (c contender[T]) fill() map[string]float64 {
	keys := c.keys(million)
	around := func(queue clientgo.TypedRateLimitingInterface[T]) float64 {
		began := time.Now()
		for range c.cycles {
			key, _ := queue.Get()
			queue.Done(key)
			queue.Add(key)
		}
		return since(began, c.cycles)
	}
	single := c.open(nil)
	single.Add(keys[0])
	figures := map[string]float64{"cycle_at_1": around(single)}
	queue := c.open(nil)
	began := time.Now()
	for _, key := range keys {
		queue.Add(key)
	}
	// The priority queue takes in what was added at the latest when it is asked for its length.
	_ = queue.Len()
	figures["ns"] = since(began, million)
	figures["cycle_at_million"] = around(queue)
	return figures
}
