package fieldmanager

// Kinds: the types of objects, as the real server gives them to its field managers.

import (
	"encoding/json"
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	generated "k8s.io/kubernetes/pkg/generated/openapi"

	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
)

// kind is a type of objects.
type kind struct {
	gvk    schema.GroupVersionKind
	served []schema.GroupVersion
	types  managedfields.TypeConverter
	models map[string]*spec.Schema
	root   *spec.Schema
	empty  map[string]any
}

// The built-in kinds that are compared: between them they have all that the types of built-in kinds can say.
var builtinNames = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "PersistentVolume"},
	{Version: "v1", Kind: "Node"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
}

func builtinKinds() ([]*kind, error) {
	namer := openapinamer.NewDefinitionNamer(legacyscheme.Scheme, apiextensionsserver.Scheme)
	definitions := generated.GetOpenAPIDefinitions(func(name string) spec.Ref {
		definition, _ := namer.GetDefinitionName(name)
		return spec.MustCreateRef("#/components/schemas/" + common.EscapeJsonPointer(definition))
	})
	models := map[string]*spec.Schema{}
	roots := map[schema.GroupVersionKind]*spec.Schema{}
	for name, definition := range definitions {
		defined, extensions := namer.GetDefinitionName(name)
		model := definition.Schema
		for key, value := range extensions {
			model.AddExtension(key, value)
		}
		models[defined] = &model
		kinds, _ := extensions["x-kubernetes-group-version-kind"].([]any)
		for _, one := range kinds {
			names, _ := one.(map[string]any)
			text := func(key string) string { value, _ := names[key].(string); return value }
			roots[schema.GroupVersionKind{Group: text("group"), Version: text("version"), Kind: text("kind")}] = &model
		}
	}
	types, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		return nil, err
	}
	var kinds []*kind
	for _, gvk := range builtinNames {
		scheme := legacyscheme.Scheme
		if !scheme.Recognizes(gvk) {
			scheme = apiextensionsserver.Scheme
		}
		object, err := scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		object.GetObjectKind().SetGroupVersionKind(gvk)
		text, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		made := &kind{gvk: gvk, served: []schema.GroupVersion{gvk.GroupVersion()}, types: types, models: models, root: roots[gvk]}
		if made.root == nil {
			return nil, fmt.Errorf("%v has no model", gvk)
		}
		if err := decode(text, &made.empty); err != nil {
			return nil, err
		}
		kinds = append(kinds, made)
	}
	return kinds, nil
}

// customKind is the kind of a definition with a schema, served in two versions.
func customKind(text []byte) (*kind, error) {
	var props apiextensions.JSONSchemaProps
	if err := json.Unmarshal(text, &props); err != nil {
		return nil, err
	}
	definition := &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "wind.example",
		Scope: apiextensions.NamespaceScoped,
		Names: apiextensions.CustomResourceDefinitionNames{Plural: "kites", Singular: "kite", Kind: "Kite", ListKind: "KiteList"},
	}}
	made := &kind{gvk: schema.GroupVersionKind{Group: "wind.example", Version: "v1", Kind: "Kite"}, models: map[string]*spec.Schema{}}
	for _, version := range []string{"v1", "v2"} {
		definition.Spec.Versions = append(definition.Spec.Versions, apiextensions.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: version == "v1",
			Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &props},
		})
		made.served = append(made.served, schema.GroupVersion{Group: "wind.example", Version: version})
	}
	for _, version := range made.served {
		document, err := builder.BuildOpenAPIV3(definition, version.Version, builder.Options{})
		if err != nil {
			return nil, err
		}
		for name, model := range document.Components.Schemas {
			made.models[name] = model
		}
	}
	made.root = made.models["example.wind.v1.Kite"]
	if made.root == nil {
		return nil, fmt.Errorf("the document has no kite")
	}
	made.empty = map[string]any{"apiVersion": made.gvk.GroupVersion().String(), "kind": made.gvk.Kind}
	var err error
	made.types, err = managedfields.NewTypeConverter(made.models, false)
	return made, err
}

// A kind is a converter whose versions differ in nothing but their names.
func (k *kind) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{{Group: k.gvk.Group, Version: "", Kind: k.gvk.Kind}})
	version, isVersion := target.(schema.GroupVersion)
	if isVersion {
		gvk, ok = version.WithKind(k.gvk.Kind), true
	}
	if !ok {
		return nil, fmt.Errorf("no version in %v", target)
	}
	for _, served := range k.served {
		if served == gvk.GroupVersion() {
			out := in.DeepCopyObject()
			out.GetObjectKind().SetGroupVersionKind(gvk)
			return out, nil
		}
	}
	return nil, runtime.NewNotRegisteredErrForKind("fieldmanager", gvk)
}

func (k *kind) Convert(in, out, context any) error { return fmt.Errorf("not used") }

func (k *kind) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (k *kind) Default(runtime.Object) {}

func (k *kind) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(k.empty)}
	object.SetGroupVersionKind(gvk)
	return object, nil
}
