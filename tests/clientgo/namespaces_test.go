package clientgo

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// newNamespace makes a namespace that is deleted at the end of the test, without a wait for its end.
func newNamespace(ctx context.Context, t *testing.T, c clients) string {
	t.Helper()
	name := "clientgo-" + rand.String(8)
	_, err := c.typed.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		err := c.typed.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Errorf("deleting the namespace %s: %v", name, err)
		}
	})
	return name
}

// TestNamespaceDeletion needs the namespace controller, or a server that does its work.
func TestNamespaceDeletion(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	namespaces, configMaps := c.typed.CoreV1().Namespaces(), c.typed.CoreV1().ConfigMaps(namespace)

	created, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
	must(t, err)
	if created.Status.Phase != corev1.NamespaceActive {
		t.Errorf("the phase of a new namespace is %q", created.Status.Phase)
	}
	if len(created.Spec.Finalizers) != 1 || created.Spec.Finalizers[0] != corev1.FinalizerKubernetes {
		t.Errorf("the finalizers of a new namespace are %q", created.Spec.Finalizers)
	}
	if created.Labels[corev1.LabelMetadataName] != namespace {
		t.Errorf("the labels of a new namespace are %v", created.Labels)
	}

	// A finalizer inside keeps the namespace from going away before it has been looked at.
	held := newConfigMap(namespace, "held")
	held.Finalizers = []string{holdFinalizer}
	_, err = configMaps.Create(ctx, held, metav1.CreateOptions{})
	must(t, err)
	_, err = configMaps.Create(ctx, newConfigMap(namespace, "free"), metav1.CreateOptions{})
	must(t, err)
	must(t, namespaces.Delete(ctx, namespace, metav1.DeleteOptions{}))

	terminating, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
	must(t, err)
	if terminating.DeletionTimestamp == nil || terminating.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("after its deletion, the namespace has the phase %q and was deleted at %v", terminating.Status.Phase, terminating.DeletionTimestamp)
	}
	// The server may learn of the deletion by a watch of its own.
	eventually(ctx, t, "creation in the terminating namespace is forbidden", func(ctx context.Context) error {
		_, err := configMaps.Create(ctx, newConfigMap(namespace, "late"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return fmt.Errorf("the answer to a creation is %v", err)
	})
	eventually(ctx, t, "the namespace is emptied", func(ctx context.Context) error {
		_, err := configMaps.Get(ctx, "free", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the answer to a get of what was inside is %v", err)
	})
	// In any order: a collection may be deleted by several workers.
	var waiting *corev1.ConfigMap
	eventually(ctx, t, "what has a finalizer is deleted with the namespace", func(ctx context.Context) error {
		got, err := configMaps.Get(ctx, "held", metav1.GetOptions{})
		if err == nil && got.DeletionTimestamp == nil {
			err = errors.New("it has no deletionTimestamp")
		}
		waiting = got
		return err
	})
	waiting.Finalizers = nil
	_, err = configMaps.Update(ctx, waiting, metav1.UpdateOptions{})
	must(t, err)
	eventually(ctx, t, "the namespace is gone", func(ctx context.Context) error {
		_, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the answer to a get is %v", err)
	})
	_, err = configMaps.Create(ctx, newConfigMap(namespace, "later"), metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("creation in a namespace that is gone: %v", err)
	}
}
