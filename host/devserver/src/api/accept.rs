//! [`Shape`]: in which form a client wants objects, from its `Accept` header.

use http::HeaderMap;
use http::header::ACCEPT;

use super::ApiError;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The objects themselves.
    Object,
    /// A `Table` of printed cells.
    Table,
    /// `PartialObjectMetadata`: no more than the metadata.
    Metadata,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) shape: Shape,
    pub(crate) content_type: &'static str,
    /// Managed fields are to be left out: `;drop=metadata.managedFields`, which a server that does not know it ignores.
    pub(crate) drop_managed: bool,
}

const JSON: &str = "application/json";
/// JSON is YAML: a client that wants YAML gets JSON under that name.
const YAML: &str = "application/yaml";
const OFFERED: &str = "application/json, application/yaml";

impl Default for Accepted {
    fn default() -> Self {
        Self { shape: Shape::Object, content_type: JSON, drop_managed: false }
    }
}

/// One clause of an `Accept` header.
pub(crate) struct Clause<'a> {
    pub(crate) media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(k, _)| *k == name).map(|(_, v)| *v)
    }
}

/// The clauses of all `Accept` headers in the order of preference.
pub(crate) fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let texts = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let mut clauses: Vec<Clause<'_>> = texts
        .flat_map(|text| text.split(','))
        .filter(|clause| !clause.trim().is_empty())
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let parameters = parts.filter_map(|p| p.split_once('=')).collect();
            Clause { media, parameters }
        })
        .collect();
    let quality = |c: &Clause<'_>| c.parameter("q").and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0);
    clauses.sort_by(|a, b| quality(b).total_cmp(&quality(a)));
    clauses
}

/// The first form that a client wants and the server has.
pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Accepted, ApiError> {
    let clauses = clauses(headers);
    if clauses.is_empty() {
        return Ok(Accepted::default());
    }
    clauses.iter().find_map(accepted).ok_or_else(|| ApiError::not_acceptable(OFFERED))
}

fn accepted(clause: &Clause<'_>) -> Option<Accepted> {
    let content_type = match clause.media {
        "application/json" | "application/*" | "*/*" => JSON,
        "application/yaml" => YAML,
        _ => return None,
    };
    let group = clause.parameter("g").unwrap_or_default();
    let shape = match clause.parameter("as") {
        None => Shape::Object,
        Some("Table") if group == "meta.k8s.io" && clause.parameter("v") == Some("v1") => Shape::Table,
        Some("PartialObjectMetadata" | "PartialObjectMetadataList")
            if group == "meta.k8s.io" && clause.parameter("v") == Some("v1") =>
        {
            Shape::Metadata
        }
        Some(_) => return None,
    };
    let drop_managed = clause.parameter("drop") == Some("metadata.managedFields");
    Some(Accepted { shape, content_type, drop_managed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(accept: &str) -> Option<(Shape, &'static str)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        negotiate(&headers).ok().map(|a| (a.shape, a.content_type))
    }

    #[test]
    fn the_first_form_that_the_server_has() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(of(table), Some((Shape::Table, JSON)));
        let old = "application/json;as=Table;v=v1alpha1;g=meta.k8s.io,application/json";
        assert_eq!(of(old), Some((Shape::Object, JSON)));
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                       application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(of(partial), Some((Shape::Metadata, JSON)));
        assert_eq!(of("application/json;q=0.1, application/yaml"), Some((Shape::Object, YAML)));
        assert_eq!(of("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(of("application/json;as=Table;v=v9;g=meta.k8s.io"), None);
    }
}
