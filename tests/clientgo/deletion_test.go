package clientgo

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestDeletePreconditions(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	created, err := configMaps.Create(ctx, newConfigMap(namespace, "guarded"), metav1.CreateOptions{})
	must(t, err)

	// Preconditions are refused by the kind, where other conflicts are by the resource.
	details := &metav1.StatusDetails{Name: "guarded", Kind: "ConfigMap"}
	const message = `Operation cannot be fulfilled on ConfigMap "guarded": `
	for _, preconditions := range []metav1.Preconditions{
		{UID: ptr.To(types.UID("00000000-0000-0000-0000-000000000000"))},
		{ResourceVersion: ptr.To("1")},
		{UID: &created.UID, ResourceVersion: ptr.To("1")},
	} {
		err := configMaps.Delete(ctx, "guarded", metav1.DeleteOptions{Preconditions: &preconditions})
		expectStatus(t, err, http.StatusConflict, metav1.StatusReasonConflict, message, details)
	}
	must(t, configMaps.Delete(ctx, "guarded", metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &created.UID, ResourceVersion: &created.ResourceVersion},
	}))
	if _, err := configMaps.Get(ctx, "guarded", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
}

func TestDeleteCollection(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	for i := range 30 {
		configMap := newConfigMap(namespace, fmt.Sprintf("member-%02d", i))
		configMap.Labels[tierLabel] = workloadTiers[i%len(workloadTiers)]
		_, err := configMaps.Create(ctx, configMap, metav1.CreateOptions{})
		must(t, err)
	}
	must(t, configMaps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: tierLabel + "=" + workloadTiers[0]}))
	left, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: tierLabel})
	must(t, err)
	if len(left.Items) != 20 || slices.ContainsFunc(left.Items, func(c corev1.ConfigMap) bool { return c.Labels[tierLabel] == workloadTiers[0] }) {
		t.Errorf("%d of 30 are left", len(left.Items))
	}
	must(t, c.dynamic.Resource(configMapResource).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=member-01"}))
	if _, err := configMaps.Get(ctx, "member-01", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion by name: %v", err)
	}
	if _, err := configMaps.Get(ctx, "member-02", metav1.GetOptions{}); err != nil {
		t.Errorf("the deletion by name took another: %v", err)
	}
}

func TestFinalizers(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	held := newConfigMap(namespace, "held")
	held.Finalizers = []string{holdFinalizer, holdFinalizer + "-too"}
	created, err := configMaps.Create(ctx, held, metav1.CreateOptions{})
	must(t, err)
	must(t, configMaps.Delete(ctx, "held", metav1.DeleteOptions{}))
	terminating, err := configMaps.Get(ctx, "held", metav1.GetOptions{})
	must(t, err)
	if terminating.DeletionTimestamp == nil || terminating.DeletionGracePeriodSeconds == nil || *terminating.DeletionGracePeriodSeconds != 0 {
		t.Errorf("after the deletion: %s", asJSON(terminating.ObjectMeta))
	}
	if terminating.UID != created.UID || terminating.ResourceVersion == created.ResourceVersion {
		t.Errorf("the deletion did not write a new version of the object: %s", asJSON(terminating.ObjectMeta))
	}

	// A second deletion changes nothing, and no finalizer may be added any more.
	must(t, configMaps.Delete(ctx, "held", metav1.DeleteOptions{}))
	again, err := configMaps.Get(ctx, "held", metav1.GetOptions{})
	must(t, err)
	if again.ResourceVersion != terminating.ResourceVersion {
		t.Error("a second deletion wrote a new version")
	}
	more := again.DeepCopy()
	more.Finalizers = append(more.Finalizers, holdFinalizer+"-late")
	_, err = configMaps.Update(ctx, more, metav1.UpdateOptions{})
	expectStatus(t, err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, `ConfigMap "held" is invalid: metadata.finalizers: Forbidden: `,
		&metav1.StatusDetails{Name: "held", Kind: "ConfigMap", Causes: []metav1.StatusCause{
			{Type: metav1.CauseTypeForbidden, Field: "metadata.finalizers"},
		}})

	// The deletion's time cannot be taken back.
	again.DeletionTimestamp = nil
	again.Finalizers = []string{holdFinalizer}
	fewer, err := configMaps.Update(ctx, again, metav1.UpdateOptions{})
	must(t, err)
	if fewer.DeletionTimestamp == nil {
		t.Error("an update took the deletion back")
	}
	_, err = configMaps.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	must(t, err)
	if _, err := configMaps.Get(ctx, "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the removal of the last finalizer: %v", err)
	}
}

// TestForegroundDeletion takes a server with and one without a garbage collector.
func TestForegroundDeletion(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	_, err := configMaps.Create(ctx, newConfigMap(namespace, "owner"), metav1.CreateOptions{})
	must(t, err)
	must(t, configMaps.Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
	owner, err := configMaps.Get(ctx, "owner", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	must(t, err)
	if owner.DeletionTimestamp == nil || !slices.Equal(owner.Finalizers, []string{metav1.FinalizerDeleteDependents}) {
		t.Errorf("after a foreground deletion: %s", asJSON(owner.ObjectMeta))
	}
	owner.Finalizers = nil
	_, err = configMaps.Update(ctx, owner, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		t.Error(err)
	}
}
