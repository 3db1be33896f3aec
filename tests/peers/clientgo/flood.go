package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
)

// pacedLatencies is what host/client/benches/client/flood.rs reads.
type pacedLatencies struct {
	// Milliseconds of the quiet one's requests.
	Alone  []float64 `json:"alone"`
	Beside []float64 `json:"beside"`
	// Requests a second that the other got.
	Flood float64 `json:"flood"`
}

// flood has two users of one rate limiter, as two controllers of one manager, one of which asks for all that it gets.
func flood(flags *flag.FlagSet, args []string) error {
	kubeconfig := flags.String("kubeconfig", "", "of the server")
	requests := flags.Int("requests", 300, "of the quiet one")
	pace := flags.Duration("pace", 25*time.Millisecond, "between two of them")
	callers := flags.Int("flood", 64, "calls that the other has under way")
	qps := flags.Float64("qps", 200, "of both")
	burst := flags.Int("burst", 400, "of both")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(*qps), *burst)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx := context.Background()
	configMaps := clients.CoreV1().ConfigMaps("default")
	asked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "asked-for"}, Data: map[string]string{"a": "b"}}
	if _, err := configMaps.Create(ctx, asked, metav1.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
		return err
	}
	ask := func() error {
		_, err := configMaps.Get(ctx, "asked-for", metav1.GetOptions{})
		return err
	}
	said := pacedLatencies{}
	if said.Alone, err = atPace(*requests, *pace, ask); err != nil {
		return err
	}
	var count atomic.Int64
	var over atomic.Bool
	var callersDone sync.WaitGroup
	failed := make(chan error, *callers)
	for range *callers {
		callersDone.Go(func() {
			for !over.Load() {
				if err := ask(); err != nil {
					failed <- err
					return
				}
				count.Add(1)
			}
		})
	}
	// What the flood may do at once is over by then.
	time.Sleep(time.Duration(float64(*burst) / *qps * float64(time.Second)))
	began, before := time.Now(), count.Load()
	if said.Beside, err = atPace(*requests, *pace, ask); err != nil {
		return err
	}
	said.Flood = float64(count.Load()-before) / time.Since(began).Seconds()
	over.Store(true)
	callersDone.Wait()
	select {
	case err := <-failed:
		return fmt.Errorf("the flood: %w", err)
	default:
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

// atPace asks whatever the answers take; milliseconds of each.
func atPace(requests int, pace time.Duration, ask func() error) ([]float64, error) {
	times := make([]float64, requests)
	errs := make([]error, requests)
	var done sync.WaitGroup
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for i := range requests {
		done.Go(func() {
			began := time.Now()
			errs[i] = ask()
			times[i] = float64(time.Since(began).Nanoseconds()) / 1e6
		})
		<-tick.C
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return times, nil
}
