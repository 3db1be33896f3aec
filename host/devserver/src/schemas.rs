//! The types of the built-in kinds, as the strategic merge patch reads them: a front of [`BuiltinTypes`].

use crate::schema::{self, BuiltinTypes, TypeId, Types};

/// The types of all built-in kinds.
pub(crate) struct Schemas<'a>(&'a BuiltinTypes);

/// A type: of a kind, of a field, or of an array's elements.
#[derive(Clone, Copy)]
pub(crate) struct TypeRef<'a> {
    types: &'a Types,
    id: TypeId,
}

/// A field of a type.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    types: &'a Types,
    field: &'a schema::Field,
}

impl<'a> Schemas<'a> {
    /// The types of the table that this program was built with.
    pub(crate) fn builtin() -> Schemas<'static> {
        Schemas(BuiltinTypes::get())
    }

    /// The type of a built-in kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<TypeRef<'a>> {
        Some(TypeRef { types: self.0.types(), id: self.0.of_kind(api_version, kind)? })
    }
}

impl<'a> TypeRef<'a> {
    /// The field of this name; `None` too if this type has no fields of its own (a scalar, an array, a map).
    pub(crate) fn field(self, name: &str) -> Option<Field<'a>> {
        let field = self.types.get(self.id).fields.get(name)?;
        Some(Field { types: self.types, field })
    }

    /// Whether values may be anything.
    pub(crate) fn is_free(self) -> bool {
        self.types.get(self.id).kind == schema::Kind::Any
    }

    /// The type of an array's elements.
    pub(crate) fn items(self) -> Option<Self> {
        Some(Self { id: self.types.get(self.id).items?, ..self })
    }
}

impl<'a> Field<'a> {
    /// The type of the field's value.
    pub(crate) fn value_type(self) -> TypeRef<'a> {
        TypeRef { types: self.types, id: self.field.value_type }
    }

    /// Whether a strategic merge patch merges the elements of this list.
    pub(crate) fn merges_elements(self) -> bool {
        self.field.patch.merge
    }

    /// Whether a strategic merge patch replaces this map as a whole.
    pub(crate) fn replaces(self) -> bool {
        self.field.patch.replace
    }

    /// The member that identifies an element when a strategic merge patch merges this list.
    pub(crate) fn merge_key(self) -> Option<&'a str> {
        self.field.merge_key.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    const TABLE: &str = r#"{
        "kinds": {"v1/Pod": "Pod"},
        "types": {
            "Pod": {
                "containers": "[Container;list=map;keys=name;patch=merge;mergeKey=name;required",
                "volumes": "[Container;patch=merge,retainKeys;mergeKey=name",
                "labels": "{string",
                "matrix": "[[string",
                "selector": "Container;patch=replace;map=atomic",
                "strategy": "Container;patch=retainKeys",
                "odd": "Container;default={\"a\":\"b;patch=merge;mergeKey=x\"}",
                "started": "string:date-time"
            },
            "Container": {"name": "string;required"}
        }
    }"#;

    fn pod() -> TypeRef<'static> {
        static TYPES: LazyLock<BuiltinTypes> = LazyLock::new(|| BuiltinTypes::parse(TABLE).unwrap());
        Schemas(&TYPES).of_kind("v1", "Pod").unwrap()
    }

    #[test]
    fn a_list_of_maps_knows_its_key_and_the_fields_of_its_elements() {
        for (name, merges) in
            [("containers", true), ("volumes", true), ("selector", false), ("strategy", false)]
        {
            assert_eq!(pod().field(name).unwrap().merges_elements(), merges, "{name}");
        }
        let containers = pod().field("containers").unwrap();
        assert_eq!(containers.merge_key(), Some("name"));
        assert!(containers.value_type().field("name").is_none(), "a list has no fields");
        assert!(containers.value_type().items().unwrap().field("name").is_some());
    }

    #[test]
    fn only_the_strategy_replace_replaces() {
        assert!(pod().field("selector").unwrap().replaces());
        assert!(!pod().field("strategy").unwrap().replaces());
        assert!(!pod().field("labels").unwrap().replaces());
    }

    #[test]
    fn arrays_nest_and_maps_have_no_fields() {
        let matrix = pod().field("matrix").unwrap().value_type();
        assert!(matrix.items().unwrap().items().is_some());
        assert!(matrix.items().unwrap().items().unwrap().items().is_none());
        let labels = pod().field("labels").unwrap().value_type();
        assert!(labels.items().is_none() && labels.field("app").is_none());
        assert!(pod().field("started").unwrap().value_type().items().is_none());
    }

    #[test]
    fn what_looks_like_an_attribute_inside_a_default_is_none() {
        let odd = pod().field("odd").unwrap();
        assert!(!odd.merges_elements() && odd.merge_key().is_none());
        assert!(odd.value_type().field("name").is_some());
    }

    #[test]
    fn unknown_kinds_and_fields_have_no_type() {
        assert!(Schemas::builtin().of_kind("example.org/v1", "Widget").is_none());
        assert!(pod().field("bogus").is_none());
    }

    #[test]
    fn a_table_that_names_a_type_it_has_not_is_refused() {
        for table in
            [r#"{"kinds": {"v1/A": "A"}, "types": {}}"#, r#"{"kinds": {}, "types": {"A": {"b": "[B"}}}"#]
        {
            assert!(BuiltinTypes::parse(table).is_err(), "{table}");
        }
    }

    #[test]
    fn the_built_in_table_knows_how_lists_of_a_pod_merge() {
        let pod = Schemas::builtin().of_kind("v1", "Pod").unwrap();
        let spec = pod.field("spec").unwrap().value_type();
        assert_eq!(spec.field("containers").unwrap().merge_key(), Some("name"));
        assert!(spec.field("volumes").unwrap().merges_elements());
        assert!(!spec.field("tolerations").unwrap().merges_elements());
        let deployment = Schemas::builtin().of_kind("apps/v1", "Deployment").unwrap();
        assert!(deployment.field("spec").unwrap().value_type().field("strategy").is_some());
    }
}
