// Command recorder makes recorder calls with client-go's own recorders, for tests of others that make the same:
//
//	recorder KUBECONFIG NAMESPACE record|events
//
// The calls are a JSON array on standard input, made one after the other: by tools/record (core/v1) with the source `shop` on
// `node-1`, or by tools/events (events.k8s.io/v1) with the controller `shop`. It ends when the API server has answered all that is
// written, well or not.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
)

// call is one call of a recorder; tests/tests/events_peers.rs has the same.
type call struct {
	// Which method: event, eventf, annotated, or past, which client-go has no more: it is recorded as of now. tools/events has
	// eventf only.
	Method string `json:"method"`
	// The object: a Pod of the namespace, or a Node.
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	FieldPath string `json:"fieldPath"`
	// Another Pod of the namespace, or none.
	Related     string            `json:"related"`
	Type        string            `json:"type"`
	Reason      string            `json:"reason"`
	Action      string            `json:"action"`
	Message     string            `json:"message"`
	Annotations map[string]string `json:"annotations"`
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: recorder KUBECONFIG NAMESPACE record|events")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(kubeconfig, namespace, api string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var calls []call
	if err := json.NewDecoder(os.Stdin).Decode(&calls); err != nil {
		return err
	}
	made := maker{client: client, namespace: namespace, answers: make(chan error, len(calls))}
	switch api {
	case "record":
		return made.record(calls)
	case "events":
		return made.events(calls)
	}
	return fmt.Errorf("unknown recorder %q", api)
}

// maker makes calls. Each answer to a write goes into a channel, which has room for all.
type maker struct {
	client    kubernetes.Interface
	namespace string
	answers   chan error
}

// wait waits for an answer, and shows one that is a refusal.
func (m maker) wait() {
	if err := <-m.answers; err != nil {
		log.Print(err)
	}
}

// object is what a call is about: the object itself, or a reference to a part of it.
func (m maker) object(kind, name, fieldPath string) (object runtime.Object, err error) {
	ctx := context.Background()
	switch kind {
	case "Pod":
		object, err = m.client.CoreV1().Pods(m.namespace).Get(ctx, name, metav1.GetOptions{})
	case "Node":
		object, err = m.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	default:
		err = fmt.Errorf("unknown kind %q", kind)
	}
	if err != nil || fieldPath == "" {
		return object, err
	}
	part, err := reference.GetReference(scheme.Scheme, object)
	if err != nil {
		return nil, err
	}
	part.FieldPath = fieldPath
	return part, nil
}

func (m maker) record(calls []call) error {
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	sink := &typedcorev1.EventSinkImpl{Interface: m.client.CoreV1().Events("")}
	broadcaster.StartRecordingToSink(coreSink{sink, m.answers})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "shop", Host: "node-1"})
	for _, call := range calls {
		object, err := m.object(call.Kind, call.Name, call.FieldPath)
		if err != nil {
			return err
		}
		switch call.Method {
		case "event":
			recorder.Event(object, call.Type, call.Reason, call.Message)
		case "eventf", "past":
			recorder.Eventf(object, call.Type, call.Reason, "%s", call.Message)
		case "annotated":
			recorder.AnnotatedEventf(object, call.Annotations, call.Type, call.Reason, "%s", call.Message)
		default:
			return fmt.Errorf("unknown method %q", call.Method)
		}
	}
	for range calls {
		m.wait()
	}
	return nil
}

func (m maker) events(calls []call) error {
	sink := &events.EventSinkImpl{Interface: m.client.EventsV1()}
	broadcaster := events.NewBroadcaster(eventsSink{sink, m.answers})
	defer broadcaster.Shutdown()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "shop")
	// How often something happened; its message does not matter to a series.
	seen := map[string]int{}
	for _, call := range calls {
		object, err := m.object(call.Kind, call.Name, call.FieldPath)
		if err != nil {
			return err
		}
		var related runtime.Object
		if call.Related != "" {
			if related, err = m.object("Pod", call.Related, ""); err != nil {
				return err
			}
		}
		recorder.Eventf(object, related, call.Type, call.Reason, call.Action, "%s", call.Message)
		// The third and all further ones are counted, and not written. The others wait for each other, as each has a
		// goroutine of its own.
		if seen[call.Reason]++; seen[call.Reason] <= 2 {
			m.wait()
		}
	}
	return nil
}

// coreSink tells of each answer.
type coreSink struct {
	record.EventSink
	answers chan<- error
}

func (s coreSink) Create(event *corev1.Event) (*corev1.Event, error) {
	made, err := s.EventSink.Create(event)
	s.answers <- err
	return made, err
}

func (s coreSink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	made, err := s.EventSink.Patch(event, patch)
	s.answers <- err
	return made, err
}

// eventsSink tells of each answer.
type eventsSink struct {
	events.EventSink
	answers chan<- error
}

func (s eventsSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	made, err := s.EventSink.Create(ctx, event)
	s.answers <- err
	return made, err
}

func (s eventsSink) Patch(ctx context.Context, event *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	made, err := s.EventSink.Patch(ctx, event, patch)
	s.answers <- err
	return made, err
}
