//! The `kinds` interface: kinds by handle.

use pilothouse_object::Gvk;
use wasmtime::component::Resource;

use super::{Refused, check_text};
use crate::bindings::pilothouse::controller::kinds::{Host, HostKind};
use crate::error::OverLimit;
use crate::host::{Refusal, RefusalReason};
use crate::imports::{ImportCall, Kind};
use crate::state::StoreState;

/// Most kinds that an instance may have at a time.
pub(crate) const MAX_KINDS: usize = 256;

/// Maximum length in bytes of a group, a version and a kind.
const MAX_NAME: usize = 253;

impl StoreState {
    /// The kind behind a handle.
    pub(super) fn kind(&self, handle: &Resource<Kind>) -> wasmtime::Result<&Kind> {
        self.kinds.get(handle)
    }

    /// The kind behind a handle, to be read from the cache.
    pub(super) fn cached_kind(&self, handle: &Resource<Kind>) -> Result<&Gvk, Refused> {
        let Kind { cluster, kind } = self.kind(handle)?;
        if *cluster == 0 {
            return Ok(kind);
        }
        let message = format!(
            "the cache has objects of the cluster that the plugin runs in: read {kind} of cluster {:?} with live calls, or run the \
             plugin there (spec.clusters of its manifest)",
            self.cluster_name(*cluster)
        );
        Err(Refusal { reason: RefusalReason::NotWatched, message }.into())
    }

    /// The name of a cluster that was checked.
    pub(super) fn cluster_name(&self, cluster: u32) -> String {
        self.host.clusters().get(cluster as usize).cloned().unwrap_or_default()
    }

    /// Checks that the plugin accesses the cluster of a live call.
    pub(super) fn check_accessed(&self, cluster: u32) -> Result<(), Refusal> {
        let names = self.host.clusters();
        if (cluster as usize) < names.len() {
            return Ok(());
        }
        let names: Vec<String> =
            names.iter().enumerate().map(|(number, name)| format!("{number} ({name})")).collect();
        Err(Refusal::unsupported(format_args!(
            "cluster {cluster}: the plugin has {}; name others in spec.remoteClusters of its manifest",
            names.join(", ")
        )))
    }
}

impl Host for ImportCall<'_> {
    fn clusters(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(self.host.clusters().to_vec())
    }

    fn resolve(
        &mut self,
        cluster: u32,
        group: String,
        version: String,
        kind: String,
    ) -> Result<Resource<Kind>, Refused> {
        self.check_accessed(cluster)?;
        for (what, text) in [("group", &group), ("version", &version), ("kind", &kind)] {
            check_text(what, text, MAX_NAME)?;
        }
        let handle = self.kinds.push(Kind { cluster, kind: Gvk { group, version, kind } }, MAX_KINDS);
        Ok(handle.ok_or_else(|| {
            OverLimit::new(format_args!(
                "an instance may have {MAX_KINDS} kinds at a time: resolve each kind once, and keep the handle"
            ))
        })?)
    }
}

impl HostKind for ImportCall<'_> {
    fn cluster(&mut self, this: Resource<Kind>) -> wasmtime::Result<u32> {
        self.kind(&this).map(|kind| kind.cluster)
    }

    fn group(&mut self, this: Resource<Kind>) -> wasmtime::Result<String> {
        Ok(self.kind(&this)?.kind.group.clone())
    }

    fn version(&mut self, this: Resource<Kind>) -> wasmtime::Result<String> {
        Ok(self.kind(&this)?.kind.version.clone())
    }

    fn name(&mut self, this: Resource<Kind>) -> wasmtime::Result<String> {
        Ok(self.kind(&this)?.kind.kind.clone())
    }

    fn drop(&mut self, this: Resource<Kind>) -> wasmtime::Result<()> {
        self.kinds.delete(&this);
        Ok(())
    }
}
