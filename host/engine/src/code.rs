//! [`Code`]: a compiled component, checked and linked, that can be unloaded and loaded again.
//!
//! Unloading drops the mapping of the machine code, so that an idle plugin uses almost no memory. The entry in the
//! compile cache stays on disk; the next call maps and links it again in a fraction of a millisecond. An entry that is lost
//! or damaged meanwhile is made again from the bytes of the component ([`Code::restore`]).

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_plugin::{World, printable};
use wasmtime::component::{Component, InstancePre};

use crate::contract::{self, ContractVersion, Exported};
use crate::engine::Engine;
use crate::error::LoadError;
use crate::exports::Indices;
use crate::state::StoreState;

/// A component that is ready to be instantiated. A clone copies a reference count.
#[derive(Clone)]
pub struct Code(Arc<CodeInner>);

struct CodeInner {
    engine: Engine,
    digest: String,
    mapping: Mutex<Mapping>,
}

struct Mapping {
    /// The SHA-256 of the machine code: its name in the compile cache.
    sum: String,
    /// None while the code is not mapped.
    linked: Option<Arc<Linked>>,
}

/// A mapped and linked component, with the indices of its exports.
pub(crate) struct Linked {
    pub(crate) pre: InstancePre<StoreState>,
    pub(crate) exports: Indices,
    exported: Exported,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("digest", &self.0.digest).finish_non_exhaustive()
    }
}

impl Code {
    pub(crate) fn new(engine: Engine, sum: String, digest: String) -> Self {
        Self(Arc::new(CodeInner { engine, digest, mapping: Mutex::new(Mapping { sum, linked: None }) }))
    }

    /// `sha256:…` of the component's bytes.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The world that the component targets. Loads the component if necessary.
    ///
    /// # Errors
    /// When the component is unloaded and cannot be loaded again.
    pub fn world(&self) -> Result<World, LoadError> {
        Ok(self.linked()?.exported.world)
    }

    /// The version of the contract that the component targets. Loads the component if necessary.
    ///
    /// # Errors
    /// When the component is unloaded and cannot be loaded again.
    pub fn version(&self) -> Result<ContractVersion, LoadError> {
        Ok(self.linked()?.exported.version)
    }

    /// Whether the component hands its state over at a reload. Loads the component if necessary.
    ///
    /// # Errors
    /// When the component is unloaded and cannot be loaded again.
    pub fn has_state(&self) -> Result<bool, LoadError> {
        Ok(self.linked()?.exported.state)
    }

    /// Whether the component is mapped now.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.0.mapping.lock().linked.is_some()
    }

    /// Drops the mapping. Live instances keep it until they are dropped.
    pub fn unload(&self) {
        self.0.mapping.lock().linked = None;
    }

    /// Maps and links the component now instead of at the first call.
    pub(crate) fn load(&self) -> Result<(), LoadError> {
        self.linked().map(drop)
    }

    /// The linked component; maps and links it if necessary.
    pub(crate) fn linked(&self) -> Result<Arc<Linked>, LoadError> {
        let mut mapping = self.0.mapping.lock();
        if let Some(linked) = &mapping.linked {
            return Ok(Arc::clone(linked));
        }
        let component = self.0.engine.0.cache.map(&mapping.sum)?;
        let linked = Arc::new(link(&self.0.engine, &component)?);
        mapping.linked = Some(Arc::clone(&linked));
        Ok(linked)
    }

    /// Makes the machine code again after its entry in the compile cache was lost or damaged. `wasm` are the bytes of the
    /// component. An entry that is sound is used as it is.
    ///
    /// # Errors
    /// When the bytes are those of another component, and as [`Engine::prepare`].
    pub async fn restore(&self, wasm: Bytes) -> Result<(), LoadError> {
        let made = self.0.engine.prepare(wasm).await?;
        if made.digest() != self.digest() {
            return Err(LoadError::CodeLost(format!("the component is {} now", made.digest())));
        }
        let sum = made.0.mapping.lock().sum.clone();
        self.0.mapping.lock().sum = sum;
        Ok(())
    }
}

fn link(engine: &Engine, component: &Component) -> Result<Linked, LoadError> {
    let ty = component.component_type();
    let engine = &engine.0;
    let exports: Vec<String> = ty.exports(&engine.wasmtime).map(|(name, _)| name.to_owned()).collect();
    let imports: Vec<String> = ty.imports(&engine.wasmtime).map(|(name, _)| name.to_owned()).collect();
    let exported = contract::check(&exports, &imports)?;
    let pre = engine
        .linker
        .instantiate_pre(component)
        .map_err(|e| LoadError::MissingImport(printable(&format!("{e:#}"))))?;
    let mismatch = |e: wasmtime::Error| LoadError::OtherWorld {
        found: format!("an interface of another shape ({e:#})"),
        missing: "the one of this version".to_owned(),
    };
    let exports = Indices::new(exported, &pre).map_err(mismatch)?;
    Ok(Linked { pre, exports, exported })
}
