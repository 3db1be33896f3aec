package clientgo

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/utils/ptr"
)

// TestStatusIsolation expects writes of the object and of its status to leave each other alone, and the generation to
// count the changes of the spec.
func TestStatusIsolation(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	deployments := c.typed.AppsV1().Deployments(namespace)

	deployment := newDeployment(namespace, "app")
	deployment.Status.Replicas = 7
	deployment, err := deployments.Create(ctx, deployment, metav1.CreateOptions{})
	must(t, err)
	if deployment.Generation != 1 || deployment.Status.Replicas != 0 {
		t.Errorf("a new deployment has the generation %d and the status %s", deployment.Generation, asJSON(deployment.Status))
	}

	deployment.Status.Replicas = 2
	deployment.Status.ObservedGeneration = 1
	deployment.Spec.Replicas = ptr.To[int32](5)
	deployment, err = deployments.UpdateStatus(ctx, deployment, metav1.UpdateOptions{})
	must(t, err)
	if deployment.Generation != 1 || deployment.Status.Replicas != 2 || *deployment.Spec.Replicas != 2 {
		t.Errorf("after an update of the status: generation %d, %s, %d replicas wanted", deployment.Generation, asJSON(deployment.Status), *deployment.Spec.Replicas)
	}

	deployment.Spec.Replicas = ptr.To[int32](3)
	deployment.Status.Replicas = 9
	deployment, err = deployments.Update(ctx, deployment, metav1.UpdateOptions{})
	must(t, err)
	if deployment.Generation != 2 || deployment.Status.Replicas != 2 || *deployment.Spec.Replicas != 3 {
		t.Errorf("after an update: generation %d, %s, %d replicas wanted", deployment.Generation, asJSON(deployment.Status), *deployment.Spec.Replicas)
	}

	labelled, err := deployments.Patch(ctx, "app", types.MergePatchType, []byte(`{"metadata":{"labels":{"more":"yes"}},"status":{"replicas":8}}`), metav1.PatchOptions{})
	must(t, err)
	if labelled.Generation != 2 || labelled.Status.Replicas != 2 || labelled.Labels["more"] != "yes" {
		t.Errorf("after a patch of labels: generation %d, %s", labelled.Generation, asJSON(labelled.Status))
	}
	patched, err := deployments.Patch(ctx, "app", types.StrategicMergePatchType, []byte(`{"spec":{"replicas":4},"status":{"readyReplicas":1}}`), metav1.PatchOptions{}, "status")
	must(t, err)
	if patched.Generation != 2 || patched.Status.Replicas != 2 || patched.Status.ReadyReplicas != 1 || *patched.Spec.Replicas != 3 {
		t.Errorf("after a patch of the status: generation %d, %s, %d replicas wanted", patched.Generation, asJSON(patched.Status), *patched.Spec.Replicas)
	}
	same, err := deployments.Update(ctx, patched, metav1.UpdateOptions{})
	must(t, err)
	if same.ResourceVersion != patched.ResourceVersion {
		t.Error("an update that changes nothing wrote a new version")
	}
}

// TestCustomStatusIsolation is TestStatusIsolation of a custom resource.
func TestCustomStatusIsolation(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	kind := newWidgetResource(ctx, t, c)
	widgets := c.dynamic.Resource(kind.GroupVersionResource).Namespace(namespace)

	widget := kind.newWidget(namespace, "custom")
	widget.Object["status"] = map[string]any{"size": int64(7)}
	widget, err := widgets.Create(ctx, widget, metav1.CreateOptions{})
	must(t, err)
	if widget.GetGeneration() != 1 || widget.Object["status"] != nil {
		t.Errorf("a new widget is %s", asJSON(widget))
	}
	widget.Object["status"] = map[string]any{"size": int64(1)}
	widget.Object["spec"] = map[string]any{"size": int64(5)}
	widget, err = widgets.UpdateStatus(ctx, widget, metav1.UpdateOptions{})
	must(t, err)
	if widget.GetGeneration() != 1 || sizeOf(widget.Object["status"]) != 1 || sizeOf(widget.Object["spec"]) != 1 {
		t.Errorf("after an update of the status: %s", asJSON(widget))
	}
	widget.Object["status"] = map[string]any{"size": int64(9)}
	widget.Object["spec"] = map[string]any{"size": int64(2)}
	widget, err = widgets.Update(ctx, widget, metav1.UpdateOptions{})
	must(t, err)
	if widget.GetGeneration() != 2 || sizeOf(widget.Object["status"]) != 1 || sizeOf(widget.Object["spec"]) != 2 {
		t.Errorf("after an update: %s", asJSON(widget))
	}
}

// sizeOf is the size in the spec or status of a widget.
func sizeOf(part any) int64 {
	fields, _ := part.(map[string]any)
	size, _ := fields["size"].(int64)
	return size
}

// TestScale scales a deployment by the typed client and by the scale client.
func TestScale(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	deployments := c.typed.AppsV1().Deployments(namespace)
	deployment, err := deployments.Create(ctx, newDeployment(namespace, "app"), metav1.CreateOptions{})
	must(t, err)

	current, err := deployments.GetScale(ctx, "app", metav1.GetOptions{})
	must(t, err)
	if current.Spec.Replicas != 2 || current.Status.Selector != "app=app" || current.UID != deployment.UID || current.ResourceVersion != deployment.ResourceVersion {
		t.Errorf("the scale is %s", asJSON(current))
	}
	current.Spec.Replicas = 4
	updated, err := deployments.UpdateScale(ctx, "app", current, metav1.UpdateOptions{})
	must(t, err)
	if updated.Spec.Replicas != 4 {
		t.Errorf("the updated scale is %s", asJSON(updated))
	}
	stale := &autoscalingv1.Scale{ObjectMeta: current.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: 9}}
	if _, err := deployments.UpdateScale(ctx, "app", stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale update of the scale: %v", err)
	}

	cached := memory.NewMemCacheClient(c.typed.Discovery())
	scales, err := scale.NewForConfig(c.config, restmapper.NewDeferredDiscoveryRESTMapper(cached), dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(cached))
	must(t, err)
	again, err := scales.Scales(namespace).Get(ctx, deploymentResource.GroupResource(), "app", metav1.GetOptions{})
	must(t, err)
	again.Spec.Replicas = 6
	_, err = scales.Scales(namespace).Update(ctx, deploymentResource.GroupResource(), again, metav1.UpdateOptions{})
	must(t, err)
	_, err = scales.Scales(namespace).Patch(ctx, deploymentResource, "app", types.MergePatchType, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{})
	must(t, err)

	deployment, err = deployments.Get(ctx, "app", metav1.GetOptions{})
	must(t, err)
	if *deployment.Spec.Replicas != 7 || deployment.Generation != 4 {
		t.Errorf("after scaling three times: %d replicas, generation %d", *deployment.Spec.Replicas, deployment.Generation)
	}
}

func TestBinding(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	pods := c.typed.CoreV1().Pods(namespace)
	pod, err := pods.Create(ctx, newPod(namespace, "app"), metav1.CreateOptions{})
	must(t, err)
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app", UID: pod.UID, Annotations: map[string]string{"bound-by": "clientgo"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node-a"},
	}
	must(t, pods.Bind(ctx, binding, metav1.CreateOptions{}))
	bound, err := pods.Get(ctx, "app", metav1.GetOptions{})
	must(t, err)
	if bound.Spec.NodeName != "node-a" || bound.Annotations["bound-by"] != "clientgo" {
		t.Errorf("the bound pod is on %q and has the annotations %v", bound.Spec.NodeName, bound.Annotations)
	}
	scheduled := false
	for _, condition := range bound.Status.Conditions {
		scheduled = scheduled || condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue
	}
	if !scheduled {
		t.Errorf("the bound pod's conditions are %s", asJSON(bound.Status.Conditions))
	}

	err = pods.Bind(ctx, binding, metav1.CreateOptions{})
	expectStatus(t, err, http.StatusConflict, metav1.StatusReasonConflict, `Operation cannot be fulfilled on pods/binding "app": `,
		&metav1.StatusDetails{Name: "app", Kind: "pods/binding"})
	binding.Name = "absent"
	if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("binding a pod that is not there: %v", err)
	}
}

func TestEviction(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	pods := c.typed.CoreV1().Pods(namespace)
	_, err := pods.Create(ctx, newPod(namespace, "app"), metav1.CreateOptions{})
	must(t, err)
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: "app"},
		DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	}
	must(t, pods.EvictV1(ctx, eviction))
	if _, err := pods.Get(ctx, "app", metav1.GetOptions{}); err != nil {
		t.Errorf("after a dry eviction: %v", err)
	}
	eviction.DeleteOptions = nil
	must(t, pods.EvictV1(ctx, eviction))
	eventually(ctx, t, "the evicted pod is gone", func(ctx context.Context) error {
		_, err := pods.Get(ctx, "app", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the answer to a get is %v", err)
	})
	if err := pods.EvictV1(ctx, eviction); !apierrors.IsNotFound(err) {
		t.Errorf("evicting a pod that is not there: %v", err)
	}
}
