//! [`WarmInstance`]: the instance that a worker or a pump keeps between its calls.
//!
//! Invariants: an instance runs calls of its own generation only; with the last instance of a generation the mapped code
//! goes, and the next call maps it again from the `.cwasm`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pilothouse_engine::{Fault, FaultKind};
use tokio::time::Instant;

use crate::dispatch::guest::Guest;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

/// Numbers all calls of this process, for logs.
static CALLS: AtomicU64 = AtomicU64::new(1);

/// The number of a new call.
pub(crate) fn next_call_id() -> u64 {
    CALLS.fetch_add(1, Relaxed)
}

/// A place for one instance.
#[derive(Default)]
pub(crate) struct WarmInstance(Option<Warm>);

/// An instance and the generation it belongs to.
struct Warm {
    generation: Arc<Generation>,
    guest: Box<dyn Guest>,
}

impl Drop for Warm {
    fn drop(&mut self) {
        self.generation.instance_dropped();
    }
}

impl WarmInstance {
    /// Whether there is an instance.
    pub(crate) fn is_warm(&self) -> bool {
        self.0.is_some()
    }

    /// Drops the instance.
    pub(crate) fn discard(&mut self) {
        self.0 = None;
    }

    /// The instance, if it is usable and of this generation, or a new one.
    pub(crate) async fn get(
        &mut self,
        plugin: &Plugin,
        generation: &Arc<Generation>,
    ) -> Result<&mut dyn Guest, Fault> {
        let usable = |warm: &Warm| warm.generation.number == generation.number && warm.guest.is_usable();
        if !self.0.as_ref().is_some_and(usable) {
            self.discard();
            let began = Instant::now();
            let guest =
                generation.code.instantiate(Arc::clone(&generation.imports), generation.limits).await?;
            generation.instance_made();
            plugin.metrics().instantiations.inc();
            plugin.metrics().instantiate_time.observe(began.elapsed().as_secs_f64());
            self.0 = Some(Warm { generation: Arc::clone(generation), guest });
        }
        match &mut self.0 {
            Some(warm) => Ok(&mut *warm.guest),
            None => Err(Fault { kind: FaultKind::Instantiate, message: "no instance".to_owned() }),
        }
    }
}
