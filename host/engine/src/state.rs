//! [`StoreState`]: the host's data in the wasmtime store of an instance.

use std::sync::Arc;
use std::time::Instant;

use pilothouse_object::Object;
use pilothouse_plugin::Limits;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::budget::Budget;
use crate::host::{CallContext, HostImports};
use crate::http::{Http, MAX_HANDLES};
use crate::limits::StoreLimiter;

/// The host's data in the wasmtime store of an instance.
pub(crate) struct StoreState {
    pub(crate) host: Arc<dyn HostImports>,
    pub(crate) limiter: StoreLimiter,
    pub(crate) budget: Arc<Budget>,
    pub(crate) call: CallContext,
    /// The wall-clock deadline of the running call.
    pub(crate) deadline: Instant,
    /// The objects and cursors that the guest received in the running call; cleared after it.
    pub(crate) handles: ResourceTable,
    /// The packed object that was read last, with its unpacked text. Only one is kept, so a guest that reads many
    /// objects does not fill the host's memory with texts.
    pub(crate) reading: Option<Object>,
    wasi: WasiCtx,
    http: Http,
    /// The WASI streams, which the guest's standard library keeps between calls, and the resources of `wasi:http`.
    wasi_table: ResourceTable,
}

impl StoreState {
    pub(crate) fn new(host: Arc<dyn HostImports>, max_memory: usize, wasi: WasiCtx) -> Self {
        let mut wasi_table = ResourceTable::new();
        wasi_table.set_max_capacity(MAX_HANDLES);
        Self {
            http: Http::new(Arc::clone(&host)),
            host,
            limiter: StoreLimiter { max_memory, refused: None },
            budget: Budget::new(),
            call: CallContext::default(),
            deadline: Instant::now(),
            handles: ResourceTable::new(),
            reading: None,
            wasi,
            wasi_table,
        }
    }

    /// Starts a call: sets its context and deadline and resets the limits.
    pub(crate) fn begin(&mut self, call: CallContext, limits: &Limits) {
        let now = Instant::now();
        self.call = call;
        self.deadline = now + limits.call_timeout;
        self.limiter.refused = None;
        self.budget.begin(now, limits.cpu_per_call);
    }

    /// Ends a call: invalidates its handles and drops the unpacked text.
    pub(crate) fn end(&mut self) {
        self.call = CallContext::default();
        self.reading = None;
        if !self.handles.is_empty() {
            self.handles = ResourceTable::new();
        }
    }
}

impl WasiView for StoreState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.wasi_table }
    }
}

impl WasiHttpView for StoreState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let Http { ctx, hooks } = &mut self.http;
        hooks.call.clone_from(&self.call);
        hooks.deadline = self.deadline;
        WasiHttpCtxView { ctx, hooks, table: &mut self.wasi_table }
    }
}
