package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Sizes as in host/events/benches/events.
const (
	eventObjects = 20_480
	eventTexts   = 100
	eventBurst   = 500
	eventBursts  = 400
)

var eventReasons = []string{"Pulled", "Created", "Started", "Killing", "BackOff"}

var eventSource = corev1.EventSource{Component: "kubelet", Host: "node-1"}

// recordEvents measures tools/record until standard input ends. A line is a scenario: "different". One that keeps much is to be the
// only one of its process.
func recordEvents(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	klog.SetLogger(logr.Discard())
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		figures, err := recordScenario(commands.Text())
		if err != nil {
			return err
		}
		if err := say(figures); err != nil {
			return err
		}
	}
	return commands.Err()
}

func recordScenario(scenario string) (map[string]float64, error) {
	all := record.CorrelatorOptions{BurstSize: 1 << 30}
	switch scenario {
	case "different":
		return correlate(record.CorrelatorOptions{}, madeEvents(eventObjects, func(n int) (int, int) { return n, n }), 300_000)
	case "repeated":
		return correlate(record.CorrelatorOptions{}, madeEvents(1, func(n int) (int, int) { return n, n }), 40_000)
	case "patched":
		return correlate(all, madeEvents(1, func(n int) (int, int) { return n, n }), 40_000)
	case "similar":
		return correlate(all, madeEvents(eventTexts, func(n int) (int, int) { return 0, n }), 40_000)
	case "record":
		return recorderCalls()
	case "memory":
		return correlatorMemory()
	}
	return nil, fmt.Errorf("unknown scenario %q", scenario)
}

func madeEvents(count int, of func(n int) (object, text int)) []*corev1.Event {
	made := make([]*corev1.Event, count)
	for n := range made {
		made[n] = madeEvent(of(n))
	}
	return made
}

// eventReference is a container of the pod with a number.
func eventReference(number int) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod",
		Namespace: namespace(number), Name: object(number),
		UID:             types.UID(fmt.Sprintf("7d3f7a52-91c0-4e52-8a5c-%012d", number)),
		ResourceVersion: fmt.Sprint(1_000_000 + number),
		FieldPath:       "spec.containers{main}",
	}
}

func eventMessage(number int) string {
	return fmt.Sprintf("Successfully pulled image \"registry.example.com/team/app:%d\" in 1.2s", number)
}

func eventReason(number int) string { return eventReasons[number%len(eventReasons)] }

// madeEvent is an event as a recorder makes it.
func madeEvent(number, text int) *corev1.Event {
	about, now := eventReference(number), metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s.%x", about.Name, now.UnixNano()), Namespace: about.Namespace,
		},
		InvolvedObject: *about, Reason: eventReason(number), Message: eventMessage(text),
		FirstTimestamp: now, LastTimestamp: now, Count: 1, Type: corev1.EventTypeNormal,
		Source: eventSource, ReportingController: eventSource.Component, ReportingInstance: eventSource.Host,
	}
}

// correlate gives the events a second that a correlator takes, with all that recordToSink does of it.
func correlate(options record.CorrelatorOptions, events []*corev1.Event, count int) (map[string]float64, error) {
	correlator := record.NewEventCorrelatorWithOptions(options)
	through := func(count int) error {
		for n := range count {
			// As recordToSink: there might be other watchers.
			event := *events[n%len(events)]
			result, err := correlator.EventCorrelate(&event)
			if err != nil {
				return err
			}
			if !result.Skip {
				correlator.UpdateState(result.Event)
			}
		}
		return nil
	}
	if err := through(min(eventObjects, count)); err != nil {
		return nil, err
	}
	runtime.GC()
	began := cpuMicros()
	if err := through(count); err != nil {
		return nil, err
	}
	return map[string]float64{"per_second": float64(count) / (cpuMicros() - began) * 1e6}, nil
}

// everything is a sink that takes all events.
type everything struct{ taken atomic.Int64 }

func (s *everything) Create(event *corev1.Event) (*corev1.Event, error) {
	s.taken.Add(1)
	return event, nil
}

func (s *everything) Update(event *corev1.Event) (*corev1.Event, error) { return s.Create(event) }

func (s *everything) Patch(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.Create(event)
}

// recorderCalls gives the nanoseconds of a call for the thread that makes it.
func recorderCalls() (map[string]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	references := make([]*corev1.ObjectReference, eventObjects)
	for n := range references {
		references[n] = eventReference(n)
	}
	sink, broadcaster := &everything{}, record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(sink)
	recorder := broadcaster.NewRecorder(scheme.Scheme, eventSource)
	spent := make([]float64, eventBursts)
	for burst := range spent {
		began := threadNanos()
		for number := burst * eventBurst; number < (burst+1)*eventBurst; number++ {
			about := number % eventObjects
			recorder.Eventf(references[about], corev1.EventTypeNormal, eventReason(about),
				"Successfully pulled image \"registry.example.com/team/app:%d\" in 1.2s", number)
		}
		spent[burst] = float64(threadNanos()-began) / eventBurst
		for sink.taken.Load() < int64((burst+1)*eventBurst) {
			time.Sleep(10 * time.Microsecond)
		}
	}
	slices.Sort(spent)
	return map[string]float64{"ns": spent[len(spent)/2]}, nil
}

func threadNanos() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		panic(err)
	}
	return at.Nano()
}

// correlatorMemory sends a million objects through a correlator.
func correlatorMemory() (map[string]float64, error) {
	const objects, full = 1_000_000, 100_000
	correlator := record.NewEventCorrelator(clock.RealClock{})
	resident := func() float64 {
		debug.FreeOSMemory()
		return float64(kilobytes("smaps_rollup", "Rss"))
	}
	base := resident()
	at := base
	for n := range objects {
		if n == full {
			at = resident()
		}
		result, err := correlator.EventCorrelate(madeEvent(n, n))
		if err != nil {
			return nil, err
		}
		if !result.Skip {
			correlator.UpdateState(result.Event)
		}
	}
	return map[string]float64{"growth": resident() - at, "held": at - base}, nil
}
