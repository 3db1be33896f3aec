//! [`print()`], [`print_on`] and [`complain`]: what a command writes to standard output and standard error; [`harmless`], [`size`],
//! [`shown`] and [`yaml_scalar`]: how it writes texts of others, sizes, paths, and texts in YAML.

use std::borrow::Cow;
use std::io::{ErrorKind, Write as _};
use std::path::{Display, Path};

use anyhow::{Context as _, Result};
use pilothouse_plugin::is_control;

/// Writes text to standard output. A reader that has seen enough, as `head`, is no error.
pub fn print(text: &str) -> Result<()> {
    print_on(text).map(drop)
}

/// As [`print()`], of a command that goes on: whether somebody still reads.
pub fn print_on(text: &str) -> Result<bool> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("writing to standard output"),
    }
}

/// Writes an error to standard error. Nothing can be done where that is closed.
pub fn complain(text: &str) {
    let _ = std::io::stderr().write_all(error_text(text).as_bytes());
}

/// Errors cite servers and components.
fn error_text(text: &str) -> String {
    format!("error: {}\n", harmless(text))
}

/// The text without characters that a terminal takes for commands, or that turn the direction of a line.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| is_control(c) && c != '\n' && c != '\t';
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if harmful(c) { clean.extend(c.escape_default()) } else { clean.push(c) }
    }
    Cow::Owned(clean)
}

/// `12 bytes`, `1.5 KiB`, `12.3 MiB`
pub fn size(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "no file is near 2^53 bytes")]
    let bytes = bytes as f64;
    match bytes / 1024.0 {
        kibi if kibi < 1.0 => format!("{bytes} bytes"),
        kibi if kibi < 1024.0 => format!("{kibi:.1} KiB"),
        kibi => format!("{:.1} MiB", kibi / 1024.0),
    }
}

/// A path as people would write it: relative to the current folder if it is below that, else as it is.
pub fn shown(path: &Path) -> Display<'_> {
    let folder = std::env::current_dir().unwrap_or_default();
    let below = path.strip_prefix(folder).or_else(|_| path.strip_prefix("."));
    below.ok().filter(|below| !below.as_os_str().is_empty()).unwrap_or(path).display()
}

/// A text as YAML reads it: in quotes, unless it is a plain word that means nothing else.
pub fn yaml_scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._/".contains(&b))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&&*text.to_ascii_lowercase());
    if plain {
        return text.to_owned();
    }
    // YAML allows fewer characters as they are than JSON does: no DEL, no C1, no byte order mark.
    let is_special = |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
    let mut quoted = String::new();
    for c in serde_json::Value::from(text).to_string().chars() {
        if is_special(c) {
            quoted += &format!("\\u{:04x}", u32::from(c));
        } else {
            quoted.push(c);
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_commands_no_terminal_and_keeps_its_lines() {
        assert_eq!(error_text("a\u{1b}[2J\r\n\tb"), "error: a\\u{1b}[2J\\r\n\tb\n");
        assert_eq!(error_text("a\u{202e}b"), "error: a\\u{202e}b\n");
        assert!(matches!(harmless("a\n\tb"), Cow::Borrowed("a\n\tb")));
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([12, 1536, 3 << 20].map(size), ["12 bytes", "1.5 KiB", "3.0 MiB"]);
    }

    #[test]
    fn paths_below_the_current_folder_are_relative_to_it() {
        let folder = std::env::current_dir().unwrap();
        assert_eq!(shown(&folder.join("plugins/a.wasm")).to_string(), "plugins/a.wasm");
        for path in ["plugins/a.wasm", "../a.wasm", "/nowhere/a.wasm", "."] {
            assert_eq!(shown(Path::new(path)).to_string(), path);
        }
        assert_eq!(shown(Path::new("./a.wasm")).to_string(), "a.wasm");
        assert_eq!(shown(&folder).to_string(), folder.display().to_string());
    }

    #[test]
    fn words_that_yaml_takes_for_something_else_are_quoted() {
        for (text, written) in [
            ("pods", "pods"),
            ("no", "\"no\""),
            ("On", "\"On\""),
            ("CronTab", "CronTab"),
            ("1a", "\"1a\""),
            ("*", "\"*\""),
            ("", "\"\""),
            ("a b", "\"a b\""),
        ] {
            assert_eq!(yaml_scalar(text), written);
        }
    }
}
