package main

// Objects in both forms, to try a decoder of protobuf with: a JSON array, one object a line, as
// {"protobuf":BASE64,"json":OBJECT}. JSON is what Go writes of the object that it reads from the protobuf, so
// what protobuf cannot hold (an empty list is none) is as it is behind the wire.
//
// For each kind there is the empty object and then as many random ones as are needed to set each field of each type at
// least once, where trying so often finds them. The seed is fixed, so that two runs write the same bytes.

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	vectorTries = 400
	// An object that sets fewer fields anew is not worth its bytes before the last tries.
	vectorGain = 6
)

func writeVectors(kinds []protobufKind, out *bytes.Buffer) error {
	random := rand.New(rand.NewPCG(20, 26))
	covered := map[string]bool{}
	var lines []string
	for _, kind := range kinds {
		add := func(object runtime.Object) error {
			line, err := vectorLine(kind, object)
			lines = append(lines, line)
			return err
		}
		if err := add(reflect.New(kind.goType).Interface().(runtime.Object)); err != nil {
			return fmt.Errorf("%s: %w", kind.key(), err)
		}
		for try := range vectorTries {
			filler := filler{Rand: random, set: map[string]bool{}, size: 40}
			value := reflect.New(kind.goType)
			filler.fill(value.Elem(), 0)
			gain := 0
			for field := range filler.set {
				if !covered[field] {
					gain++
				}
			}
			if gain < vectorGain && (gain == 0 || try < vectorTries*3/4) {
				continue
			}
			for field := range filler.set {
				covered[field] = true
			}
			if err := add(value.Interface().(runtime.Object)); err != nil {
				return fmt.Errorf("%s: %w", kind.key(), err)
			}
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

// filler fills values at random until it has set so many.
type filler struct {
	*rand.Rand
	set  map[string]bool
	size int
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
		for range f.IntN(3) {
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
		if _, encoded := field.Tag.Lookup("protobuf"); !encoded || field.Type.Kind() == reflect.Interface {
			continue
		}
		// The metadata is the same in all kinds.
		odds := pick(f, 2, 3, 3+depth)
		if field.Type == reflect.TypeFor[metav1.ObjectMeta]() {
			odds = 12
		}
		if f.size > 0 && f.IntN(odds) == 0 {
			f.set[goType.PkgPath()+"."+goType.Name()+"."+field.Name] = true
			f.fill(value.Field(i), depth+1)
		}
	}
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
		into.SetRawBytes([]byte(`{"f:metadata":{"f:labels":{".":{}}}}`))
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
