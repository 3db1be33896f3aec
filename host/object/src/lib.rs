//! Kubernetes objects as the host stores them: raw JSON bytes plus a small parsed metadata header.
//!
//! Every other crate of the host depends on this one. It contains no code for the network, caches or WebAssembly.
//!
//! * [`Object`]: one immutable object. A clone copies a reference count. Decoding runs once and builds no JSON tree.
//! * [`Held`], [`Dictionary`]: the form in which a store keeps an object, plain or compressed with a dictionary.
//! * [`ListDecoder`]: decodes a list response of any size incrementally and returns its objects one by one.
//! * [`ObjectKey`]: `namespace/name`, the identity in stores and queues.
//! * [`Gvk`], [`Gvr`]: kinds and resources.
//! * [`LabelSelector`], [`FieldSelector`]: the selector grammars of the API, matched locally.
//! * [`Pointer`]: JSON pointers with `[*]`, evaluated on the bytes.
//! * [`FieldValues`]: the values that many readers ask of one object, each read once.
//! * [`human_duration`]: durations as `kubectl get` prints them.
//! * [`Projection`]: the set of fields that are kept of an object; [`PARTIAL_ANNOTATION`] marks a body that lacks
//!   fields.

mod blocks;
mod cuts;
mod decode;
mod default_kind;
mod dictionary;
mod families;
mod field_selector;
mod field_values;
mod human_duration;
mod key;
mod kind;
mod label_selector;
mod labels;
mod list;
mod members;
mod object;
mod pack;
mod part;
mod partial;
mod pointer;
mod projection;
mod scan;
mod short_text;
mod walk;

pub use decode::DecodeError;
pub use dictionary::Dictionary;
pub use field_selector::{FieldSelector, FieldSelectorError};
pub use field_values::FieldValues;
pub use human_duration::human_duration;
pub use key::{KeyError, ObjectKey};
pub use kind::{Gvk, Gvr, KindError};
pub use label_selector::{LabelSelector, LabelSelectorError, is_dns_subdomain, is_qualified_name};
pub use list::{ListDecoder, ListMeta};
pub use object::{Body, Held, Object, OwnerReference};
pub use part::ObjectPart;
pub use partial::PARTIAL_ANNOTATION;
pub use pointer::{Pointer, PointerError, json_string};
pub use projection::Projection;
