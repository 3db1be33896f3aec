//! [`Rendering`]: stored objects in the form a client asked for.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::api::{ApiError, Shape, Timestamp};
use crate::kinds;
use crate::printing;
use crate::resources::{Origin, Resource};
use crate::schema::DefaultsLimit;
use crate::store::{Head, LineForm, Stored};

use super::ResourceRequest;

/// What rows of a table carry besides their cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Included {
    None,
    Metadata,
    Object,
}

/// How the objects of a call are written.
#[derive(Debug)]
pub(crate) struct Rendering {
    resource: std::sync::Arc<Resource>,
    form: LineForm,
    pub(crate) shape: Shape,
    convert: bool,
    included: Included,
}

const META_VERSION: &str = "meta.k8s.io/v1";

impl Rendering {
    pub(crate) fn of(call: &ResourceRequest) -> Result<Self, ApiError> {
        let included = match call.params.filled("includeObject") {
            None | Some("Metadata") => Included::Metadata,
            Some("None") => Included::None,
            Some("Object") => Included::Object,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "includeObject is None, Metadata or Object, not {other:?}"
                )));
            }
        };
        Ok(Self {
            form: form(&call.resource, !call.accepted.drop_managed),
            resource: call.resource.clone(),
            shape: call.accepted.shape,
            convert: kinds::needs_conversion(&call.resource),
            included,
        })
    }

    /// Objects whole, as the server itself sees them.
    pub(crate) fn plain(resource: &std::sync::Arc<Resource>) -> Self {
        Self {
            form: form(resource, true),
            resource: resource.clone(),
            shape: Shape::Object,
            convert: kinds::needs_conversion(resource),
            included: Included::Metadata,
        }
    }

    /// Whether all watches that see an object whole send the same bytes of it.
    pub(crate) fn is_shared(&self) -> bool {
        self.shape == Shape::Object && !self.convert
    }

    /// In which form lines of a watch are that others may share.
    pub(crate) fn form(&self) -> &LineForm {
        &self.form
    }

    /// One object, or a table of it.
    pub(crate) fn object(&self, stored: &Stored) -> Bytes {
        let mut out = Vec::with_capacity(stored.size() + 32);
        let mut limit = DefaultsLimit::default();
        match self.shape {
            Shape::Object => self.write_object(&mut out, stored, &mut limit),
            Shape::Metadata => self.write_metadata(&mut out, stored),
            Shape::Table => {
                let revision = stored.object.resource_version().to_owned();
                self.write_table(&mut out, &revision, None, &mut std::iter::once(stored), true, &mut limit);
            }
        }
        out.into()
    }

    /// One object of a watch; columns are told with the first.
    pub(crate) fn event_object(&self, out: &mut Vec<u8>, stored: &Stored, first: bool) {
        let mut limit = DefaultsLimit::default();
        match self.shape {
            Shape::Object => self.write_object(out, stored, &mut limit),
            Shape::Metadata => self.write_metadata(out, stored),
            Shape::Table => {
                let revision = stored.object.resource_version().to_owned();
                self.write_table(out, &revision, None, &mut std::iter::once(stored), first, &mut limit);
            }
        }
    }

    /// The object of a bookmark: nothing but a resource version, and the mark of the end of initial events.
    pub(crate) fn bookmark(&self, revision: u64, initial_end: bool) -> Value {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        match self.shape {
            Shape::Object => json!({
                "kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata,
            }),
            Shape::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": META_VERSION, "metadata": metadata})
            }
            Shape::Table => {
                let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": META_VERSION, "metadata": metadata});
                json!({
                    "kind": "Table", "apiVersion": META_VERSION,
                    "metadata": {"resourceVersion": revision.to_string()}, "columnDefinitions": [],
                    "rows": [{"cells": [], "object": partial}],
                })
            }
        }
    }

    /// A list.
    ///
    /// # Errors
    /// 413 if the defaults of a definition that has changed since the objects were stored would make it too large.
    pub(crate) fn list(
        &self,
        metadata: &ListMeta,
        objects: &[std::sync::Arc<Stored>],
    ) -> Result<Bytes, ApiError> {
        let bytes: usize = objects.iter().map(|s| s.size() + 1).sum();
        let mut out = Vec::with_capacity(bytes + 256);
        let mut limit = DefaultsLimit::of_answer();
        match self.shape {
            Shape::Table => {
                let mut rows = objects.iter().map(|s| &**s);
                let revision = &metadata.resource_version;
                self.write_table(&mut out, revision, Some(metadata), &mut rows, true, &mut limit);
            }
            shape => {
                let (kind, version) = match shape {
                    Shape::Metadata => ("PartialObjectMetadataList".to_owned(), META_VERSION.to_owned()),
                    _ => (self.resource.list_kind.clone(), self.resource.api_version()),
                };
                out.extend_from_slice(Head::new(&version, &kind).as_bytes());
                out.extend_from_slice(b",\"metadata\":");
                out.extend_from_slice(metadata.json().to_string().as_bytes());
                out.extend_from_slice(b",\"items\":[");
                for (index, stored) in objects.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    match shape {
                        Shape::Metadata => self.write_metadata(&mut out, stored),
                        _ => self.write_item(&mut out, stored, &mut limit),
                    }
                    if limit.is_spent() {
                        break;
                    }
                }
                out.extend_from_slice(b"]}");
            }
        }
        if limit.is_spent() {
            let why = "the defaults of the schema would make the list too large: ask for fewer objects with `limit`";
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", why));
        }
        Ok(out.into())
    }

    /// An item of a list: built-in kinds stand there without their kind.
    fn write_item(&self, out: &mut Vec<u8>, stored: &Stored, limit: &mut DefaultsLimit) {
        if self.resource.is_custom() || self.convert {
            self.write_object(out, stored, limit);
        } else {
            // The comma behind the head gives way to a brace.
            let start = out.len();
            stored.write_tail(out, self.form.with_managed);
            out[start] = b'{';
        }
    }

    fn write_object(&self, out: &mut Vec<u8>, stored: &Stored, limit: &mut DefaultsLimit) {
        if self.convert {
            out.extend_from_slice(self.value_within(stored, limit).to_string().as_bytes());
        } else {
            out.extend_from_slice(self.form.head.as_bytes());
            stored.write_tail(out, self.form.with_managed);
        }
    }

    fn write_metadata(&self, out: &mut Vec<u8>, stored: &Stored) {
        out.extend_from_slice(Head::new(META_VERSION, "PartialObjectMetadata").as_bytes());
        out.extend_from_slice(b",\"metadata\":");
        stored.write_metadata(out, self.form.with_managed);
        out.push(b'}');
    }

    /// The object as a tree in this version.
    pub(crate) fn value(&self, stored: &Stored) -> Value {
        self.value_within(stored, &mut DefaultsLimit::default())
    }

    /// As [`Rendering::value`], of one of the objects of an answer.
    fn value_within(&self, stored: &Stored, limit: &mut DefaultsLimit) -> Value {
        let mut fields = stored.value();
        fields.insert("kind".to_owned(), self.resource.kind.as_str().into());
        fields.insert("apiVersion".to_owned(), self.resource.api_version().into());
        if self.convert {
            kinds::from_stored_within(&self.resource, &mut fields, limit);
        }
        self.put_managed(&mut fields, stored);
        fields.into()
    }

    /// Puts managed fields into a tree.
    fn put_managed(&self, object: &mut Map<String, Value>, stored: &Stored) {
        if !self.form.with_managed || stored.managed.is_empty() {
            return;
        }
        // It was written as JSON.
        let managed = serde_json::from_slice::<Value>(&stored.managed.text()).ok();
        if let (Some(managed), Some(Value::Object(metadata))) = (managed, object.get_mut("metadata")) {
            metadata.insert("managedFields".to_owned(), managed);
        }
    }

    fn write_table(
        &self,
        out: &mut Vec<u8>,
        revision: &str,
        metadata: Option<&ListMeta>,
        objects: &mut dyn Iterator<Item = &Stored>,
        with_columns: bool,
        limit: &mut DefaultsLimit,
    ) {
        let now = Timestamp::now();
        let columns: Vec<Value> = if with_columns {
            self.resource
                .columns
                .iter()
                .map(|c| {
                    json!({"name": c.name, "type": c.kind, "format": c.format, "description": "", "priority": c.priority})
                })
                .collect()
        } else {
            Vec::new()
        };
        let mut rows: Vec<Value> = Vec::new();
        for stored in objects {
            rows.push(self.row(stored, now, limit));
            if limit.is_spent() {
                break;
            }
        }
        if metadata.is_some() && limit.is_spent() {
            // The list is refused.
            return;
        }
        let metadata = metadata.map_or_else(|| json!({"resourceVersion": revision}), ListMeta::json);
        let table = json!({
            "kind": "Table", "apiVersion": META_VERSION, "metadata": metadata, "columnDefinitions": columns,
            "rows": rows,
        });
        out.extend_from_slice(table.to_string().as_bytes());
    }

    fn row(&self, stored: &Stored, now: Timestamp, limit: &mut DefaultsLimit) -> Value {
        // Cells read the stored form: that of both kinds of Events.
        let mut object = stored.value();
        if self.included == Included::Metadata {
            self.put_managed(&mut object, stored);
        }
        let object = Value::Object(object);
        let cells = match &self.resource.origin {
            Origin::Custom { columns, .. } => printing::custom_cells(columns, &object, now.0),
            // Kinds without cells of their own are shown by name and age.
            Origin::Builtin => printing::cells(&self.resource.group, &self.resource.name, &object, now.0)
                .unwrap_or_else(|| printing::custom_cells(&[], &object, now.0)),
        };
        match self.included {
            Included::None => json!({"cells": cells}),
            Included::Metadata => {
                json!({"cells": cells, "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": META_VERSION, "metadata": object["metadata"],
                }})
            }
            Included::Object => json!({"cells": cells, "object": self.value_within(stored, limit)}),
        }
    }
}

fn form(resource: &Resource, with_managed: bool) -> LineForm {
    LineForm { head: Head::new(&resource.api_version(), &resource.kind), with_managed }
}

/// `metadata` of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl ListMeta {
    fn json(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), self.resource_version.as_str().into());
        if let Some(next) = &self.next {
            metadata.insert("continue".to_owned(), next.as_str().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".to_owned(), remaining.into());
        }
        metadata.into()
    }
}
