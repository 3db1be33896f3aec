//! [`finalizer`]: work that must be done before an object is deleted.

use serde_json::json;

use super::{ObjectMetadata, Resource};
use crate::sys::{CallOptions, PatchKind};
use crate::{Context, Failure, Kind, Outcome};

/// What is to be done with an object that has a finalizer.
#[derive(Debug)]
pub enum Finalizer<'a, K> {
    /// The object exists and has the finalizer: reconcile it.
    Apply(&'a K),
    /// The object is being deleted: clean up. After success the finalizer is removed.
    Cleanup(&'a K),
}

/// Reconciles an object with a finalizer: adds the finalizer before the first work, and removes it after the cleanup.
///
/// Both writes are safe against concurrent changes of other finalizers: the list must still be the one that was read, of
/// the same object. Otherwise they fail, and the reconcile is tried again. They need the verb `patch` on the kind.
///
/// ```
/// # use pilothouse_sdk::prelude::*;
/// # #[derive(Resource, Serialize, Deserialize)]
/// # #[resource(group = "example.com", version = "v1")]
/// # struct Bucket { metadata: Metadata }
/// # fn create(bucket: &Bucket) -> Result<Outcome, Failure> { Ok(Outcome::Done) }
/// # fn delete(bucket: &Bucket) -> Result<Outcome, Failure> { Ok(Outcome::Done) }
/// fn reconcile(ctx: &Context, bucket: &Bucket) -> Result<Outcome, Failure> {
///     finalizer(ctx, bucket, "example.com/bucket", |event| match event {
///         Finalizer::Apply(bucket) => create(bucket),
///         Finalizer::Cleanup(bucket) => delete(bucket),
///     })
/// }
/// ```
///
/// # Errors
/// The failure of the closure, or of a write.
pub fn finalizer<K: Resource>(
    ctx: &Context,
    object: &K,
    name: &str,
    reconcile: impl FnOnce(Finalizer<'_, K>) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let (kind, key, metadata) = (Kind::of::<K>(), object.key(), object.metadata());
    let place = metadata.finalizers().iter().position(|other| other == name);
    let client = ctx.client();
    match (metadata.is_being_deleted(), place) {
        (false, Some(_)) => reconcile(Finalizer::Apply(object)),
        (false, None) => {
            // A merge patch replaces the list, so it must not be a newer one than was read.
            let patch = addition(metadata.finalizers(), name, metadata.resource_version());
            let object =
                client.patch(&kind, &key, PatchKind::Merge, patch.as_bytes(), &CallOptions::default());
            let object = object.and_then(|object| object.parse::<K>()).map_err(Failure::from);
            let object =
                object.map_err(|failure| failure.while_doing(format!("adding the finalizer {name}")))?;
            reconcile(Finalizer::Apply(&object))
        }
        (true, Some(place)) => {
            let outcome = reconcile(Finalizer::Cleanup(object))?;
            if outcome != Outcome::Done {
                // The cleanup goes on in a later call.
                return Ok(outcome);
            }
            let patch = removal(place, name, metadata.uid());
            match client.patch(&kind, &key, PatchKind::Json, patch.as_bytes(), &CallOptions::default()) {
                Ok(_) => Ok(Outcome::Done),
                Err(error) if error.is_not_found() => Ok(Outcome::Done),
                Err(error) => Err(Failure::from(error).while_doing(format!("removing the finalizer {name}"))),
            }
        }
        (true, None) => Ok(Outcome::Done),
    }
}

/// The merge patch that adds a finalizer to those that were read.
fn addition(present: &[String], name: &str, version: &str) -> String {
    let finalizers: Vec<&str> = present.iter().map(String::as_str).chain([name]).collect();
    json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}}).to_string()
}

/// The JSON patch that removes a finalizer from its place, if it is there.
fn removal(place: usize, name: &str, uid: &str) -> String {
    let path = format!("/metadata/finalizers/{place}");
    let operations = json!([
        // Not of another object of that name, which the cache does not show yet.
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": path, "value": name},
        {"op": "remove", "path": path},
    ]);
    operations.to_string()
}
