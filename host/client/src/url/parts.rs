//! [`Parts`]: a path put together part by part, for callers without an `ApiResource`. The REST client fills it.

use super::{Target, group_version, segment};
use crate::error::{Error, Result};

/// The parts of a path. Empty parts are left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Vec<String>,
}

impl Target {
    /// A group version, or a collection of it, an object or what is below that.
    pub(crate) fn parts(parts: &Parts) -> Result<Self> {
        let missing =
            |what: &str, of: &str| Err(Error::Request(format!("{of} of which {what}? say it first")));
        let mut text = String::with_capacity(96);
        group_version(&mut text, &parts.group, &parts.version)?;
        if let Some(namespace) = &parts.namespace {
            text.push_str("/namespaces");
            segment(&mut text, "namespace", namespace)?;
        }
        if !parts.resource.is_empty() {
            segment(&mut text, "resource", &parts.resource)?;
        } else if parts.namespace.is_some() || parts.name.is_some() {
            return missing("resource", "a namespace or a name");
        }
        match &parts.name {
            Some(name) => segment(&mut text, "name", name)?,
            None if !parts.subresource.is_empty() => return missing("object", "a subresource"),
            None => {}
        }
        for subresource in &parts.subresource {
            segment(&mut text, "subresource", subresource)?;
        }
        Ok(Self { path_len: text.len(), text })
    }
}
