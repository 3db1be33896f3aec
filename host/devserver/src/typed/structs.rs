//! [`Structs`]: the structs of Go by the names that their fields have in JSON.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::protobuf::{ProtobufTypes, Shape, TypeIndex};

/// Names a struct in [`Structs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StructId(usize);

impl From<TypeIndex> for StructId {
    fn from(index: TypeIndex) -> Self {
        Self(index.0)
    }
}

/// A struct of Go.
#[derive(Debug)]
pub(crate) struct Struct {
    /// As OpenAPI names it: `io.k8s.api.core.v1.PodSpec`.
    pub(crate) name: &'static str,
    /// By their names in JSON; with those of the structs in it that JSON does not show (`Volume` has those of `VolumeSource`).
    pub(crate) fields: BTreeMap<&'static str, JsonField>,
    /// The structs in it that JSON does not show.
    pub(crate) inlined: Vec<StructId>,
}

impl Struct {
    /// As messages name a field's type: `v1.PodSpec`.
    pub(super) fn go_name(&self) -> String {
        let dots: Vec<usize> = self.name.rmatch_indices('.').map(|(at, _)| at).take(2).collect();
        self.name[dots.last().map_or(0, |at| at + 1)..].to_owned()
    }

    /// As messages name the struct that has a field: `PodSpec`.
    pub(super) fn short_name(&self) -> &'static str {
        short_name(self.name)
    }
}

fn short_name(name: &'static str) -> &'static str {
    name.rsplit('.').next().unwrap_or(name)
}

/// A field of a struct.
#[derive(Debug, Clone)]
pub(crate) struct JsonField {
    /// The structs without a name in JSON that lead to it, the outermost first: messages name them all the same.
    pub(super) inlined_in: Vec<&'static str>,
    pub(crate) shape: &'static Shape,
    /// Whether it is left out if it is empty.
    pub(crate) omit: bool,
    pub(crate) go_name: Option<&'static str>,
}

/// All structs of built-in kinds.
#[derive(Debug)]
pub(crate) struct Structs {
    structs: Vec<Struct>,
}

impl Structs {
    /// Those of the table that this program was built with.
    pub(crate) fn get() -> &'static Self {
        static STRUCTS: LazyLock<Structs> = LazyLock::new(|| Structs::new(ProtobufTypes::builtin()));
        &STRUCTS
    }

    fn new(types: &'static ProtobufTypes) -> Self {
        let messages = types.messages();
        let structs = messages
            .iter()
            .map(|message| {
                let mut made = Struct { name: message.name, fields: BTreeMap::new(), inlined: Vec::new() };
                let mut pending: Vec<_> = message.fields.iter().map(|field| (Vec::new(), field)).collect();
                while let Some((inlined_in, field)) = pending.pop() {
                    match field.shape {
                        Shape::Message(index) if field.name.is_empty() => {
                            made.inlined.push(index.into());
                            let inner = &messages[index.0];
                            let mut inlined_in = inlined_in;
                            inlined_in.push(short_name(inner.name));
                            pending.extend(inner.fields.iter().map(|field| (inlined_in.clone(), field)));
                        }
                        _ => {
                            let own = JsonField {
                                inlined_in,
                                shape: &field.shape,
                                omit: field.omit,
                                go_name: field.go_name,
                            };
                            made.fields.insert(field.name, own);
                        }
                    }
                }
                made
            })
            .collect();
        Self { structs }
    }

    pub(crate) fn of(&self, id: StructId) -> &Struct {
        &self.structs[id.0]
    }

    /// The struct of a kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<StructId> {
        ProtobufTypes::builtin().of_kind(api_version, kind).map(StructId::from)
    }

    /// The struct of `metadata`.
    pub(crate) fn of_metadata(&self) -> Option<StructId> {
        let is_metadata = |one: &Struct| one.name.ends_with(".apis.meta.v1.ObjectMeta");
        self.structs.iter().position(is_metadata).map(StructId)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (StructId, &Struct)> {
        self.structs.iter().enumerate().map(|(index, one)| (StructId(index), one))
    }
}
