package clientgo

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The objects that tests create: complete, so that no server has to fill in defaults, and small.

const (
	// holdFinalizer is removed by tests alone.
	holdFinalizer = "clientgo.example.com/hold"
	// tierLabel has one of the tiers as its value.
	tierLabel = "tier"
	// image is never pulled.
	image = "registry.example.com/app:1"
)

func newMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "clientgo"}}
}

func newConfigMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: newMeta(namespace, name), Data: map[string]string{"key": "value"}}
}

func newPodSpec() corev1.PodSpec {
	return corev1.PodSpec{
		// Without a kubelet, a pod with a grace period would stay after its deletion.
		TerminationGracePeriodSeconds: ptr.To[int64](0),
		RestartPolicy:                 corev1.RestartPolicyAlways,
		DNSPolicy:                     corev1.DNSClusterFirst,
		SchedulerName:                 corev1.DefaultSchedulerName,
		SecurityContext:               &corev1.PodSecurityContext{},
		Containers: []corev1.Container{{
			Name:                     "main",
			Image:                    image,
			ImagePullPolicy:          corev1.PullIfNotPresent,
			TerminationMessagePath:   corev1.TerminationMessagePathDefault,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}},
	}
}

func newPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: newMeta(namespace, name), Spec: newPodSpec()}
}

func newDeployment(namespace, name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: newMeta(namespace, name),
		Spec: appsv1.DeploymentSpec{
			Replicas:                ptr.To[int32](2),
			Selector:                &metav1.LabelSelector{MatchLabels: labels},
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPodSpec()},
			Strategy:                appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			RevisionHistoryLimit:    ptr.To[int32](10),
			ProgressDeadlineSeconds: ptr.To[int32](600),
		},
	}
}
