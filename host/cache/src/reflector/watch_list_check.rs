//! The check of streaming lists; client-go's `KUBE_WATCHLIST_INCONSISTENCY_DETECTOR`: a list at exactly the version of the
//! bookmark must show the objects of the initial events.
//!
//! It is for tests, and off unless it is asked for: each streaming list costs a list more, and is handed over after it.
//! Invariants: a difference is logged and counted, and changes nothing else; without the list nothing is checked.
//!
//! Called by the streaming list before it hands its objects over.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use pilothouse_client::{ListParams, ResourceVersionMatch, Result};
use pilothouse_object::{Object, ObjectKey};

use super::{Reflector, count, gated};

/// Keys that are logged.
const KEYS_SHOWN: usize = 5;

impl Reflector {
    /// Compares the objects of a streaming list with a list at exactly its version, where that is asked for.
    pub(super) async fn check_watch_list(&self, objects: &[Object], version: &str) {
        if !self.options.check_watch_lists {
            return;
        }
        let resource = &self.resource;
        let listed = match self.list_exactly(version).await {
            Ok(listed) => listed,
            // As a rule the version has expired.
            Err(error) => {
                tracing::debug!(cluster = self.shared.cluster(), %resource,
                    version, %error, "a streaming list is not checked: no list at its version");
                return;
            }
        };
        if self.relist.has_changed().unwrap_or(false) {
            tracing::debug!(cluster = self.shared.cluster(), %resource,
                version, "a streaming list is not checked: its fields may have changed meanwhile");
            return;
        }
        let differences = Differences::between(objects, &listed);
        if differences.is_none() {
            return;
        }
        count(&self.shared.inconsistent_watch_lists);
        let Differences { missing, unlisted, changed } = differences;
        let keys: Vec<_> = [&missing, &unlisted, &changed].into_iter().flatten().take(KEYS_SHOWN).collect();
        tracing::error!(event = "watch_list_inconsistent", cluster = self.shared.cluster(), %resource,
            version, missing = missing.len(),
            unlisted = unlisted.len(), changed = changed.len(), ?keys,
            "a streaming list and a list of the same version differ: one of them is wrong");
    }

    /// All objects at exactly a version.
    async fn list_exactly(&self, version: &str) -> Result<Vec<Object>> {
        let params = ListParams {
            resource_version: Some(version.to_owned()),
            resource_version_match: Some(ResourceVersionMatch::Exact),
            ..ListParams::default()
        };
        let mut listed = Vec::new();
        let mut keep = |object: Object| listed.extend(self.receiver.transformed_or_held(object));
        gated(&self.options.availability, self.source.list(&params, &mut keep)).await?;
        Ok(listed)
    }
}

/// Keys by which a streaming list and a list differ.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differences<'a> {
    /// In the list alone.
    missing: Vec<&'a ObjectKey>,
    /// In the streaming list alone.
    unlisted: Vec<&'a ObjectKey>,
    /// In both, with another UID, version or content.
    changed: Vec<&'a ObjectKey>,
}

impl<'a> Differences<'a> {
    fn between(streamed: &'a [Object], listed: &'a [Object]) -> Self {
        let mut unlisted: HashMap<_, _, RandomState> =
            streamed.iter().map(|object| (object.key(), object)).collect();
        let mut differences = Self::default();
        for object in listed {
            match unlisted.remove(object.key()) {
                None => differences.missing.push(object.key()),
                Some(same) if is_same(same, object) => {}
                Some(_) => differences.changed.push(object.key()),
            }
        }
        differences.unlisted.extend(unlisted.into_keys());
        differences
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

fn is_same(a: &Object, b: &Object) -> bool {
    a.uid() == b.uid() && a.resource_version() == b.resource_version() && a.held().is_same_text(b.held())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{config_map, config_maps, object};

    #[test]
    fn objects_differ_by_key_uid_version_or_content() {
        let with = |uid, version, data: &str| {
            object(&config_maps().gvk, "a/x", uid, version, json!({"data": {"k": data}}))
        };
        let streamed = [with("u", "5", "v"), config_map("a/y", "6")];
        let keys = |keys: &[&ObjectKey]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (listed, missing, unlisted, changed) in [
            (vec![config_map("a/y", "6"), with("u", "5", "v")], vec![], vec![], vec![]),
            (vec![with("u", "5", "v")], vec![], vec!["a/y"], vec![]),
            (
                vec![with("u", "5", "v"), config_map("a/z", "7"), config_map("a/y", "6")],
                vec!["a/z"],
                vec![],
                vec![],
            ),
            (vec![with("w", "5", "v"), config_map("a/y", "6")], vec![], vec![], vec!["a/x"]),
            (vec![with("u", "4", "v"), config_map("a/y", "6")], vec![], vec![], vec!["a/x"]),
            (vec![with("u", "5", "w"), config_map("a/y", "6")], vec![], vec![], vec!["a/x"]),
        ] {
            let found = Differences::between(&streamed, &listed);
            assert_eq!(
                (keys(&found.missing), keys(&found.unlisted), keys(&found.changed)),
                (
                    missing.iter().map(ToString::to_string).collect(),
                    unlisted.iter().map(ToString::to_string).collect(),
                    changed.iter().map(ToString::to_string).collect()
                )
            );
        }
    }
}
