package clientgo

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

const (
	eventReporter = "clientgo.example.com/reporter"
	eventReason   = "Tested"
	eventText     = "the test was here"
)

// newRegarded makes the object that events are about.
func newRegarded(ctx context.Context, t *testing.T, c clients, namespace string) *corev1.ConfigMap {
	t.Helper()
	regarded, err := c.typed.CoreV1().ConfigMaps(namespace).Create(ctx, newConfigMap(namespace, "regarded"), metav1.CreateOptions{})
	must(t, err)
	return regarded
}

// TestCoreEventRecorder expects repeated events to be counted in one, which the newer API shows too.
func TestCoreEventRecorder(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	regarded := newRegarded(ctx, t, c, namespace)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithSleepDuration(100*time.Millisecond))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.typed.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: eventReporter, Host: "node-a"})

	const repeats = 4
	for range repeats {
		recorder.Event(regarded, corev1.EventTypeNormal, eventReason, eventText)
	}
	var recorded corev1.Event
	eventually(ctx, t, "the event is counted", func(ctx context.Context) error {
		list, err := c.typed.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=ConfigMap,involvedObject.name=" + regarded.Name + ",reason=" + eventReason,
		})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Count != repeats {
			return fmt.Errorf("the events are %s", asJSON(list.Items))
		}
		recorded = list.Items[0]
		return nil
	})
	if recorded.InvolvedObject.UID != regarded.UID || recorded.Source.Component != eventReporter || recorded.ReportingController != eventReporter || recorded.Message != eventText {
		t.Errorf("the event is %s", asJSON(recorded))
	}

	seen, err := c.typed.EventsV1().Events(namespace).Get(ctx, recorded.Name, metav1.GetOptions{})
	must(t, err)
	if seen.UID != recorded.UID || seen.ResourceVersion != recorded.ResourceVersion || seen.DeprecatedCount != repeats ||
		seen.Note != eventText || seen.Reason != eventReason || seen.Type != corev1.EventTypeNormal ||
		seen.Regarding.UID != regarded.UID || seen.DeprecatedSource.Component != eventReporter || seen.ReportingController != eventReporter ||
		!seen.DeprecatedFirstTimestamp.Equal(&recorded.FirstTimestamp) || !seen.DeprecatedLastTimestamp.Equal(&recorded.LastTimestamp) {
		t.Errorf("through events.k8s.io/v1 the event is %s", asJSON(seen))
	}
}

// TestEventsV1Recorder expects a repeated event to become a series, which the older API shows too.
func TestEventsV1Recorder(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	regarded := newRegarded(ctx, t, c, namespace)
	related, err := c.typed.CoreV1().ConfigMaps(namespace).Create(ctx, newConfigMap(namespace, "related"), metav1.CreateOptions{})
	must(t, err)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.typed.EventsV1()})
	must(t, broadcaster.StartRecordingToSinkWithContext(ctx))
	defer broadcaster.Shutdown()
	recorder := broadcaster.NewRecorder(scheme.Scheme, eventReporter)
	emit := func() {
		recorder.Eventf(regarded, related, corev1.EventTypeWarning, eventReason, "Testing", eventText)
	}
	find := func(what string, found func(eventsv1.Event) bool) eventsv1.Event {
		t.Helper()
		var event eventsv1.Event
		eventually(ctx, t, what, func(ctx context.Context) error {
			list, err := c.typed.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			if len(list.Items) != 1 || !found(list.Items[0]) {
				return fmt.Errorf("the events are %s", asJSON(list.Items))
			}
			event = list.Items[0]
			return nil
		})
		return event
	}

	// The recorder patches what it takes to be there, so the second event waits for the first.
	emit()
	single := find("the event is there", func(event eventsv1.Event) bool { return event.Series == nil })
	emit()
	series := find("the event is a series", func(event eventsv1.Event) bool { return event.Series != nil })
	if series.UID != single.UID || series.Series.Count != 2 || series.Series.LastObservedTime.IsZero() || !series.EventTime.Equal(&single.EventTime) {
		t.Errorf("the event became %s", asJSON(series))
	}
	if series.Regarding.UID != regarded.UID || series.Related == nil || series.Related.UID != related.UID || series.Action != "Testing" {
		t.Errorf("the event is %s", asJSON(series))
	}

	seen, err := c.typed.CoreV1().Events(namespace).Get(ctx, series.Name, metav1.GetOptions{})
	must(t, err)
	if seen.UID != series.UID || seen.ResourceVersion != series.ResourceVersion || seen.Message != eventText || seen.Reason != eventReason ||
		seen.Type != corev1.EventTypeWarning || seen.Action != "Testing" || seen.ReportingController != eventReporter ||
		seen.InvolvedObject.UID != regarded.UID || seen.Related == nil || seen.Related.UID != related.UID ||
		seen.Series == nil || seen.Series.Count != 2 || !seen.EventTime.Equal(&series.EventTime) {
		t.Errorf("through v1 the event is %s", asJSON(seen))
	}
}
