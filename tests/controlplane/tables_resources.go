package main

// resources.json: {"server":V,"groups":[{"name":G,"versions":[{"version":V,"resources":[R,…]},…]},…]}, one resource R
// a line; its fields are those of tableResource. Groups and versions stand in the server's order of preference,
// resources and subresources by name.

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	discovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	acceptTable     = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// tableResource is a line of resources.json; empty fields are left out.
type tableResource struct {
	Name         string             `json:"name"`
	Kind         string             `json:"kind,omitempty"`
	Singular     string             `json:"singular,omitempty"`
	Namespaced   bool               `json:"namespaced,omitempty"`
	ShortNames   []string           `json:"shortNames,omitempty"`
	Categories   []string           `json:"categories,omitempty"`
	Verbs        []string           `json:"verbs,omitempty"`
	Subresources []tableSubresource `json:"subresources,omitempty"`
	Columns      []tableColumn      `json:"columns,omitempty"`
}

// tableSubresource has the group and version of its kind, which need not be the resource's; the core group is left out.
type tableSubresource struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind,omitempty"`
	Group   string   `json:"group,omitempty"`
	Version string   `json:"version,omitempty"`
	Verbs   []string `json:"verbs,omitempty"`
}

// tableColumn is a column of the table that the list can be had as.
type tableColumn struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Format   string `json:"format,omitempty"`
	Priority int32  `json:"priority"`
}

func writeResources(s *source, out *bytes.Buffer) error {
	server, err := s.version()
	if err != nil {
		return err
	}
	var groups []string
	for _, root := range []string{"/api", "/apis"} {
		var list discovery.APIGroupDiscoveryList
		if err := s.get(root, acceptDiscovery, &list); err != nil {
			return err
		}
		for _, group := range list.Items {
			part, err := s.groupPart(group)
			if err != nil {
				return err
			}
			groups = append(groups, part)
		}
	}
	writeLines(out, fmt.Sprintf(`{"server":%q,"groups":[`, server), groups, "]}\n")
	return nil
}

// groupPart is a group as JSON, one resource a line.
func (s *source) groupPart(group discovery.APIGroupDiscovery) (string, error) {
	var versions []string
	for _, version := range group.Versions {
		if version.Freshness != discovery.DiscoveryFreshnessCurrent {
			return "", fmt.Errorf("the server's discovery of %s/%s is %q", group.Name, version.Version, version.Freshness)
		}
		var lines []string
		slices.SortFunc(version.Resources, func(a, b discovery.APIResourceDiscovery) int { return cmp.Compare(a.Resource, b.Resource) })
		for _, resource := range version.Resources {
			row, err := s.resource(metav1.GroupVersion{Group: group.Name, Version: version.Version}, resource)
			if err != nil {
				return "", err
			}
			line, err := compact(row)
			if err != nil {
				return "", err
			}
			lines = append(lines, line)
		}
		var part bytes.Buffer
		writeLines(&part, fmt.Sprintf(`{"version":%q,"resources":[`, version.Version), lines, "]}")
		versions = append(versions, part.String())
	}
	var part bytes.Buffer
	writeLines(&part, fmt.Sprintf(`{"name":%q,"versions":[`, group.Name), versions, "]}")
	return part.String(), nil
}

func (s *source) resource(gv metav1.GroupVersion, found discovery.APIResourceDiscovery) (tableResource, error) {
	row := tableResource{
		Name:       found.Resource,
		Singular:   found.SingularResource,
		Namespaced: found.Scope == discovery.ScopeNamespace,
		ShortNames: found.ShortNames,
		Categories: found.Categories,
		Verbs:      found.Verbs,
	}
	if found.ResponseKind != nil {
		kind := kindOf(found.ResponseKind, gv)
		if kind.Group != gv.Group || kind.Version != gv.Version {
			return row, fmt.Errorf("%s of %s is of another group version's kind, %s", found.Resource, gv, kind)
		}
		row.Kind = kind.Kind
	}
	slices.SortFunc(found.Subresources, func(a, b discovery.APISubresourceDiscovery) int { return cmp.Compare(a.Subresource, b.Subresource) })
	for _, sub := range found.Subresources {
		part := tableSubresource{Name: sub.Subresource, Verbs: sub.Verbs}
		if sub.ResponseKind != nil {
			kind := kindOf(sub.ResponseKind, gv)
			part.Kind, part.Group, part.Version = kind.Kind, kind.Group, kind.Version
		}
		row.Subresources = append(row.Subresources, part)
	}
	if !slices.Contains(found.Verbs, "list") {
		return row, nil
	}
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	var table metav1.Table
	if err := s.get(path+"/"+found.Resource, acceptTable, &table); err != nil {
		return row, err
	}
	for _, column := range table.ColumnDefinitions {
		row.Columns = append(row.Columns, tableColumn{Name: column.Name, Type: column.Type, Format: column.Format, Priority: column.Priority})
	}
	return row, nil
}

// kindOf fills in what discovery leaves empty: the group and version of a kind that are the resource's own.
func kindOf(kind *metav1.GroupVersionKind, gv metav1.GroupVersion) metav1.GroupVersionKind {
	if kind.Version == "" {
		return metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: kind.Kind}
	}
	return *kind
}
