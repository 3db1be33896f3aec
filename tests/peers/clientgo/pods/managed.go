package pods

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mergeKeys are the keys of the lists whose items have owners of their own.
var mergeKeys = map[string][]string{
	"containers": {"name"}, "env": {"name"}, "ports": {"containerPort", "protocol"}, "volumeMounts": {"mountPath"}, "volumes": {"name"},
	"conditions": {"type"}, "podIPs": {"ip"}, "hostIPs": {"ip"}, "ownerReferences": {"uid"}, "imagePullSecrets": {"name"},
}

// managedFields are what a pod of a ReplicaSet has: the controller's, the CNI's and the kubelet's.
func managedFields(pod *corev1.Pod) []metav1.ManagedFieldsEntry {
	raw, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	tree := map[string]any{}
	if err := json.Unmarshal(raw, &tree); err != nil {
		panic(err)
	}
	meta, spec := tree["metadata"].(map[string]any), tree["spec"].(map[string]any)
	annotations := meta["annotations"].(map[string]any)
	cni := map[string]any{}
	for name, value := range annotations {
		if strings.HasPrefix(name, "cni.") {
			cni[name] = value
			delete(annotations, name)
		}
	}
	for _, ofTheServer := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation"} {
		delete(meta, ofTheServer)
	}
	for _, byAdmission := range []string{"nodeName", "tolerations", "priority", "preemptionPolicy", "serviceAccountName"} {
		delete(spec, byAdmission)
	}
	spec["volumes"] = withoutToken(spec["volumes"], "name")
	for _, container := range spec["containers"].([]any) {
		c := container.(map[string]any)
		c["volumeMounts"] = withoutToken(c["volumeMounts"], "name")
	}
	status := tree["status"].(map[string]any)
	delete(status, "qosClass")
	entry := func(manager, subresource string, when slot, owned map[string]any) metav1.ManagedFieldsEntry {
		fields, err := json.Marshal(fieldsOf(owned))
		if err != nil {
			panic(err)
		}
		time := at(when)
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &time, FieldsType: "FieldsV1", Subresource: subresource, FieldsV1: &metav1.FieldsV1{Raw: fields}}
	}
	return []metav1.ManagedFieldsEntry{
		entry("kube-controller-manager", "", created, map[string]any{"metadata": meta, "spec": spec}),
		entry("calico", "status", started, map[string]any{"metadata": map[string]any{"annotations": cni}}),
		entry("kubelet", "status", changed, map[string]any{"status": status}),
	}
}

func withoutToken(items any, key string) []any {
	var kept []any
	for _, item := range items.([]any) {
		if !strings.HasPrefix(item.(map[string]any)[key].(string), "kube-api-access-") {
			kept = append(kept, item)
		}
	}
	return kept
}

// fieldsOf is the set of fields of a value in the form of FieldsV1.
func fieldsOf(value map[string]any) map[string]any {
	fields := map[string]any{}
	for name, member := range value {
		switch member := member.(type) {
		case map[string]any:
			within := fieldsOf(member)
			// Quantities and strings of a map have an owner each; so has the map itself.
			if name != "metadata" && name != "spec" && name != "status" {
				within["."] = map[string]any{}
			}
			fields["f:"+name] = within
		case []any:
			fields["f:"+name] = fieldsOfList(member, mergeKeys[name])
		default:
			fields["f:"+name] = map[string]any{}
		}
	}
	return fields
}

func fieldsOfList(items []any, keys []string) map[string]any {
	fields := map[string]any{}
	if keys == nil {
		return fields
	}
	fields["."] = map[string]any{}
	for _, item := range items {
		member := item.(map[string]any)
		key := map[string]any{}
		for _, name := range keys {
			key[name] = member[name]
		}
		text, err := json.Marshal(key)
		if err != nil {
			panic(err)
		}
		within := fieldsOf(member)
		within["."] = map[string]any{}
		fields["k:"+string(text)] = within
	}
	return fields
}
