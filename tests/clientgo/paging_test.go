package clientgo

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
)

const (
	pagedObjects = 1200
	pageSize     = 500
)

// TestPaging reads pages while objects of pages to come are written, and expects them as of the first page's version.
func TestPaging(t *testing.T) {
	ctx, c := bounded(t), newClients(t)
	namespace := newNamespace(ctx, t, c)
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	versions := createPaged(ctx, t, c, namespace)

	var pages []metav1.ListMeta
	paged := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := configMaps.List(ctx, options)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page.ListMeta)
		return page, disturb(ctx, c, namespace, len(pages))
	})
	paged.PageSize = pageSize
	// A full list in place of expired pages would hide that there was no snapshot.
	paged.FullListIfExpired = false
	list, inPages, err := paged.List(ctx, metav1.ListOptions{})
	must(t, err)
	items, err := meta.ExtractList(list)
	must(t, err)

	if !inPages || len(pages) != 3 {
		t.Fatalf("the list came in %d pages", len(pages))
	}
	for i, page := range pages {
		if page.ResourceVersion != pages[0].ResourceVersion {
			t.Errorf("page %d is of the version %s, the first of %s", i+1, page.ResourceVersion, pages[0].ResourceVersion)
		}
		left := int64(pagedObjects - (i+1)*pageSize)
		if last := left <= 0; last != (page.Continue == "") {
			t.Errorf("page %d: its continuation is %q", i+1, page.Continue)
		} else if !last && (page.RemainingItemCount == nil || *page.RemainingItemCount != left) {
			t.Errorf("page %d: %s, but %d items are left", i+1, asJSON(page), left)
		}
	}
	if len(items) != pagedObjects {
		t.Errorf("the pages hold %d items", len(items))
	}
	for _, item := range items {
		configMap := item.(*corev1.ConfigMap)
		if versions[configMap.Name] != configMap.ResourceVersion {
			t.Errorf("%s has the version %s in the snapshot, not %s", configMap.Name, configMap.ResourceVersion, versions[configMap.Name])
		}
	}
}

// createPaged makes the objects and tells their versions.
func createPaged(ctx context.Context, t *testing.T, c clients, namespace string) map[string]string {
	t.Helper()
	versions := map[string]string{}
	var mu sync.Mutex
	var creating sync.WaitGroup
	const goroutines = 8
	for goroutine := range goroutines {
		creating.Go(func() {
			for i := goroutine; i < pagedObjects; i += goroutines {
				created, err := c.typed.CoreV1().ConfigMaps(namespace).Create(ctx, newConfigMap(namespace, pagedName(i)), metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				versions[created.Name] = created.ResourceVersion
				mu.Unlock()
			}
		})
	}
	creating.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return versions
}

func pagedName(i int) string { return fmt.Sprintf("object-%04d", i) }

// disturb creates, changes and deletes objects of each page, others after each page that was read.
func disturb(ctx context.Context, c clients, namespace string, page int) error {
	configMaps := c.typed.CoreV1().ConfigMaps(namespace)
	for i := page * 10; i < pagedObjects; i += 50 {
		if _, err := configMaps.Create(ctx, newConfigMap(namespace, pagedName(i)+"-between"), metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := configMaps.Patch(ctx, pagedName(i+1), types.MergePatchType, []byte(`{"data":{"key":"changed"}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
		if err := configMaps.Delete(ctx, pagedName(i+2), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}
