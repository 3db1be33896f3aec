package clientgo

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// widgetResource is a custom resource of a group of the test's own.
type widgetResource struct {
	schema.GroupVersionResource
}

func (w widgetResource) kind() schema.GroupVersionKind {
	return w.GroupVersion().WithKind("Widget")
}

func (w widgetResource) definition() string { return w.GroupResource().String() }

// newWidgetResource makes the custom resource, which is served when this returns and removed with the test.
func newWidgetResource(ctx context.Context, t *testing.T, c clients) widgetResource {
	t.Helper()
	w := widgetResource{schema.GroupVersionResource{Group: rand.String(8) + ".example.com", Version: "v1", Resource: "widgets"}}
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": crdResource.GroupVersion().String(),
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": w.definition()},
		"spec": map[string]any{
			"group": w.Group,
			"scope": "Namespaced",
			"names": map[string]any{
				"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
				"shortNames": []any{"wd"}, "categories": []any{"clientgo"},
			},
			"versions": []any{map[string]any{
				"name": w.Version, "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type":       "object",
					"properties": map[string]any{"spec": open, "status": open},
				}},
			}},
		},
	}}
	_, err := c.dynamic.Resource(crdResource).Create(ctx, crd, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		err := c.dynamic.Resource(crdResource).Delete(context.Background(), w.definition(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting the custom resource definition %s: %v", w.definition(), err)
		}
	})
	eventually(ctx, t, "the custom resource is served", func(ctx context.Context) error {
		_, err := c.dynamic.Resource(w.GroupVersionResource).List(ctx, metav1.ListOptions{})
		return err
	})
	return w
}

func (w widgetResource) newWidget(namespace, name string) *unstructured.Unstructured {
	widget := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	widget.SetGroupVersionKind(w.kind())
	widget.SetNamespace(namespace)
	widget.SetName(name)
	widget.SetLabels(map[string]string{"app": "clientgo"})
	return widget
}
