package main

// schemas.json: {"kinds":{"GROUP/VERSION/KIND":TYPE,…},"types":{TYPE:{FIELD:VALUE,…},…}}, one kind and one type a line,
// all sorted. A field's VALUE is its type and then its attributes, separated by semicolons:
//
//	TYPE       the name of a type of this file, or one of string, integer, number, boolean, quantity and any, the first
//	           three with :FORMAT where there is one; [T is a list of T, {T a map to T
//	list=      map, set or atomic
//	keys=      the fields that tell the elements of a list=map apart, by commas
//	patch=     the strategic merge patch's strategies, by commas
//	mergeKey=  the field by which that patch merges a list
//	map=atomic the object or map is replaced as a whole; of a list, each of its elements is
//	enum=      the values that the field, or each element of the list, may have, by commas; where they are documented
//	required
//	default=   a JSON value, and always the last attribute
//
// Invariants: each kind's type is in the file, and so is each type that a field names; no type is there that no kind
// leads to. Of a kind that every group repeats (DeleteOptions, WatchEvent) only the core group's is there. What is no object
// with fields is written in place of its name: IntOrString as string:int-or-string, and Quantity, which may be a string or
// a number, as quantity.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// openAPI is as much of an OpenAPI v3 document as is used.
type openAPI struct {
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type schema struct {
	Ref                  string             `json:"$ref"`
	AllOf                []*schema          `json:"allOf"`
	OneOf                []*schema          `json:"oneOf"`
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Items                *schema            `json:"items"`
	AdditionalProperties json.RawMessage    `json:"additionalProperties"`
	Properties           map[string]*schema `json:"properties"`
	Required             []string           `json:"required"`
	Enum                 []string           `json:"enum"`
	Default              json.RawMessage    `json:"default"`
	ListType             string             `json:"x-kubernetes-list-type"`
	ListMapKeys          []string           `json:"x-kubernetes-list-map-keys"`
	MapType              string             `json:"x-kubernetes-map-type"`
	PatchStrategy        string             `json:"x-kubernetes-patch-strategy"`
	PatchMergeKey        string             `json:"x-kubernetes-patch-merge-key"`
	Kinds                []groupVersionKind `json:"x-kubernetes-group-version-kind"`
}

type groupVersionKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// String is GROUP/VERSION/KIND, or VERSION/KIND in the core group.
func (k groupVersionKind) String() string {
	return strings.TrimPrefix(k.Group+"/"+k.Version+"/"+k.Kind, "/")
}

// fieldTable is a line of schemas.json: the value of each field.
type fieldTable map[string]string

// schemaTable is schemas.json in the making.
type schemaTable struct {
	kinds map[string]string
	types map[string]fieldTable
}

func writeSchemas(s *source, out *bytes.Buffer) error {
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := s.get("/openapi/v3", "application/json", &index); err != nil {
		return err
	}
	table := schemaTable{kinds: map[string]string{}, types: map[string]fieldTable{}}
	for _, path := range slices.Sorted(maps.Keys(index.Paths)) {
		var document openAPI
		if err := s.get(index.Paths[path].URL, "application/json", &document); err != nil {
			return err
		}
		if err := table.add(document.Components.Schemas); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	reachable, err := table.reachable()
	if err != nil {
		return err
	}
	kinds, err := memberLines(table.kinds)
	if err != nil {
		return err
	}
	types, err := memberLines(reachable)
	if err != nil {
		return err
	}
	writeLines(out, `{"kinds":{`, kinds, "},\n")
	writeLines(out, `"types":{`, types, "}}\n")
	return nil
}

// memberLines are the members of a JSON object by their names' order.
func memberLines[T any](members map[string]T) ([]string, error) {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, err := compact(members[name])
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%q:%s", name, value))
	}
	return lines, nil
}

// add takes over a document's kinds and types; a type that several documents have must be the same in all.
func (t schemaTable) add(schemas map[string]*schema) error {
	for name, s := range schemas {
		if len(s.Properties) == 0 {
			continue
		}
		fields := fieldTable{}
		for field, value := range s.Properties {
			text, err := fieldValue(schemas, value, slices.Contains(s.Required, field))
			if err != nil {
				return fmt.Errorf("%s.%s: %w", name, field, err)
			}
			fields[field] = text
		}
		if before, known := t.types[name]; known && !maps.Equal(before, fields) {
			return fmt.Errorf("%s differs from what another group version has: %v and %v", name, fields, before)
		}
		t.types[name] = fields
		for _, gvk := range s.Kinds {
			if len(s.Kinds) > 1 && gvk.Group != "" {
				continue
			}
			kind := gvk.String()
			if before, known := t.kinds[kind]; known && before != name {
				return fmt.Errorf("%s is both %s and %s", kind, before, name)
			}
			t.kinds[kind] = name
		}
	}
	return nil
}

// reachable are the types that a kind leads to.
func (t schemaTable) reachable() (map[string]fieldTable, error) {
	found := map[string]fieldTable{}
	pending := slices.Collect(maps.Values(t.kinds))
	for len(pending) > 0 {
		name := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if _, known := found[name]; known {
			continue
		}
		fields, known := t.types[name]
		if !known {
			return nil, fmt.Errorf("no document has the type %s", name)
		}
		found[name] = fields
		for _, value := range fields {
			base, _, _ := strings.Cut(value, ";")
			base = strings.TrimLeft(base, "[{")
			// Types are named with their packages, primitives never hold a dot.
			if strings.Contains(base, ".") {
				pending = append(pending, base)
			}
		}
	}
	return found, nil
}

// fieldValue is a field's type and attributes.
func fieldValue(schemas map[string]*schema, s *schema, required bool) (string, error) {
	kind, atomic, err := typeName(schemas, s)
	if err != nil {
		return "", err
	}
	parts := []string{kind}
	attribute := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	attribute("list", s.ListType)
	attribute("keys", strings.Join(s.ListMapKeys, ","))
	attribute("patch", s.PatchStrategy)
	attribute("mergeKey", s.PatchMergeKey)
	mapType := s.MapType
	if mapType == "" && atomic {
		if strings.HasPrefix(kind, "{") {
			return "", fmt.Errorf("a map to atomic objects (%s) cannot be told from an atomic map", kind)
		}
		mapType = "atomic"
	}
	// Objects and maps are granular unless they say otherwise.
	if mapType != "granular" {
		attribute("map", mapType)
	}
	enum := s.Enum
	if s.Items != nil && len(enum) == 0 {
		enum = s.Items.Enum
	}
	attribute("enum", strings.Join(enum, ","))
	if required {
		parts = append(parts, "required")
	}
	// A required text that is absent is the empty one anyway.
	if text := string(s.Default); text != "{}" && text != "null" && !(text == `""` && required) {
		attribute("default", text)
	}
	return strings.Join(parts, ";"), nil
}

// typeName is the type without attributes, and whether the objects at its core are of a type that is atomic.
func typeName(schemas map[string]*schema, s *schema) (name string, atomic bool, err error) {
	if len(s.AllOf) == 1 {
		s = s.AllOf[0]
	}
	if s.Ref != "" {
		name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
		if strings.HasSuffix(name, ".api.resource.Quantity") {
			return "quantity", false, nil
		}
		target, known := schemas[name]
		if !known {
			return "", false, fmt.Errorf("the document has no type %s", name)
		}
		if len(target.Properties) > 0 {
			return name, target.MapType == "atomic", nil
		}
		base, atomic, err := typeName(schemas, target)
		// Server-side apply knows this type by its name.
		return base, atomic || strings.HasSuffix(name, ".runtime.RawExtension"), err
	}
	switch {
	case s.Type == "array" && s.Items != nil:
		name, atomic, err = typeName(schemas, s.Items)
		return "[" + name, atomic, err
	case s.Type == "object" && len(s.Properties) > 0:
		return "", false, fmt.Errorf("an object without a name has fields")
	case s.Type == "object" && len(s.AdditionalProperties) > 0 && s.AdditionalProperties[0] == '{':
		var values schema
		if err := json.Unmarshal(s.AdditionalProperties, &values); err != nil {
			return "", false, err
		}
		name, atomic, err = typeName(schemas, &values)
		return "{" + name, atomic, err
	case s.Type == "object", s.Type == "" && len(s.OneOf) == 0 && s.Format == "":
		return "any", false, nil
	case s.Type == "boolean":
		return "boolean", false, nil
	case s.Type == "string", s.Type == "integer", s.Type == "number":
		return withFormat(s.Type, s.Format), false, nil
	case s.Type == "" && slices.ContainsFunc(s.OneOf, func(one *schema) bool { return one.Type == "string" }):
		return withFormat("string", s.Format), false, nil
	default:
		return "", false, fmt.Errorf("unforeseen schema of type %q and format %q", s.Type, s.Format)
	}
}

func withFormat(kind, format string) string {
	if format == "" {
		return kind
	}
	return kind + ":" + format
}
