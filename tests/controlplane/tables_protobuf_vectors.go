package main

// Objects in both forms, to try a decoder of protobuf with: a JSON array, one object a line, as
// {"protobuf":BASE64,"json":OBJECT}. JSON is what Go writes of the object that it reads from the protobuf, so
// what protobuf cannot hold (an empty list is none) is as it is behind the wire.
//
// For each kind there is the empty object and a random one, and then as many more as it takes until each field of each
// type is more than empty in one of them. The seed is fixed, so that two runs write the same bytes.

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const vectorTries = 2000

func writeVectors(kinds []protobufKind, out *bytes.Buffer) error {
	random := rand.New(rand.NewPCG(20, 26))
	covered := map[string]bool{}
	var lines []string
	for _, kind := range kinds {
		add := func(object any) error {
			line, err := vectorLine(kind, object.(runtime.Object))
			lines = append(lines, line)
			return err
		}
		if err := add(reflect.New(kind.goType).Interface()); err != nil {
			return fmt.Errorf("%s: %w", kind.key(), err)
		}
		for try := range vectorTries {
			filler := filler{Rand: random, covered: covered, set: map[string]bool{}, size: 40}
			if try > 0 && filler.wanted(kind.goType, nil) == "" {
				break
			}
			value := reflect.New(kind.goType)
			filler.fill(value.Elem(), 0)
			// An object that sets few fields anew is not worth its bytes while others may set more.
			if try > 0 && len(filler.set) < max(1, min(6, 6-8*try/vectorTries)) {
				continue
			}
			maps.Copy(covered, filler.set)
			if err := add(value.Interface()); err != nil {
				return fmt.Errorf("%s: %w", kind.key(), err)
			}
		}
		filler := filler{covered: covered}
		if field := filler.wanted(kind.goType, nil); field != "" {
			return fmt.Errorf("%s: %d random objects are too few to set %s", kind.key(), vectorTries, field)
		}
	}
	writeLines(out, "[", lines, "]\n")
	return nil
}

// vectorLine is an object in both forms.
func vectorLine(kind protobufKind, object runtime.Object) (string, error) {
	object.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	var encoded bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(object, &encoded); err != nil {
		return "", err
	}
	raw, err := object.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		return "", err
	}
	decoded := reflect.New(kind.goType).Interface()
	if err := decoded.(interface{ Unmarshal([]byte) error }).Unmarshal(raw); err != nil {
		return "", err
	}
	decoded.(runtime.Object).GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	text, err := json.Marshal(decoded)
	if err != nil {
		return "", err
	}
	return compact(map[string]any{
		"protobuf": base64.StdEncoding.EncodeToString(encoded.Bytes()),
		"json":     json.RawMessage(text),
	})
}

// filler fills values at random until it has set so many: rather those fields that no other object has set.
type filler struct {
	*rand.Rand
	covered, set map[string]bool
	size         int
}

func fieldKey(goType reflect.Type, field reflect.StructField) string {
	return goType.PkgPath() + "." + goType.Name() + "." + field.Name
}

// wanted is a field that is to be set, of those that a type leads to; empty if there is none.
func (f *filler) wanted(goType reflect.Type, above []reflect.Type) string {
	for goType.Kind() == reflect.Pointer || goType.Kind() == reflect.Slice || goType.Kind() == reflect.Map {
		goType = goType.Elem()
	}
	special := protobufSpecial[goType]
	if goType.Kind() != reflect.Struct || slices.Contains(above, goType) || special != "" && !strings.HasSuffix(special, "|") {
		return ""
	}
	for i := range goType.NumField() {
		field := goType.Field(i)
		if _, encoded := field.Tag.Lookup("protobuf"); !encoded {
			continue
		}
		if key := fieldKey(goType, field); !f.covered[key] && !f.set[key] {
			return key
		}
		if inner := f.wanted(field.Type, append(above, goType)); inner != "" {
			return inner
		}
	}
	return ""
}

func pick[T any](f *filler, values ...T) T {
	return values[f.IntN(len(values))]
}

func (f *filler) fill(value reflect.Value, depth int) {
	f.size--
	if f.special(value) {
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(pick(f, "", "a", "b-c", "é", "<&>", "\"\\", "\x00\n"))
	case reflect.Bool:
		value.SetBool(f.IntN(3) > 0)
	case reflect.Int32:
		value.SetInt(pick[int64](f, 0, 1, -1, 80, math.MaxInt32, math.MinInt32))
	case reflect.Int64:
		value.SetInt(pick[int64](f, 0, 1, -1, 300, math.MaxInt64, math.MinInt64))
	case reflect.Float64:
		value.SetFloat(pick(f, 0, 1, -3, 0.5, 1e20, 1e21, 2.5e-7, -1e300, math.Copysign(0, -1), 1<<53+2))
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		f.fill(value.Elem(), depth)
	case reflect.Slice:
		length := f.IntN(3)
		if length == 0 && f.wanted(value.Type(), nil) != "" {
			length = 1
		}
		if value.Type().Elem().Kind() == reflect.Uint8 {
			length = f.IntN(5)
		}
		value.Set(reflect.MakeSlice(value.Type(), length, length))
		for i := range length {
			if element := value.Index(i); element.Kind() == reflect.Uint8 {
				element.SetUint(uint64(f.IntN(256)))
			} else {
				f.fill(element, depth+1)
			}
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		for range 1 + f.IntN(2) {
			key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
			f.fill(key, depth)
			f.fill(element, depth+1)
			value.SetMapIndex(key, element)
		}
	case reflect.Struct:
		f.fillStruct(value, depth)
	}
}

// fillStruct sets some fields, in an order that is another each time: the first have more room.
func (f *filler) fillStruct(value reflect.Value, depth int) {
	goType := value.Type()
	for _, i := range f.Perm(goType.NumField()) {
		field := goType.Field(i)
		if _, encoded := field.Tag.Lookup("protobuf"); !encoded || f.size <= 0 {
			continue
		}
		key := fieldKey(goType, field)
		isNew := !f.covered[key] && !f.set[key]
		if isNew || f.wanted(field.Type, nil) != "" {
			if f.IntN(3) == 0 {
				continue
			}
		} else if f.IntN(6+2*depth) > 0 {
			continue
		}
		f.fill(value.Field(i), depth+1)
		for try := 0; isNew && isEmpty(value.Field(i)) && try < 10; try++ {
			f.fill(value.Field(i), 0)
		}
		if isNew && !isEmpty(value.Field(i)) {
			f.set[key] = true
		}
	}
}

// isEmpty says whether a value has nothing in it, although it could have.
func isEmpty(value reflect.Value) bool {
	if kind := value.Kind(); kind == reflect.Slice || kind == reflect.Map {
		return value.Len() == 0
	}
	return value.IsZero() && !(value.Kind() == reflect.Struct && value.NumField() == 0)
}

// special fills what has its own form.
func (f *filler) special(value reflect.Value) bool {
	document := pick(f, `null`, `{}`, ` {"b": [1, -2.5, null, "x"], "a": true}`, `{"é":{"<":"\u0026"}}`)
	switch into := value.Addr().Interface().(type) {
	case *resource.Quantity:
		*into = resource.MustParse(pick(f, "0", "1", "500m", "1Gi", "1536Mi", "12e6", "-3", "100k", "1n", "123456789012345678901234567890"))
	case *intstr.IntOrString:
		*into = pick(f, intstr.FromInt32(0), intstr.FromInt32(-8080), intstr.FromString("http"), intstr.FromString(""))
	case *metav1.Time:
		*into = metav1.Unix(pick[int64](f, 0, 1, -1, 1767225600, -62135596800, -62135596799, 253402300799), 999)
	case *metav1.MicroTime:
		*into = metav1.MicroTime{Time: time.Unix(pick[int64](f, 0, -1, 1767225600, -62135596800), pick[int64](f, 0, 999, 1000, 999999999))}
	case *metav1.FieldsV1:
		// Its other setters are of 1.36 and later.
		if err := into.UnmarshalJSON([]byte(`{"f:metadata":{"f:labels":{".":{}}}}`)); err != nil {
			panic(err)
		}
	case *runtime.RawExtension:
		into.Raw = []byte(document)
	default:
		return f.json(value, document)
	}
	return true
}

// json fills what is JSON inside a schema.
func (f *filler) json(value reflect.Value, document string) bool {
	if protobufSpecial[value.Type()] != "json" {
		return false
	}
	value.FieldByName("Raw").SetBytes([]byte(document))
	return true
}
