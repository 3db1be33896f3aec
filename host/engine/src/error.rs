//! The errors of loading a component ([`LoadError`]), of a call ([`Fault`]) and of starting the engine
//! ([`EngineError`]).
//!
//! Messages contain the reason and the remedy; the manager prefixes the file or the plugin's name.

use std::fmt;
use std::time::Duration;

use crate::contract::CONTRACT;
use crate::host::Refusal;

/// The reason why a component cannot be loaded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    /// The file is not WebAssembly.
    #[error(
        "not a WebAssembly file (it begins with {0}); build the guest with `cargo build --target wasm32-wasip2 --release`"
    )]
    NotWasm(String),
    /// The file is a core module, not a component.
    #[error(
        "a WebAssembly core module, not a component; build the guest for the target wasm32-wasip2 (not wasm32-wasip1 or \
         wasm32-unknown-unknown)"
    )]
    CoreModule,
    /// The file is truncated or damaged.
    #[error(
        "damaged or incomplete ({0}); copy the file again, best to another name first and then rename it"
    )]
    Damaged(String),
    /// The component is built for another version of the contract than the one that this host serves.
    #[error(
        "needs pilothouse:controller@{made_for}, this host serves {CONTRACT}: rebuild the guest with pilothouse-sdk {CONTRACT}, \
         which comes with this host, or run a host that serves {made_for}"
    )]
    OtherVersion {
        /// Major and minor version in the names of the component's interfaces, as `0.3`.
        made_for: String,
    },
    /// The component exports `reconcile-many` together with `reconcile`.
    #[error("it exports reconcile-many together with reconcile: a plugin exports one of them")]
    MixedWorlds,
    /// The component does not have the exports of a world of the contract.
    #[error(
        "a component of another world: it exports {found}, and not {missing}; a plugin targets the world reconciler, \
         batch-reconciler, event-handler or controller of pilothouse:controller (use the pilothouse-sdk crate)"
    )]
    OtherWorld {
        /// The exports of the component.
        found: String,
        /// The exports that are missing.
        missing: String,
    },
    /// The component has imports that this host does not provide.
    #[error(
        "it has imports that this host does not provide: {0}; this host serves pilothouse:controller@{CONTRACT} and WASI 0.2: \
         rebuild the guest with the pilothouse-sdk that comes with this host, or run a newer host"
    )]
    MissingImport(String),
    /// The compiler refused the component.
    #[error("compilation failed: {0}")]
    Compile(String),
    /// The compiler did not finish: it was stopped at a limit, or could not run.
    #[error("compilation did not finish: {0}")]
    Stopped(String),
    /// The component needs more than a slot of the instance pool has.
    #[error(
        "the component does not fit into this host's instance pool: {0}; link the guest as one module with one memory"
    )]
    TooLarge(String),
    /// The machine code in the compile cache is lost or damaged: the component must be compiled again.
    #[error("compile cache: {0}")]
    CodeLost(String),
    /// The compile cache cannot be used.
    #[error("compile cache: {0}")]
    Cache(String),
}

impl LoadError {
    /// Whether the component itself is refused. Otherwise the reason is time, resources or I/O of the host, and another
    /// attempt may succeed.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Self::Stopped(_) | Self::CodeLost(_) | Self::Cache(_))
    }
}

/// The reason why the engine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime does not support the settings on this machine, or a thread cannot be started.
    #[error("wasmtime: {0}")]
    Wasmtime(String),
    /// The cache folder cannot be used.
    #[error("cache folder: {0}")]
    Cache(String),
}

/// The kind of fault that ended a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The guest trapped: a panic, an out-of-bounds access, `unreachable`, a stale handle.
    Trap,
    /// The guest exceeded the CPU budget of the call.
    Cpu,
    /// The call exceeded its wall-clock deadline, and used most of the time itself.
    Deadline,
    /// The call exceeded its wall-clock deadline, and waited most of the time: for the API server, for a peer, for a
    /// timer of its own, or for a busy host.
    Waiting,
    /// The guest requested more memory than its limit.
    Memory,
    /// A call of an import exceeded a limit of the plugin.
    Limit,
    /// The component cannot be instantiated.
    Instantiate,
    /// The host has no room for another instance now: the pool or the memory is exhausted.
    HostBusy,
    /// The machine code of the component cannot be mapped: its file in the compile cache is lost, damaged or unreadable.
    CodeUnavailable,
    /// The guest violated the contract: an export is missing, or the number of answers is wrong.
    Answer,
}

impl FaultKind {
    /// The name of the kind in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Cpu => "cpu",
            Self::Deadline => "deadline",
            Self::Waiting => "waiting",
            Self::Memory => "memory",
            Self::Limit => "limit",
            Self::Instantiate => "instantiate",
            Self::HostBusy => "host-busy",
            Self::CodeUnavailable => "code-unavailable",
            Self::Answer => "answer",
        }
    }

    /// Whether the plugin is not to blame: the same call may be answered later.
    #[must_use]
    pub fn is_of_host(self) -> bool {
        matches!(self, Self::Waiting | Self::HostBusy | Self::CodeUnavailable)
    }
}

/// A fault of a guest: a trap, an exceeded limit, or an instance that could not be created. The instance must be
/// dropped; the host is not affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// A human-readable message with the reason and, for a limit, its name in the manifest.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl Fault {
    pub(crate) fn host_busy(error: &dyn fmt::Display) -> Self {
        Self::new(FaultKind::HostBusy, format!("no instance could be made: {error}"))
    }

    /// One instance would have more memory than any may have on this host.
    pub(crate) fn over_bound(most: u64, wanted: usize) -> Self {
        let message = format!(
            "the instance requested {wanted} bytes of memory, and one may have {most} on this host: seven eighths of \
             host.guestMemory of the limits file, or of half of the host's memory; raise that, or correct the plugin"
        );
        Self::new(FaultKind::Memory, message)
    }

    /// All instances together would have more memory than the host's bound.
    pub(crate) fn no_memory() -> Self {
        let message = "the instances of all plugins together have no more memory; if that lasts, raise host.guestMemory of the \
                       limits file, or lower limits.memory or maxConcurrentReconciles of plugins";
        Self::new(FaultKind::HostBusy, message)
    }

    pub(crate) fn code_unavailable(error: &dyn fmt::Display) -> Self {
        Self::new(FaultKind::CodeUnavailable, format!("no instance could be made: {error}"))
    }

    pub(crate) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The deadline of a call that used this much CPU time.
    pub(crate) fn deadline(limit: Duration, used: Duration) -> Self {
        if used * 2 < limit {
            return Self::new(
                FaultKind::Waiting,
                format!(
                    "the call exceeded callTimeout ({limit:?}) and ran for {used:?} of it: it waited for the API server, a peer or a timer, or the host is busy"
                ),
            );
        }
        Self::new(
            FaultKind::Deadline,
            format!(
                "the call exceeded callTimeout ({limit:?}); raise limits.callTimeout if the work needs longer"
            ),
        )
    }

    pub(crate) fn cpu(limit: Duration) -> Self {
        Self::new(
            FaultKind::Cpu,
            format!(
                "the call exceeded its CPU budget of {limit:?} (limits.cpuPerCall): fix an endless loop, or raise the limit"
            ),
        )
    }

    pub(crate) fn memory(limit: usize, wanted: usize) -> Self {
        Self::new(
            FaultKind::Memory,
            format!("the instance requested {wanted} bytes of memory, the limit is {limit} (limits.memory)"),
        )
    }
}

/// An import call beyond a limit of the plugin.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct OverLimit(String);

impl OverLimit {
    /// The message names the limit, its value and the remedy.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }
}

impl From<OverLimit> for Refusal {
    fn from(over: OverLimit) -> Self {
        Self::over_limit(over)
    }
}
