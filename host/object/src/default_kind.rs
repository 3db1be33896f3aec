//! [`DefaultKind`]: the kind that a sender was asked for, which the decoder adds to the text of an object that lacks
//! `apiVersion` or `kind`, as list items do.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::decode::Validation;
use crate::kind::Gvk;

/// The kind of objects that may lack `apiVersion` and `kind`.
#[derive(Debug)]
pub(crate) struct DefaultKind<'a> {
    gvk: Cow<'a, Gvk>,
    /// Made for the first object that lacks one of the fields: a list makes it once.
    type_meta: OnceCell<TypeMeta>,
}

/// The values of `apiVersion` and `kind`, and each as a member of a JSON object, with the comma behind it.
#[derive(Debug)]
pub(crate) struct TypeMeta {
    pub(crate) api_version: String,
    pub(crate) api_version_member: String,
    pub(crate) kind: String,
    pub(crate) kind_member: String,
}

impl<'a> DefaultKind<'a> {
    pub(crate) fn new(gvk: Cow<'a, Gvk>) -> Self {
        Self { gvk, type_meta: OnceCell::new() }
    }

    /// How much of such an object of a trusted sender is validated. A Secret is validated as a whole: the code that masks
    /// its values must find them.
    pub(crate) fn trusted_validation(&self) -> Validation {
        let Gvk { group, version, kind } = &*self.gvk;
        match (group.as_str(), version.as_str(), kind.as_str()) {
            ("", "v1", "Secret") => Validation::Full,
            _ => Validation::Header,
        }
    }

    pub(crate) fn type_meta(&self) -> &TypeMeta {
        let quote = |text: &str| serde_json::Value::from(text).to_string();
        self.type_meta.get_or_init(|| {
            let (api_version, kind) = (self.gvk.api_version(), self.gvk.kind.clone());
            TypeMeta {
                api_version_member: format!("\"apiVersion\":{},", quote(&api_version)),
                kind_member: format!("\"kind\":{},", quote(&kind)),
                api_version,
                kind,
            }
        })
    }
}
