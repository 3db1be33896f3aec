//! [`State`]: what a guest's store carries besides the guest.

use std::sync::Arc;
use std::time::Instant;

use pilothouse_object::Object;
use pilothouse_plugin::Limits;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::budget::Budget;
use crate::host::{CallContext, GuestHost};
use crate::http::{Http, MAX_HANDLES};
use crate::limits::Limiter;

/// What a guest's store carries.
pub(crate) struct State {
    pub(crate) host: Arc<dyn GuestHost>,
    pub(crate) limiter: Limiter,
    pub(crate) budget: Arc<Budget>,
    pub(crate) call: CallContext,
    /// When the running call is cut.
    pub(crate) deadline: Instant,
    /// Objects and cursors handed out in the running call; emptied after it.
    pub(crate) handles: ResourceTable,
    /// The packed object whose text was read last, with that text: a guest that reads many keeps one text at a time.
    pub(crate) reading: Option<Object>,
    wasi: WasiCtx,
    http: Http,
    /// Streams of the guest's standard library, which it keeps between calls, and what it has of `wasi:http`.
    wasi_table: ResourceTable,
}

impl State {
    pub(crate) fn new(host: Arc<dyn GuestHost>, max_memory: usize, wasi: WasiCtx) -> Self {
        let mut wasi_table = ResourceTable::new();
        wasi_table.set_max_capacity(MAX_HANDLES);
        Self {
            http: Http::new(Arc::clone(&host)),
            host,
            limiter: Limiter { max_memory, refused: None },
            budget: Budget::new(),
            call: CallContext::default(),
            deadline: Instant::now(),
            handles: ResourceTable::new(),
            reading: None,
            wasi,
            wasi_table,
        }
    }

    /// A call begins.
    pub(crate) fn begin(&mut self, call: CallContext, limits: &Limits) {
        let now = Instant::now();
        self.call = call;
        self.deadline = now + limits.call_timeout;
        self.limiter.refused = None;
        self.budget.begin(now, limits.cpu_per_call);
    }

    /// A call is over: its handles are void, and what was unpacked for it is let go.
    pub(crate) fn end(&mut self) {
        self.call = CallContext::default();
        self.reading = None;
        if !self.handles.is_empty() {
            self.handles = ResourceTable::new();
        }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.wasi_table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let Http { ctx, hooks } = &mut self.http;
        hooks.call.clone_from(&self.call);
        hooks.deadline = self.deadline;
        WasiHttpCtxView { ctx, hooks, table: &mut self.wasi_table }
    }
}
