//! What the server knows of particular kinds: how they are written ([`Strategy`]), the fields that select, and the kinds whose
//! versions differ in form.
//!
//! Everything else about a kind is in `tables/`.

mod convert;
pub(crate) mod daemon_sets;
mod fields;
mod immutable;
mod pod_updates;
mod pods;
mod prepare;
mod services;
mod strategy;
mod warnings;

pub(crate) use convert::{from_stored, from_stored_within, needs_conversion, to_stored};
pub(crate) use fields::{FieldFilter, fields};
pub(crate) use pods::{check_ephemeral, check_resize, resize};
pub(crate) use prepare::class_of_growing;
pub(crate) use services::{Numbers, complete_service};
pub(crate) use strategy::{Content, Creation, Dependents, Generation, Review, Strategy};
pub(crate) use warnings::warnings;
