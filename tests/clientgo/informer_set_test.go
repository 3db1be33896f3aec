package clientgo

import (
	"context"
	"encoding/json"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// watched is an informer, and the list that its store is to equal.
type watched struct {
	name     string
	resource schema.GroupVersionResource
	informer cache.SharedIndexInformer
	list     func(context.Context) (runtime.Object, error)
	// everything is the dynamic list without the filter.
	everything func(context.Context) (*unstructured.UnstructuredList, error)
	filter     informerFilter
}

// items is what the server has, in the form of the informer.
func (w watched) items(ctx context.Context) ([]runtime.Object, error) {
	list, err := w.list(ctx)
	if err != nil {
		return nil, err
	}
	return meta.ExtractList(list)
}

// equalsList tells where the store differs from a fresh list, or the list from what the filter selects.
func (w watched) equalsList(ctx context.Context) error {
	if !w.informer.HasSynced() {
		return fmt.Errorf("the informer has not synced")
	}
	listed, err := w.items(ctx)
	if err != nil {
		return err
	}
	if err := w.isSelection(ctx, listed); err != nil {
		return err
	}
	stored := map[types.UID]metav1.Object{}
	for _, object := range w.informer.GetStore().List() {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		stored[accessor.GetUID()] = accessor
	}
	for _, object := range listed {
		want, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		have, ok := stored[want.GetUID()]
		if !ok {
			return fmt.Errorf("%s/%s is missing from the store", want.GetNamespace(), want.GetName())
		}
		delete(stored, want.GetUID())
		if have.GetResourceVersion() != want.GetResourceVersion() {
			return fmt.Errorf("%s/%s has the version %s in the store and %s in the list", want.GetNamespace(), want.GetName(), have.GetResourceVersion(), want.GetResourceVersion())
		}
		if !apiequality.Semantic.DeepEqual(untagged(have), untagged(want)) {
			return fmt.Errorf("of one version, yet not equal:\nstore %s\nlist  %s", asJSON(have), asJSON(want))
		}
	}
	for _, left := range stored {
		return fmt.Errorf("%s/%s is in the store only", left.GetNamespace(), left.GetName())
	}
	return nil
}

// untagged is the object without its kind where client-go does not treat it alike: the metadata client keeps the kind
// PartialObjectMetadata that the items of a list have in JSON, and clears that of what comes from a watch.
func untagged(object metav1.Object) metav1.Object {
	if partial, ok := object.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: partial.ObjectMeta}
	}
	return object
}

// isSelection tells where what the server has selected differs from what the filter selects of everything.
func (w watched) isSelection(ctx context.Context, listed []runtime.Object) error {
	everything, err := w.everything(ctx)
	if err != nil {
		return err
	}
	selected := map[types.UID]bool{}
	for _, object := range listed {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		selected[accessor.GetUID()] = true
	}
	for _, object := range everything.Items {
		if want := w.filter.matches(object); want != selected[object.GetUID()] {
			return fmt.Errorf("%s/%s: selected by the server: %v, by the filter: %v", object.GetNamespace(), object.GetName(), !want, want)
		}
		delete(selected, object.GetUID())
	}
	if len(selected) > 0 {
		return fmt.Errorf("%d objects are in the selection alone", len(selected))
	}
	return nil
}

func asJSON(value any) string {
	content, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// informerSet are running informers.
type informerSet struct {
	watched  []watched
	shutdown func()
}

func (s informerSet) resources() []schema.GroupVersionResource {
	seen := map[schema.GroupVersionResource]bool{}
	var all []schema.GroupVersionResource
	for _, w := range s.watched {
		if !seen[w.resource] {
			seen[w.resource] = true
			all = append(all, w.resource)
		}
	}
	return all
}

// startInformers starts typed, dynamic and metadata informers, all with each of the filters; reader is theirs, and lister
// makes the lists that they are compared with.
func startInformers(ctx context.Context, reader, lister clients, widgets widgetResource) informerSet {
	builtIn := []schema.GroupVersionResource{configMapResource, podResource, deploymentResource}
	all := append(builtIn, widgets.GroupVersionResource)

	var set informerSet
	var stops []func()
	for _, filter := range informerFilters {
		typed := informers.NewSharedInformerFactoryWithOptions(reader.typed, 0, informers.WithTweakListOptions(filter.tweak))
		dynamic := dynamicinformer.NewFilteredDynamicSharedInformerFactory(reader.dynamic, 0, metav1.NamespaceAll, filter.tweak)
		metadata := metadatainformer.NewFilteredSharedInformerFactory(reader.metadata, 0, metav1.NamespaceAll, filter.tweak)
		add := func(sort string, resource schema.GroupVersionResource, informer cache.SharedIndexInformer, list func(context.Context) (runtime.Object, error)) {
			set.watched = append(set.watched, watched{
				name:     "the " + sort + " informer of " + resource.Resource + ", " + filter.name,
				resource: resource, informer: informer, list: list,
				everything: func(ctx context.Context) (*unstructured.UnstructuredList, error) {
					return lister.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
				},
				filter: filter,
			})
		}
		for _, resource := range builtIn {
			if filter.selects(resource) {
				add("typed", resource, typedInformer(typed, resource), lister.typedList(resource, filter.options))
			}
		}
		for _, resource := range all {
			if !filter.selects(resource) {
				continue
			}
			add("dynamic", resource, dynamic.ForResource(resource).Informer(), func(ctx context.Context) (runtime.Object, error) {
				return lister.dynamic.Resource(resource).List(ctx, filter.options)
			})
			add("metadata", resource, metadata.ForResource(resource).Informer(), func(ctx context.Context) (runtime.Object, error) {
				return lister.metadata.Resource(resource).List(ctx, filter.options)
			})
		}
		typed.Start(ctx.Done())
		dynamic.Start(ctx.Done())
		metadata.Start(ctx.Done())
		stops = append(stops, typed.Shutdown, dynamic.Shutdown, metadata.Shutdown)
	}
	set.shutdown = func() {
		for _, stop := range stops {
			stop()
		}
	}
	return set
}

func typedInformer(factory informers.SharedInformerFactory, resource schema.GroupVersionResource) cache.SharedIndexInformer {
	switch resource {
	case configMapResource:
		return factory.Core().V1().ConfigMaps().Informer()
	case podResource:
		return factory.Core().V1().Pods().Informer()
	case deploymentResource:
		return factory.Apps().V1().Deployments().Informer()
	default:
		panic("no typed informer of " + resource.String())
	}
}

// typedList is the list of the typed client.
func (c clients) typedList(resource schema.GroupVersionResource, options metav1.ListOptions) func(context.Context) (runtime.Object, error) {
	return func(ctx context.Context) (runtime.Object, error) {
		switch resource {
		case configMapResource:
			return c.typed.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, options)
		case podResource:
			return c.typed.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		case deploymentResource:
			return c.typed.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, options)
		default:
			panic("no typed list of " + resource.String())
		}
	}
}
