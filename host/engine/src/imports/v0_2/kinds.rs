//! The `kinds` interface: kinds by handle.

use pilothouse_object::Gvk;
use wasmtime::component::Resource;

use super::{Refused, check_cluster, check_text};
use crate::bindings::v0_2::pilothouse::controller::kinds::{Host, HostKind};
use crate::error::OverLimit;
use crate::imports::{ImportCall, Kind};
use crate::state::StoreState;

/// Most kinds that an instance may have at a time.
pub(crate) const MAX_KINDS: usize = 256;

/// Maximum length in bytes of a group, a version and a kind.
const MAX_NAME: usize = 253;

impl StoreState {
    /// The kind behind a handle.
    pub(super) fn kind(&self, handle: &Resource<Kind>) -> wasmtime::Result<&Gvk> {
        self.kinds.get(handle).map(|Kind(kind)| kind)
    }
}

impl Host for ImportCall<'_> {
    fn resolve(
        &mut self,
        cluster: u32,
        group: String,
        version: String,
        kind: String,
    ) -> Result<Resource<Kind>, Refused> {
        check_cluster(cluster)?;
        for (what, text) in [("group", &group), ("version", &version), ("kind", &kind)] {
            check_text(what, text, MAX_NAME)?;
        }
        let handle = self.kinds.push(Kind(Gvk { group, version, kind }), MAX_KINDS);
        Ok(handle.ok_or_else(|| {
            OverLimit::new(format_args!(
                "an instance may have {MAX_KINDS} kinds at a time: resolve each kind once, and keep the handle"
            ))
        })?)
    }
}

impl HostKind for ImportCall<'_> {
    fn cluster(&mut self, this: Resource<Kind>) -> wasmtime::Result<u32> {
        self.kind(&this).map(|_| 0)
    }

    fn group(&mut self, this: Resource<Kind>) -> wasmtime::Result<String> {
        Ok(self.kind(&this)?.group.clone())
    }

    fn version(&mut self, this: Resource<Kind>) -> wasmtime::Result<String> {
        Ok(self.kind(&this)?.version.clone())
    }

    fn name(&mut self, this: Resource<Kind>) -> wasmtime::Result<String> {
        Ok(self.kind(&this)?.kind.clone())
    }

    fn drop(&mut self, this: Resource<Kind>) -> wasmtime::Result<()> {
        self.kinds.delete(&this);
        Ok(())
    }
}
