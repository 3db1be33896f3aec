package main

// defaults.json: {"types":{TYPE:{FIELD:VALUE,…},…},"conditional":[TYPE.FIELD,…]}, one type and one name a line, all sorted.
// types has the values that a server gives to fields that are absent, wherever their type is found; a field that is no
// pointer in Go is absent too if it is empty. conditional has the fields that are given a value at times only: it depends on
// other fields, or on where the type is found. Rules for these are written by hand in host/devserver/src/defaults.
//
// Nobody has written the file: random objects of each kind are given their defaults by the server's own code, and what has
// changed is noted. The feature gates are those that a server has by default.
//
// A running control plane is not needed. To make the file again, behind `controlplane tables`:
//
//	/tmp/controlplane defaults --tables host/devserver/src/tables

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// How many objects of each kind are tried. Twice as many find nothing more.
const defaultTries = 3000

// defaults writes DIR/defaults.json.
func defaults(args []string) error {
	flags := flag.NewFlagSet("controlplane defaults", flag.ContinueOnError)
	dir := flags.String("tables", "", "folder with resources.json, for defaults.json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || flags.NArg() > 0 {
		return fmt.Errorf("needs --tables and no other arguments, got %q", flags.Args())
	}
	kinds, err := protobufKinds(filepath.Join(*dir, "resources.json"))
	if err != nil {
		return err
	}
	table := defaultsTable{}
	random := plausible{Rand: rand.New(rand.NewPCG(20, 36)), enums: knownEnums()}
	for _, kind := range kinds {
		scheme, _, err := schemeOf(kind.GroupVersionKind)
		if err != nil {
			return err
		}
		for try := range defaultTries {
			before := reflect.New(kind.goType)
			random.size = 20 + try%200
			random.fill(before.Elem(), "", 0)
			after := before.Interface().(runtime.Object).DeepCopyObject()
			scheme.Default(after)
			if err := table.compare(before.Elem(), reflect.ValueOf(after).Elem()); err != nil {
				return fmt.Errorf("%s: %w", kind.key(), err)
			}
		}
	}
	content, err := table.content()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*dir, "defaults.json"), content, 0o644)
}

// defaultsTable has what became of the fields: by TYPE and FIELD all values that an absent field had afterwards; "" if it
// was absent still.
type defaultsTable map[string]map[string]map[string]bool

// Changed when it was not absent: the field depends on others.
const changed = "changed"

// compare notes what became of the fields of a value.
func (t defaultsTable) compare(before, after reflect.Value) error {
	if protobufSpecial[before.Type()] != "" {
		return nil
	}
	switch before.Kind() {
	case reflect.Pointer:
		if before.IsNil() || after.IsNil() {
			return nil
		}
		return t.compare(before.Elem(), after.Elem())
	case reflect.Slice:
		for i := range min(before.Len(), after.Len()) {
			if err := t.compare(before.Index(i), after.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, key := range before.MapKeys() {
			if value := after.MapIndex(key); value.IsValid() {
				if err := t.compare(before.MapIndex(key), value); err != nil {
					return err
				}
			}
		}
	case reflect.Struct:
		model, ok := before.Interface().(interface{ OpenAPIModelName() string })
		if !ok {
			return nil
		}
		name := model.OpenAPIModelName()
		for i := range before.NumField() {
			field := before.Type().Field(i)
			label, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if label != "" && label != "-" {
				if err := t.field(name, label, before.Field(i), after.Field(i)); err != nil {
					return fmt.Errorf("%s.%s: %w", name, label, err)
				}
			}
			if err := t.compare(before.Field(i), after.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t defaultsTable) field(name, label string, before, after reflect.Value) error {
	if before.Kind() == reflect.Struct && protobufSpecial[before.Type()] == "" {
		return nil
	}
	text := ""
	switch isAbsent := before.IsZero() || before.Kind() == reflect.Slice && before.Len() == 0; {
	// Now, whenever that is.
	case isAbsent && !isEmpty(after) && before.Type() == reflect.TypeFor[*metav1.Time]():
		text = changed
	case isAbsent && !isEmpty(after):
		value, err := json.Marshal(after.Interface())
		if err != nil {
			return err
		}
		text = string(value)
	case isAbsent:
	case reflect.DeepEqual(before.Interface(), after.Interface()):
		return nil
	case before.Kind() == reflect.Pointer && !after.IsZero() && before.Elem().Kind() == reflect.Struct && protobufSpecial[before.Type().Elem()] == "":
		// Its own fields say what has changed.
		return nil
	case before.Kind() == reflect.Slice && before.Len() == after.Len():
		return nil
	case before.Kind() == reflect.Map && before.Len() == after.Len() && before.Type().Elem().Kind() == reflect.Struct && protobufSpecial[before.Type().Elem()] == "":
		return nil
	default:
		text = changed
	}
	if t[name] == nil {
		t[name] = map[string]map[string]bool{}
	}
	if t[name][label] == nil {
		t[name][label] = map[string]bool{}
	}
	t[name][label][text] = true
	return nil
}

func (t defaultsTable) content() ([]byte, error) {
	types := map[string]map[string]json.RawMessage{}
	conditional := []string{}
	for name, fields := range t {
		for label, values := range fields {
			for value := range values {
				switch {
				case len(values) > 1 || value == changed:
					conditional = append(conditional, fmt.Sprintf("%q", name+"."+label))
				case value != "":
					if types[name] == nil {
						types[name] = map[string]json.RawMessage{}
					}
					types[name][label] = json.RawMessage(value)
				}
				break
			}
		}
	}
	lines, err := memberLines(types)
	if err != nil {
		return nil, err
	}
	slices.Sort(conditional)
	var out bytes.Buffer
	writeLines(&out, `{"types":{`, lines, "},\n")
	writeLines(&out, `"conditional":[`, conditional, "]}\n")
	return out.Bytes(), nil
}
