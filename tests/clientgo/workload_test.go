package clientgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	// The goroutines of a workload write to the same objects.
	workloadWriters = 4
	// The names of each kind in each namespace; few, so that writes meet.
	workloadNames = 12
)

var (
	workloadTiers = []string{"gold", "silver", "bronze"}
	workloadNodes = []string{"", "node-a", "node-b"}
)

// workloadKind is a kind that the workload writes.
type workloadKind struct {
	resource schema.GroupVersionResource
	build    func(namespace, name string, random *rand.Rand) (*unstructured.Unstructured, error)
	// mergePatch, and strategicPatch where the kind knows such patches, change what mark makes recognisable.
	mergePatch     func(mark string) any
	strategicPatch func(mark string) any
	// status is empty where there is no such subresource.
	status func(mark string) map[string]any
}

// workload is random writes that depend on its seed and on how its writers meet.
type workload struct {
	client     dynamic.Interface
	namespaces []string
	kinds      []workloadKind
	seed       uint64
	// runs tells the runs of one seed apart.
	runs uint64
	// taken counts the writes of this run that the server took, refused those that it did not because writers met.
	taken   atomic.Int64
	refused atomic.Int64
}

// run writes until the server has taken as many writes as wanted.
func (w *workload) run(ctx context.Context, t *testing.T, wanted int64) {
	t.Helper()
	w.runs++
	w.taken.Store(0)
	w.refused.Store(0)
	failures := make(chan error, workloadWriters)
	var writers sync.WaitGroup
	for writer := range uint64(workloadWriters) {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(w.seed, w.runs*workloadWriters+writer))
			for step := 0; w.taken.Load() < wanted; step++ {
				if err := w.write(ctx, random, fmt.Sprintf("%d-%d-%d", w.runs, writer, step)); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	writers.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	t.Logf("run %d of seed %d: %d writes were taken and %d refused", w.runs, w.seed, w.taken.Load(), w.refused.Load())
	if t.Failed() {
		t.FailNow()
	}
}

// write does one random write; what the server refuses because of another writer is no error.
func (w *workload) write(ctx context.Context, random *rand.Rand, mark string) error {
	kind := w.kinds[random.IntN(len(w.kinds))]
	namespace := w.namespaces[random.IntN(len(w.namespaces))]
	name := fmt.Sprintf("object-%d", random.IntN(workloadNames))
	objects := w.client.Resource(kind.resource).Namespace(namespace)

	operation := pick(random, workloadOperations)
	err := operation.do(workloadTarget{objects, kind, namespace, name, mark, random}, ctx)
	switch {
	case err == nil:
		w.taken.Add(1)
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), errors.Is(err, errNothingToDo):
		w.refused.Add(1)
	default:
		return fmt.Errorf("%s of %s %s/%s (mark %s): %w", operation.name, kind.resource.Resource, namespace, name, mark, err)
	}
	return nil
}

// errNothingToDo is a write that the object's state does not call for.
var errNothingToDo = errors.New("nothing to do")

type workloadTarget struct {
	objects   dynamic.ResourceInterface
	kind      workloadKind
	namespace string
	name      string
	mark      string
	random    *rand.Rand
}

type workloadOperation struct {
	name   string
	weight int
	do     func(workloadTarget, context.Context) error
}

var workloadOperations = []workloadOperation{
	{"create", 22, func(o workloadTarget, ctx context.Context) error { return o.create(ctx, o.name, "") }},
	{"create with a finalizer", 4, func(o workloadTarget, ctx context.Context) error { return o.create(ctx, o.name, "", holdFinalizer) }},
	{"create with a generated name", 3, func(o workloadTarget, ctx context.Context) error { return o.create(ctx, "", o.name+"-") }},
	{"update", 12, workloadTarget.update},
	{"merge patch", 10, func(o workloadTarget, ctx context.Context) error {
		return o.patch(ctx, types.MergePatchType, o.kind.mergePatch(o.mark))
	}},
	{"JSON patch", 8, func(o workloadTarget, ctx context.Context) error {
		return o.patch(ctx, types.JSONPatchType, []map[string]any{
			{"op": "test", "path": "/metadata/name", "value": o.name},
			{"op": "add", "path": "/metadata/labels/mark", "value": o.mark},
		})
	}},
	{"strategic merge patch", 10, workloadTarget.patchStrategically},
	{"change of labels", 10, func(o workloadTarget, ctx context.Context) error {
		tier := pickAny(o.random, workloadTiers)
		return o.patch(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{"labels": map[string]any{tierLabel: tier}}})
	}},
	{"removal of labels", 2, func(o workloadTarget, ctx context.Context) error {
		return o.patch(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{"labels": map[string]any{tierLabel: nil}}})
	}},
	{"update of the status", 10, workloadTarget.updateStatus},
	{"delete", 8, workloadTarget.delete},
	{"delete what was seen", 4, workloadTarget.deleteSeen},
	{"removal of finalizers", 6, workloadTarget.release},
}

func (o workloadTarget) create(ctx context.Context, name, generateName string, finalizers ...string) error {
	object, err := o.kind.build(o.namespace, name, o.random)
	if err != nil {
		return err
	}
	object.SetGenerateName(generateName)
	object.SetFinalizers(finalizers)
	labels := object.GetLabels()
	labels[tierLabel] = pickAny(o.random, workloadTiers)
	object.SetLabels(labels)
	_, err = o.objects.Create(ctx, object, metav1.CreateOptions{})
	return err
}

func (o workloadTarget) update(ctx context.Context) error {
	object, err := o.objects.Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	object.SetAnnotations(map[string]string{"mark": o.mark})
	_, err = o.objects.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

func (o workloadTarget) updateStatus(ctx context.Context) error {
	if o.kind.status == nil {
		return errNothingToDo
	}
	object, err := o.objects.Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	object.Object["status"] = o.kind.status(o.mark)
	_, err = o.objects.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	return err
}

func (o workloadTarget) patch(ctx context.Context, form types.PatchType, patch any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = o.objects.Patch(ctx, o.name, form, body, metav1.PatchOptions{})
	return err
}

func (o workloadTarget) patchStrategically(ctx context.Context) error {
	if o.kind.strategicPatch == nil {
		return errNothingToDo
	}
	return o.patch(ctx, types.StrategicMergePatchType, o.kind.strategicPatch(o.mark))
}

func (o workloadTarget) delete(ctx context.Context) error {
	return o.objects.Delete(ctx, o.name, metav1.DeleteOptions{})
}

// deleteSeen deletes the object only as it was seen.
func (o workloadTarget) deleteSeen(ctx context.Context) error {
	object, err := o.objects.Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	uid, version := object.GetUID(), object.GetResourceVersion()
	return o.objects.Delete(ctx, o.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
}

func (o workloadTarget) release(ctx context.Context) error {
	object, err := o.objects.Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(object.GetFinalizers()) == 0 {
		return errNothingToDo
	}
	object.SetFinalizers(nil)
	_, err = o.objects.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

// release removes the finalizers that the workload has left, so that its namespaces can go.
func (w *workload) release(ctx context.Context) error {
	for _, kind := range w.kinds {
		for _, namespace := range w.namespaces {
			objects := w.client.Resource(kind.resource).Namespace(namespace)
			list, err := objects.List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, object := range list.Items {
				if len(object.GetFinalizers()) == 0 {
					continue
				}
				_, err := objects.Patch(ctx, object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return err
				}
			}
		}
	}
	return nil
}

// pick takes one of the operations by their weights.
func pick(random *rand.Rand, operations []workloadOperation) workloadOperation {
	total := 0
	for _, operation := range operations {
		total += operation.weight
	}
	at := random.IntN(total)
	for _, operation := range operations {
		if at -= operation.weight; at < 0 {
			return operation
		}
	}
	panic("the weights do not add up")
}

func pickAny[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// untyped is a typed object as the typed clients would send it, zero values included.
func untyped(object runtime.Object, gvk schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u, nil
}
