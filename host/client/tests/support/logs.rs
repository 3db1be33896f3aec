//! [`Logs`]: what is logged while a test runs.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_testkit::log;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// All that this thread logs, while the guard lives.
#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<Vec<u8>>>);

impl Logs {
    /// Lines of `level`, and above it.
    pub(crate) fn capture(level: tracing::Level) -> (Self, DefaultGuard) {
        let logs = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(logs.clone())
            .finish();
        (logs, log::subscribe(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }

    /// Lines that hold a text.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.text().lines().filter(|line| line.contains(part)).count()
    }
}

impl io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Logs {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
