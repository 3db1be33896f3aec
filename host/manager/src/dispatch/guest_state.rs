//! [`GuestState`]: the state that an instance hands over to the next one of its plugin, of the same or of the next generation.
//!
//! A plugin with state has one instance at a time. When that goes while it can run another call (after idle time, or since a
//! new generation took over), it is asked for its state; the next one gets it before its first call. State is a cache: it is
//! lost with a fault, when the instance makes room for another plugin's, and while the plugin may not be called. It is not
//! lost when the host keeps the next instance from taking it: the one after that gets it.
//!
//! Invariant: from the moment an instance goes until its state is there, the lock of the state is held, so that the next
//! instance waits for it.

use std::sync::{Arc, OnceLock, Weak};

use pilothouse_engine::Fault;
use tokio::sync::Mutex;

use crate::dispatch::guest::Guest;
use crate::dispatch::instance_pool::LeavingCharge;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

/// Most instances that get the same state while the host keeps each of them from taking it. A guest that waits in its
/// `restore` would otherwise never run.
const MOST_RESTORES: u32 = 5;

/// An instance that goes. Its code stays mapped until it is gone.
pub(crate) struct Going {
    /// There until it is dropped.
    guest: Option<Box<dyn Guest>>,
    generation: Arc<Generation>,
    /// Ends after the instance.
    pub(crate) charge: Option<LeavingCharge>,
}

impl Going {
    pub(crate) fn new(guest: Option<Box<dyn Guest>>, generation: Arc<Generation>) -> Self {
        Self { guest, generation, charge: None }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.guest = None;
        self.generation.instance_dropped();
    }
}

/// The state of a plugin between two instances.
#[derive(Default)]
pub(crate) struct GuestState {
    saved: Arc<Mutex<Option<Saved>>>,
    plugin: OnceLock<Weak<Plugin>>,
}

struct Saved {
    state: Vec<u8>,
    /// Instances that the host kept from taking it.
    unanswered: u32,
}

impl GuestState {
    /// The state of this plugin. Only the first call counts.
    pub(crate) fn belongs_to(&self, plugin: &Weak<Plugin>) {
        let _ = self.plugin.set(Weak::clone(plugin));
    }

    /// An instance goes: it is asked for its state, if its plugin goes on and may be called.
    pub(crate) fn save(&self, mut going: Going) {
        let plugin = self.plugin.get().and_then(Weak::upgrade);
        let Some(plugin) = plugin.filter(|plugin| plugin.may_call()) else { return };
        let most = going.generation.origin.manifest.limits.state_bytes;
        // It is free: there is one instance at a time, and this is the one that got the last state.
        let Ok(mut saved) = Arc::clone(&self.saved).try_lock_owned() else { return };
        let saver = Arc::clone(&plugin);
        plugin.spawn(async move {
            let Some(guest) = going.guest.as_mut().filter(|guest| guest.is_usable()) else { return };
            match guest.save(most).await {
                Ok(Some(state)) if state.len() > most => {
                    let bytes = state.len();
                    lost(&saver, &format!(
                        "the state has {bytes} bytes and is dropped: at most {most} are kept (limits.stateBytes)"
                    ));
                }
                Ok(state) => *saved = state.map(|state| Saved { state, unanswered: 0 }),
                Err(fault) => lost(&saver, &format!("the state is lost: {fault}")),
            }
        });
    }

    /// Gives an instance the state of the one before, if there is any. `false`: the guest faulted; the instance cannot be
    /// used, and the state is gone.
    ///
    /// # Errors
    /// When the host kept the guest from answering: the instance cannot be used, and the next one gets the state. Cancel-safe.
    pub(crate) async fn restore(&self, plugin: &Plugin, guest: &mut dyn Guest) -> Result<bool, Fault> {
        let mut saved = self.saved.lock().await;
        let Some(Saved { state, unanswered }) = &mut *saved else { return Ok(true) };
        let (reason, is_usable) = match guest.restore(state).await {
            Ok(Ok(())) => (None, true),
            Ok(Err(refusal)) => (Some(refusal), true),
            Err(fault) if fault.kind.is_of_host() && *unanswered + 1 < MOST_RESTORES => {
                *unanswered += 1;
                return Err(fault);
            }
            Err(fault) => (Some(fault.to_string()), false),
        };
        *saved = None;
        if let Some(reason) = reason {
            lost(plugin, &format!("the guest goes on without its state: {reason}"));
        }
        Ok(is_usable)
    }
}

/// The state of a plugin is lost: a line of the log, and the last error of its status.
fn lost(plugin: &Plugin, message: &str) {
    if plugin.may_log(message.len()) {
        tracing::warn!(event = "plugin_state_lost", plugin = &**plugin.name(), "{message}");
    }
    plugin.record_error(message);
}

#[cfg(test)]
mod tests;
