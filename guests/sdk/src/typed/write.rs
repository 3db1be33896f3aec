//! Typed writes that write only what is different: methods of [`Context`].

use serde::Serialize;

use super::merge::{contains, merge_patch, replaces_list, transfer};
use super::resource::{fields_of, serialize};
use super::{ObjectMetadata, Resource, set_controller_reference};
use crate::client::{ApplyOptions, DeleteOptions, WriteOptions};
use crate::json::{Fields, Json};
use crate::key::fnv1a;
use crate::sys::{CallOptions, PatchKind};
use crate::{Context, Error, Key, Kind, Object, Refusal};

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
        self.apply_text(&Kind::of::<K>(), &object.key(), &serialize(object)?)
    }

    /// The part of an apply that is the same for all types.
    fn apply_text(&self, kind: &Kind, key: &Key, text: &str) -> Result<Written, Error> {
        let mut wanted = writable(text, kind)?;
        // An object that was read has a new version after each write, and what applies left in it.
        let server = take_server_fields(&mut wanted);
        let mut wanted = Json::Object(wanted);
        let (name, hash) = (self.applied_annotation(), format!("{:016x}", fnv1a(&wanted.to_text())));
        let present = match self.read(kind, key) {
            Ok(present) => Some(present),
            // Without the right to read nothing is known.
            Err(error) if error.is_forbidden() => None,
            Err(error) => return Err(error),
        };
        if let Some(Some(present)) = &present
            && present.annotation(&name).as_deref() == Some(&hash)
            && contains(&whole(present, &present.body()?)?, &wanted)
        {
            return Ok(Written::Unchanged);
        }
        if let Json::Object(wanted) = &mut wanted {
            let metadata = wanted.object("metadata");
            metadata.object("annotations").set(name, Json::text(&hash));
            // The conditions of a write.
            for (name, value) in server {
                metadata.set(name, value);
            }
        }
        let applied =
            self.client().apply_json(kind, key, wanted.to_text().as_bytes(), &ApplyOptions::force())?;
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
            return self.create_text(&kind, &serialize(&object)?);
        };
        let body = present.body()?;
        let mut object: K = present.parse_body(body.as_bytes())?;
        let before = serialize(&object)?;
        mutate(&mut object)?;
        self.update_text(&kind, key, &present, [&body, &before, &serialize(&object)?])
    }

    /// The part of a creation that is the same for all types.
    fn create_text(&self, kind: &Kind, text: &str) -> Result<Written, Error> {
        let body = Json::Object(writable(text, kind)?).to_text();
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
        [body, before, after]: [&str; 3],
    ) -> Result<Written, Error> {
        let whole = whole(present, body)?;
        let [before, after] = [writable(before, kind)?, writable(after, kind)?].map(Json::Object);
        let changed = transfer(&whole, &before, &after);
        let Some(Json::Object(mut patch)) = merge_patch(&whole, &changed) else {
            return Ok(Written::Unchanged);
        };
        patch.object("metadata").set("resourceVersion", Json::text(&present.resource_version()));
        let patch = Json::Object(patch).to_text();
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
        let wanted = serde_json::to_string(status)
            .map_err(|error| Refusal::invalid(format!("the status cannot be written as JSON: {error}")))?;
        let version = object.metadata().resource_version();
        self.patch_status_text(&Kind::of::<K>(), &object.key(), version, [&serialize(object)?, &wanted])
    }

    /// The part of a patch of the status that is the same for all types: from the texts of the object and of the status.
    fn patch_status_text(
        &self,
        kind: &Kind,
        key: &Key,
        version: &str,
        [object, wanted]: [&str; 2],
    ) -> Result<Written, Error> {
        let wanted =
            Json::parse(wanted).ok_or_else(|| Refusal::invalid("the status is nested too deeply"))?;
        let present = match Json::parse(object) {
            Some(Json::Object(mut fields)) => fields.remove("status").filter(|status| !status.is_null()),
            _ => None,
        };
        let present = present.unwrap_or_else(|| Json::Object(Fields::default()));
        let Some(patch) = merge_patch(&present, &wanted) else { return Ok(Written::Unchanged) };
        let mut body = Fields::default();
        if replaces_list(&patch) && !version.is_empty() {
            body.object("metadata").set("resourceVersion", Json::text(version));
        }
        body.set("status", patch);
        let body = Json::Object(body).to_text();
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
fn writable<'t>(text: &'t str, kind: &Kind) -> Result<Fields<'t>, Error> {
    let mut fields = fields_of(text, kind)?;
    fields.remove("status");
    Ok(fields)
}

/// The object that was read, from its body.
fn whole<'t>(object: &Object<'_>, body: &'t str) -> Result<Json<'t>, Error> {
    Json::parse(body).ok_or_else(|| object.decode_error("", "malformed JSON"))
}

/// Takes what the server sets out of the metadata, and annotations that applies of plugins left in an object that was
/// read. Returns what a write is conditional on.
fn take_server_fields<'t>(object: &mut Fields<'t>) -> Vec<(&'static str, Json<'t>)> {
    let mut conditions = Vec::new();
    let metadata = object.object("metadata");
    for name in ["uid", "resourceVersion"] {
        conditions.extend(metadata.remove(name).map(|value| (name, value)));
    }
    metadata.retain(|name| !OF_THE_SERVER.contains(&name));
    if let Some(Json::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name| !name.starts_with(APPLIED));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    conditions
}
