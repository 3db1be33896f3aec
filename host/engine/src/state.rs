//! [`StoreState`]: the host's data in the wasmtime store of an instance.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use pilothouse_object::Object;
use pilothouse_plugin::Limits;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::budget::Budget;
use crate::handles::Handles;
use crate::host::{CallContext, HostImports, LogOnly, System};
use crate::http::{Http, MAX_HANDLES};
use crate::imports::v0_2::{MAX_KINDS, MAX_METRICS};
use crate::imports::{Kept, Kind, Metric};
use crate::limits::StoreLimiter;
use crate::wasi;

/// Most handles of an instance that outlive a call: kinds, metrics, and the resources of WASI.
pub(crate) const MAX_LASTING: usize = MAX_KINDS + MAX_METRICS + MAX_HANDLES;

/// The context of the running call; a clone shares it. The streams of standard output and error have one: a panic message
/// is logged with the key of its call.
#[derive(Clone, Default)]
pub(crate) struct CurrentCall(Arc<Mutex<CallContext>>);

impl CurrentCall {
    pub(crate) fn set(&self, call: CallContext) {
        *self.0.lock() = call;
    }

    pub(crate) fn get(&self) -> CallContext {
        self.0.lock().clone()
    }
}

/// The host's data in the wasmtime store of an instance.
pub(crate) struct StoreState {
    pub(crate) host: Arc<dyn HostImports>,
    pub(crate) limits: Limits,
    pub(crate) limiter: StoreLimiter,
    pub(crate) budget: Arc<Budget>,
    pub(crate) call: CurrentCall,
    /// The wall-clock deadline of the running call.
    pub(crate) deadline: Instant,
    /// The objects and cursors that the guest received in the running call; cleared after it.
    pub(crate) handles: Handles,
    /// The kinds and metrics that the guest named; they live as long as the instance.
    pub(crate) kinds: Kept<Kind>,
    pub(crate) metrics: Kept<Metric>,
    /// Where clocks and random numbers come from, if not from the machine.
    pub(crate) system: Option<Arc<dyn System>>,
    /// The packed object that was read last, with its unpacked text. Only one is kept, so a guest that reads many
    /// objects does not fill the host's memory with texts.
    pub(crate) reading: Option<Object>,
    wasi: WasiCtx,
    http: Http,
    /// The WASI streams, which the guest's standard library keeps between calls, and the resources of `wasi:http`.
    wasi_table: ResourceTable,
}

impl StoreState {
    pub(crate) fn new(host: Arc<dyn HostImports>, limits: Limits) -> Self {
        let call = CurrentCall::default();
        let system = host.system();
        let mut wasi_table = ResourceTable::new();
        wasi_table.set_max_capacity(MAX_HANDLES);
        Self {
            http: Http::new(Arc::clone(&host), call.clone()),
            wasi: wasi::context(&host, &call, system.as_ref()),
            host,
            system,
            limiter: StoreLimiter { max_memory: limits.memory, memory: 0, refused: None },
            handles: Handles::new(limits.handle_bytes),
            kinds: Kept::new(),
            metrics: Kept::new(),
            limits,
            budget: Budget::new(),
            call,
            deadline: Instant::now(),
            reading: None,
            wasi_table,
        }
    }

    /// Starts a call that began at `at`: sets its context and deadline and resets the limits.
    pub(crate) fn begin(&mut self, call: CallContext, at: Instant) {
        self.call.set(call);
        self.deadline = at + self.limits.call_timeout;
        self.limiter.refused = None;
        self.budget.begin(at, self.limits.cpu_per_call);
    }

    /// Until [`set_imports`](Self::set_imports) the guest has its log and its configuration only; answers what it had.
    pub(crate) fn take_imports(&mut self, call: &'static str) -> Arc<dyn HostImports> {
        let all = Arc::clone(&self.host);
        self.set_imports(Arc::new(LogOnly::new(Arc::clone(&all), call)));
        all
    }

    /// Gives the guest the imports that were taken from it.
    pub(crate) fn set_imports(&mut self, imports: Arc<dyn HostImports>) {
        self.http.hooks.host = Arc::clone(&imports);
        self.host = imports;
    }

    /// Ends a call: invalidates its handles and drops the unpacked text.
    pub(crate) fn end(&mut self) {
        self.call.set(CallContext::default());
        self.reading = None;
        self.handles.clear();
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
        hooks.deadline = self.deadline;
        WasiHttpCtxView { ctx, hooks, table: &mut self.wasi_table }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Nothing;

    #[test]
    fn the_deadline_of_a_call_counts_from_its_start() {
        let limits = Limits { call_timeout: Duration::from_secs(7), ..Limits::default() };
        let mut state = StoreState::new(Arc::new(Nothing), limits);
        let start = Instant::now() + Duration::from_secs(3);
        state.begin(CallContext::default(), start);
        assert_eq!(state.deadline, start + Duration::from_secs(7));
    }
}
