//! [`Code`]: a compiled component, checked and linked, that can be unloaded and loaded again.
//!
//! Unloading drops the mapping of the machine code, so that an idle plugin uses almost no memory. The entry in the
//! compile cache stays on disk; the next call maps and links it again in a fraction of a millisecond.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_plugin::World;
use wasmtime::component::{Component, InstancePre};

use crate::bindings::exports::pilothouse::controller as exports;
use crate::engine::Engine;
use crate::error::LoadError;
use crate::state::StoreState;

/// A component that is ready to be instantiated. A clone copies a reference count.
#[derive(Clone)]
pub struct Code(Arc<CodeInner>);

struct CodeInner {
    engine: Engine,
    file: PathBuf,
    digest: String,
    linked: Mutex<Option<Arc<Linked>>>,
}

/// A mapped and linked component, with the indices of its exports.
pub(crate) struct Linked {
    pub(crate) pre: InstancePre<StoreState>,
    pub(crate) descriptor: exports::descriptor::GuestIndices,
    pub(crate) reconcile: Option<exports::reconcile::GuestIndices>,
    pub(crate) reconcile_many: Option<exports::reconcile_many::GuestIndices>,
    pub(crate) handler: Option<exports::handler::GuestIndices>,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("digest", &self.0.digest).finish_non_exhaustive()
    }
}

/// Prefix of the contract's interfaces in the names of exports.
const PACKAGE: &str = "pilothouse:controller/";

impl Code {
    pub(crate) fn new(engine: Engine, file: PathBuf, digest: String) -> Self {
        Self(Arc::new(CodeInner { engine, file, digest, linked: Mutex::default() }))
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
        let linked = self.linked()?;
        Ok(match (linked.reconcile.is_some(), linked.handler.is_some()) {
            _ if linked.reconcile_many.is_some() => World::BatchReconciler,
            (true, true) => World::Controller,
            (false, _) => World::EventHandler,
            (true, false) => World::Reconciler,
        })
    }

    /// Whether the component is mapped now.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.0.linked.lock().is_some()
    }

    /// Drops the mapping. Live instances keep it until they are dropped.
    pub fn unload(&self) {
        *self.0.linked.lock() = None;
    }

    /// Maps and links the component now instead of at the first call.
    pub(crate) fn load(&self) -> Result<(), LoadError> {
        self.linked().map(drop)
    }

    /// The linked component; maps and links it if necessary.
    pub(crate) fn linked(&self) -> Result<Arc<Linked>, LoadError> {
        let mut slot = self.0.linked.lock();
        if let Some(linked) = &*slot {
            return Ok(Arc::clone(linked));
        }
        let engine = &self.0.engine.0;
        let component = engine
            .cache
            .open(&self.0.file)
            .map_err(|e| LoadError::Cache(format!("{}: {e:#}", self.0.file.display())))?;
        let linked = Arc::new(link(&self.0.engine, &component)?);
        *slot = Some(Arc::clone(&linked));
        Ok(linked)
    }
}

fn link(engine: &Engine, component: &Component) -> Result<Linked, LoadError> {
    let ty = component.component_type();
    let found: Vec<String> = ty.exports(&engine.0.wasmtime).map(|(name, _)| name.to_owned()).collect();
    let has = |interface: &str| found.iter().any(|name| is_interface(name, interface));
    let one_by_one = has("reconcile") || has("handler");
    let missing = match (has("descriptor"), one_by_one || has("reconcile-many")) {
        (true, true) if one_by_one && has("reconcile-many") => "reconcile-many alone",
        (true, true) => "",
        (false, true) => "descriptor",
        (true, false) => "reconcile, reconcile-many or handler",
        (false, false) => "descriptor with reconcile, reconcile-many or handler",
    };
    if !missing.is_empty() {
        let found = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
        return Err(LoadError::OtherWorld { found, missing: missing.to_owned() });
    }
    let pre =
        engine.0.linker.instantiate_pre(component).map_err(|e| LoadError::MissingImport(format!("{e:#}")))?;
    let mismatch = |e: wasmtime::Error| LoadError::OtherWorld {
        found: format!("an interface of another shape ({e:#})"),
        missing: "the one of this version".to_owned(),
    };
    let reconcile = has("reconcile").then(|| exports::reconcile::GuestIndices::new(&pre)).transpose();
    let reconcile_many =
        has("reconcile-many").then(|| exports::reconcile_many::GuestIndices::new(&pre)).transpose();
    let handler = has("handler").then(|| exports::handler::GuestIndices::new(&pre)).transpose();
    Ok(Linked {
        descriptor: exports::descriptor::GuestIndices::new(&pre).map_err(mismatch)?,
        reconcile: reconcile.map_err(mismatch)?,
        reconcile_many: reconcile_many.map_err(mismatch)?,
        handler: handler.map_err(mismatch)?,
        pre,
    })
}

/// Whether an export is this interface of the contract, in any version. The linker checks versions.
fn is_interface(export: &str, interface: &str) -> bool {
    export
        .strip_prefix(PACKAGE)
        .and_then(|rest| rest.strip_prefix(interface))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}
