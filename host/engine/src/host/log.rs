//! [`LogImports`]: the interface `log`.

use super::CallContext;

/// How important a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For following single steps.
    Trace,
    /// For developers.
    Debug,
    /// What happened.
    Info,
    /// Something is odd.
    Warn,
    /// Something failed.
    Error,
}

/// The plugin's log.
pub trait LogImports {
    /// Whether lines of this level are kept.
    fn log_enabled(&self, _level: LogLevel) -> bool {
        false
    }
    /// Writes a line.
    fn log(&self, _context: &CallContext, _level: LogLevel, _message: &str, _fields: &[(String, String)]) {}
}
