//! How server-side apply sees types: [`TypeRef`], what a value may be at a place, and [`Atom`], what it is taken for.
//!
//! A type allows a scalar, a list, a map, or several of them; the value decides. A value of none of the allowed sorts, and
//! `null`, is taken for the first of map, scalar and list that the type allows.
//!
//! What no schema describes is *deduced*: maps are granular, lists atomic.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::path::Element;
use crate::schema::{BuiltinTypes, Entries, Field, Kind, ListKind, Type, TypeId, Types};

/// The type of the values at a place.
#[derive(Debug, Clone, Copy)]
pub(super) enum TypeRef<'a> {
    Known(Known<'a>),
    /// Not described: maps are granular, lists are atomic.
    Deduced,
    /// Not described, and atomic.
    Atomic,
    Text,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    types: &'a Types,
    id: TypeId,
    /// A type around this one preserves unknown fields.
    preserves_unknown: bool,
    /// The field is atomic, although its type may not be.
    is_atomic: bool,
    /// `apiVersion`, `kind` and `metadata` are those of every resource.
    is_resource: bool,
}

/// What a value is taken for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Atom<'a> {
    Scalar(Scalar),
    List(List<'a>),
    Map(MapType<'a>),
}

/// What a scalar may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Any,
    Number,
    String,
    Boolean,
}

/// A type of lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    pub(super) kind: &'a ListKind,
    pub(super) items: TypeRef<'a>,
}

/// A type of objects and maps.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapType<'a> {
    pub(super) is_atomic: bool,
    known: Option<(Known<'a>, &'a Type)>,
    entries: Option<TypeRef<'a>>,
}

/// What a type allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Atoms<'a> {
    map: Option<MapType<'a>>,
    scalar: Option<Scalar>,
    list: Option<List<'a>>,
}

impl<'a> TypeRef<'a> {
    /// The type of a resource.
    pub(super) fn of_resource(types: &'a Types, id: TypeId) -> Self {
        Self::Known(Known { types, id, preserves_unknown: false, is_atomic: false, is_resource: true })
    }

    /// All that the type allows.
    pub(super) fn atoms(self) -> Atoms<'a> {
        let undescribed = |is_atomic, entries| Atoms {
            map: Some(MapType { is_atomic, known: None, entries: Some(entries) }),
            scalar: Some(Scalar::Any),
            list: Some(List { kind: &ListKind::Atomic, items: TypeRef::Atomic }),
        };
        match self {
            Self::Deduced => undescribed(false, Self::Deduced),
            Self::Atomic => undescribed(true, Self::Atomic),
            Self::Text => Atoms { map: None, scalar: Some(Scalar::String), list: None },
            Self::Known(known) => known.atoms(),
        }
    }
}

impl<'a> Known<'a> {
    fn atoms(self) -> Atoms<'a> {
        let found = self.types.get(self.id);
        let here = Self { preserves_unknown: self.preserves_unknown || found.preserves_unknown, ..self };
        let (map, list) = (|| Some(here.map(found)), || Some(here.list(found)));
        let scalar = |scalar| Atoms { map: None, scalar: Some(scalar), list: None };
        match found.kind {
            Kind::Object => Atoms { map: map(), scalar: None, list: None },
            Kind::List => Atoms { map: None, scalar: None, list: list() },
            Kind::String if found.any_scalar => scalar(Scalar::Any),
            Kind::String => scalar(Scalar::String),
            Kind::Integer | Kind::Number => scalar(Scalar::Number),
            Kind::Boolean => scalar(Scalar::Boolean),
            Kind::Any | Kind::IntOrString if self.is_atomic => TypeRef::Atomic.atoms(),
            Kind::Any | Kind::IntOrString => Atoms { map: map(), scalar: Some(Scalar::Any), list: list() },
        }
    }

    fn child(self, id: TypeId, is_atomic: bool) -> TypeRef<'a> {
        let is_resource = self.types.get(id).embedded;
        TypeRef::Known(Self { id, is_atomic, is_resource, ..self })
    }

    fn list(self, found: &'a Type) -> List<'a> {
        let items = found.items.map_or(TypeRef::Atomic, |items| self.child(items, self.is_atomic));
        List { kind: &found.list, items }
    }

    fn map(self, found: &'a Type) -> MapType<'a> {
        let has_fields = self.is_resource || !found.fields.is_empty();
        let entries = match found.entries {
            Entries::Of(entries) => Some(self.child(entries, false)),
            Entries::Any => Some(TypeRef::Deduced),
            Entries::Forbidden => None,
            Entries::None => (self.preserves_unknown || !has_fields).then_some(TypeRef::Deduced),
        };
        MapType { is_atomic: self.is_atomic || found.atomic, known: Some((self, found)), entries }
    }
}

impl<'a> Atoms<'a> {
    /// What the value is taken for. A type without any sort of value does not exist.
    pub(super) fn of(self, value: Option<&Value>) -> Atom<'a> {
        let fitting = match value {
            Some(Value::Object(_)) => self.map.map(Atom::Map),
            Some(Value::Array(_)) => self.list.map(Atom::List),
            Some(Value::Null) | None => None,
            Some(_) => self.scalar.map(Atom::Scalar),
        };
        fitting.unwrap_or_else(|| self.first())
    }

    /// What `null` is taken for.
    pub(super) fn first(self) -> Atom<'a> {
        match (self.map, self.scalar, self.list) {
            (Some(map), _, _) => Atom::Map(map),
            (None, Some(scalar), _) => Atom::Scalar(scalar),
            (None, None, Some(list)) => Atom::List(list),
            (None, None, None) => Atom::Scalar(Scalar::Any),
        }
    }

    /// Whether both values are taken for the same. With several sorts, `null` is not taken for any one of them.
    pub(super) fn are_alike(self, left: &Value, right: &Value) -> bool {
        let sorts = [self.map.is_some(), self.scalar.is_some(), self.list.is_some()];
        if sorts.iter().filter(|allowed| **allowed).count() < 2 {
            return true;
        }
        let sort = |value: &Value| match value {
            Value::Object(_) if self.map.is_some() => 1,
            Value::Array(_) if self.list.is_some() => 2,
            Value::Object(_) | Value::Array(_) | Value::Null => 0,
            _ if self.scalar.is_some() => 3,
            _ => 0,
        };
        sort(left) == sort(right)
    }

    pub(super) fn map(self) -> Option<MapType<'a>> {
        self.map
    }

    pub(super) fn list(self) -> Option<List<'a>> {
        self.list
    }
}

impl<'a> MapType<'a> {
    /// The type of a field that is described by name.
    pub(super) fn described(self, name: &str) -> Option<TypeRef<'a>> {
        let (known, found) = self.known?;
        if known.is_resource {
            match name {
                "apiVersion" | "kind" => return Some(TypeRef::Text),
                "metadata" => {
                    let builtin = BuiltinTypes::get();
                    return builtin.metadata().map(|id| {
                        let types = builtin.types();
                        let (preserves_unknown, is_atomic, is_resource) = (false, false, false);
                        TypeRef::Known(Known { types, id, preserves_unknown, is_atomic, is_resource })
                    });
                }
                _ => {}
            }
        }
        let field = found.fields.get(name)?;
        Some(known.child(field.value_type, field.atomic))
    }

    /// The type of a field or an entry; `None` if there can be none of this name.
    pub(super) fn field(self, name: &str) -> Option<TypeRef<'a>> {
        self.described(name).or(self.entries)
    }

    /// The type of entries that are not described by name.
    pub(super) fn entries(self) -> Option<TypeRef<'a>> {
        self.entries
    }

    /// Whether nothing of it is described. As in the library, this holds too where a custom resource's schema says of the
    /// entries no more than that they may be any scalar.
    pub(super) fn is_deduced(self) -> bool {
        let has_fields =
            self.known.is_some_and(|(known, found)| known.is_resource || !found.fields.is_empty());
        let is_open = match self.entries {
            Some(TypeRef::Deduced) => true,
            Some(TypeRef::Known(entries)) => {
                let is_builtin = std::ptr::eq(entries.types, BuiltinTypes::get().types());
                !is_builtin && entries.atoms().scalar == Some(Scalar::Any)
            }
            _ => false,
        };
        is_open && !has_fields
    }

    fn known_field(self, name: &str) -> Option<&'a Field> {
        self.known?.1.fields.get(name)
    }
}

/// Why an element of a list cannot be told from the others.
pub(super) enum KeyError<'a> {
    Null,
    NoMap,
    NoKeys(&'a [Box<str>]),
    NoMapType,
    MapInSet,
    ListInSet,
    NullInSet,
}

impl<'a> List<'a> {
    pub(super) fn is_atomic(self) -> bool {
        *self.kind == ListKind::Atomic
    }

    /// The path element of an element of this list, which is not atomic.
    pub(super) fn element(self, value: &Value) -> Result<Element, KeyError<'a>> {
        match (self.kind, value) {
            (ListKind::Map(keys), Value::Object(object)) => self.key(keys, object),
            (ListKind::Map(_), Value::Null) => Err(KeyError::Null),
            (ListKind::Map(_), _) => Err(KeyError::NoMap),
            (_, Value::Object(_)) => Err(KeyError::MapInSet),
            (_, Value::Array(_)) => Err(KeyError::ListInSet),
            (_, Value::Null) => Err(KeyError::NullInSet),
            (_, scalar) => Ok(Element::Value(Arc::new(scalar.clone()))),
        }
    }

    fn key(self, keys: &'a [Box<str>], object: &Map<String, Value>) -> Result<Element, KeyError<'a>> {
        let mut fields = Vec::with_capacity(keys.len());
        for name in keys {
            let value = match object.get(&**name) {
                Some(value) => Some(value),
                None => {
                    let items = self.items.atoms().map().ok_or(KeyError::NoMapType)?;
                    items.known_field(name).and_then(|field| field.key_default.as_ref())
                }
            };
            if let Some(value) = value {
                fields.push((name.clone(), value.clone()));
            }
        }
        if fields.is_empty() && !keys.is_empty() {
            return Err(KeyError::NoKeys(keys));
        }
        Ok(Element::key(fields))
    }
}
