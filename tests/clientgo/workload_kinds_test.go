package clientgo

import (
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	configMapResource  = corev1.SchemeGroupVersion.WithResource("configmaps")
	podResource        = corev1.SchemeGroupVersion.WithResource("pods")
	deploymentResource = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// workloadKinds are the kinds that the informers' tests write and watch.
func workloadKinds(widgets widgetResource) []workloadKind {
	return []workloadKind{
		{
			resource: configMapResource,
			build: func(namespace, name string, _ *rand.Rand) (*unstructured.Unstructured, error) {
				return untyped(newConfigMap(namespace, name), kindOf(configMapResource, "ConfigMap"))
			},
			mergePatch:     func(mark string) any { return map[string]any{"data": map[string]any{"merged": mark}} },
			strategicPatch: func(mark string) any { return map[string]any{"data": map[string]any{"strategic": mark, "key": nil}} },
		},
		{
			resource: podResource,
			build: func(namespace, name string, random *rand.Rand) (*unstructured.Unstructured, error) {
				pod := newPod(namespace, name)
				pod.Spec.NodeName = pickAny(random, workloadNodes)
				return untyped(pod, kindOf(podResource, "Pod"))
			},
			mergePatch:     annotate,
			strategicPatch: func(mark string) any { return map[string]any{"spec": containersOf(mark)} },
			status: func(mark string) map[string]any {
				return map[string]any{"phase": "Running", "message": mark}
			},
		},
		{
			resource: deploymentResource,
			build: func(namespace, name string, _ *rand.Rand) (*unstructured.Unstructured, error) {
				deployment := newDeployment(namespace, name)
				// Generated names are not known yet.
				deployment.Spec.Selector.MatchLabels = map[string]string{"app": "clientgo"}
				deployment.Spec.Template.Labels = map[string]string{"app": "clientgo"}
				return untyped(deployment, kindOf(deploymentResource, "Deployment"))
			},
			mergePatch: func(mark string) any {
				return map[string]any{"spec": map[string]any{"replicas": len(mark)}}
			},
			strategicPatch: func(mark string) any {
				return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": containersOf(mark)}}}
			},
			status: func(mark string) map[string]any {
				return map[string]any{"observedGeneration": int64(1), "conditions": []any{map[string]any{
					"type": "Progressing", "status": "True", "reason": "Test", "message": mark,
					"lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z",
				}}}
			},
		},
		{
			resource: widgets.GroupVersionResource,
			build: func(namespace, name string, _ *rand.Rand) (*unstructured.Unstructured, error) {
				return widgets.newWidget(namespace, name), nil
			},
			mergePatch: func(mark string) any { return map[string]any{"spec": map[string]any{"merged": mark}} },
			status:     func(mark string) map[string]any { return map[string]any{"mark": mark} },
		},
	}
}

func kindOf(resource schema.GroupVersionResource, kind string) schema.GroupVersionKind {
	return resource.GroupVersion().WithKind(kind)
}

func annotate(mark string) any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{"merged": mark}}}
}

// containersOf names another image for the container of newPodSpec, which is found by its name.
func containersOf(mark string) map[string]any {
	return map[string]any{"containers": []any{map[string]any{"name": "main", "image": "registry.example.com/app:" + mark}}}
}
