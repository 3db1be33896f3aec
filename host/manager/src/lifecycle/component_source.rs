//! [`ComponentSource`]: the file of a component, from which its machine code is made again when that is lost.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use pilothouse_plugin::directory::read_component;
use tokio::runtime::Handle;

use crate::dispatch::guest::Component;
use crate::lifecycle::load_slots::LoadSlots;

/// The file of a component in the plugin directory.
#[derive(Clone)]
pub(crate) struct ComponentSource {
    pub(crate) path: PathBuf,
    /// Bounds how many components are compiled at once.
    pub(crate) slots: Arc<LoadSlots>,
    /// The runtime of loads.
    pub(crate) work: Handle,
}

impl ComponentSource {
    /// Makes lost machine code of this component again.
    ///
    /// # Errors
    /// When the file has another content by now, as after a rollback, or the component cannot be compiled now.
    pub(crate) async fn restore(&self, code: &dyn Component) -> Result<(), String> {
        let slot = self.slots.prepare().await?;
        let wasm = read(&self.path, code.digest()).await?;
        let restored = self.slots.run(slot, code.restore(wasm)).await?;
        restored.map_err(|e| e.to_string())
    }
}

/// Reads the component of this digest.
///
/// # Errors
/// When it cannot be read, or has another content. The directory reports such a change, and cancels the load.
pub(super) async fn read(path: &Path, digest: &str) -> Result<Bytes, String> {
    let (path, digest) = (path.to_owned(), digest.to_owned());
    let read = tokio::task::spawn_blocking(move || read_component(&path, &digest)).await;
    let read = read.map_err(io::Error::from).and_then(|read| read);
    let read = read.map_err(|e| format!("it cannot be read: {e}"))?;
    read.ok_or_else(|| {
        "it changed while it was loaded; its new content is loaded once it is written as a whole".to_owned()
    })
}
