package pods

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var (
	products = []string{"checkout", "billing", "catalog", "search", "identity", "ledger", "notify", "pricing", "returns", "shipping", "stock", "media"}
	roles    = []string{"api", "worker", "gateway", "consumer", "scheduler", "frontend", "exporter", "migrator"}
	owners   = []string{"payments", "storefront", "platform", "logistics", "data", "growth"}
	sidecars = []string{"linkerd-proxy", "fluent-bit", "cloudsql-proxy", "vault-agent"}
	settings = []string{"DATABASE_URL", "REDIS_ADDR", "KAFKA_BROKERS", "LOG_LEVEL", "FEATURE_FLAGS", "OTEL_EXPORTER_OTLP_ENDPOINT", "HTTP_PORT", "GRPC_PORT", "CACHE_TTL_SECONDS", "MAX_CONNECTIONS", "RETRY_LIMIT", "SENTRY_DSN", "S3_BUCKET", "REGION", "TENANT", "TIMEOUT_MS", "POOL_SIZE", "AUDIT_TOPIC"}
)

func pick(r *random, from []string) string { return from[r.upTo(len(from))] }

func ptr[T any](value T) *T { return &value }

func at(s slot) metav1.Time { return metav1.Time{Time: markerTime(s)} }

// templatePod is the pod of a Deployment as the API server gives it out, with markers where pods differ.
func templatePod(seed uint64, n int) *corev1.Pod {
	r := ptr(random(mix(seed ^ 0xa5a5<<32 ^ uint64(n))))
	app := fmt.Sprintf("%s-%s-%s", products[n%len(products)], roles[n/len(products)%len(roles)], r.text(nil, "aeioumnrst", 3+r.upTo(4)))
	labels := map[string]string{
		"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-prod", "app.kubernetes.io/managed-by": "Helm",
		"app.kubernetes.io/version": fmt.Sprintf("%d.%d.%d", r.upTo(9), r.upTo(40), r.upTo(20)),
		"helm.sh/chart":             fmt.Sprintf("%s-%d.%d.0", app, r.upTo(9), r.upTo(30)),
		"team":                      pick(r, owners), "pod-template-hash": marker(hash), "topology.kubernetes.io/rack": marker(rack),
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: app + "-" + marker(hash) + "-" + marker(suffix), GenerateName: app + "-" + marker(hash) + "-",
			Namespace: marker(namespace), UID: types.UID(marker(uid)), ResourceVersion: marker(version),
			CreationTimestamp: at(created), Labels: labels, Generation: 1,
			Annotations: map[string]string{
				"checksum/config": marker(checksum), "example.com/commit": marker(commit), SentAnnotation: marker(sent),
				"cni.projectcalico.org/containerID": marker(network), "cni.projectcalico.org/podIP": marker(podIP) + "/32",
				"prometheus.io/scrape": "true", "prometheus.io/port": fmt.Sprint(9000 + r.upTo(100)),
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + marker(hash), UID: types.UID(marker(ownerUID)), Controller: ptr(true), BlockOwnerDeletion: ptr(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: marker(node), RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst,
			ServiceAccountName: app, DeprecatedServiceAccount: app, SchedulerName: "default-scheduler",
			TerminationGracePeriodSeconds: ptr(int64(30 + r.upTo(4)*15)), Priority: ptr(int32(0)), EnableServiceLinks: ptr(true),
			PreemptionPolicy: ptr(corev1.PreemptLowerPriority), SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr(int64(1000 + r.upTo(9000))), FSGroup: ptr(int64(2000))},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry-credentials"}},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(300))},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(300))},
			},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config"}, DefaultMode: ptr(int32(420))}}},
				tokenVolume(),
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: marker(hostIP), HostIPs: []corev1.HostIP{{IP: marker(hostIP)}}, PodIP: marker(podIP),
			PodIPs: []corev1.PodIP{{IP: marker(podIP)}}, QOSClass: corev1.PodQOSBurstable, StartTime: ptr(at(created)),
		},
	}
	for _, c := range []struct {
		kind corev1.PodConditionType
		at   slot
	}{{"PodReadyToStartContainers", started}, {corev1.PodInitialized, created}, {corev1.PodReady, changed}, {corev1.ContainersReady, ready}, {corev1.PodScheduled, created}} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c.kind, Status: corev1.ConditionTrue, LastTransitionTime: at(c.at)})
	}
	addContainer(pod, r, app, 1+r.upTo(3))
	for range r.upTo(10) / 8 {
		addContainer(pod, r, pick(r, sidecars), 1+r.upTo(3))
	}
	pod.ManagedFields = managedFields(pod)
	return pod
}

func tokenVolume() corev1.Volume {
	return corev1.Volume{Name: "kube-api-access-" + marker(token), VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr(int32(420)), Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr(int64(3607)), Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
	}}}}
}

func addContainer(pod *corev1.Pod, r *random, name string, variables int) {
	number := len(pod.Spec.Containers)
	repository := fmt.Sprintf("%012d.dkr.ecr.eu-central-1.amazonaws.com/%s", r.upTo(1_000_000_000), name)
	tag := fmt.Sprintf("%s:%d.%d.%d", repository, r.upTo(9), r.upTo(40), r.upTo(20))
	port := 8080 + r.upTo(200)
	c := corev1.Container{
		Name: name, Image: tag, ImagePullPolicy: corev1.PullIfNotPresent,
		TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(port), Protocol: corev1.ProtocolTCP}, {Name: "metrics", ContainerPort: int32(9000 + r.upTo(100)), Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprintf("%dm", 50*(1+r.upTo(20)))), "memory": resource.MustParse(fmt.Sprintf("%dMi", 64*(1+r.upTo(16))))},
			Limits:   corev1.ResourceList{"memory": resource.MustParse(fmt.Sprintf("%dMi", 64*(16+r.upTo(16))))},
		},
		VolumeMounts:    []corev1.VolumeMount{{Name: "config", MountPath: "/etc/" + name, ReadOnly: true}, {Name: "kube-api-access-" + marker(token), MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		ReadinessProbe:  probe("/ready", 5, 1+int32(r.upTo(3))),
	}
	first := r.upTo(len(settings))
	for n := range variables {
		variable := settings[(first+n)%len(settings)]
		value := corev1.EnvVar{Name: variable}
		if r.upTo(4) == 0 {
			value.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name + "-secrets"}, Key: variable}}
		} else {
			value.Value = fmt.Sprintf("%s://%s-%s.internal:%d/%s", pick(r, []string{"postgres", "redis", "https", "grpc"}), pick(r, products), pick(r, roles), 1000+r.upTo(9000), r.hex(nil, 4+r.upTo(12)))
		}
		c.Env = append(c.Env, value)
	}
	pod.Spec.Containers = append(pod.Spec.Containers, c)
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: name, Ready: true, Started: ptr(true), Image: tag, ImageID: repository + "@sha256:" + marker(image),
		ContainerID: "containerd://" + marker(container0+slot(number)), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(started)}},
	})
}

func probe(path string, period, threshold int32) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}}, InitialDelaySeconds: 5, PeriodSeconds: period, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: threshold}
}
