package clientgo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// discoveredResource is what aggregated and legacy discovery both tell of a resource or subresource.
type discoveredResource struct {
	Singular, Kind, Verbs, ShortNames, Categories string
	Namespaced                                    bool
}

// TestDiscovery expects aggregated and legacy discovery to agree, with a custom resource among them.
func TestDiscovery(t *testing.T) {
	sent := &requestLog{}
	ctx, c := bounded(t), newClients(t, sent.wrap)
	widgets := newWidgetResource(ctx, t, c)
	aggregated := c.typed.Discovery()
	legacy := aggregated.WithLegacy()

	groups, lists, err := aggregated.ServerGroupsAndResources()
	must(t, err)
	for _, r := range sent.all() {
		if strings.HasPrefix(r.path, "/apis/") && strings.Count(r.path, "/") == 3 && r.method == http.MethodGet && !strings.Contains(r.path, widgets.Group) {
			t.Errorf("aggregated discovery had to ask for %s", r.path)
		}
	}
	if len(groups) == 0 || groups[0].Name != "" {
		t.Errorf("the first of %d groups is not the core group", len(groups))
	}
	resources := byName(lists)
	expectResource(t, resources, "v1 pods", discoveredResource{
		Singular: "pod", Kind: "Pod", Namespaced: true, ShortNames: "po", Categories: "all",
		Verbs: "create delete deletecollection get list patch update watch",
	})
	expectResource(t, resources, "v1 pods/binding", discoveredResource{Kind: "Binding", Namespaced: true, Verbs: "create"})
	expectResource(t, resources, "v1 namespaces", discoveredResource{
		Singular: "namespace", Kind: "Namespace", ShortNames: "ns", Verbs: "create delete get list patch update watch",
	})
	expectResource(t, resources, "apps/v1 deployments", discoveredResource{
		Singular: "deployment", Kind: "Deployment", Namespaced: true, ShortNames: "deploy", Categories: "all",
		Verbs: "create delete deletecollection get list patch update watch",
	})
	expectResource(t, resources, "apps/v1 deployments/scale", discoveredResource{Kind: "Scale", Namespaced: true, Verbs: "get patch update"})

	eventually(ctx, t, "both sorts of discovery agree", func(context.Context) error {
		return agree(aggregated, legacy, widgets)
	})
}

// agree tells where two discoveries differ, or that they lack the custom resource.
func agree(one, other discovery.DiscoveryInterface, widgets widgetResource) error {
	oneGroups, oneLists, err := one.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	otherGroups, otherLists, err := other.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	if a, b := groupVersions(oneGroups), groupVersions(otherGroups); !slices.Equal(a, b) {
		return fmt.Errorf("the groups differ: %v and %v", a, b)
	}
	a, b := byName(oneLists), byName(otherLists)
	for name := range a {
		if a[name] != b[name] {
			return fmt.Errorf("%s differs: %+v and %+v", name, a[name], b[name])
		}
	}
	if len(a) != len(b) {
		return fmt.Errorf("%d and %d resources", len(a), len(b))
	}
	want := discoveredResource{
		Singular: "widget", Kind: "Widget", Namespaced: true, ShortNames: "wd", Categories: "clientgo",
		Verbs: "create delete deletecollection get list patch update watch",
	}
	if found := a[widgets.GroupVersion().String()+" widgets"]; found != want {
		return fmt.Errorf("the custom resource is %+v", found)
	}
	status := a[widgets.GroupVersion().String()+" widgets/status"]
	if status != (discoveredResource{Kind: "Widget", Namespaced: true, Verbs: "get patch update"}) {
		return fmt.Errorf("the custom resource's status is %+v", status)
	}
	return nil
}

// groupVersions are the groups in the server's order, with the preferred version first and the others in theirs.
func groupVersions(groups []*metav1.APIGroup) []string {
	var all []string
	for _, group := range groups {
		text := group.Name + ": " + group.PreferredVersion.Version
		for _, version := range group.Versions {
			text += " " + version.GroupVersion
		}
		all = append(all, text)
	}
	return all
}

// byName has an entry for each "GROUP/VERSION RESOURCE". A subresource's singular name is left out: client-go takes it
// from the resource when discovery is aggregated, and legacy discovery has none.
func byName(lists []*metav1.APIResourceList) map[string]discoveredResource {
	all := map[string]discoveredResource{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			found := discoveredResource{
				Kind: resource.Kind, Namespaced: resource.Namespaced,
				Verbs:      strings.Join(slices.Sorted(slices.Values(resource.Verbs)), " "),
				ShortNames: strings.Join(resource.ShortNames, " "),
				Categories: strings.Join(resource.Categories, " "),
			}
			if !strings.Contains(resource.Name, "/") {
				found.Singular = resource.SingularName
			}
			all[list.GroupVersion+" "+resource.Name] = found
		}
	}
	return all
}

func expectResource(t *testing.T, resources map[string]discoveredResource, name string, want discoveredResource) {
	t.Helper()
	if have := resources[name]; have != want {
		t.Errorf("discovery tells of %s: %+v, not %+v", name, have, want)
	}
}

func TestPreferredResources(t *testing.T) {
	c := newClients(t)
	for name, client := range map[string]discovery.DiscoveryInterface{"aggregated": c.typed.Discovery(), "legacy": c.typed.Discovery().WithLegacy()} {
		lists, err := client.ServerPreferredResources()
		must(t, err)
		found := map[string][]string{}
		for _, list := range lists {
			for _, resource := range list.APIResources {
				found[resource.Name] = append(found[resource.Name], list.GroupVersion)
			}
		}
		for resource, want := range map[string][]string{
			"pods": {"v1"}, "deployments": {"apps/v1"}, "horizontalpodautoscalers": {"autoscaling/v2"}, "events": {"events.k8s.io/v1", "v1"},
		} {
			if have := slices.Sorted(slices.Values(found[resource])); !slices.Equal(have, want) {
				t.Errorf("%s discovery prefers %s in %v, not in %v", name, resource, have, want)
			}
		}
		for resource := range found {
			if strings.Contains(resource, "/") {
				t.Errorf("%s discovery has the subresource %s among the preferred resources", name, resource)
			}
		}
	}
}

func TestServerVersion(t *testing.T) {
	version, err := newClients(t).typed.Discovery().ServerVersion()
	must(t, err)
	t.Logf("%s", asJSON(version))
	if version.Major != "1" || version.Minor == "" || !strings.HasPrefix(version.GitVersion, "v1."+version.Minor+".") {
		t.Errorf("the server's version is %s", asJSON(version))
	}
}
