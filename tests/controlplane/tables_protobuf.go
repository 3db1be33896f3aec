package main

// protobuf.json: {"kinds":{"GROUP/VERSION/KIND":TYPE,…},"types":{TYPE:[FIELD,…],…},"names":{TYPE:{NAME:GO,…},…}}, one kind
// and one type a line, all sorted. A FIELD is [NUMBER,"NAME","VALUE",OMIT]: its number in protobuf, its name in JSON or "" if its own fields stand
// in those of the message around it, and whether it is left out of JSON if it is empty. OMIT is false where Go ignores the
// tag: a struct is never empty. VALUE is one of
//
//	a name of the file's types, always with a dot
//	string, bytes, bool, int32, int64, double
//	json       a message whose field 1 is JSON as text, and JSON's null if that is empty
//	quantity, intOrString, time, microTime
//	           messages that JSON has as a string or a number
//	*T         T, and null if absent; all else that is absent has a zero value
//	[T         a list of T
//	{T         a map from strings to T
//	(T         a message whose field 1 is T; in JSON it is only T
//	bool|T     a message with a bool (1) and a T (2): T if it is there, else the bool
//	list|T, strings|T
//	           a message with a T (1) and a list of T or of strings (2): the list unless it is empty, else T
//
// GO is the name of a field's type in Go, as messages of errors have it, where it does not follow from VALUE: v1.PullPolicy
// for a string, v1.ResourceList for a {quantity. Behind a pointer it is the type that it points to.
//
// The kinds are those that resources.json names, and DeleteOptions, which every group version has, as */DeleteOptions.
// Invariants: each type that a kind or a field names is in the file; no type is there that no kind leads to; what has a JSON
// form of its own and is not in the list above is an error here.
//
// A running control plane is not needed. To make the file and its test vectors again, behind `controlplane tables`:
//
//	/tmp/controlplane protobuf --tables host/devserver/src/tables --vectors host/devserver/src/protobuf/tests/vectors.json

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gvk "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// What JSON has in another form than a struct's fields.
var protobufSpecial = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():                            "quantity",
	reflect.TypeFor[intstr.IntOrString]():                           "intOrString",
	reflect.TypeFor[metav1.Time]():                                  "time",
	reflect.TypeFor[metav1.MicroTime]():                             "microTime",
	reflect.TypeFor[metav1.FieldsV1]():                              "json",
	reflect.TypeFor[runtime.RawExtension]():                         "json",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "json",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "bool|",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "list|",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "strings|",
}

// protobufFile writes DIR/protobuf.json from DIR/resources.json, and objects to try it with.
func protobufFile(args []string) error {
	flags := flag.NewFlagSet("controlplane protobuf", flag.ContinueOnError)
	dir := flags.String("tables", "", "folder with resources.json, for protobuf.json")
	vectors := flags.String("vectors", "", "file for the test vectors")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *vectors == "" || flags.NArg() > 0 {
		return fmt.Errorf("needs --tables and --vectors and no other arguments, got %q", flags.Args())
	}
	kinds, err := protobufKinds(filepath.Join(*dir, "resources.json"))
	if err != nil {
		return err
	}
	table := protobufTable{kinds: map[string]string{}, types: map[string][]protobufField{}, names: map[string]map[string]string{}, found: map[string]reflect.Type{}}
	for _, kind := range kinds {
		if table.kinds[kind.key()], err = table.message(kind.goType); err != nil {
			return fmt.Errorf("%s: %w", kind.key(), err)
		}
	}
	var content bytes.Buffer
	if err := table.write(&content); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*dir, "protobuf.json"), content.Bytes(), 0o644); err != nil {
		return err
	}
	content.Reset()
	if err := writeVectors(kinds, &content); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(*vectors), 0o755); err != nil {
		return err
	}
	return os.WriteFile(*vectors, content.Bytes(), 0o644)
}

// protobufKind is a kind that a body of a request may have.
type protobufKind struct {
	gvk.GroupVersionKind
	goType reflect.Type
}

// key is GROUP/VERSION/KIND, VERSION/KIND in the core group, */KIND in every group version.
func (k protobufKind) key() string {
	if k.goType == reflect.TypeFor[metav1.DeleteOptions]() {
		return "*/" + k.Kind
	}
	return groupVersionKind{k.Group, k.Version, k.Kind}.String()
}

// protobufKinds are the kinds of the resources and subresources in a file, by their keys' order.
func protobufKinds(path string) ([]protobufKind, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Groups []struct {
			Name     string
			Versions []struct {
				Version   string
				Resources []tableResource
			}
		}
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	known := map[gvk.GroupVersionKind]reflect.Type{}
	add := func(group, version, kind string) error {
		name := gvk.GroupVersionKind{Group: group, Version: version, Kind: kind}
		for _, scheme := range []*runtime.Scheme{legacyscheme.Scheme, apiextensions.Scheme, aggregator.Scheme} {
			if goType, ok := scheme.AllKnownTypes()[name]; ok {
				known[name] = goType
				return nil
			}
		}
		return fmt.Errorf("no scheme has %s", name)
	}
	err = add("", "v1", "DeleteOptions")
	for _, group := range file.Groups {
		for _, version := range group.Versions {
			for _, resource := range version.Resources {
				err = cmp.Or(err, add(group.Name, version.Version, resource.Kind))
				for _, sub := range resource.Subresources {
					if sub.Kind != "" {
						err = cmp.Or(err, add(sub.Group, sub.Version, sub.Kind))
					}
				}
			}
		}
	}
	var kinds []protobufKind
	for name, goType := range known {
		kinds = append(kinds, protobufKind{name, goType})
	}
	slices.SortFunc(kinds, func(a, b protobufKind) int { return cmp.Compare(a.key(), b.key()) })
	return kinds, err
}

// protobufField is a FIELD of protobuf.json.
type protobufField struct {
	number int
	name   string
	value  string
	omit   bool
}

func (f protobufField) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{f.number, f.name, f.value, f.omit})
}

// protobufTable is protobuf.json in the making; found has the Go type of each name.
type protobufTable struct {
	kinds map[string]string
	types map[string][]protobufField
	names map[string]map[string]string
	found map[string]reflect.Type
}

func (t protobufTable) write(out *bytes.Buffer) error {
	kinds, err := memberLines(t.kinds)
	if err != nil {
		return err
	}
	types, err := memberLines(t.types)
	if err != nil {
		return err
	}
	writeLines(out, `{"kinds":{`, kinds, "},\n")
	names, err := memberLines(t.names)
	if err != nil {
		return err
	}
	writeLines(out, `"types":{`, types, "},\n")
	writeLines(out, `"names":{`, names, "}}\n")
	return nil
}

// goName is the name of a type in Go that follows from its VALUE.
func goName(value string) string {
	switch value[0] {
	case '*':
		return goName(value[1:])
	case '[', '(':
		return "[]" + goName(strings.TrimLeft(value, "(["))
	case '{':
		return "map[string]" + goName(value[1:])
	}
	switch value {
	case "bytes":
		return "[]uint8"
	case "double":
		return "float64"
	case "quantity":
		return "resource.Quantity"
	case "intOrString":
		return "intstr.IntOrString"
	case "time":
		return "v1.Time"
	case "microTime":
		return "v1.MicroTime"
	}
	if parts := strings.Split(value, "."); len(parts) > 2 {
		return strings.Join(parts[len(parts)-2:], ".")
	}
	return value
}

// message is the name of a struct's type, which is taken over with all that it leads to.
func (t protobufTable) message(goType reflect.Type) (string, error) {
	model, ok := reflect.Zero(goType).Interface().(interface{ OpenAPIModelName() string })
	if !ok {
		return "", fmt.Errorf("%s has no name in OpenAPI", goType)
	}
	if marshals(goType) {
		return "", fmt.Errorf("%s has an unforeseen JSON form of its own", goType)
	}
	name := model.OpenAPIModelName()
	if before, known := t.found[name]; known {
		if before != goType {
			return "", fmt.Errorf("both %s and %s are %s", before, goType, name)
		}
		return name, nil
	}
	t.found[name] = goType
	fields := []protobufField{}
	for i := range goType.NumField() {
		field, known, err := t.field(goType.Field(i))
		if err != nil {
			return "", fmt.Errorf("%s.%s: %w", goType, goType.Field(i).Name, err)
		}
		if known {
			fields = append(fields, field)
			core := goType.Field(i).Type
			if core.Kind() == reflect.Pointer {
				core = core.Elem()
			}
			if said := core.String(); field.name != "" && field.value != "json" && !strings.Contains(field.value, "|") && said != goName(field.value) {
				if t.names[name] == nil {
					t.names[name] = map[string]string{}
				}
				t.names[name][field.name] = said
			}
		}
	}
	slices.SortFunc(fields, func(a, b protobufField) int { return cmp.Compare(a.number, b.number) })
	t.types[name] = fields
	return name, nil
}

// field is what the tags say of a field; one that either form lacks is none of the table's.
func (t protobufTable) field(f reflect.StructField) (field protobufField, known bool, err error) {
	tag, encoded := f.Tag.Lookup("protobuf")
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if !encoded || name == "-" {
		// JSON has it always, without a value ever; there is no such field yet.
		if name != "-" && name != "" && !strings.Contains(options, "omitempty") {
			return field, false, fmt.Errorf("no protobuf field, but always one in JSON")
		}
		return field, false, nil
	}
	field.name = name
	if name == "" && (!f.Anonymous || f.Type.Kind() != reflect.Struct) {
		return field, false, fmt.Errorf("neither a name in JSON nor a struct whose fields could stand for it")
	}
	// The wire type in the tag is not always the one that is written: the type decides.
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return field, false, fmt.Errorf("unforeseen tag %q", tag)
	}
	if field.number, err = strconv.Atoi(parts[1]); err != nil {
		return field, false, err
	}
	if field.value, err = t.value(f.Type); err != nil {
		return field, false, err
	}
	for _, option := range strings.Split(options, ",") {
		switch option {
		case "omitempty":
			field.omit = field.omit || f.Type.Kind() != reflect.Struct
		case "omitzero":
			if field.value != "time" {
				return field, false, fmt.Errorf("unforeseen omitzero of a %s", field.value)
			}
			field.omit = true
		case "", "inline":
		default:
			return field, false, fmt.Errorf("unforeseen option %q for JSON", option)
		}
	}
	return field, true, nil
}

// value is the VALUE of a type.
func (t protobufTable) value(goType reflect.Type) (string, error) {
	if special, ok := protobufSpecial[goType]; ok {
		if !strings.HasSuffix(special, "|") {
			return special, nil
		}
		schema, err := t.message(reflect.TypeFor[apiextensionsv1.JSONSchemaProps]())
		return special + schema, err
	}
	wrap := ""
	switch goType.Kind() {
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "bool", nil
	case reflect.Int32, reflect.Int64:
		return goType.Kind().String(), nil
	case reflect.Float64:
		return "double", nil
	case reflect.Struct:
		return t.message(goType)
	case reflect.Pointer:
		if kind := goType.Elem().Kind(); kind == reflect.Slice || kind == reflect.Map || kind == reflect.Pointer {
			return "", fmt.Errorf("unforeseen pointer to a %s", kind)
		}
		wrap = "*"
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		wrap = "["
		if _, isMessage := reflect.Zero(goType).Interface().(interface{ Marshal() ([]byte, error) }); isMessage {
			wrap = "(["
		}
	case reflect.Map:
		if goType.Key().Kind() != reflect.String {
			return "", fmt.Errorf("unforeseen keys of %s", goType)
		}
		wrap = "{"
	default:
		return "", fmt.Errorf("unforeseen type %s", goType)
	}
	if marshals(goType) && wrap != "*" {
		return "", fmt.Errorf("%s has an unforeseen JSON form of its own", goType)
	}
	elements, err := t.value(goType.Elem())
	return wrap + elements, err
}

// marshals says whether a type has its own way to be written as JSON.
func marshals(goType reflect.Type) bool {
	return reflect.PointerTo(goType).Implements(reflect.TypeFor[json.Marshaler]())
}
