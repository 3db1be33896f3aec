package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"pilothouse/peers/pods"
)

// span is how long each kind of reading goes on; as host/cache/benches/cache/store.rs.
const span = 300 * time.Millisecond

// micro keeps pods in memory and measures parts of client-go with them until standard input ends: "store" and "fifo".
func micro(flags *flag.FlagSet, args []string) error {
	count, seed := setFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	objects, err := typedPods(*seed, *count)
	if err != nil {
		return err
	}
	if err := say(map[string]int{"objects": len(objects)}); err != nil {
		return err
	}
	var store *storeBench
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var answer any
		switch line := commands.Text(); line {
		case "store":
			if store == nil {
				if store, err = newStoreBench(objects); err != nil {
					return err
				}
			}
			answer = store.measure()
		case "fifo":
			answer = fifos(objects)
		default:
			return fmt.Errorf("unknown command %q", line)
		}
		if err := say(answer); err != nil {
			return err
		}
	}
	return commands.Err()
}

// typedPods are pods without managedFields.
func typedPods(seed uint64, count int) ([]*corev1.Pod, error) {
	set, err := pods.NewSet(seed, count)
	if err != nil {
		return nil, err
	}
	writer, buffer := set.NewWriter(), []byte(nil)
	objects := make([]*corev1.Pod, count)
	for i := range objects {
		buffer = writer.AppendProtoItem(buffer[:0], i, pods.FirstVersion+1+uint64(i))
		pod := &corev1.Pod{}
		// The strings of a pod are copies: the buffer may be used again.
		if err := pod.Unmarshal(buffer); err != nil {
			return nil, err
		}
		pod.ManagedFields = nil
		objects[i] = pod
	}
	return objects, nil
}

// scatter is an order that has nothing to do with that of the objects.
func scatter(n, of int) int { return int(uint(n) * 0x9E3779B9 % uint(of)) }

// storeBench is a full store, and two versions of each pod that take turns.
type storeBench struct {
	store        cache.Indexer
	keys         []string
	nodes, racks []string
	versions     [2][]*corev1.Pod
}

func newStoreBench(objects []*corev1.Pod) (*storeBench, error) {
	b := &storeBench{store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "node": nodeOf,
		"rack": func(object any) ([]string, error) {
			return []string{object.(*corev1.Pod).Labels["topology.kubernetes.io/rack"]}, nil
		},
	})}
	b.versions[0] = objects
	for _, pod := range objects {
		changed := *pod
		changed.ResourceVersion = fmt.Sprintf("2%s", pod.ResourceVersion[1:])
		b.versions[1] = append(b.versions[1], &changed)
		key, err := cache.MetaNamespaceKeyFunc(pod)
		if err != nil {
			return nil, err
		}
		b.keys = append(b.keys, key)
		if err := b.store.Add(pod); err != nil {
			return nil, err
		}
	}
	b.nodes, b.racks = b.store.ListIndexFuncValues("node"), b.store.ListIndexFuncValues("rack")
	return b, nil
}

func (b *storeBench) measure() map[string]float64 {
	figures := map[string]float64{}
	_, figures["write_quiet"] = b.besideWriter(func() float64 { time.Sleep(span); return 0 })
	busy := func(name string, work func() float64) {
		outcome, p99 := b.besideWriter(work)
		figures[name], figures["write_busy"] = outcome, max(figures["write_busy"], p99)
	}
	busy("get", func() float64 {
		return repeat(func(n int) int {
			object, exists, _ := b.store.GetByKey(b.keys[scatter(n, len(b.keys))])
			if !exists {
				return 0
			}
			return int(object.(*corev1.Pod).Spec.NodeName[0])
		})
	})
	byIndex := func(index string, values []string) func() float64 {
		return func() float64 {
			return repeat(func(n int) (sum int) {
				found, _ := b.store.ByIndex(index, values[scatter(n, len(values))])
				for _, object := range found {
					sum += int(object.(*corev1.Pod).ResourceVersion[9])
				}
				return sum
			})
		}
	}
	busy("by_node", byIndex("node", b.nodes))
	busy("by_rack", byIndex("rack", b.racks))
	return figures
}

// besideWriter does something while another goroutine writes without a pause; its outcome, and the writer's p99.
func (b *storeBench) besideWriter(work func() float64) (float64, float64) {
	stop, p99 := make(chan struct{}), make(chan float64)
	go func() {
		spent := make([]float64, 0, 1<<20)
		for n := 0; ; n++ {
			select {
			case <-stop:
				slices.Sort(spent)
				p99 <- spent[len(spent)*99/100]
				return
			default:
			}
			pod := b.versions[(n/len(b.keys)+1)%2][scatter(n, len(b.keys))]
			began := time.Now()
			_ = b.store.Update(pod)
			spent = append(spent, float64(time.Since(began).Nanoseconds()))
		}
	}()
	outcome := work()
	close(stop)
	return outcome, <-p99
}

var sink int

// repeat gives the nanoseconds of one call.
func repeat(call func(n int) int) float64 {
	began, count := time.Now(), 0
	for time.Since(began) < span {
		for range 64 {
			sink += call(count)
			count++
		}
	}
	return float64(time.Since(began).Nanoseconds()) / float64(count)
}
