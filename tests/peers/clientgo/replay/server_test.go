package replay

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"pilothouse/peers/pods"
)

const count = 1203

func start(t *testing.T) (*Server, map[string]kubernetes.Interface) {
	set, err := pods.NewSet(3, count)
	if err != nil {
		t.Fatal(err)
	}
	server := New(set)
	kubeconfig, err := server.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clients := map[string]kubernetes.Interface{}
	for _, contentType := range []string{"application/json", protobufType} {
		config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
		if err != nil {
			t.Fatal(err)
		}
		config.ContentType, config.AcceptContentTypes = contentType, contentType
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		clients[contentType] = client
	}
	return server, clients
}

// list reads all pages.
func list(t *testing.T, client kubernetes.Interface, limit int64) []corev1.Pod {
	var all []corev1.Pod
	for token := ""; ; {
		page, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: limit, Continue: token})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Items...)
		if token = page.Continue; token == "" {
			return all
		}
	}
}

func open(t *testing.T, client kubernetes.Interface, options metav1.ListOptions) apiwatch.Interface {
	events, err := client.CoreV1().Pods("").Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	return events
}

func TestListsAreTheSameInPagesAndWholeInJSONAndProtobuf(t *testing.T) {
	server, clients := start(t)
	want := list(t, clients["application/json"], 0)
	if len(want) != count {
		t.Fatalf("%d pods", len(want))
	}
	for contentType, client := range clients {
		for _, limit := range []int64{0, 500} {
			if got := list(t, client, limit); !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("%s with limit %d: another list", contentType, limit)
			}
		}
	}
	if stats := server.Snapshot(); stats["json_lists"] != 3 || stats["proto_lists"] != 2 || stats["pages"] != 9 {
		t.Errorf("%v", stats)
	}
}

func TestAWatchListEndsWithItsBookmarkAndGoesOnWithEvents(t *testing.T) {
	server, clients := start(t)
	initial := true
	for contentType, client := range clients {
		want := list(t, client, 0)
		events := open(t, client, metav1.ListOptions{SendInitialEvents: &initial, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true})
		for i := range want {
			event := <-events.ResultChan()
			if pod, ok := event.Object.(*corev1.Pod); event.Type != apiwatch.Added || !ok || pod.UID != want[i].UID {
				t.Fatalf("%s: %v instead of pod %d", contentType, event, i)
			}
		}
		event := <-events.ResultChan()
		if pod, ok := event.Object.(*corev1.Pod); event.Type != apiwatch.Bookmark || !ok || pod.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Fatalf("%s: %v instead of the bookmark", contentType, event)
		}
		go server.Emit(1e6, 3)
		for range 3 {
			event := <-events.ResultChan()
			if pod, ok := event.Object.(*corev1.Pod); event.Type != apiwatch.Modified || !ok || pod.Annotations[pods.SentAnnotation] < "00000001" {
				t.Fatalf("%s: %v instead of an event", contentType, event)
			}
		}
	}
}

func TestExpiringEndsWatchesAndRefusesTheirVersion(t *testing.T) {
	server, clients := start(t)
	for contentType, client := range clients {
		page, err := client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		events := open(t, client, metav1.ListOptions{ResourceVersion: page.ResourceVersion})
		if ended := server.Expire(10); ended != 1 {
			t.Fatalf("%d watches ended", ended)
		}
		event := <-events.ResultChan()
		if event.Type != apiwatch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
			t.Errorf("%s: %v instead of 410", contentType, event)
		}
		if _, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: page.ResourceVersion}); !apierrors.IsResourceExpired(err) {
			t.Errorf("%s: %v instead of 410", contentType, err)
		}
	}
}

func TestEveryPodChangesBeforeAnyDoesAgain(t *testing.T) {
	for _, count := range []int{1, 2, 7, 1000, 10_000, 150_000} {
		stride, seen, pod := strideOf(count), make([]bool, count), 0
		for range count {
			pod = (pod + stride) % count
			if seen[pod] {
				t.Fatalf("%d pods: %d again", count, pod)
			}
			seen[pod] = true
		}
	}
}
