//! The conventions that all of the API shares: paths, parameters, forms of answers, errors, names, metadata.

mod accept;
mod error;
pub(crate) mod go_json;
mod meta;
mod names;
mod path;
mod query;
pub(crate) mod syntax;
mod time;
mod warnings;

pub(crate) use accept::{Accepted, Shape, clauses, negotiate};
pub(crate) use error::{ALREADY_EXISTS, About, ApiError, Cause};
pub(crate) use meta::Metadata;
pub(crate) use names::{NameRule, check_base, check_name};
pub(crate) use path::{Path, Target};
pub(crate) use query::{FieldValidation, Params, VersionMatch, list_options_invalid};
pub(crate) use time::Timestamp;
pub(crate) use warnings::Warnings;

/// A JSON object: of the cluster, or a part of one.
pub(crate) type JsonMap = serde_json::Map<String, serde_json::Value>;
