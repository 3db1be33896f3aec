package fieldmanager

// Writes, as the handlers of the real server make them.

import (
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// decode reads JSON with whole numbers as integers.
func decode(text []byte, into any) error { return utiljson.Unmarshal(text, into) }

// No entry that this program has dated is newer.
var newest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// do makes a write and notes what came of it. It gives the new live object, with managed fields.
func (k *kind) do(live *unstructured.Unstructured, w *write, ignored *fieldpath.Set) (*unstructured.Unstructured, error) {
	version, err := schema.ParseGroupVersion(w.APIVersion)
	if err != nil {
		return nil, err
	}
	gvk := version.WithKind(k.gvk.Kind)
	var filters map[fieldpath.APIVersion]fieldpath.Filter
	if ignored != nil {
		sets := map[fieldpath.APIVersion]*fieldpath.Set{}
		for _, served := range k.served {
			sets[fieldpath.APIVersion(served.String())] = ignored
		}
		filters = fieldpath.NewExcludeFilterSetMap(sets)
	}
	manager, err := managedfields.NewDefaultCRDFieldManager(k.types, k, k, k, gvk, k.served[0], w.Subresource, filters)
	if err != nil {
		return nil, err
	}
	start := live
	if start == nil {
		empty, err := k.New(gvk)
		if err != nil {
			return nil, err
		}
		start = empty.(*unstructured.Unstructured)
	}
	object := w.Object.(map[string]any)
	attempt := func() (runtime.Object, error) {
		given := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
		if w.Verb == "apply" {
			return manager.Apply(start.DeepCopy(), given, w.Manager, w.Force)
		}
		if w.Sent != nil {
			if err := unstructured.SetNestedField(given.Object, runtime.DeepCopyJSONValue(w.Sent), "metadata", "managedFields"); err != nil {
				return nil, err
			}
		}
		return manager.UpdateNoErrors(start.DeepCopy(), given, w.Manager), nil
	}
	result, err := attempt()
	if err != nil {
		w.refused(err)
		for range 20 {
			if _, again := attempt(); again == nil || again.Error() != err.Error() {
				w.Error = ""
			}
		}
		return live, nil
	}
	next := result.(*unstructured.Unstructured)
	next.SetGroupVersionKind(gvk)
	if err := date(next, w.Now); err != nil {
		return nil, err
	}
	w.Managers, _, _ = unstructured.NestedFieldCopy(next.Object, "metadata", "managedFields")
	kept := next.DeepCopy()
	unstructured.RemoveNestedField(kept.Object, "metadata", "managedFields")
	w.Result = kept.Object
	return next, nil
}

func (w *write) refused(err error) {
	w.Error, w.Code = err.Error(), 500
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return
	}
	w.Code = int(status.Status().Code)
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			w.Fields = append(w.Fields, cause.Message+": "+cause.Field)
		}
	}
	slices.Sort(w.Fields)
}

// date gives the entries that were made now the time of the write. They stay the newest.
func date(object *unstructured.Unstructured, now string) error {
	moment, err := time.Parse(time.RFC3339, now)
	if err != nil {
		return err
	}
	entries := object.GetManagedFields()
	for i := range entries {
		if entries[i].Time != nil && entries[i].Time.After(newest) {
			entries[i].Time = &metav1.Time{Time: moment}
		}
	}
	if len(entries) > 0 {
		object.SetManagedFields(entries)
	}
	return nil
}
