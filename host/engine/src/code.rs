//! [`Code`]: one generation of a plugin's component, checked and linked; its mapping can be dropped and made again.
//!
//! Unloading is what makes an idle plugin cost nothing: the entry in the compile cache stays, and the next call maps and
//! links it again in a fraction of a millisecond.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_plugin::World;
use wasmtime::component::{Component, InstancePre};

use crate::bindings::exports::pilothouse::controller as exports;
use crate::engine::Engine;
use crate::error::LoadError;
use crate::state::State;

/// A component ready to run; a cheap clone.
#[derive(Clone)]
pub struct Code(Arc<Inner>);

struct Inner {
    engine: Engine,
    file: PathBuf,
    digest: String,
    linked: Mutex<Option<Arc<Linked>>>,
}

/// A mapped component and where its exports are.
pub(crate) struct Linked {
    pub(crate) pre: InstancePre<State>,
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

const PACKAGE: &str = "pilothouse:controller/";

impl Code {
    pub(crate) fn new(engine: Engine, file: PathBuf, digest: String) -> Self {
        Self(Arc::new(Inner { engine, file, digest, linked: Mutex::default() }))
    }

    /// `sha256:…` of the component's bytes.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Which world the component targets.
    ///
    /// # Errors
    /// When the component had been unloaded and cannot be mapped again.
    pub fn world(&self) -> Result<World, LoadError> {
        let linked = self.linked()?;
        Ok(match (linked.reconcile.is_some(), linked.handler.is_some()) {
            _ if linked.reconcile_many.is_some() => World::BatchReconciler,
            (true, true) => World::Controller,
            (false, _) => World::EventHandler,
            (true, false) => World::Reconciler,
        })
    }

    /// Whether the component is mapped at the moment.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.0.linked.lock().is_some()
    }

    /// Drops the mapping; live instances keep theirs until they go.
    pub fn unload(&self) {
        *self.0.linked.lock() = None;
    }

    /// Maps and links now rather than at the first call.
    pub(crate) fn load(&self) -> Result<(), LoadError> {
        self.linked().map(drop)
    }

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

/// Whether an export is an interface of the contract, in any version: matching versions is the linker's.
fn is_interface(export: &str, interface: &str) -> bool {
    export
        .strip_prefix(PACKAGE)
        .and_then(|rest| rest.strip_prefix(interface))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}
