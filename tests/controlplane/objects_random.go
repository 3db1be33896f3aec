package main

import (
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	openapi "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	generated "k8s.io/kubernetes/pkg/generated/openapi"
)

// plausible fills values at random so that what depends on values happens: fields with a list of values have one of them,
// others a word that means something somewhere.
type plausible struct {
	*rand.Rand
	// The values that a field may have, by its type's name in OpenAPI and its own in JSON.
	enums map[string][]string
	size  int
}

// knownEnums are the values of fields with a list of values.
func knownEnums() map[string][]string {
	enums := map[string][]string{}
	reference := func(path string) spec.Ref { return spec.MustCreateRef(path) }
	for name, definition := range generated.GetOpenAPIDefinitions(openapi.ReferenceCallback(reference)) {
		for field, property := range definition.Schema.Properties {
			for _, value := range property.Enum {
				if text, ok := value.(string); ok {
					enums[name+"."+field] = append(enums[name+"."+field], text)
				}
			}
		}
	}
	return enums
}

// Words that defaults, conversions or readers of values look for.
var words = []string{
	"a", "b-c", "nginx", "nginx:1.2", "nginx:latest", "r.example/a/b@sha256:" + strings.Repeat("0", 64), "r.example:80/a", "UPPER",
	"User", "Group", "ServiceAccount", "RollingUpdate", "Recreate", "OnDelete", "Container", "None", "ClientIP", "ExternalName",
	"LoadBalancer", "NodePort", "ClusterIP", "ExactCount", "All", "10.0.0.1", "v1", "cpu", "memory", "hugepages-2Mi", "<&>é", "10s",
}

var quantities = []string{
	"0", "1", "500m", "1000m", "0.5", "1Gi", "1024Mi", "1536Mi", "12e6", "1E3", "-3", "100k", "1n", "0.0001", "1.5Gi", "123456789012345678901234567890",
}

func choose[T any](p *plausible, values []T) T {
	return values[p.IntN(len(values))]
}

func (p *plausible) fill(value reflect.Value, key string, depth int) {
	p.size--
	if p.special(value) {
		return
	}
	switch value.Kind() {
	case reflect.String:
		if values := p.enums[key]; len(values) > 0 && p.IntN(8) > 0 {
			value.SetString(choose(p, values))
		} else {
			value.SetString(choose(p, words))
		}
	case reflect.Bool:
		value.SetBool(p.IntN(3) > 0)
	case reflect.Int32, reflect.Int64:
		value.SetInt(choose(p, []int64{0, 1, 2, 80, -1, math.MaxInt32}))
	case reflect.Float64:
		value.SetFloat(choose(p, []float64{0, 1, -3, 0.5, 1e20, 1e21, 2.5e-7}))
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		p.fill(value.Elem(), key, depth)
	case reflect.Slice:
		length := p.IntN(3)
		value.Set(reflect.MakeSlice(value.Type(), length, length))
		for i := range length {
			if element := value.Index(i); element.Kind() == reflect.Uint8 {
				element.SetUint(uint64(p.IntN(256)))
			} else {
				p.fill(element, key, depth+1)
			}
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		for range p.IntN(3) {
			name, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
			name.SetString(choose(p, words))
			p.fill(element, key, depth+1)
			value.SetMapIndex(name, element)
		}
	case reflect.Struct:
		p.fillStruct(value, depth)
	}
}

func (p *plausible) fillStruct(value reflect.Value, depth int) {
	goType := value.Type()
	name := ""
	if model, ok := value.Interface().(interface{ OpenAPIModelName() string }); ok {
		name = model.OpenAPIModelName()
	}
	for _, i := range p.Perm(goType.NumField()) {
		field := goType.Field(i)
		_, encoded := field.Tag.Lookup("protobuf")
		if !encoded || p.size <= 0 || field.Type.Name() == "ManagedFieldsEntry" {
			continue
		}
		isStruct := field.Type.Kind() == reflect.Struct && protobufSpecial[field.Type] == ""
		// Of a volume's sources one is enough to see something.
		sparse := goType.NumField() > 12 && depth > 2
		if !isStruct && p.IntN(4) < 2 || sparse && !isStruct && p.IntN(3) > 0 {
			continue
		}
		label, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		p.fill(value.Field(i), name+"."+label, depth+1)
	}
}

// special fills what has its own form.
func (p *plausible) special(value reflect.Value) bool {
	switch into := value.Addr().Interface().(type) {
	case *resource.Quantity:
		*into = resource.MustParse(choose(p, quantities))
	case *intstr.IntOrString:
		*into = choose(p, []intstr.IntOrString{
			intstr.FromInt32(0), intstr.FromInt32(8080), intstr.FromString("http"), intstr.FromString(""), intstr.FromString("25%"),
		})
	case *metav1.Time:
		*into = metav1.Unix(choose(p, []int64{1, 1767225600, -62135596800}), 0)
	case *metav1.MicroTime:
		*into = metav1.MicroTime{Time: metav1.Unix(1767225600, choose(p, []int64{0, 1000, 500000000})).Time}
	case *runtime.RawExtension:
		into.Raw = []byte(choose(p, []string{`{"a":[1,"b",{"c":null}]}`, `{"apiVersion":"v1","kind":"X"}`}))
	default:
		if protobufSpecial[value.Type()] != "json" {
			return false
		}
		value.FieldByName("Raw").SetBytes([]byte(choose(p, []string{`{"a":[1,"b"]}`, `"x"`, `1.5`, `true`})))
	}
	return true
}

// disturb changes one value somewhere in a tree.
func (p *plausible) disturb(tree map[string]any, above string) {
	keys := slices.Sorted(maps.Keys(tree))
	if above == "" {
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == "apiVersion" || key == "kind" })
	}
	if len(keys) == 0 {
		return
	}
	key := choose(p, keys)
	switch below := tree[key].(type) {
	case map[string]any:
		if len(below) > 0 && p.IntN(5) > 0 {
			p.disturb(below, above+"."+key)
			return
		}
	case []any:
		if len(below) > 0 && p.IntN(5) > 0 {
			index := p.IntN(len(below))
			if element, ok := below[index].(map[string]any); ok && p.IntN(5) > 0 {
				p.disturb(element, above+"."+key)
				return
			}
			below[index] = p.other(below[index])
			return
		}
	}
	if p.IntN(4) == 0 {
		delete(tree, key)
		return
	}
	tree[key] = p.other(tree[key])
}

// other is a value in the place of another: most often empty, now and then of a wrong type.
func (p *plausible) other(value any) any {
	if p.IntN(3) > 0 {
		switch value.(type) {
		case string:
			return choose(p, []any{"", nil})
		case map[string]any:
			return choose(p, []any{map[string]any{}, nil})
		case []any:
			return choose(p, []any{[]any{}, nil, []any{nil}})
		case bool:
			return choose(p, []any{false, nil})
		default:
			return choose(p, []any{0, nil, 1.0})
		}
	}
	return choose(p, []any{"", "x", "5", 0, 7, -1, 1.5, 3e9, 1 << 40, true, map[string]any{}, map[string]any{"a": "b"}, []any{}, []any{"a"}, []any{map[string]any{}}, nil})
}
