//! [`LogImports`]: the host side of the interface `log`, and the account of the calls.

use std::time::Duration;

use super::CallContext;

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Single steps of the code.
    Trace,
    /// Details for developers.
    Debug,
    /// Normal operation.
    Info,
    /// An unexpected condition that needs attention.
    Warn,
    /// A failure.
    Error,
}

/// The plugin's log, and what its calls cost the host.
pub trait LogImports {
    /// Whether lines of this level are written.
    fn log_enabled(&self, _level: LogLevel) -> bool {
        false
    }
    /// Writes a line with fields (name and value).
    fn log(&self, _context: &CallContext, _level: LogLevel, _message: &str, _fields: &[(String, String)]) {}
    /// Writes a line of the host about the guest, such as a request that was refused.
    fn host_log(&self, context: &CallContext, level: LogLevel, message: &str) {
        self.log(context, level, message, &[]);
    }
    /// Told at the end of each call how long its imports worked, without their waits.
    fn host_time(&self, _time: Duration) {}
}
