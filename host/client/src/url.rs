//! Paths and queries of the API, built so that no name can change where a request goes.
//!
//! Invariants: every segment is percent-encoded down to RFC 3986's unreserved characters; `.`, `..`, empty segments and
//! segments with a `/` are refused (proxies normalise even their encoded forms); a query value cannot end its pair.
//! The verbs call this.

#[cfg(feature = "rest")]
mod parts;

use http::uri::PathAndQuery;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use pilothouse_object::ObjectKey;

use crate::error::{Error, Result};
use crate::params::{ApiResource, ListParams, ResourceVersionMatch, WatchParams, WriteParams};

#[cfg(feature = "rest")]
pub(crate) use parts::Parts;

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Path and query of a request, below the server's base address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    text: String,
    path_len: usize,
}

impl Target {
    /// The collection of a resource: all of it, or that of one namespace.
    pub(crate) fn collection(resource: &ApiResource, namespace: Option<&str>) -> Result<Self> {
        let namespace = namespace.filter(|n| !n.is_empty());
        let mut text = String::with_capacity(96);
        group_version(&mut text, &resource.gvk.group, &resource.gvk.version)?;
        match namespace {
            Some(_) if !resource.namespaced => {
                let message = format!("{} are not in namespaces: leave the namespace out", resource.plural);
                return Err(Error::Request(message));
            }
            Some(namespace) => {
                text.push_str("/namespaces");
                segment(&mut text, "namespace", namespace)?;
            }
            None => {}
        }
        segment(&mut text, "resource", &resource.plural)?;
        Ok(Self { path_len: text.len(), text })
    }

    /// One object, or a subresource of it.
    pub(crate) fn object(resource: &ApiResource, key: &ObjectKey, subresource: Option<&str>) -> Result<Self> {
        if resource.namespaced && key.namespace().is_none() {
            let message = format!("{} {:?} needs a namespace", resource.plural, key.as_str());
            return Err(Error::Request(message));
        }
        let mut target = Self::collection(resource, key.namespace())?;
        segment(&mut target.text, "name", key.name())?;
        if let Some(subresource) = subresource {
            segment(&mut target.text, "subresource", subresource)?;
        }
        target.path_len = target.text.len();
        Ok(target)
    }

    /// The discovery document of a group version.
    pub(crate) fn group_version(group: &str, version: &str) -> Result<Self> {
        let mut text = String::new();
        group_version(&mut text, group, version)?;
        Ok(Self { path_len: text.len(), text })
    }

    /// A path and query that the caller has built.
    pub(crate) fn raw(path_and_query: &str) -> Result<Self> {
        let bad = |why: &str| Error::Request(format!("path {path_and_query:?}: {why}"));
        if !path_and_query.starts_with('/') || path_and_query.starts_with("//") {
            return Err(bad("it must begin with one \"/\""));
        }
        // What follows would be cut off without a word.
        if path_and_query.contains(['#', '\\']) {
            return Err(bad("\"#\" and \"\\\" are not allowed in it"));
        }
        let path = path_and_query.split_once('?').map_or(path_and_query, |(path, _)| path);
        // As a proxy may read it that decodes before it resolves.
        let path = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
        if path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(bad("\".\" and \"..\" are not allowed in it"));
        }
        path_and_query.parse::<PathAndQuery>().map_err(|e| bad(&e.to_string()))?;
        let path_len = path_and_query.find('?').unwrap_or(path_and_query.len());
        Ok(Self { text: path_and_query.to_owned(), path_len })
    }

    /// Adds `name=value` to the query.
    pub(crate) fn query(&mut self, name: &str, value: &str) {
        self.text.push(if self.text.len() == self.path_len { '?' } else { '&' });
        encode(&mut self.text, name);
        self.text.push('=');
        encode(&mut self.text, value);
    }

    fn query_unless_empty(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.query(name, value);
        }
    }

    /// Adds the parameters of a list.
    pub(crate) fn list(&mut self, params: &ListParams) {
        self.query_unless_empty("labelSelector", &params.label_selector);
        self.query_unless_empty("fieldSelector", &params.field_selector);
        self.query_unless_empty("resourceVersion", params.resource_version.as_deref().unwrap_or_default());
        match params.resource_version_match {
            Some(ResourceVersionMatch::NotOlderThan) => self.query("resourceVersionMatch", "NotOlderThan"),
            Some(ResourceVersionMatch::Exact) => self.query("resourceVersionMatch", "Exact"),
            None => {}
        }
        if params.limit > 0 {
            self.query("limit", &params.limit.to_string());
        }
        self.query_unless_empty("continue", params.continue_token.as_deref().unwrap_or_default());
    }

    /// Adds the parameters of a watch.
    pub(crate) fn watch(&mut self, params: &WatchParams) {
        self.query("watch", "true");
        self.query("allowWatchBookmarks", "true");
        self.query_unless_empty("labelSelector", &params.label_selector);
        self.query_unless_empty("fieldSelector", &params.field_selector);
        self.query_unless_empty("resourceVersion", params.resource_version.as_deref().unwrap_or_default());
        if let Some(seconds) = params.timeout_seconds {
            self.query("timeoutSeconds", &seconds.to_string());
        }
        if params.send_initial_events {
            self.query("sendInitialEvents", "true");
            self.query("resourceVersionMatch", "NotOlderThan");
        }
    }

    /// Adds the options of a write; `manager` is the identity's field manager.
    pub(crate) fn write(&mut self, params: &WriteParams, manager: &str) {
        self.query_unless_empty("fieldManager", params.field_manager.as_deref().unwrap_or(manager));
        if params.dry_run {
            self.query("dryRun", "All");
        }
        self.query_unless_empty("fieldValidation", params.field_validation.as_deref().unwrap_or_default());
    }

    /// Path and query.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The path alone.
    pub(crate) fn path(&self) -> &str {
        &self.text[..self.path_len]
    }
}

fn group_version(text: &mut String, group: &str, version: &str) -> Result<()> {
    if group.is_empty() {
        text.push_str("/api");
    } else {
        text.push_str("/apis");
        segment(text, "group", group)?;
    }
    segment(text, "version", version)
}

fn segment(text: &mut String, what: &str, value: &str) -> Result<()> {
    if value.is_empty() || value == "." || value == ".." || value.contains('/') {
        let message = format!(
            "{what} {value:?} cannot stand in a URL: it must not be empty, \".\", \"..\" or hold \"/\""
        );
        return Err(Error::Request(message));
    }
    text.push('/');
    encode(text, value);
    Ok(())
}

fn encode(text: &mut String, value: &str) {
    text.extend(utf8_percent_encode(value, RESERVED));
}

#[cfg(test)]
mod tests;
