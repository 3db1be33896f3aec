//! What can go wrong with a component ([`LoadError`]), with a call ([`Fault`]) and with the engine ([`EngineError`]).
//!
//! Messages name the reason and the remedy; the manager puts the file or the plugin's name in front.

use std::fmt;
use std::time::Duration;

/// Why bytes are not a plugin.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    /// No WebAssembly at all.
    #[error(
        "not a WebAssembly file (it begins with {0}); build the guest with `cargo build --target wasm32-wasip2 --release`"
    )]
    NotWasm(String),
    /// A core module.
    #[error(
        "a WebAssembly core module, not a component; build the guest for the target wasm32-wasip2 (not wasm32-wasip1 or \
         wasm32-unknown-unknown)"
    )]
    CoreModule,
    /// Cut off or damaged.
    #[error(
        "damaged or incomplete ({0}); copy the file again, best to another name first and then rename it"
    )]
    Damaged(String),
    /// A component of some other world.
    #[error(
        "a component of another world: it exports {found}, and not {missing}; a plugin targets the world reconciler, \
         batch-reconciler, event-handler or controller of pilothouse:controller@0.1.0 (use the pilothouse-sdk crate)"
    )]
    OtherWorld {
        /// What it exports.
        found: String,
        /// What it does not.
        missing: String,
    },
    /// It imports what this host does not have.
    #[error(
        "it has imports that this host does not provide: {0}; this host serves pilothouse:controller@0.1.0 and WASI 0.2 without \
         file system and sockets: rebuild the guest with a matching pilothouse-sdk, or run a newer host"
    )]
    MissingImport(String),
    /// Compilation failed or was stopped.
    #[error("compilation failed: {0}")]
    Compile(String),
    /// The compile cache cannot be used.
    #[error("compile cache: {0}")]
    Cache(String),
}

/// Why the engine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime refuses the settings.
    #[error("wasmtime: {0}")]
    Wasmtime(String),
    /// The cache folder cannot be used.
    #[error("cache folder: {0}")]
    Cache(String),
}

/// What kind of fault ended a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The guest trapped: a panic, an out-of-bounds access, `unreachable`, a stale handle.
    Trap,
    /// The guest used more CPU time than a call may.
    Cpu,
    /// The call took longer than its wall-clock deadline.
    Deadline,
    /// The guest asked for more memory than it may have.
    Memory,
    /// No instance could be made.
    Instantiate,
    /// The answer is not what the contract promises.
    Answer,
}

impl FaultKind {
    /// The word used in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Cpu => "cpu",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::Instantiate => "instantiate",
            Self::Answer => "answer",
        }
    }
}

/// A guest's fault, as a value: the instance is gone, the host goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// For people.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl Fault {
    pub(crate) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn deadline(limit: Duration) -> Self {
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
