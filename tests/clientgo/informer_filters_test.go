package clientgo

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// informerFilter is a selection that informers are made with.
type informerFilter struct {
	name    string
	options metav1.ListOptions
	// resources are those that the filter is for, or none when it is for all.
	resources []schema.GroupVersionResource
	// matches says what the options mean, without a server.
	matches func(unstructured.Unstructured) bool
}

// informerFilters are about what the workload changes, so that objects enter and leave the selections.
var informerFilters = []informerFilter{
	{
		name:    "all",
		matches: func(unstructured.Unstructured) bool { return true },
	},
	{
		name:    "by label",
		options: metav1.ListOptions{LabelSelector: tierLabel + "=" + workloadTiers[0]},
		matches: func(object unstructured.Unstructured) bool { return object.GetLabels()[tierLabel] == workloadTiers[0] },
	},
	{
		name:    "by a set of labels",
		options: metav1.ListOptions{LabelSelector: tierLabel + " notin (" + workloadTiers[0] + "),mark"},
		matches: func(object unstructured.Unstructured) bool {
			_, marked := object.GetLabels()["mark"]
			return marked && object.GetLabels()[tierLabel] != workloadTiers[0]
		},
	},
	{
		name:    "by name",
		options: metav1.ListOptions{FieldSelector: "metadata.name=object-3"},
		matches: func(object unstructured.Unstructured) bool { return object.GetName() == "object-3" },
	},
	{
		name:      "by node",
		options:   metav1.ListOptions{FieldSelector: "spec.nodeName=" + workloadNodes[1]},
		resources: []schema.GroupVersionResource{podResource},
		matches: func(object unstructured.Unstructured) bool {
			node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
			return node == workloadNodes[1]
		},
	},
}

func (f informerFilter) all() bool {
	return f.options.LabelSelector == "" && f.options.FieldSelector == ""
}

func (f informerFilter) selects(resource schema.GroupVersionResource) bool {
	return len(f.resources) == 0 || slices.Contains(f.resources, resource)
}

func (f informerFilter) tweak(options *metav1.ListOptions) {
	options.LabelSelector, options.FieldSelector = f.options.LabelSelector, f.options.FieldSelector
}
