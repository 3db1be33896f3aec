//! [`Code`]: a compiled component, checked and linked, that can be unloaded and loaded again.
//!
//! Unloading drops the mapping of the machine code, so that an idle plugin uses almost no memory. Plugins with the same
//! machine code share one mapping ([`shared`]), which goes with the last of them. The entry in the compile cache stays on
//! disk; the next call maps and links it again in a fraction of a millisecond. When the entry is lost or damaged
//! by then, there is no instance of this code any more: the component must be [prepared](Engine::prepare) again.

mod shared;

use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_plugin::{World, printable};
use wasmtime::component::{Component, InstancePre};

pub(crate) use self::shared::CodeTable;
use self::shared::SharedCode;
use crate::contract;
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
    code: Arc<SharedCode>,
    /// This component's share of the mapping; none while it is unloaded.
    linked: Option<Arc<Linked>>,
}

/// A mapped and linked component, with the indices of its exports. It has nothing of a plugin: what its imports may do is
/// asked of the store of each instance.
pub(crate) struct Linked {
    pub(crate) pre: InstancePre<StoreState>,
    pub(crate) exports: Indices,
    world: World,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("digest", &self.0.digest).finish_non_exhaustive()
    }
}

impl Code {
    pub(crate) fn new(engine: Engine, sum: String, digest: String) -> Self {
        let mapping = Mutex::new(Mapping { code: engine.0.codes.of(sum), linked: None });
        Self(Arc::new(CodeInner { engine, digest, mapping }))
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
        Ok(self.linked()?.world)
    }

    /// Whether the component is loaded now.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.0.mapping.lock().linked.is_some()
    }

    /// Drops the mapping, unless others have the same machine code loaded. Live instances keep it until they are dropped.
    pub fn unload(&self) {
        let mut mapping = self.0.mapping.lock();
        if let Some(linked) = mapping.linked.take() {
            mapping.code.release(linked);
        }
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
        let engine = &self.0.engine;
        let linked = mapping.code.linked(|sum| link(engine, &engine.0.cache.map(sum)?))?;
        mapping.linked = Some(Arc::clone(&linked));
        Ok(linked)
    }
}

fn link(engine: &Engine, component: &Component) -> Result<Linked, LoadError> {
    let ty = component.component_type();
    let engine = &engine.0;
    let exports: Vec<String> = ty.exports(&engine.wasmtime).map(|(name, _)| name.to_owned()).collect();
    let imports: Vec<String> = ty.imports(&engine.wasmtime).map(|(name, _)| name.to_owned()).collect();
    let world = contract::check(&exports, &imports)?;
    let pre = engine
        .linker
        .instantiate_pre(component)
        .map_err(|e| LoadError::MissingImport(printable(&format!("{e:#}"))))?;
    let mismatch = |e: wasmtime::Error| LoadError::OtherWorld {
        found: format!("an interface of another shape ({e:#})"),
        missing: "the one of this version".to_owned(),
    };
    let exports = Indices::new(world, &pre).map_err(mismatch)?;
    Ok(Linked { pre, exports, world })
}
