//! [`WriteGate`]: a last look before a write is handed to a connection.

use std::fmt;
use std::sync::Arc;

/// Whether writes may still be sent, asked for each of them, at each attempt, right before it is handed to a connection:
/// after the waits for the rate limit, for retries and for a free connection. All requests but GET and HEAD are writes.
#[derive(Clone)]
pub struct WriteGate(Arc<dyn Fn() -> Result<(), String> + Send + Sync>);

impl WriteGate {
    /// `may_write` says whether a write may be sent now, and otherwise why not. It must not block.
    pub fn new(may_write: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(may_write))
    }

    pub(super) fn ask(&self) -> Result<(), String> {
        (self.0)()
    }
}

impl fmt::Debug for WriteGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteGate")
    }
}
