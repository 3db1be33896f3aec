package main

// openapi.json: {"leaves":{TYPE:SCHEMA,…},"fields":{TYPE:{FIELD:FACT,…},…}}, one type a line, all sorted: what the
// OpenAPI documents say of fields and schemas.json does not.
//
//	leaves  types without fields (Quantity, Time, RawExtension …), which schemas.json has none of: their schemas as they
//	        are, without descriptions
//	fields  of a field at whose core is such a type its name, of one with an enumeration an array of the values; the
//	        core of a list or a map is what its elements are
//
// Invariants: each field is in schemas.json, and each leaf that a field names is in leaves.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const componentRef = "#/components/schemas/"

// component is as much of a schema as is used here.
type component struct {
	Ref                  string                `json:"$ref"`
	AllOf                []*component          `json:"allOf"`
	Items                *component            `json:"items"`
	AdditionalProperties json.RawMessage       `json:"additionalProperties"`
	Properties           map[string]*component `json:"properties"`
	Enum                 []any                 `json:"enum"`
}

// openAPITable is openapi.json in the making.
type openAPITable struct {
	leaves map[string]json.RawMessage
	fields map[string]map[string]any
}

func writeOpenAPI(s *source, out *bytes.Buffer) error {
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := s.get("/openapi/v3", "application/json", &index); err != nil {
		return err
	}
	table := openAPITable{leaves: map[string]json.RawMessage{}, fields: map[string]map[string]any{}}
	for path, entry := range index.Paths {
		var document struct {
			Components struct {
				Schemas map[string]json.RawMessage `json:"schemas"`
			} `json:"components"`
		}
		if err := s.get(entry.URL, "application/json", &document); err != nil {
			return err
		}
		if err := table.add(document.Components.Schemas); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	leaves, err := memberLines(table.leaves)
	if err != nil {
		return err
	}
	fields, err := memberLines(table.fields)
	if err != nil {
		return err
	}
	writeLines(out, `{"leaves":{`, leaves, "},\n")
	writeLines(out, `"fields":{`, fields, "}}\n")
	return nil
}

// add takes over the facts of a document.
func (t openAPITable) add(schemas map[string]json.RawMessage) error {
	read := map[string]*component{}
	for name, text := range schemas {
		read[name] = &component{}
		if err := json.Unmarshal(text, read[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, schema := range read {
		if len(schema.Properties) == 0 {
			leaf, err := withoutDescription(schemas[name])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			t.leaves[name] = leaf
			continue
		}
		facts := map[string]any{}
		for field, value := range schema.Properties {
			fact, err := fieldFact(read, value)
			if err != nil {
				return fmt.Errorf("%s.%s: %w", name, field, err)
			}
			if fact != nil {
				facts[field] = fact
			}
		}
		if len(facts) > 0 {
			t.fields[name] = facts
		}
	}
	return nil
}

// fieldFact is the name of the type without fields or the enumeration at a field's core, or nil.
func fieldFact(read map[string]*component, s *component) (any, error) {
	for {
		if len(s.AllOf) == 1 {
			s = s.AllOf[0]
		}
		switch {
		case s.Ref != "":
			name := strings.TrimPrefix(s.Ref, componentRef)
			target, known := read[name]
			if !known {
				return nil, fmt.Errorf("the document has no type %s", name)
			}
			if len(target.Properties) > 0 {
				return nil, nil
			}
			return name, nil
		case len(s.Enum) > 0:
			return s.Enum, nil
		case s.Items != nil:
			s = s.Items
		case len(s.AdditionalProperties) > 0 && s.AdditionalProperties[0] == '{':
			var values component
			if err := json.Unmarshal(s.AdditionalProperties, &values); err != nil {
				return nil, err
			}
			s = &values
		default:
			return nil, nil
		}
	}
}

func withoutDescription(schema json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil {
		return nil, err
	}
	delete(members, "description")
	return json.Marshal(members)
}
