//! [`AuditArgs`]: the flags of `run` for the audit of writes.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use pilothouse_manager::{Audit, AuditOptions};

use crate::record::size;

/// Least bound of the file: some hundred lines.
const LEAST: u64 = 64 << 10;

#[derive(Args)]
pub(crate) struct AuditArgs {
    /// Write a line of JSON about each write that a plugin sends, into this file or to standard output (-)
    #[arg(long, value_name = "FILE|-")]
    audit_log: Option<PathBuf>,
    /// Size at which the file is renamed to FILE.1 and begun anew, as 64Mi; at least 64Ki
    #[arg(long, value_name = "SIZE", requires = "audit_log", default_value = "100Mi", value_parser = size)]
    audit_log_max: u64,
}

impl AuditArgs {
    /// Begins the audit, if there is to be one.
    pub(crate) fn start(&self) -> Result<Option<Audit>> {
        let Some(path) = &self.audit_log else { return Ok(None) };
        if self.audit_log_max < LEAST {
            bail!(
                "--audit-log-max: {} bytes are less than 64Ki: name a size of 64Ki or more",
                self.audit_log_max
            );
        }
        let options = match path.to_str() {
            Some("-") => AuditOptions::Stdout,
            _ => AuditOptions::File { path: path.clone(), max_bytes: self.audit_log_max },
        };
        Audit::start(&options).map(Some).map_err(|error| anyhow!("--audit-log: {error}"))
    }
}
