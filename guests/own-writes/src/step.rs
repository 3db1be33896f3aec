//! The writes, one after the other and again from the start, and what the cache must show after each.

use pilothouse_sdk::prelude::*;

pub(crate) const CONFIG_MAP: Kind = Kind::core("v1", "ConfigMap");

const FINALIZER: &str = "pilothouse.dev/own-writes";

/// What the cache must show.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The object in this version.
    Version(String),
    /// The object, which waits for its finalizer.
    Marked,
    /// No object.
    Nothing,
}

impl Wanted {
    pub(crate) fn is_met(&self, found: Option<&Object>) -> bool {
        match self {
            Self::Version(version) => found.is_some_and(|object| object.resource_version() == *version),
            Self::Marked => found.is_some_and(|object| object.deletion_timestamp().is_some()),
            Self::Nothing => found.is_none(),
        }
    }
}

/// Makes a step. Each is good after the one before, whatever the cache shows.
pub(crate) fn make(own: &Key, step: usize) -> Result<Wanted, ApiError> {
    let write = WriteOptions::default();
    let map = |finalizers: &[&str]| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"step": step.to_string()},
            "metadata": {"namespace": own.namespace, "name": own.name, "finalizers": finalizers},
        })
    };
    let patch =
        |patch: pilothouse_sdk::serde_json::Value| client::patch_merge(&CONFIG_MAP, own, &patch, &write);
    let delete = || client::delete(&CONFIG_MAP, own, &DeleteOptions::default());
    let written = match step % 7 {
        0 => client::create(&CONFIG_MAP, &map(&[]), &write)?,
        1 => {
            let written = client::update(&CONFIG_MAP, &map(&[]), &write)?;
            // Nothing comes of these, so there is nothing to wait for.
            let dry = WriteOptions { dry_run: true, ..Default::default() };
            client::patch_merge(&CONFIG_MAP, own, &json!({"data": {"dry": "yes"}}), &dry)?;
            client::delete(&CONFIG_MAP, own, &DeleteOptions { dry_run: true, ..Default::default() })?;
            written
        }
        2 => patch(json!({"data": {"patched": "yes"}}))?,
        4 => client::create(&CONFIG_MAP, &map(&[FINALIZER]), &write)?,
        5 => {
            delete()?;
            return Ok(Wanted::Marked);
        }
        // The last finalizer: the object ends with it.
        6 => {
            patch(json!({"metadata": {"finalizers": null}}))?;
            return Ok(Wanted::Nothing);
        }
        _ => {
            delete()?;
            return Ok(Wanted::Nothing);
        }
    };
    Ok(Wanted::Version(written.resource_version()))
}
