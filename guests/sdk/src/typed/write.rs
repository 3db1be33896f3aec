//! Typed writes that write only what is different: methods of [`Context`].

use serde::Serialize;
use serde_json::{Map, Value};

use super::merge::{contains, merge_patch, replaces_list, retain, transfer};
use super::resource::{fields_of, serialize, text_of, value_of};
use super::{ObjectMetadata, Resource, set_controller_reference};
use crate::client::{ApplyOptions, DeleteOptions, WriteOptions};
use crate::key::fnv1a;
use crate::sys::{CallOptions, PatchKind};
use crate::{Context, Error, Key, Kind, Object};

/// What a write did. Record an Event, or log a line, only if there was a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "Events and log lines belong to changes only"]
pub enum Written {
    /// The object did not exist, and was created.
    Created,
    /// The object was changed; or applied, if it cannot be read.
    Changed,
    /// Nothing was written.
    Unchanged,
}

impl Written {
    /// Whether anything was written.
    pub fn is_change(self) -> bool {
        self != Self::Unchanged
    }
}

/// The prefix of annotations with the hash of what a plugin applied last. See [`Context::apply`].
const APPLIED: &str = "applied.pilothouse.dev/";

/// The longest name of an annotation after its prefix.
const LONGEST_NAME: usize = 63;

/// Metadata that the server sets; an object that was read has them.
const OF_THE_SERVER: [&str; 6] =
    ["uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields"];

impl Context {
    /// Applies an object without its status (server-side apply), and takes over fields of other managers. Creates it if
    /// it is missing.
    ///
    /// Nothing is sent when nothing would change. That is known from the cached object, and from an annotation that the
    /// applied object gets, `applied.pilothouse.dev/NAME` with the name of the plugin's crate: a hash of all that was
    /// applied. If the object has the hash of this object, no field was removed since; if it has every field with the same
    /// value (and lists of the same length), nobody changed one. Values that the API server writes in another form
    /// (`1000m` as `1`) look like a change: the call is made, and changes nothing.
    ///
    /// An object whose kind the descriptor does not watch, or of which the cache has a part only, is read live before. If
    /// it cannot be read, the apply is always sent, and counts as [`Written::Changed`].
    ///
    /// Several plugins may apply parts of one object; two of one crate share the annotation, and would write in turns.
    ///
    /// Needs the verbs `create` and `patch`.
    ///
    /// # Errors
    /// See [`client`](crate::client).
    pub fn apply<K: Resource>(&self, object: &K) -> Result<Written, Error> {
        self.apply_text(&Kind::of::<K>(), &object.key(), &serialize("object", object)?)
    }

    /// The part of an apply that is the same for all types.
    fn apply_text(&self, kind: &Kind, key: &Key, text: &str) -> Result<Written, Error> {
        let mut wanted = writable(text, kind)?;
        // An object that was read has a new version after each write, and what applies left in it.
        let server = take_server_fields(&mut wanted);
        let mut wanted = Value::Object(wanted);
        // A hash of the same fields in another order would be another one. Does nothing, unless another crate of the
        // component turned serde_json's feature `preserve_order` on.
        wanted.sort_all_objects();
        let hash = format!("{:016x}", fnv1a(&serialize("object", &wanted)?));
        let name = self.applied_annotation();
        let present = match self.read(kind, key) {
            Ok(present) => Some(present),
            // Without the right to read nothing is known.
            Err(error) if error.is_forbidden() => None,
            Err(error) => return Err(error),
        };
        if let Some(Some(present)) = &present
            && present.annotation(&name).as_deref() == Some(&hash)
            && contains(&present.parse()?, &wanted)
        {
            return Ok(Written::Unchanged);
        }
        if let Value::Object(wanted) = &mut wanted {
            let metadata = object_in(wanted, "metadata");
            object_in(metadata, "annotations").insert(name, hash.into());
            // The conditions of a write.
            metadata.extend(server);
        }
        let body = serialize("object", &wanted)?;
        let applied = self.client().apply_json(kind, key, body.as_bytes(), &ApplyOptions::force())?;
        Ok(match present {
            Some(Some(present)) if present.resource_version() == applied.resource_version() => {
                Written::Unchanged
            }
            Some(Some(_)) | None => Written::Changed,
            // A generation or a time of creation would not tell a new object from an old one.
            Some(None) => Written::Created,
        })
    }

    /// The annotation of this plugin.
    fn applied_annotation(&self) -> String {
        let end = |letter: char| !letter.is_ascii_alphanumeric();
        let name = self.plugin().trim_matches(end);
        let name = name[..name.floor_char_boundary(LONGEST_NAME)].trim_end_matches(end);
        format!("{APPLIED}{name}")
    }

    /// Creates an object, or changes it: the closure makes of the object, or of a default one with this key, what it
    /// should be. Nothing is sent if that is equal.
    ///
    /// The object is read from the cache, or live if the descriptor does not watch its kind, or the cache has a part of it
    /// only. A change is sent as a patch
    /// with what is different, and only for the version that was read. So fields of the kind that the type does not have
    /// stay as they are; of a list whose length changes they are lost. The status is not written.
    ///
    /// For an object that another object owns, see [`create_or_update_child`](Context::create_or_update_child).
    ///
    /// Needs the verbs `create` and `patch`, and `get` if the descriptor does not watch the kind.
    ///
    /// # Errors
    /// That of the closure, and those of [`client`](crate::client).
    pub fn create_or_update<K: Resource + Default>(
        &self,
        key: &Key,
        mutate: impl FnOnce(&mut K) -> Result<(), Error>,
    ) -> Result<Written, Error> {
        let kind = Kind::of::<K>();
        let Some(present) = self.read(&kind, key)? else {
            let mut object = K::default();
            object.metadata_mut().set_key(key);
            mutate(&mut object)?;
            return self.create_text(&kind, &serialize("object", &object)?);
        };
        let body = present.bytes()?;
        let mut object: K = present.parse_body(&body)?;
        let before = serialize("object", &object)?;
        mutate(&mut object)?;
        self.update_text(&kind, key, &present, &body, [&before, &serialize("object", &object)?])
    }

    /// The part of a creation that is the same for all types.
    fn create_text(&self, kind: &Kind, text: &str) -> Result<Written, Error> {
        let body = text_of(writable(text, kind)?)?;
        self.client().create_json(kind, body.as_bytes(), &WriteOptions::default())?;
        Ok(Written::Created)
    }

    /// The part of an update that is the same for all types: from the object that was read, and the texts of the type before
    /// and after the change.
    fn update_text(
        &self,
        kind: &Kind,
        key: &Key,
        present: &Object<'_>,
        body: &[u8],
        [before, after]: [&str; 2],
    ) -> Result<Written, Error> {
        let whole: Value = present.parse_body(body)?;
        let [before, after] = [writable(before, kind)?, writable(after, kind)?].map(Value::Object);
        let mut changed = whole.clone();
        transfer(&mut changed, &before, &after);
        let Some(Value::Object(mut patch)) = merge_patch(&whole, &changed) else {
            return Ok(Written::Unchanged);
        };
        let version = present.resource_version();
        object_in(&mut patch, "metadata").insert("resourceVersion".to_owned(), version.into());
        let patch = text_of(patch)?;
        self.client().patch(kind, key, PatchKind::Merge, patch.as_bytes(), &CallOptions::default())?;
        Ok(Written::Changed)
    }

    /// [`create_or_update`](Context::create_or_update) of an object whose managing controller is `owner`. An object without
    /// a controller is adopted; one with another controller is not touched.
    ///
    /// ```
    /// # use pilothouse_sdk::prelude::*;
    /// # #[derive(Resource, Serialize, Deserialize)]
    /// # #[resource(group = "example.com", version = "v1")]
    /// # struct Site { metadata: Metadata }
    /// # #[derive(Resource, Serialize, Deserialize, Default)]
    /// # #[resource(version = "v1")]
    /// # struct ConfigMap { metadata: Metadata, data: std::collections::BTreeMap<String, String> }
    /// fn reconcile(ctx: &Context, site: &Site) -> Result<Outcome, Failure> {
    ///     let written = ctx.create_or_update_child(site, &site.key().child("-page"), |page: &mut ConfigMap| {
    ///         page.data.insert("title".to_owned(), site.metadata.name.clone());
    ///         Ok(())
    ///     });
    ///     match written {
    ///         Err(Error::AlreadyOwned(error)) => ctx.warning(site, "AlreadyOwned", error),
    ///         written => info!("reconciled", changed = written?.is_change()),
    ///     }
    ///     Ok(Outcome::Done)
    /// }
    /// ```
    ///
    /// Needs the verbs of [`create_or_update`](Context::create_or_update).
    ///
    /// # Errors
    /// [`Error::AlreadyOwned`] when the object has another controller; and those of
    /// [`create_or_update`](Context::create_or_update) and [`set_controller_reference`].
    pub fn create_or_update_child<K: Resource + Default>(
        &self,
        owner: &impl Resource,
        key: &Key,
        mutate: impl FnOnce(&mut K) -> Result<(), Error>,
    ) -> Result<Written, Error> {
        self.create_or_update(key, |child| {
            set_controller_reference(owner, child)?;
            mutate(child)
        })
    }

    /// Deletes an object if `owner` is its managing controller; returns whether a deletion was sent. An object that does
    /// not exist, is being deleted already, or has no or another controller is left alone, and is no error.
    ///
    /// The object is read from the cache, or live if the descriptor does not watch its kind. Only the object that was
    /// read is deleted, by its UID: of another object of that name, the call fails with a conflict and deletes nothing.
    ///
    /// ```
    /// # use pilothouse_sdk::prelude::*;
    /// # #[derive(Resource, Serialize, Deserialize)]
    /// # #[resource(group = "example.com", version = "v1")]
    /// # struct Site { metadata: Metadata }
    /// # #[derive(Resource, Serialize, Deserialize)]
    /// # #[resource(version = "v1")]
    /// # struct ConfigMap { metadata: Metadata }
    /// fn clean_up(ctx: &Context, site: &Site) -> Result<Outcome, Failure> {
    ///     ctx.delete_child::<ConfigMap>(site, &site.key().child("-page"))?;
    ///     Ok(Outcome::Done)
    /// }
    /// ```
    ///
    /// Needs the verb `delete`, and `get` if the descriptor does not watch the kind.
    ///
    /// # Errors
    /// See [`client`](crate::client).
    pub fn delete_child<K: Resource>(&self, owner: &impl Resource, key: &Key) -> Result<bool, Error> {
        let kind = Kind::of::<K>();
        let Some(child) = self.read_metadata(&kind, key)? else { return Ok(false) };
        if child.is_being_deleted() || !child.is_controlled_by(owner) {
            return Ok(false);
        }
        match self.client().delete(&kind, key, &DeleteOptions::uid(child.uid())) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes the status of an object this one. Sends a merge patch with what is different from the status in `object`,
    /// and nothing if that is nothing. If a list is replaced, such as the conditions, the object must still be in the
    /// version of `object`: other writers lose no entries.
    ///
    /// Needs the verb `patch` on the kind's subresource `status`.
    ///
    /// # Errors
    /// See [`client`](crate::client).
    pub fn patch_status<K: Resource>(&self, object: &K, status: &impl Serialize) -> Result<Written, Error> {
        let (object_text, status) = (serialize("object", object)?, serialize("status", status)?);
        let version = object.metadata().resource_version();
        self.patch_status_text(&Kind::of::<K>(), &object.key(), version, [&object_text, &status])
    }

    /// The part of a patch of the status that is the same for all types: from the texts of the object and of the status.
    fn patch_status_text(
        &self,
        kind: &Kind,
        key: &Key,
        version: &str,
        [object, wanted]: [&str; 2],
    ) -> Result<Written, Error> {
        let mut object = value_of("object", object)?;
        let present = object.get_mut("status").map(Value::take).filter(|status| !status.is_null());
        let present = present.unwrap_or_else(|| Value::Object(Map::new()));
        let wanted = value_of("status", wanted)?;
        let Some(patch) = merge_patch(&present, &wanted) else { return Ok(Written::Unchanged) };
        let mut body = Map::new();
        if replaces_list(&patch) && !version.is_empty() {
            object_in(&mut body, "metadata").insert("resourceVersion".to_owned(), version.into());
        }
        body.insert("status".to_owned(), patch);
        let body = text_of(body)?;
        let options = CallOptions { subresource: Some("status"), ..CallOptions::default() };
        self.client().patch(kind, key, PatchKind::Merge, body.as_bytes(), &options)?;
        Ok(Written::Changed)
    }

    /// A whole object: from the cache, or live if its kind is not watched or the cache has a part of it only. Patches of a
    /// part would lose elements of lists.
    fn read(&self, kind: &Kind, key: &Key) -> Result<Option<Object<'_>>, Error> {
        match self.read_metadata(kind, key)? {
            Some(object) if object.is_partial() => self.client().get_opt(kind, key),
            object => Ok(object),
        }
    }

    /// An object of which the metadata is whole.
    fn read_metadata(&self, kind: &Kind, key: &Key) -> Result<Option<Object<'_>>, Error> {
        match self.cache().get(kind, key) {
            Err(refusal) if refusal.is_not_watched() => self.client().get_opt(kind, key),
            result => Ok(result?),
        }
    }
}

/// The fields of an object that a write sends: the status has a call of its own, and would be different each time.
fn writable(text: &str, kind: &Kind) -> Result<Map<String, Value>, Error> {
    let mut fields = fields_of(text, kind)?;
    retain(&mut fields, &|name, _| name != "status");
    Ok(fields)
}

/// The object in a field; a new one if the field is missing or has no object.
fn object_in<'a>(fields: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let value = fields.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!(),
    }
}

/// Takes what the server sets out of the metadata, and annotations that applies of plugins left in an object that was
/// read. Returns what a write is conditional on.
fn take_server_fields(object: &mut Map<String, Value>) -> Vec<(String, Value)> {
    let mut conditions = Vec::new();
    let metadata = object_in(object, "metadata");
    for name in ["uid", "resourceVersion"] {
        conditions.extend(metadata.get_mut(name).map(|value| (name.to_owned(), value.take())));
    }
    if let Some(value) = metadata.get_mut("annotations")
        && let Value::Object(annotations) = value
    {
        retain(annotations, &|name, _| !name.starts_with(APPLIED));
        if annotations.is_empty() {
            *value = Value::Null;
        }
    }
    retain(metadata, &|name, value| !value.is_null() && !OF_THE_SERVER.contains(&name));
    conditions
}
