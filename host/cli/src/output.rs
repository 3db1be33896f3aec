//! [`print`] and [`complain`]: what a command writes to standard output and standard error; [`size`]: how it writes sizes.

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

/// Writes an error to standard error. Nothing can be done where that is closed.
pub(crate) fn complain(text: &str) {
    let _ = std::io::stderr().write_fmt(format_args!("error: {text}\n"));
}

/// `12 bytes`, `1.5 KiB`, `12.3 MiB`
pub(crate) fn size(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "no file is near 2^53 bytes")]
    let bytes = bytes as f64;
    match bytes / 1024.0 {
        kibi if kibi < 1.0 => format!("{bytes} bytes"),
        kibi if kibi < 1024.0 => format!("{kibi:.1} KiB"),
        kibi => format!("{:.1} MiB", kibi / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!([12, 1536, 3 << 20].map(size), ["12 bytes", "1.5 KiB", "3.0 MiB"]);
    }
}
