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
use crate::guest_memory::GuestMemory;
use crate::handles::Handles;
use crate::host::{CallContext, HostImports, System};
use crate::http::{Http, MAX_HANDLES};
use crate::imports::{Kept, Kind, Metric};
use crate::imports::{MAX_KINDS, MAX_METRICS};
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
    /// Made at the guest's first call of WASI, which a component without imports of it never makes.
    wasi: Option<Box<Wasi>>,
}

/// What a guest has through WASI.
struct Wasi {
    ctx: WasiCtx,
    http: Http,
    /// The streams, which the guest's standard library keeps between calls, and the resources of `wasi:http`.
    table: ResourceTable,
}

impl Wasi {
    fn new(host: &Arc<dyn HostImports>, call: &CurrentCall, system: Option<&Arc<dyn System>>) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_HANDLES);
        Self {
            ctx: wasi::context(host, call, system),
            http: Http::new(Arc::clone(host), call.clone()),
            table,
        }
    }
}

impl StoreState {
    pub(crate) fn new(host: Arc<dyn HostImports>, limits: Limits, memory: Arc<GuestMemory>) -> Self {
        Self {
            system: host.system(),
            host,
            limiter: StoreLimiter::new(limits.memory, memory),
            handles: Handles::new(limits.handle_bytes),
            kinds: Kept::new(),
            metrics: Kept::new(),
            limits,
            budget: Budget::new(),
            call: CurrentCall::default(),
            deadline: Instant::now(),
            reading: None,
            wasi: None,
        }
    }

    /// Starts a call that began at `at`: sets its context and deadline and resets the limits.
    pub(crate) fn begin(&mut self, call: CallContext, at: Instant) {
        self.call.set(call);
        self.deadline = at + self.limits.call_timeout;
        self.limiter.begin();
        self.budget.begin(at, self.limits.cpu_per_call);
    }

    fn wasi(&mut self) -> &mut Wasi {
        let Self { wasi, host, call, system, .. } = self;
        wasi.get_or_insert_with(|| Box::new(Wasi::new(host, call, system.as_ref())))
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
        let Wasi { ctx, table, .. } = self.wasi();
        WasiCtxView { ctx, table }
    }
}

impl WasiHttpView for StoreState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let deadline = self.deadline;
        let Wasi { http: Http { ctx, hooks }, table, .. } = self.wasi();
        hooks.deadline = deadline;
        WasiHttpCtxView { ctx, hooks, table }
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
        let mut state = StoreState::new(Arc::new(Nothing), limits, Arc::default());
        let start = Instant::now() + Duration::from_secs(3);
        state.begin(CallContext::default(), start);
        assert_eq!(state.deadline, start + Duration::from_secs(7));
    }

    #[test]
    fn wasi_is_made_at_its_first_use() {
        let mut state = StoreState::new(Arc::new(Nothing), Limits::default(), Arc::default());
        state.begin(CallContext::default(), Instant::now());
        assert!(state.wasi.is_none());
        let deadline = state.deadline;
        let _ = state.http();
        assert_eq!(state.wasi().http.hooks.deadline, deadline);
    }
}
