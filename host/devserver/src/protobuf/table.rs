//! [`ProtobufTypes`]: how each kind is encoded, from `tables/protobuf.json`, which `controlplane protobuf` takes from the types of
//! Kubernetes; `tests/controlplane/tables_protobuf.go` says what stands in the file.
//!
//! Invariant: each type that a field names is in the table. It is read at first use, once.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    kinds: HashMap<&'a str, &'a str>,
    types: HashMap<&'a str, Vec<(u32, &'a str, &'a str, bool)>>,
    names: HashMap<&'a str, HashMap<&'a str, &'a str>>,
}

/// The types of all kinds that a body may have.
#[derive(Debug)]
pub(crate) struct ProtobufTypes {
    kinds: HashMap<&'static str, TypeIndex>,
    types: Vec<Message>,
}

/// A message, which is a struct in Go.
#[derive(Debug)]
pub(crate) struct Message {
    /// As OpenAPI names it: `io.k8s.api.core.v1.PodSpec`.
    pub(crate) name: &'static str,
    /// By their numbers' order.
    pub(crate) fields: Vec<Field>,
}

/// Which message of the table a type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypeIndex(pub(crate) usize);

/// A field of a message.
#[derive(Debug)]
pub(crate) struct Field {
    pub(super) number: u32,
    /// Its name in JSON; empty if the fields of its message stand among those of the one around it.
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Whether it is left out if it is empty.
    pub(crate) omit: bool,
    /// The name of its type in Go, if it does not follow from the shape.
    pub(crate) go_name: Option<&'static str>,
}

/// What a value is, in protobuf and in JSON.
#[derive(Debug)]
pub(crate) enum Shape {
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    /// A message whose field 1 is JSON as text.
    Json,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Message(TypeIndex),
    /// `null` if it is absent; all others have a zero value.
    Pointer(Box<Shape>),
    List(Box<Shape>),
    Map(Box<Shape>),
    /// A message whose field 1 is all that JSON has.
    Only(Box<Shape>),
    /// A message of two fields, of which JSON has one: a message or something else.
    Either(Other, Box<Shape>),
}

/// What may be there in place of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    Bool,
    /// A list of such messages.
    List,
    Strings,
}

impl ProtobufTypes {
    /// The table this program was built with.
    pub(crate) fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<ProtobufTypes> = LazyLock::new(|| {
            // The table is part of the program and every test reads it.
            ProtobufTypes::parse(include_str!("../tables/protobuf.json"))
                .expect("tables/protobuf.json is well formed")
        });
        &BUILTIN
    }

    fn parse(text: &'static str) -> Result<Self, String> {
        let file: File<'static> = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let known: HashMap<&str, TypeIndex> =
            file.types.keys().enumerate().map(|(i, name)| (*name, TypeIndex(i))).collect();
        let index = |name: &str| known.get(name).copied().ok_or_else(|| format!("{name:?} is not a type"));
        let field = |message, (number, name, text, omit)| {
            let shape = shape(text, &index)?;
            if str::is_empty(name) && !matches!(shape, Shape::Message(_)) {
                return Err(format!("a field of type {text:?} has no name"));
            }
            let go_name = file.names.get(message).and_then(|names| names.get(name)).copied();
            Ok(Field { number, name, shape, omit, go_name })
        };
        let mut types = Vec::with_capacity(file.types.len());
        // A map that does not change has one order.
        for (name, fields) in &file.types {
            let mut fields: Vec<Field> =
                fields.iter().map(|one| field(*name, *one)).collect::<Result<_, _>>()?;
            fields.sort_unstable_by_key(|f| f.number);
            types.push(Message { name, fields });
        }
        let kinds =
            file.kinds.iter().map(|(kind, name)| Ok((*kind, index(name)?))).collect::<Result<_, String>>()?;
        Ok(Self { kinds, types })
    }

    /// The type of a kind; some kinds are the same in every group version.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<TypeIndex> {
        let by_version = self.kinds.get(format!("{api_version}/{kind}").as_str());
        by_version.or_else(|| self.kinds.get(format!("*/{kind}").as_str())).copied()
    }

    /// The fields of a message, by their numbers' order.
    pub(super) fn fields(&self, index: TypeIndex) -> &[Field] {
        &self.types[index.0].fields
    }

    /// All messages; a [`TypeIndex`] is a place here.
    pub(crate) fn messages(&self) -> &[Message] {
        &self.types
    }

    #[cfg(test)]
    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().copied()
    }
}

type Wrap = fn(Box<Shape>) -> Shape;

/// The shape that a text of the table says.
fn shape(text: &str, index: &impl Fn(&str) -> Result<TypeIndex, String>) -> Result<Shape, String> {
    let wraps: [(char, Wrap); 4] =
        [('*', Shape::Pointer), ('[', Shape::List), ('{', Shape::Map), ('(', Shape::Only)];
    for (sign, wrap) in wraps {
        if let Some(inner) = text.strip_prefix(sign) {
            return Ok(wrap(Box::new(shape(inner, index)?)));
        }
    }
    if let Some((other, name)) = text.split_once('|') {
        let other = match other {
            "bool" => Other::Bool,
            "list" => Other::List,
            "strings" => Other::Strings,
            _ => return Err(format!("{text:?} is not a type")),
        };
        return Ok(Shape::Either(other, Box::new(shape(name, index)?)));
    }
    Ok(match text {
        "string" => Shape::Text,
        "bytes" => Shape::Bytes,
        "bool" => Shape::Bool,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "double" => Shape::Double,
        "json" => Shape::Json,
        "quantity" => Shape::Quantity,
        "intOrString" => Shape::IntOrString,
        "time" => Shape::Time,
        "microTime" => Shape::MicroTime,
        name => return index(name).map(Shape::Message),
    })
}
