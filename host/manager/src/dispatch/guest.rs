//! [`Component`] and [`Guest`]: the seam between the manager and the engine.
//!
//! A component is the compiled code of one generation; a guest is one live instance of it. Workers, pumps and loads know
//! these traits alone, so their tests need no WebAssembly. The engine's [`Code`] and [`Instance`] implement them.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use pilothouse_engine::{
    CallStart, Code, Engine, Event, Failure, Fault, HostImports, Instance, LoadError, Outcome, Request,
};
use pilothouse_plugin::{Limits, World};

/// The answer of a guest for one key.
pub(crate) type Answer = Result<Outcome, Failure>;

/// Makes components ready to run.
pub(crate) trait Compiler: Send + Sync {
    /// Compiles a component, or finds it in the compile cache.
    fn prepare<'a>(&'a self, wasm: &'a Bytes) -> BoxFuture<'a, Result<Arc<dyn Component>, LoadError>>;
}

/// A component ready to run.
pub(crate) trait Component: Send + Sync {
    /// `sha256:…` of the component's bytes.
    fn digest(&self) -> &str;

    /// The world that the component targets.
    fn world(&self) -> Result<World, LoadError>;

    /// Drops the mapping of the code; the next instance maps it again.
    fn unload(&self);

    /// Makes an instance.
    fn instantiate(
        &self,
        imports: Arc<dyn HostImports>,
        limits: Limits,
    ) -> BoxFuture<'_, Result<Box<dyn Guest>, Fault>>;
}

/// A live instance, which runs one call at a time.
pub(crate) trait Guest: Send {
    /// Whether the instance can run another call.
    fn is_usable(&self) -> bool;

    /// Whether it should be replaced nevertheless.
    fn is_worn_out(&self) -> bool;

    /// Bytes of memory that the instance has.
    fn memory(&self) -> usize;

    /// Asks for the description; the inner error is the guest's own message.
    fn describe<'a>(&'a mut self, config: &'a [u8]) -> BoxFuture<'a, Result<Result<Vec<u8>, String>, Fault>>;

    /// Reconciles one key, in the worlds `reconciler` and `controller`.
    fn reconcile<'a>(
        &'a mut self,
        request: &'a Request<'a>,
        call: CallStart,
    ) -> BoxFuture<'a, Result<Answer, Fault>>;

    /// Reconciles many keys, in the world `batch-reconciler`: one answer for each, in their order.
    fn reconcile_many<'a>(
        &'a mut self,
        requests: &'a [Request<'a>],
        call: CallStart,
    ) -> BoxFuture<'a, Result<Vec<Answer>, Fault>>;

    /// Delivers events of a watch, in worlds that handle events: one answer for each, in their order.
    fn handle<'a>(
        &'a mut self,
        watch: &'a str,
        events: &'a [Event<'a>],
        call: CallStart,
    ) -> BoxFuture<'a, Result<Vec<Result<(), Failure>>, Fault>>;

    /// Says that all objects of the first list of a watch were delivered.
    fn synced<'a>(&'a mut self, watch: &'a str, call: CallStart) -> BoxFuture<'a, Result<(), Fault>>;
}

impl Compiler for Engine {
    fn prepare<'a>(&'a self, wasm: &'a Bytes) -> BoxFuture<'a, Result<Arc<dyn Component>, LoadError>> {
        Box::pin(
            async move { Ok(Arc::new(Engine::prepare(self, wasm.clone()).await?) as Arc<dyn Component>) },
        )
    }
}

impl Component for Code {
    fn digest(&self) -> &str {
        Self::digest(self)
    }

    fn world(&self) -> Result<World, LoadError> {
        Self::world(self)
    }

    fn unload(&self) {
        Self::unload(self);
    }

    fn instantiate(
        &self,
        imports: Arc<dyn HostImports>,
        limits: Limits,
    ) -> BoxFuture<'_, Result<Box<dyn Guest>, Fault>> {
        Box::pin(async move {
            let instance = Instance::new(self, imports, limits).await?;
            Ok(Box::new(instance) as Box<dyn Guest>)
        })
    }
}

impl Guest for Instance {
    fn is_usable(&self) -> bool {
        Self::is_usable(self)
    }

    fn is_worn_out(&self) -> bool {
        Self::is_worn_out(self)
    }

    fn memory(&self) -> usize {
        Self::memory(self)
    }

    fn describe<'a>(&'a mut self, config: &'a [u8]) -> BoxFuture<'a, Result<Result<Vec<u8>, String>, Fault>> {
        Box::pin(Self::describe(self, config))
    }

    fn reconcile<'a>(
        &'a mut self,
        request: &'a Request<'a>,
        call: CallStart,
    ) -> BoxFuture<'a, Result<Answer, Fault>> {
        Box::pin(Self::reconcile(self, request, call))
    }

    fn reconcile_many<'a>(
        &'a mut self,
        requests: &'a [Request<'a>],
        call: CallStart,
    ) -> BoxFuture<'a, Result<Vec<Answer>, Fault>> {
        Box::pin(Self::reconcile_many(self, requests, call))
    }

    fn handle<'a>(
        &'a mut self,
        watch: &'a str,
        events: &'a [Event<'a>],
        call: CallStart,
    ) -> BoxFuture<'a, Result<Vec<Result<(), Failure>>, Fault>> {
        Box::pin(Self::handle(self, watch, events, call))
    }

    fn synced<'a>(&'a mut self, watch: &'a str, call: CallStart) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(Self::synced(self, watch, call))
    }
}
