package clientgo

import (
	"net/http"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

func TestNotFound(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	details := &metav1.StatusDetails{Name: "absent", Kind: "configmaps"}
	const message = `configmaps "absent" not found`

	_, err := configMaps.Get(ctx, "absent", metav1.GetOptions{})
	expectStatus(t, err, http.StatusNotFound, metav1.StatusReasonNotFound, message, details)
	_, err = configMaps.Update(ctx, newConfigMap(namespace, "absent"), metav1.UpdateOptions{})
	expectStatus(t, err, http.StatusNotFound, metav1.StatusReasonNotFound, message, details)
	_, err = configMaps.Patch(ctx, "absent", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	expectStatus(t, err, http.StatusNotFound, metav1.StatusReasonNotFound, message, details)
	err = configMaps.Delete(ctx, "absent", metav1.DeleteOptions{})
	expectStatus(t, err, http.StatusNotFound, metav1.StatusReasonNotFound, message, details)

	_, err = c.typed.AppsV1().Deployments(namespace).Get(ctx, "absent", metav1.GetOptions{})
	expectStatus(t, err, http.StatusNotFound, metav1.StatusReasonNotFound, `deployments.apps "absent" not found`,
		&metav1.StatusDetails{Name: "absent", Group: "apps", Kind: "deployments"})
	_, err = c.typed.CoreV1().ConfigMaps("clientgo-absent").Create(ctx, newConfigMap("clientgo-absent", "x"), metav1.CreateOptions{})
	expectStatus(t, err, http.StatusNotFound, metav1.StatusReasonNotFound, `namespaces "clientgo-absent" not found`,
		&metav1.StatusDetails{Name: "clientgo-absent", Kind: "namespaces"})

	// A resource that is not served has no status of its own; client-go makes one.
	_, err = c.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("widgets")).Namespace(namespace).
		Get(ctx, "absent", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a resource that is not served: %v", err)
	}
}

func TestAlreadyExists(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	_, err := configMaps.Create(ctx, newConfigMap(namespace, "twice"), metav1.CreateOptions{})
	must(t, err)
	_, err = configMaps.Create(ctx, newConfigMap(namespace, "twice"), metav1.CreateOptions{})
	expectStatus(t, err, http.StatusConflict, metav1.StatusReasonAlreadyExists, `configmaps "twice" already exists`,
		&metav1.StatusDetails{Name: "twice", Kind: "configmaps"})
}

func TestInvalidName(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	_, err := c.typed.CoreV1().ConfigMaps(namespace).Create(ctx, newConfigMap(namespace, "Bad_Name"), metav1.CreateOptions{})
	expectStatus(t, err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, `ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name"`,
		&metav1.StatusDetails{Name: "Bad_Name", Kind: "ConfigMap", Causes: []metav1.StatusCause{
			{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.name"},
		}})
	_, err = c.typed.CoreV1().ConfigMaps(namespace).Create(ctx, newConfigMap(namespace, ""), metav1.CreateOptions{})
	expectStatus(t, err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, `ConfigMap "" is invalid: metadata.name: Required value`,
		&metav1.StatusDetails{Kind: "ConfigMap", Causes: []metav1.StatusCause{
			{Type: metav1.CauseTypeFieldValueRequired, Field: "metadata.name"},
		}})
}

func TestStaleUpdate(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	stale, err := configMaps.Create(ctx, newConfigMap(namespace, "contended"), metav1.CreateOptions{})
	must(t, err)
	fresh := stale.DeepCopy()
	fresh.Data["key"] = "newer"
	_, err = configMaps.Update(ctx, fresh, metav1.UpdateOptions{})
	must(t, err)

	details := &metav1.StatusDetails{Name: "contended", Kind: "configmaps"}
	const message = `Operation cannot be fulfilled on configmaps "contended": the object has been modified`
	stale.Data["key"] = "older"
	_, err = configMaps.Update(ctx, stale, metav1.UpdateOptions{})
	expectStatus(t, err, http.StatusConflict, metav1.StatusReasonConflict, message, details)
	patch := []byte(`{"metadata":{"resourceVersion":"` + stale.ResourceVersion + `"},"data":{"key":"older"}}`)
	_, err = configMaps.Patch(ctx, "contended", types.MergePatchType, patch, metav1.PatchOptions{})
	expectStatus(t, err, http.StatusConflict, metav1.StatusReasonConflict, message, details)

	kept, err := configMaps.Get(ctx, "contended", metav1.GetOptions{})
	must(t, err)
	if kept.Data["key"] != "newer" {
		t.Errorf("a stale write was taken: %v", kept.Data)
	}
}

// TestRetryOnConflict counts in one object from many goroutines.
func TestRetryOnConflict(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	counter := newConfigMap(namespace, "counter")
	counter.Data = map[string]string{"count": ""}
	_, err := configMaps.Create(ctx, counter, metav1.CreateOptions{})
	must(t, err)

	const goroutines, each = 8, 5
	patient := wait.Backoff{Steps: 1000, Duration: retry.DefaultRetry.Duration, Factor: 1, Jitter: 1}
	var counting sync.WaitGroup
	for range goroutines {
		counting.Go(func() {
			for range each {
				err := retry.RetryOnConflict(patient, func() error {
					counter, err := configMaps.Get(ctx, "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					counter.Data["count"] += "|"
					_, err = configMaps.Update(ctx, counter, metav1.UpdateOptions{})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	counting.Wait()
	counted, err := configMaps.Get(ctx, "counter", metav1.GetOptions{})
	must(t, err)
	if len(counted.Data["count"]) != goroutines*each {
		t.Errorf("counted to %d, not %d", len(counted.Data["count"]), goroutines*each)
	}
}
