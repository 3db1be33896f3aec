package clientgo

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// TestRESTMapper maps short names and kinds, before and after a custom resource comes.
func TestRESTMapper(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	cached := memory.NewMemCacheClient(c.typed.Discovery())
	deferred := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	mapper := restmapper.NewShortcutExpander(deferred, cached, nil)

	for name, want := range map[string]schema.GroupVersionResource{
		"deploy":      deploymentResource,
		"deployment":  deploymentResource,
		"deployments": deploymentResource,
		"po":          podResource,
		"cm":          configMapResource,
		"ConfigMap":   configMapResource,
	} {
		have, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: name})
		if err != nil || have != want {
			t.Errorf("%s maps to %v (%v), not to %v", name, have, err, want)
		}
	}
	kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: "deploy"})
	if err != nil || kind != kindOf(deploymentResource, "Deployment") {
		t.Errorf("deploy is of the kind %v (%v)", kind, err)
	}
	expectMapping(t, mapper, kindOf(configMapResource, "ConfigMap"), configMapResource, meta.RESTScopeNameNamespace)
	expectMapping(t, mapper, kindOf(configMapResource, "Namespace"), configMapResource.GroupVersion().WithResource("namespaces"), meta.RESTScopeNameRoot)

	widgets := newWidgetResource(ctx, t, c)
	eventually(ctx, t, "the mapper finds the custom resource", func(context.Context) error {
		deferred.Reset()
		_, err := mapper.RESTMapping(widgets.kind().GroupKind())
		return err
	})
	expectMapping(t, mapper, widgets.kind(), widgets.GroupVersionResource, meta.RESTScopeNameNamespace)
	short, err := mapper.ResourceFor(schema.GroupVersionResource{Group: widgets.Group, Resource: "wd"})
	if err != nil || short != widgets.GroupVersionResource {
		t.Errorf("wd maps to %v (%v)", short, err)
	}

	must(t, c.dynamic.Resource(crdResource).Delete(ctx, widgets.definition(), metav1.DeleteOptions{}))
	eventually(ctx, t, "the mapper forgets the custom resource", func(context.Context) error {
		deferred.Reset()
		mapping, err := mapper.RESTMapping(widgets.kind().GroupKind())
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("the mapping is %v (%v)", mapping, err)
	})
}

func expectMapping(t *testing.T, mapper meta.RESTMapper, kind schema.GroupVersionKind, resource schema.GroupVersionResource, scope meta.RESTScopeName) {
	t.Helper()
	mapping, err := mapper.RESTMapping(kind.GroupKind())
	if err != nil {
		t.Errorf("mapping %v: %v", kind, err)
		return
	}
	if mapping.Resource != resource || mapping.GroupVersionKind != kind || mapping.Scope.Name() != scope {
		t.Errorf("%v maps to %v of the kind %v and the scope %s", kind, mapping.Resource, mapping.GroupVersionKind, mapping.Scope.Name())
	}
}
