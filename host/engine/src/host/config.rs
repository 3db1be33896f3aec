//! [`ConfigImports`]: the host side of the interface `config`.

use std::sync::Arc;

/// The plugin's configuration.
pub trait ConfigImports {
    /// The configuration as JSON.
    fn config(&self) -> Arc<[u8]> {
        Arc::from(&b"{}"[..])
    }
}
