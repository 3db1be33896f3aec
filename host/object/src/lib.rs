//! Kubernetes objects as the host carries them: raw JSON bytes plus a small parsed metadata header.
//!
//! Every crate of the host stands on this one. It knows nothing of the network, of caches or of WebAssembly.
//!
//! * [`Object`]: one object, immutable, a cheap clone; decoded once, never parsed into a tree.
//! * [`Held`], [`Dictionary`]: an object as a store keeps it, plain or packed.
//! * [`ListDecoder`]: the objects of a list answer of any size, one by one, as its bytes come.
//! * [`ObjectKey`]: `namespace/name`, the identity in stores and queues.
//! * [`Gvk`], [`Gvr`]: kinds and resources.
//! * [`LabelSelector`], [`FieldSelector`]: the selector grammars of the API, matched locally.
//! * [`Pointer`]: JSON pointers with `[*]`, read straight from the bytes.
//! * [`human_duration`]: spans of time as `kubectl get` prints them.
//! * [`Projection`]: the fields that are kept of an object; [`PARTIAL_ANNOTATION`] marks bodies that lack some.

mod blocks;
mod cuts;
mod decode;
mod dictionary;
mod families;
mod field_selector;
mod human_duration;
mod key;
mod kind;
mod label_selector;
mod labels;
mod list;
mod members;
mod object;
mod pack;
mod partial;
mod pointer;
mod projection;
mod scan;
mod short_text;

pub use decode::DecodeError;
pub use dictionary::Dictionary;
pub use field_selector::{FieldSelector, FieldSelectorError};
pub use human_duration::human_duration;
pub use key::{KeyError, ObjectKey};
pub use kind::{Gvk, Gvr, KindError};
pub use label_selector::{LabelSelector, LabelSelectorError, is_qualified_name};
pub use list::{ListDecoder, ListMeta};
pub use object::{Body, Held, Object, OwnerReference};
pub use partial::PARTIAL_ANNOTATION;
pub use pointer::{Pointer, PointerError, json_string};
pub use projection::Projection;
