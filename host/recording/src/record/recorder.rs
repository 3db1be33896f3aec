//! [`Recorder`]: the file of a recording, its bounds, and its masks.
//!
//! A line is masked and written by the thread of the guest whose call it is, under one lock: the order of the lines is then that
//! in which values became known, and nothing waits in memory. The write goes to the page cache; a disk that does not keep up
//! slows the guests down instead of losing calls.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use pilothouse_plugin::{Limits, World};
use serde_json::Value;

use super::tape::Tape;
use crate::format::{CallLine, EndLine, FORMAT, Header, InstanceLine, Line};
use crate::secrets::{Masker, TooManyValues};

/// Room for the line that says why a recording ended.
const END_BYTES: u64 = 1 << 10;

/// How a recording is made.
#[derive(Debug, Clone)]
pub struct RecorderOptions {
    /// The file, which must not be there yet.
    pub path: PathBuf,
    /// The plugins that are recorded; empty: all.
    pub plugins: Vec<String>,
    /// Write values of Secrets as they are.
    pub keep_secrets: bool,
    /// Most bytes of the file.
    pub max_bytes: u64,
    /// Most bytes of one call; one with more ends the recording of its instance.
    pub max_call_bytes: usize,
    /// The version of the host.
    pub host: String,
}

impl RecorderOptions {
    /// Default of [`max_bytes`](Self::max_bytes).
    pub const DEFAULT_MAX_BYTES: u64 = 256 << 20;

    /// Default of [`max_call_bytes`](Self::max_call_bytes).
    pub const DEFAULT_MAX_CALL_BYTES: usize = 16 << 20;
}

/// Why a recording cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// The file is there.
    #[error("{0} exists: name another file, or remove it")]
    Exists(PathBuf),
    /// The file cannot be made.
    #[error("{path} cannot be written: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// What is known of an instance before it is made.
#[derive(Debug, Clone)]
pub struct InstanceInfo {
    /// The name of the plugin.
    pub plugin: Arc<str>,
    /// Number of the generation.
    pub generation: u64,
    /// `sha256:…` of the component.
    pub digest: String,
    /// The world of the component.
    pub world: World,
    /// The names of the clusters that the plugin accesses, by their numbers.
    pub clusters: Arc<[String]>,
    /// Members of the configuration that are from Secrets or files.
    pub secret_config: Arc<[String]>,
    /// Whether the plugin may write Secrets. Values for them are then made of secure random numbers, of which the recording has
    /// others in their place.
    pub may_write_secrets: bool,
}

/// A running recording; a cheap clone.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    options: RecorderOptions,
    sink: Mutex<Sink>,
    is_over: AtomicBool,
    instances: AtomicU64,
    left_out: AtomicU64,
}

struct Sink {
    file: File,
    written: u64,
    /// Bytes of the first line.
    header: u64,
    /// How many calls it has.
    kept: u64,
    is_closed: bool,
    /// None with `keep_secrets`.
    masker: Option<Masker>,
}

impl Sink {
    /// A host that could not start leaves no file in the way of the next one.
    fn remove_if_empty(&self, path: &Path) -> bool {
        self.written == self.header && std::fs::remove_file(path).is_ok()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let sink = self.sink.get_mut();
        if !sink.is_closed {
            sink.remove_if_empty(&self.options.path);
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("path", &self.0.options.path).finish_non_exhaustive()
    }
}

/// Why a line is not written.
enum Refused {
    Secrets(TooManyValues),
    Full,
    Io(std::io::Error),
}

impl Recorder {
    /// Makes the file, for this user alone, and writes its first line.
    ///
    /// # Errors
    /// When the file is there already, or cannot be made.
    pub fn create(options: RecorderOptions) -> Result<Self, RecorderError> {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&options.path);
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => RecorderError::Exists(options.path.clone()),
            _ => RecorderError::Io { path: options.path.clone(), error },
        };
        let header = Header {
            format: FORMAT,
            host: options.host.clone(),
            time: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            plugins: options.plugins.clone(),
            masked: !options.keep_secrets,
        };
        let mut sink = Sink {
            file: made.map_err(failed)?,
            written: 0,
            header: 0,
            kept: 0,
            is_closed: false,
            masker: (!options.keep_secrets).then(Masker::with_key),
        };
        let text = line(&Line::Recording(header));
        sink.file.write_all(&text).map_err(failed)?;
        sink.header = text.len() as u64;
        sink.written = sink.header;
        tracing::info!(
            event = "recording_started",
            file = %options.path.display(),
            masked = !options.keep_secrets,
            "recording calls of plugins"
        );
        Ok(Self(Arc::new(Inner {
            options,
            sink: Mutex::new(sink),
            is_over: AtomicBool::new(false),
            instances: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        })))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.options.path
    }

    /// Whether calls of this plugin are recorded.
    #[must_use]
    pub fn takes(&self, plugin: &str) -> bool {
        let plugins = &self.0.options.plugins;
        plugins.is_empty() || plugins.iter().any(|name| name == plugin)
    }

    /// Begins to record an instance that is about to be made. Once the recording is over, its calls are only counted.
    #[must_use]
    pub fn instance(&self, info: InstanceInfo, config: &[u8], limits: Limits) -> Arc<Tape> {
        let id = self.0.instances.fetch_add(1, Relaxed) + 1;
        Tape::new(self.clone(), id, info, config, limits)
    }

    /// Ends the recording with its host, and says in the log how much it has. A file without any instance is removed.
    pub fn close(&self) {
        let mut sink = self.0.sink.lock();
        self.0.is_over.store(true, Relaxed);
        if !std::mem::replace(&mut sink.is_closed, true) {
            let path = &self.0.options.path;
            let left = if sink.remove_if_empty(path) { "removed: it is empty" } else { "closed" };
            tracing::info!(
                event = "recording_closed",
                file = %path.display(),
                kept = sink.kept,
                left_out = self.0.left_out.load(Relaxed),
                bytes = sink.written,
                "the recording is {left}"
            );
        }
    }

    /// Whether nothing more is written.
    pub(super) fn is_over(&self) -> bool {
        self.0.is_over.load(Relaxed)
    }

    pub(super) fn keeps_secrets(&self) -> bool {
        self.0.options.keep_secrets
    }

    pub(super) fn max_call_bytes(&self) -> usize {
        self.0.options.max_call_bytes
    }

    /// A call is not written.
    pub(super) fn left_out(&self) {
        self.0.left_out.fetch_add(1, Relaxed);
    }

    /// Writes the line of an instance; `false` when it is not written.
    pub(super) fn write_instance(&self, mut instance: InstanceLine) -> bool {
        let written = self.write(0, |masker| {
            if let Some(masker) = masker {
                let mut value = serde_json::json!({"config": instance.config.take()});
                mask(masker, &mut [&mut value], &mut instance.start.imports)?;
                instance.config = value["config"].take();
            }
            Ok(line(&Line::Instance(Box::new(instance))))
        });
        written.is_ok()
    }

    /// Writes the line of a call; `false` when it is not written.
    pub(super) fn write_call(&self, mut call: CallLine) -> bool {
        let written = self.write(1, |masker| {
            if let Some(masker) = masker {
                mask(masker, &mut [&mut call.args, &mut call.result], &mut call.effects.imports)?;
            }
            Ok(line(&Line::Call(Box::new(call))))
        });
        if written.is_err() {
            self.left_out();
        }
        written.is_ok()
    }

    fn write(
        &self,
        calls: u64,
        make: impl FnOnce(Option<&mut Masker>) -> Result<Vec<u8>, TooManyValues>,
    ) -> Result<(), ()> {
        let mut sink = self.0.sink.lock();
        if self.is_over() {
            return Err(());
        }
        let room = self.0.options.max_bytes.saturating_sub(END_BYTES).saturating_sub(sink.written);
        let written = make(sink.masker.as_mut()).map_err(Refused::Secrets).and_then(|text| {
            if text.len() as u64 > room {
                return Err(Refused::Full);
            }
            sink.file.write_all(&text).map_err(Refused::Io)?;
            sink.written += text.len() as u64;
            sink.kept += calls;
            Ok(())
        });
        written.map_err(|refused| self.end(&mut sink, &refused))
    }

    /// Ends the recording: what is there is a whole beginning.
    fn end(&self, sink: &mut Sink, refused: &Refused) {
        self.0.is_over.store(true, Relaxed);
        let reason = match refused {
            Refused::Secrets(error) => error.to_string(),
            Refused::Full => format!("it reached {} bytes (--record-max)", self.0.options.max_bytes),
            Refused::Io(error) => format!("it could not be written: {error}"),
        };
        let kept = sink.kept;
        if !matches!(refused, Refused::Io(_)) {
            // Without it the file is as good.
            let _ = sink.file.write_all(&line(&Line::End(EndLine { reason: reason.clone(), kept })));
        }
        tracing::warn!(
            event = "recording_ended",
            file = %self.0.options.path.display(),
            kept,
            "the recording ended, and further calls are left out: {reason}"
        );
    }
}

/// Learns the secret values of a line, then puts tokens in place of them.
fn mask(
    masker: &mut Masker,
    values: &mut [&mut Value],
    imports: &mut [crate::format::Import],
) -> Result<(), TooManyValues> {
    for value in &*values {
        masker.learn_from(value)?;
    }
    for import in &*imports {
        masker.learn_from(&import.args)?;
        if let Some(answer) = &import.answer {
            masker.learn_from(answer)?;
        }
    }
    for value in values {
        masker.mask(value);
    }
    for import in imports {
        masker.mask(&mut import.args);
        if let Some(answer) = &mut import.answer {
            masker.mask(answer);
        }
    }
    Ok(())
}

/// A line of the file.
fn line(line: &Line) -> Vec<u8> {
    // Keys are strings and numbers are finite: it cannot fail.
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}
