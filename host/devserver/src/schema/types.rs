//! [`Types`]: the type model of built-in kinds and of custom resources.
//!
//! All types of a schema live in one arena and name each other by [`TypeId`], so that a type can hold itself (as
//! `JSONSchemaProps` does) and a walk over an object clones nothing. A custom resource's types are compiled from its
//! `openAPIV3Schema` (`compile`), those of built-in kinds from a generated table (`builtin`). Pruning, defaulting,
//! validation, the strategic merge patch and server-side apply read this model.

use std::collections::BTreeMap;

use serde_json::Value;

use super::formats::Format;
use super::pattern::Pattern;

/// Names a type in its [`Types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TypeId(u32);

/// An arena of types.
#[derive(Debug, Default)]
pub(crate) struct Types(Vec<Type>);

impl Types {
    /// Adds a type.
    pub(super) fn add(&mut self, added: Type) -> TypeId {
        self.0.push(added);
        // A table or a definition has less than 3 MiB, and a type needs some bytes of it.
        TypeId(u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX))
    }

    /// Replaces a type: types that hold themselves are added before their fields are known.
    pub(super) fn replace(&mut self, id: TypeId, by: Type) {
        self.0[id.0 as usize] = by;
    }

    pub(crate) fn get(&self, id: TypeId) -> &Type {
        &self.0[id.0 as usize]
    }

    /// Whether an object of these types may hold a resource in a field.
    pub(super) fn embed_resources(&self) -> bool {
        self.0.iter().any(|one| one.embedded)
    }
}

/// What values a field, a list's element or a map's entry may have.
#[derive(Debug, Default)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    /// `null` is a value too, and is kept.
    pub(crate) nullable: bool,
    /// The fields of an object.
    pub(crate) fields: BTreeMap<Box<str>, Field>,
    /// Those of the fields that have a default: a list of many objects would else walk all fields for each of them.
    pub(crate) defaulted: Box<[Box<str>]>,
    /// What the entries of a map are.
    pub(crate) entries: Entries,
    /// The elements of a list.
    pub(crate) items: Option<TypeId>,
    pub(crate) list: ListKind,
    /// Fields that the schema does not name are kept.
    pub(crate) preserves_unknown: bool,
    /// Server-side apply owns and replaces the object or map as a whole.
    pub(crate) atomic: bool,
    /// Server-side apply takes any scalar for this string, which has a format.
    pub(crate) any_scalar: bool,
    /// The object is a resource with `apiVersion`, `kind` and `metadata`, whether or not the schema names them.
    pub(crate) embedded: bool,
    pub(crate) default: Option<Value>,
    /// Boxed: few types have any.
    pub(crate) rules: Option<Box<Rules>>,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No type is declared: any value.
    #[default]
    Any,
    Object,
    List,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

impl Kind {
    /// As error messages name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::List => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }
}

/// A field of an object.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) value_type: TypeId,
    pub(crate) patch: PatchStrategy,
    /// The member that identifies an element when a strategic merge patch merges this list.
    pub(crate) merge_key: Option<Box<str>>,
    /// Server-side apply owns and replaces the object, or of a list each element, as a whole.
    pub(crate) atomic: bool,
    /// What stands for this field in the key of a list's element that lacks it.
    pub(crate) key_default: Option<Value>,
}

/// What a strategic merge patch does to a field; custom resources have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PatchStrategy {
    /// Merges the elements of a list.
    pub(crate) merge: bool,
    /// Replaces a map as a whole.
    pub(crate) replace: bool,
}

/// The entries of a map, and of an object that is one beside its fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Entries {
    /// It has fields alone.
    #[default]
    None,
    /// Anything, but objects in it are emptied by pruning: `additionalProperties: true`.
    Any,
    /// Nothing: `additionalProperties: false`.
    Forbidden,
    Of(TypeId),
}

/// How the elements of a list are told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    #[default]
    Atomic,
    /// No two are equal.
    Set,
    /// No two have the same values in these members.
    Map(Box<[Box<str>]>),
}

/// What a value must fulfil beside its type.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) required: Vec<Box<str>>,
    pub(crate) allowed: Option<Vec<Value>>,
    pub(crate) format: Option<Format>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) length: Range,
    pub(crate) items: Range,
    pub(crate) properties: Range,
    /// Types here are rules alone: they have no say in what is pruned or defaulted.
    pub(crate) all_of: Vec<TypeId>,
    pub(crate) any_of: Vec<TypeId>,
    pub(crate) one_of: Vec<TypeId>,
    pub(crate) not: Option<TypeId>,
}

impl Rules {
    /// Whether every value fulfils them.
    pub(super) fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.allowed.is_none()
            && self.format.is_none()
            && self.pattern.is_none()
            && self.minimum.is_none()
            && self.maximum.is_none()
            && self.multiple_of.is_none()
            && [self.length, self.items, self.properties].iter().all(|r| *r == Range::default())
            && [&self.all_of, &self.any_of, &self.one_of].iter().all(|list| list.is_empty())
            && self.not.is_none()
    }
}

/// A bound of numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) exclusive: bool,
}

/// How many letters, elements or properties there may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
}
