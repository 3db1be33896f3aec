//! The `log` interface: structured log lines with the context of the running call.

use crate::bindings::pilothouse::controller::log::{Host, Level};
use crate::host::LogLevel;
use crate::imports::ImportCall;

fn level(level: Level) -> LogLevel {
    match level {
        Level::Trace => LogLevel::Trace,
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}

impl Host for ImportCall<'_> {
    fn write(&mut self, l: Level, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        self.host.log(&self.call.get(), level(l), &message, &fields);
        Ok(())
    }

    fn enabled(&mut self, l: Level) -> wasmtime::Result<bool> {
        Ok(self.host.log_enabled(level(l)))
    }
}
