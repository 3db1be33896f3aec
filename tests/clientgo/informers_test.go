package clientgo

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientfeatures "k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/transport"
)

// How many writes run beside the informers, in each mode.
const informerWrites = 2000

// TestInformers runs informers of every sort beside a random workload and expects each store to end equal to a list.
// PILOTHOUSE_SEED repeats a workload.
func TestInformers(t *testing.T) {
	for _, mode := range []informerMode{
		{name: "list and watch"},
		{name: "list and watch that break", broken: true},
		{name: "watch-list", watchList: true},
		{name: "watch-list that breaks", watchList: true, broken: true},
	} {
		t.Run(mode.name, func(t *testing.T) {
			clientfeaturestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, mode.watchList)
			testInformers(t, mode)
		})
	}
}

// informerMode is how informers come to their state.
type informerMode struct {
	name string
	// watchList has them ask for the initial state as events, instead of a list.
	watchList bool
	// broken ends their watches now and then.
	broken bool
}

func testInformers(t *testing.T, mode informerMode) {
	// The clients of the informers are not those of the test, so that their requests can be told apart.
	sent, broken := &requestLog{}, &brokenWatches{}
	wrappers := []transport.WrapperFunc{sent.wrap}
	if mode.broken {
		wrappers = append(wrappers, broken.wrap)
	}
	ctx, writer, reader := bounded(t), newClients(t), newClients(t, wrappers...)
	widgets := newWidgetResource(ctx, t, writer)
	work := &workload{client: writer.dynamic, kinds: workloadKinds(widgets), seed: workloadSeed(t)}
	for range 3 {
		work.namespaces = append(work.namespaces, newNamespace(ctx, t, writer))
	}
	// Runs before the namespaces are deleted.
	t.Cleanup(func() {
		if err := work.release(context.Background()); err != nil {
			t.Errorf("removing finalizers: %v", err)
		}
	})

	// Some objects are there before the informers, most come afterwards.
	work.run(ctx, t, informerWrites/10)
	watching, stop := context.WithCancel(ctx)
	informers := startInformers(watching, reader, writer, widgets)
	defer informers.shutdown()
	defer stop()
	work.run(ctx, t, informerWrites)

	for _, watched := range informers.watched {
		eventually(ctx, t, watched.name+" holds what a list does", watched.equalsList)
		items, err := watched.items(ctx)
		must(t, err)
		t.Logf("%s: %d objects", watched.name, len(items))
		if len(items) == 0 && watched.filter.all() {
			t.Errorf("%s holds nothing, which proves nothing", watched.name)
		}
	}
	checkMode(t, sent.all(), informers.resources(), mode.watchList)
	t.Logf("%d watches were broken", broken.ended.Load())
	if mode.broken && broken.ended.Load() == 0 {
		t.Error("no watch was broken")
	}
}

// checkMode expects every resource to have been listed in the one way and not in the other.
func checkMode(t *testing.T, sent []request, resources []schema.GroupVersionResource, watchList bool) {
	t.Helper()
	for _, resource := range resources {
		var lists, watches, initialEvents int
		for _, r := range sent {
			if r.method != http.MethodGet || !strings.Contains(r.path, resource.GroupVersion().String()+"/") || !strings.HasSuffix(r.path, "/"+resource.Resource) {
				continue
			}
			switch {
			case r.query.Get("watch") != "true":
				lists++
			case r.query.Get("sendInitialEvents") == "true":
				if r.query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan) || r.query.Get("allowWatchBookmarks") != "true" {
					t.Errorf("an informer's watch-list of %s asked for %v", resource.Resource, r.query)
				}
				initialEvents++
			default:
				watches++
			}
		}
		t.Logf("%s: %d lists, %d watches, %d watch-lists", resource.Resource, lists, watches, initialEvents)
		if watchList && (lists > 0 || initialEvents == 0) {
			t.Errorf("informers of %s sent %d lists and %d watch-lists, not watch-lists alone", resource.Resource, lists, initialEvents)
		}
		if !watchList && (lists == 0 || watches == 0 || initialEvents > 0) {
			t.Errorf("informers of %s sent %d lists, %d watches and %d watch-lists, not lists and watches alone", resource.Resource, lists, watches, initialEvents)
		}
	}
}

func workloadSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("PILOTHOUSE_SEED")
	if text == "" {
		// That of the gate; `just full` sets a random one.
		return 7
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("PILOTHOUSE_SEED: %v", err)
	}
	return seed
}
