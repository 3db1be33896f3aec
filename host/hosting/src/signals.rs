//! [`Signals`]: the signals that end a command, caught so that it can clean up. Used by every command that takes its time.

use anyhow::Result;
#[cfg(unix)]
use tokio::signal::unix::{Signal as Interrupt, Signal as Terminate, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlBreak as Terminate, CtrlC as Interrupt, ctrl_break, ctrl_c};

/// SIGTERM and SIGINT, caught from the moment this is made; on Windows, Ctrl-Break and Ctrl-C.
pub struct Signals {
    terminate: Terminate,
    interrupt: Interrupt,
}

impl Signals {
    /// Catches both.
    ///
    /// # Errors
    /// When the system has no room for a handler.
    #[cfg(unix)]
    pub fn catch() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Catches both.
    ///
    /// # Errors
    /// When the system has no room for a handler.
    #[cfg(windows)]
    pub fn catch() -> Result<Self> {
        Ok(Self { terminate: ctrl_break()?, interrupt: ctrl_c()? })
    }

    /// Waits for the next of either. Cancel-safe.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
