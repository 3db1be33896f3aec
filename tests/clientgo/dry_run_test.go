package clientgo

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDryRun expects each write to answer as if it were done, and none to be.
func TestDryRun(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	dry := []string{metav1.DryRunAll}

	imagined, err := configMaps.Create(ctx, newConfigMap(namespace, "imagined"), metav1.CreateOptions{DryRun: dry})
	must(t, err)
	if imagined.UID == "" || imagined.CreationTimestamp.IsZero() || imagined.ResourceVersion != "" {
		t.Errorf("a dry creation answers with %s", asJSON(imagined.ObjectMeta))
	}
	if _, err := configMaps.Get(ctx, "imagined", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry creation: %v", err)
	}

	created, err := configMaps.Create(ctx, newConfigMap(namespace, "real"), metav1.CreateOptions{})
	must(t, err)
	_, err = configMaps.Create(ctx, newConfigMap(namespace, "real"), metav1.CreateOptions{DryRun: dry})
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("a dry creation of what exists: %v", err)
	}
	changed := created.DeepCopy()
	changed.Data["key"] = "changed"
	updated, err := configMaps.Update(ctx, changed, metav1.UpdateOptions{DryRun: dry})
	must(t, err)
	if updated.Data["key"] != "changed" {
		t.Errorf("a dry update answers with %v", updated.Data)
	}
	patched, err := configMaps.Patch(ctx, "real", types.MergePatchType, []byte(`{"data":{"key":"patched"}}`), metav1.PatchOptions{DryRun: dry})
	must(t, err)
	if patched.Data["key"] != "patched" {
		t.Errorf("a dry patch answers with %v", patched.Data)
	}
	must(t, configMaps.Delete(ctx, "real", metav1.DeleteOptions{DryRun: dry}))
	must(t, configMaps.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{LabelSelector: "app=clientgo"}))

	kept, err := configMaps.Get(ctx, "real", metav1.GetOptions{})
	must(t, err)
	if kept.ResourceVersion != created.ResourceVersion || kept.Data["key"] != "value" {
		t.Errorf("after dry writes: %s", asJSON(kept))
	}
}
