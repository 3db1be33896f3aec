//! [`print`]: what a command writes to standard output.

use std::io::{ErrorKind, Write as _};

use anyhow::{Context as _, Result};

/// Writes text to standard output. A reader that has seen enough, as `head`, is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        _ => Ok(()),
    }
}
