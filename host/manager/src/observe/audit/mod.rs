//! [`Audit`]: one line of JSON for each write that a plugin sends to the API server.
//!
//! ```text
//!  live call, Event ─ record ─► channel, bounded ─► thread `audit-log` ─► file, bounded; or standard output
//!                        └─ full: counted, and said in the log and in the audit itself
//! ```
//!
//! Invariants: who writes never waits for the audit; a line has names, versions and the outcome, and nothing of a body. What
//! the host refuses is not sent and is not here: it is in the log and the metrics as denied. Outgoing HTTP is no write to the
//! cluster and is not here either.

mod file;
mod line;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::file::AuditFile;
use self::line::{AuditLine, Gap};
pub(crate) use self::line::{Began, Ended, Outcome, Write};

/// Lines that wait for the thread: four megabytes at most, since the texts of each are cut.
const WAITING: usize = 4096;

/// Least time between two lines of the log about the audit's own trouble.
const REPEAT: Duration = Duration::from_secs(60);

/// Where the lines go.
#[derive(Debug, Clone)]
pub enum AuditOptions {
    /// Standard output, which has no bound here.
    Stdout,
    /// A file. Lines are added to what it has.
    File {
        /// The file.
        path: PathBuf,
        /// Its bound in bytes. A full file is renamed to its name and `.1`, in place of the one before.
        max_bytes: u64,
    },
}

/// Why an audit cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The path is of something else than a file.
    #[error("{0} is not a regular file: name a file, or - for standard output")]
    NoFile(PathBuf),
    /// The file cannot be opened, or the thread not be started.
    #[error("{path} cannot be written: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A running audit; a cheap clone.
#[derive(Clone)]
pub struct Audit {
    lines: SyncSender<Message>,
    shared: Arc<Shared>,
}

enum Message {
    /// A line, and how many were dropped right before it.
    Line { line: Box<AuditLine>, dropped: u64 },
    /// Nothing to write: the thread is to look whether it ends.
    WakeUp,
}

#[derive(Default)]
struct Shared {
    counts: Counts,
    /// Dropped lines that no line tells of yet.
    untold: AtomicU64,
    is_closing: AtomicBool,
    ended: CancellationToken,
}

#[derive(Default)]
struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// The audit of one generation of a plugin.
#[derive(Clone)]
pub(crate) struct PluginAudit {
    audit: Audit,
    plugin: Arc<str>,
    generation: u64,
    /// As whom it writes; none: as the host.
    user: Option<Arc<str>>,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl Audit {
    /// Opens the file, for this user alone where it is new, and starts the thread that writes it.
    ///
    /// # Errors
    /// When the file cannot be opened or the thread not be started.
    pub fn start(options: &AuditOptions) -> Result<Self, AuditError> {
        let (path, out): (_, Box<dyn Out>) = match options {
            AuditOptions::Stdout => (Path::new("-"), Box::new(Stdout)),
            AuditOptions::File { path, max_bytes } => {
                (path.as_path(), Box::new(AuditFile::open(path, *max_bytes)?))
            }
        };
        Self::to(out).map_err(|error| AuditError::Io { path: path.to_owned(), error })
    }

    fn to(out: Box<dyn Out>) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        let shared = Arc::<Shared>::default();
        let writer = Writer { shared: Arc::clone(&shared), out, complained: None };
        std::thread::Builder::new().name("audit-log".to_owned()).spawn(move || writer.run(waiting))?;
        Ok(Self { lines, shared })
    }

    /// The audit of a generation that writes as this user; none: as the host.
    pub(crate) fn of(&self, plugin: &Arc<str>, generation: u64, user: Option<String>) -> PluginAudit {
        PluginAudit { audit: self.clone(), plugin: Arc::clone(plugin), generation, user: user.map(Arc::from) }
    }

    /// Lines by what became of them: written, dropped because too many waited, failed to be written.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 3] {
        let Counts { written, dropped, failed } = &self.shared.counts;
        [("written", written), ("dropped", dropped), ("failed", failed)]
            .map(|(result, count)| (result, count.load(Relaxed)))
    }

    /// Writes the lines that wait, for `grace` at most, and no more.
    pub(crate) async fn close(&self, grace: Duration) {
        self.shared.is_closing.store(true, SeqCst);
        // Where the channel is full, the thread looks when it has emptied it.
        let _ = self.lines.try_send(Message::WakeUp);
        let _ = timeout(grace, self.shared.ended.cancelled()).await;
    }
}

impl PluginAudit {
    /// Records a write that has ended. Never waits.
    pub(crate) fn record(&self, began: Began, write: Write<'_>, ended: Ended) {
        let line =
            AuditLine::new(Arc::clone(&self.plugin), self.generation, self.user.clone(), began, write, ended);
        let shared = &self.audit.shared;
        let dropped = shared.untold.swap(0, Relaxed);
        if self.audit.lines.try_send(Message::Line { line: Box::new(line), dropped }).is_err() {
            shared.untold.fetch_add(dropped + 1, Relaxed);
            shared.counts.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// Where lines go.
trait Out: Send {
    /// Writes a line with its end.
    fn write(&mut self, line: &[u8]) -> io::Result<()>;
}

struct Stdout;

impl Out for Stdout {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(line)?;
        out.flush()
    }
}

/// The thread that writes.
struct Writer {
    shared: Arc<Shared>,
    out: Box<dyn Out>,
    /// When the log last told of trouble.
    complained: Option<Instant>,
}

impl Writer {
    fn run(mut self, lines: Receiver<Message>) {
        loop {
            let message = match lines.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) if self.shared.is_closing.load(SeqCst) => break,
                Err(TryRecvError::Empty) => match lines.recv() {
                    Ok(message) => message,
                    Err(_) => break,
                },
            };
            if let Message::Line { line, dropped } = message {
                self.tell_of(dropped);
                self.write(&serde_json::to_vec(&line).unwrap_or_default());
            }
        }
        // What comes later is counted as dropped.
        drop(lines);
        self.tell_of(self.shared.untold.swap(0, Relaxed));
        self.shared.ended.cancel();
    }

    /// Writes a line in place of those that were dropped.
    fn tell_of(&mut self, dropped: u64) {
        if dropped == 0 {
            return;
        }
        let gap = Gap { time: Timestamp::now().to_string(), dropped };
        if self.may_complain() {
            tracing::warn!(
                event = "audit_lines_dropped",
                dropped,
                "lines of the audit were dropped: writes came faster than they could be written"
            );
        }
        self.write(&serde_json::to_vec(&gap).unwrap_or_default());
    }

    fn write(&mut self, line: &[u8]) {
        let line = [line, b"\n"].concat();
        match self.out.write(&line) {
            Ok(()) => {
                self.shared.counts.written.fetch_add(1, Relaxed);
            }
            Err(error) => {
                self.shared.counts.failed.fetch_add(1, Relaxed);
                if self.may_complain() {
                    tracing::error!(
                        event = "audit_not_written",
                        "a line of the audit could not be written, and is lost: {error}; free the disk, or name another \
                         file with --audit-log"
                    );
                }
            }
        }
    }

    fn may_complain(&mut self) -> bool {
        let is_due = self.complained.is_none_or(|at| at.elapsed() >= REPEAT);
        if is_due {
            self.complained = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
pub(crate) mod tests;
