//! [`RecordArgs`]: the flags of `run` and `dev` that record calls of plugins.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use pilothouse_plugin::parse_memory;
use pilothouse_recording::{Recorder, RecorderOptions};

/// The flags of recordings.
#[derive(Args)]
pub struct RecordArgs {
    /// Record each call of a plugin into this new file, for `pilothouse replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Record this plugin; several times for several [default: all]
    #[arg(long, value_name = "NAME", requires = "record")]
    plugin: Vec<String>,
    /// Record values of Secrets as they are; without it they are masked
    #[arg(long, requires = "record")]
    record_secrets: bool,
    /// Size of the file at which the recording ends, as 64Mi
    #[arg(long, value_name = "SIZE", requires = "record", default_value = "256Mi", value_parser = size)]
    record_max: u64,
}

fn size(text: &str) -> Result<u64, String> {
    parse_memory(text).map_err(|error| error.to_string())
}

impl RecordArgs {
    /// Begins the recording, if there is to be one.
    pub fn start(&self) -> Result<Option<Recorder>> {
        let Some(path) = &self.record else { return Ok(None) };
        let recorder = Recorder::create(RecorderOptions {
            path: path.clone(),
            plugins: self.plugin.clone(),
            keep_secrets: self.record_secrets,
            max_bytes: self.record_max,
            max_call_bytes: RecorderOptions::DEFAULT_MAX_CALL_BYTES,
            host: env!("CARGO_PKG_VERSION").to_owned(),
        });
        recorder.map(Some).map_err(|error| anyhow!("--record: {error}"))
    }
}
