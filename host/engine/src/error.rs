//! The errors of loading a component ([`LoadError`]), of a call ([`Fault`]) and of starting the engine
//! ([`EngineError`]).
//!
//! Messages contain the reason and the remedy; the manager prefixes the file or the plugin's name.

use std::fmt;
use std::time::Duration;

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
    /// The component does not have the exports of a world of the contract.
    #[error(
        "a component of another world: it exports {found}, and not {missing}; a plugin targets the world reconciler, \
         batch-reconciler, event-handler or controller of pilothouse:controller@0.1.0 (use the pilothouse-sdk crate)"
    )]
    OtherWorld {
        /// The exports of the component.
        found: String,
        /// The exports that are missing.
        missing: String,
    },
    /// The component has imports that this host does not provide.
    #[error(
        "it has imports that this host does not provide: {0}; this host serves pilothouse:controller@0.1.0 and WASI 0.2 without \
         file system and sockets: rebuild the guest with a matching pilothouse-sdk, or run a newer host"
    )]
    MissingImport(String),
    /// Compilation failed, or was stopped at a limit.
    #[error("compilation failed: {0}")]
    Compile(String),
    /// The compile cache cannot be used.
    #[error("compile cache: {0}")]
    Cache(String),
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
    /// The call exceeded its wall-clock deadline.
    Deadline,
    /// The guest requested more memory than its limit.
    Memory,
    /// An instance could not be created.
    Instantiate,
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
            Self::Memory => "memory",
            Self::Instantiate => "instantiate",
            Self::Answer => "answer",
        }
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
