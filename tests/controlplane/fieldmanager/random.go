package fieldmanager

// Random schemas, objects and writers. There are few names and values, so that writers meet.

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type generator struct{ *rand.Rand }

func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

func (g *generator) one(in int) bool { return g.IntN(in) == 0 }

func (g *generator) testCase(builtin []*kind, number int) (*testCase, error) {
	made := &testCase{Schema: json.RawMessage("null")}
	var k *kind
	if number%3 == 2 {
		k = builtin[(number/3)%len(builtin)]
	} else {
		text, err := json.Marshal(g.rootSchema())
		if err != nil {
			return nil, err
		}
		made.Schema = text
		if k, err = customKind(text); err != nil {
			return nil, err
		}
	}
	made.APIVersion, made.Kind, made.Empty = k.gvk.GroupVersion().String(), k.gvk.Kind, k.empty
	for _, version := range k.served {
		made.Served = append(made.Served, version.String())
	}
	var live *unstructured.Unstructured
	many := g.one(12)
	count := 3 + g.IntN(6)
	if many {
		count = 16
	}
	moment := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for range count {
		moment = moment.Add(time.Second)
		w, ignored := g.write(k, live, many)
		w.Now = moment.Format(time.RFC3339)
		var err error
		if live, err = k.do(live, &w, ignored); err != nil {
			return nil, err
		}
		made.Writes = append(made.Writes, w)
	}
	return made, nil
}

func (g *generator) write(k *kind, live *unstructured.Unstructured, many bool) (write, *fieldpath.Set) {
	w := write{Verb: pick(g, "update", "apply"), APIVersion: pick(g, k.served...).String(), Force: g.one(3)}
	w.Manager = pick(g, "one", "two", "kubectl", "kubectl", "")
	if many {
		w.Verb, w.Manager = "update", fmt.Sprintf("m%d", g.IntN(20))
	}
	if g.one(6) {
		w.Subresource = "status"
	}
	fresh, _ := g.object(k.root, k, 0).(map[string]any)
	if fresh == nil {
		fresh = map[string]any{}
	}
	object := fresh
	if live != nil {
		before := live.DeepCopy().Object
		unstructured.RemoveNestedField(before, "metadata", "managedFields")
		if w.Verb == "update" || g.one(3) {
			object, _ = g.mix(before, fresh).(map[string]any)
		}
	}
	object["apiVersion"], object["kind"] = w.APIVersion, k.gvk.Kind
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		object["metadata"] = metadata
	}
	metadata["name"] = "it"
	if w.Verb == "update" {
		metadata["uid"] = "1-2-3"
		g.lastApplied(object, w.APIVersion)
	} else {
		delete(metadata, "uid")
	}
	if g.one(60) {
		object["kind"] = "Other"
	}
	w.Object = object
	if w.Verb == "update" && w.Subresource == "" && g.one(5) {
		w.Sent = g.sent(live)
	}
	if g.one(4) {
		return w, g.ignored(&w)
	}
	return w, nil
}

// lastApplied lets some objects be those of client-side apply.
func (g *generator) lastApplied(object map[string]any, version string) {
	if !g.one(3) {
		return
	}
	applied := runtime.DeepCopyJSON(object)
	unstructured.RemoveNestedField(applied, "metadata", "uid")
	unstructured.RemoveNestedField(applied, "metadata", "annotations")
	text, err := json.Marshal(applied)
	if err != nil {
		return
	}
	metadata := object["metadata"].(map[string]any)
	metadata["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(text)}
}

// sent are managed fields that a writer changes by hand.
func (g *generator) sent(live *unstructured.Unstructured) any {
	entry := func(manager string) map[string]any {
		return map[string]any{
			"manager": manager, "operation": pick[any](g, "Apply", "Update", "Update", "Update"), "fieldsType": "FieldsV1",
			"apiVersion": pick[any](g, "wind.example/v1", "wind.example/v2", "v1", "gone/v1"),
			"time":       fmt.Sprintf("2023-01-01T00:00:%02dZ", g.IntN(3)),
			"fieldsV1": map[string]any{"f:spec": pick[any](g, map[string]any{}, map[string]any{"f:a": map[string]any{}},
				map[string]any{".": map[string]any{}, "f:a": map[string]any{"f:b": map[string]any{}, "k:{\"a\":\"b\"}": map[string]any{}}})},
		}
	}
	switch g.IntN(6) {
	case 0:
		return []any{}
	case 1:
		return []any{map[string]any{}}
	case 2:
		broken := entry("broken")
		broken[pick(g, "operation", "apiVersion", "fieldsType")] = ""
		return []any{broken}
	case 3:
		var many []any
		for i := range 14 {
			many = append(many, entry(fmt.Sprintf("%c%d", 'a'+rune(g.IntN(3)), i)))
		}
		return append(many, entry("ancient-changes"))
	}
	var list []any
	if live != nil {
		managed, _, _ := unstructured.NestedFieldCopy(live.Object, "metadata", "managedFields")
		list, _ = managed.([]any)
	}
	if len(list) > 0 && g.one(2) {
		i := g.IntN(len(list))
		list = append(list[:i:i], list[i+1:]...)
	}
	return append(list, entry(pick(g, "one", "two", "kubectl", "three")))
}

// ignored is a set of fields that the write may not change.
func (g *generator) ignored(w *write) *fieldpath.Set {
	text := pick(g, `{"f:status":{}}`, `{"f:spec":{}}`, `{"f:spec":{"f:a":{}},"f:status":{}}`, `{"f:metadata":{"f:labels":{}},"f:data":{}}`)
	set := &fieldpath.Set{}
	if err := set.FromJSON(strings.NewReader(text)); err != nil {
		panic(err)
	}
	w.Ignored = json.RawMessage(text)
	return set
}

var names = []string{"a", "b", "c", "d"}

func (g *generator) rootSchema() map[string]any {
	properties := map[string]any{"spec": g.schema(0)}
	if g.one(2) {
		properties["status"] = g.schema(1)
	}
	if g.one(4) {
		properties["metadata"] = map[string]any{"type": "object"}
	}
	root := map[string]any{"type": "object", "properties": properties}
	if g.one(6) {
		root["x-kubernetes-preserve-unknown-fields"] = true
	}
	return root
}

func (g *generator) schema(depth int) map[string]any {
	shape := g.IntN(12)
	if depth == 0 {
		shape = 4
	} else if depth > 4 {
		shape = g.IntN(4)
	}
	switch shape {
	case 0, 1:
		return map[string]any{"type": pick(g, "string", "integer", "boolean", "number"), "nullable": g.one(6)}
	case 2:
		return map[string]any{"x-kubernetes-int-or-string": true}
	case 3:
		return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	case 4, 5, 6:
		return g.objectSchema(depth)
	case 7:
		made := map[string]any{"type": "object"}
		if !g.one(5) {
			made["additionalProperties"] = g.schema(depth + 1)
		}
		g.mapType(made)
		return made
	default:
		return g.listSchema(depth)
	}
}

func (g *generator) mapType(made map[string]any) {
	if g.one(4) {
		made["x-kubernetes-map-type"] = pick(g, "atomic", "granular")
	}
}

func (g *generator) objectSchema(depth int) map[string]any {
	properties := map[string]any{}
	for _, name := range names {
		if depth == 0 || !g.one(3) {
			properties[name] = g.schema(depth + 1)
		}
	}
	made := map[string]any{"type": "object", "properties": properties}
	if g.one(8) {
		made["x-kubernetes-preserve-unknown-fields"] = true
	}
	if depth > 0 && g.one(10) {
		made["x-kubernetes-embedded-resource"] = true
		made["x-kubernetes-preserve-unknown-fields"] = true
	}
	g.mapType(made)
	return made
}

func (g *generator) listSchema(depth int) map[string]any {
	made := map[string]any{"type": "array"}
	switch g.IntN(5) {
	case 0:
		made["items"] = g.schema(depth + 1)
		if g.one(2) {
			made["x-kubernetes-list-type"] = "atomic"
		}
	case 1:
		made["items"] = map[string]any{"type": pick(g, "string", "integer")}
		made["x-kubernetes-list-type"] = "set"
	default:
		items := g.objectSchema(depth + 1)
		keys := []string{"a", "b"}[:1+g.IntN(2)]
		for _, key := range keys {
			scalar := map[string]any{"type": pick(g, "string", "integer")}
			if g.one(3) {
				scalar["default"] = map[string]any{"string": "a", "integer": 1}[scalar["type"].(string)]
			}
			items["properties"].(map[string]any)[key] = scalar
		}
		made["items"], made["x-kubernetes-list-type"], made["x-kubernetes-list-map-keys"] = items, "map", keys
	}
	return made
}

func (g *generator) scalar() any {
	return pick[any](g, "a", "b", "<c>", int64(1), int64(2), true, 1.5, nil)
}

func (g *generator) any(depth int) any {
	switch {
	case depth > 5 || g.one(3):
		return g.scalar()
	case g.one(3):
		list := []any{}
		for range g.IntN(3) {
			list = append(list, g.any(depth+1))
		}
		return list
	}
	made := map[string]any{}
	for _, name := range names {
		if g.one(2) {
			made[name] = g.any(depth + 1)
		}
	}
	return made
}

// object is a value of a model; now and then it does not fit.
func (g *generator) object(model *spec.Schema, k *kind, depth int) any {
	switch {
	case strings.HasSuffix(reference(model), ".Quantity"):
		return pick[any](g, "1", "100m")
	case g.one(1500):
		return g.any(depth)
	case g.one(200):
		return nil
	}
	if ref := reference(model); ref != "" {
		return g.object(k.models[path.Base(ref)], k, depth)
	}
	typeName := ""
	if len(model.Type) > 0 {
		typeName = model.Type[0]
	}
	switch typeName {
	case "string":
		return pick[any](g, "a", "b", "<c>")
	case "integer":
		return int64(g.IntN(3))
	case "number":
		return pick[any](g, int64(1), 1.5, 2.0)
	case "boolean":
		return g.one(2)
	case "array":
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.object(model.Items.Schema, k, depth+1))
		}
		if !g.one(25) {
			list = g.distinct(model, k, list)
		}
		return list
	case "object":
		return g.members(model, k, depth)
	}
	return g.any(depth)
}

// distinct are elements that a list can tell apart.
func (g *generator) distinct(model *spec.Schema, k *kind, list []any) []any {
	var keys []string
	switch found := model.Extensions["x-kubernetes-list-map-keys"].(type) {
	case []string:
		keys = found
	case []any:
		for _, key := range found {
			keys = append(keys, fmt.Sprint(key))
		}
	}
	items := model.Items.Schema
	if ref := reference(items); ref != "" {
		items = k.models[path.Base(ref)]
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(element any) bool {
		id := element
		if len(keys) > 0 {
			object, isMap := element.(map[string]any)
			if !isMap {
				return true
			}
			values := map[string]any{}
			for _, key := range keys {
				property := items.Properties[key]
				if _, isSet := object[key]; !isSet && !g.one(6) || object[key] == nil {
					object[key] = g.object(&property, k, 20)
				}
				values[key] = object[key]
				if values[key] == nil {
					values[key] = property.Default
				}
			}
			id = values
		} else if model.Extensions["x-kubernetes-list-type"] != "set" {
			return false
		}
		text := fmt.Sprint(id)
		if seen[text] || element == nil {
			return true
		}
		seen[text] = true
		return false
	})
}

func reference(model *spec.Schema) string {
	if ref := model.Ref.String(); ref != "" {
		return ref
	}
	if len(model.AllOf) == 1 {
		return model.AllOf[0].Ref.String()
	}
	return ""
}

func (g *generator) members(model *spec.Schema, k *kind, depth int) any {
	made := map[string]any{}
	// Large types have few of their fields set, and what is deep has fewer.
	chance := 2 + len(model.Properties)/10 + depth/3
	for _, name := range slices.Sorted(maps.Keys(model.Properties)) {
		property := model.Properties[name]
		if name == "managedFields" || depth > 9 {
			continue
		}
		if depth == 0 || slices.Contains(model.Required, name) && !g.one(8) || g.one(chance) {
			made[name] = g.object(&property, k, depth+1)
		}
	}
	if entries := model.AdditionalProperties; entries != nil && entries.Schema != nil {
		for _, name := range names {
			if g.one(2) {
				made[name] = g.object(entries.Schema, k, depth+1)
			}
		}
	} else if len(model.Properties) == 0 {
		for _, name := range names {
			if g.one(3) {
				made[name] = g.any(depth + 1)
			}
		}
	}
	if preserves, _ := model.Extensions["x-kubernetes-preserve-unknown-fields"].(bool); preserves && g.one(2) {
		made["x"] = g.any(depth + 1)
	}
	if model.AdditionalProperties == nil && g.one(1500) {
		made["unknown"] = g.any(depth + 1)
	}
	return made
}

// mix is partly the one, partly the other.
func (g *generator) mix(old, fresh any) any {
	left, isMap := old.(map[string]any)
	right, isOtherMap := fresh.(map[string]any)
	if isMap && isOtherMap {
		made := map[string]any{}
		keys := maps.Clone(left)
		maps.Copy(keys, right)
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			l, inLeft := left[name]
			r, inRight := right[name]
			switch {
			case inLeft && inRight:
				made[name] = g.mix(l, r)
			case inLeft && !g.one(6):
				made[name] = l
			case inRight && g.one(3):
				made[name] = r
			}
		}
		return made
	}
	first, isList := old.([]any)
	second, isOtherList := fresh.([]any)
	if isList && isOtherList && g.one(2) {
		list := []any{}
		for i := range max(len(first), len(second)) {
			if i < len(second) && g.one(3) {
				list = append(list, second[i])
			}
			if i < len(first) && !g.one(5) {
				list = append(list, first[i])
			}
		}
		return list
	}
	if g.one(3) {
		return fresh
	}
	return old
}
