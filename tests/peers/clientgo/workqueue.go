package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// contender is a work queue of a peer, with the key it is used with.
type contender[T comparable] struct {
	// open makes an empty queue; without a limiter that of its own documents.
	open func(limiter clientgo.TypedRateLimiter[T]) clientgo.TypedRateLimitingInterface[T]
	// key makes the key with a number.
	key func(number int) T
	// name is the part of a key that ends with its number.
	name func(key T) string
	// cycles is how often what takes one key at a time is repeated.
	cycles int
}

// The priority queue takes microseconds for what takes client-go tenths of them; the figure is one of a cycle.
const (
	cycles     = 1_000_000
	slowCycles = 200_000
)

func namespace(number int) string { return fmt.Sprintf("namespace-%d", number%100) }
func object(number int) string    { return fmt.Sprintf("object-%d", number) }

// clientGo is the typed queue of client-go. One with a name has the metrics of controller-runtime, whose package registers
// itself as the provider.
func clientGo[T comparable](name string) func(clientgo.TypedRateLimiter[T]) clientgo.TypedRateLimitingInterface[T] {
	return func(limiter clientgo.TypedRateLimiter[T]) clientgo.TypedRateLimitingInterface[T] {
		if limiter == nil {
			limiter = clientgo.DefaultTypedControllerRateLimiter[T]()
		}
		return clientgo.NewTypedRateLimitingQueueWithConfig(limiter, clientgo.TypedRateLimitingQueueConfig[T]{Name: name})
	}
}

// priority is the queue of controller-runtime. A controller always gives it a name, and so metrics.
func priority(name string) func(clientgo.TypedRateLimiter[types.NamespacedName]) clientgo.TypedRateLimitingInterface[types.NamespacedName] {
	return func(limiter clientgo.TypedRateLimiter[types.NamespacedName]) clientgo.TypedRateLimitingInterface[types.NamespacedName] {
		return priorityqueue.New(name, func(options *priorityqueue.Opts[types.NamespacedName]) { options.RateLimiter = limiter })
	}
}

// workqueues measures work queues until standard input ends. A line is a scenario and a queue: "cycle client-go".
//
// The queues: client-go, client-go-metrics, client-go-strings, priority and priority-metrics. A scenario that keeps much is to be
// the only one of its process.
func workqueues(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		scenario, queue, _ := strings.Cut(commands.Text(), " ")
		figures, err := measure(scenario, queue)
		if err != nil {
			return err
		}
		if err := say(figures); err != nil {
			return err
		}
	}
	return commands.Err()
}

func measure(scenario, queue string) (map[string]float64, error) {
	named := contender[types.NamespacedName]{
		key: func(n int) types.NamespacedName {
			return types.NamespacedName{Namespace: namespace(n), Name: object(n)}
		},
		name:   func(key types.NamespacedName) string { return key.Name },
		cycles: cycles,
	}
	switch queue {
	case "client-go":
		named.open = clientGo[types.NamespacedName]("")
	case "client-go-metrics":
		named.open = clientGo[types.NamespacedName]("bench")
	case "client-go-strings":
		return runScenario(scenario, contender[string]{
			open:   clientGo[string](""),
			key:    func(n int) string { return namespace(n) + "/" + object(n) },
			name:   func(key string) string { return key },
			cycles: cycles,
		})
	case "priority":
		named.open, named.cycles = priority(""), slowCycles
	case "priority-metrics":
		named.open, named.cycles = priority("bench"), slowCycles
	default:
		return nil, fmt.Errorf("unknown queue %q", queue)
	}
	return runScenario(scenario, named)
}

func runScenario[T comparable](scenario string, c contender[T]) (map[string]float64, error) {
	scenarios := map[string]func() map[string]float64{
		"cycle":      c.cycle,
		"bursts":     c.bursts,
		"priorities": c.priorities,
		"contended":  c.contended,
		"limited":    c.limited,
		"fill":       c.fill,
		"queued":     c.queued,
		"delayed":    c.delayed,
		"failing":    c.failing,
		"late":       c.late,
		"many":       c.many,
	}
	measure := scenarios[scenario]
	if measure == nil {
		return nil, fmt.Errorf("unknown scenario %q", scenario)
	}
	return measure(), nil
}

func (c contender[T]) keys(count int) []T {
	keys := make([]T, count)
	for n := range keys {
		keys[n] = c.key(n)
	}
	return keys
}

// number is that of a key.
func (c contender[T]) number(key T) int {
	name, number, unit := c.name(key), 0, 1
	for i := len(name) - 1; name[i] >= '0' && name[i] <= '9'; i-- {
		number += int(name[i]-'0') * unit
		unit *= 10
	}
	return number
}

// since gives the nanoseconds of one of so many.
func since(began time.Time, count int) float64 {
	return float64(time.Since(began).Nanoseconds()) / float64(count)
}
