//! `pilothouse man`: manual pages of the binary and of each command, made of the definition of the command line.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::builder::StyledStr;
use clap::{Arg, Args, Command};

const EXAMPLES: &str = "Examples:
  # For this user
  pilothouse man ~/.local/share/man/man1
  man pilothouse-run

  # For a package
  pilothouse man package/usr/share/man/man1";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Directory that the pages are written into; it is made if it does not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Man {
    /// Writes the pages of this command line.
    pub(crate) fn main(&self, command: &Command) -> Result<()> {
        let remedy = |path: &PathBuf| format!("cannot write {}; name another directory", path.display());
        fs::create_dir_all(&self.dir).with_context(|| remedy(&self.dir))?;
        for (name, page) in pages(command) {
            let file = self.dir.join(format!("{name}.1"));
            fs::write(&file, page).with_context(|| remedy(&file))?;
        }
        Ok(())
    }
}

/// The pages with their names: one of the binary, and one of each command that is shown.
fn pages(command: &Command) -> Vec<(String, String)> {
    let mut root = command.clone().disable_help_subcommand(true);
    root.build();
    let shown: Vec<&Command> = root.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let source = format!("{} {}", root.get_name(), root.get_version().unwrap_or_default());
    let all = [&root].into_iter().chain(shown.iter().copied());
    let named = all.map(|command| {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let page = page(&name, &source, command);
        (name, page)
    });
    named.collect()
}

/// A page in the macros of man(7).
fn page(name: &str, source: &str, command: &Command) -> String {
    let about = plain(command.get_about());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let mut page = format!(
        ".TH \"{}\" 1 \"\" \"{source}\" \"\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n.SH OPTIONS\n",
        name.to_uppercase(),
        text(name),
        text(&about),
        text(usage),
    );
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        page += &entry(&flag(arg), &help(arg));
    }
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let entries: String = commands.map(|own| entry(own.get_name(), &plain(own.get_about()))).collect();
    if !entries.is_empty() {
        page += &format!(".SH COMMANDS\n{entries}");
    }
    let after = plain(command.get_after_help());
    if let Some(examples) = after.strip_prefix("Examples:\n") {
        page += &format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", text(examples));
    }
    page
}

/// An indented paragraph below a tag.
fn entry(tag: &str, help: &str) -> String {
    format!(".TP\n\\fB{}\\fR\n{}\n", text(tag), text(help))
}

/// An argument as it is typed: `-n, --namespace <NAMESPACE>`.
fn flag(arg: &Arg) -> String {
    let short = arg.get_short().filter(|_| arg.get_long().is_some());
    short.map(|short| format!("-{short}, ")).unwrap_or_default() + &arg.to_string()
}

/// The help of an argument, with its default and the values that it may have.
fn help(arg: &Arg) -> String {
    let mut help = plain(arg.get_help());
    let joined = |values: Vec<String>| values.join(", ");
    if arg.get_action().takes_values() {
        let values = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
        let values: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        if !values.is_empty() {
            help += &format!(" [possible values: {}]", joined(values));
        }
        let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned());
        let defaults: Vec<String> = defaults.collect();
        if !defaults.is_empty() {
            help += &format!(" [default: {}]", joined(defaults));
        }
    }
    if let Some(variable) = arg.get_env() {
        help += &format!(" [env: {}]", variable.to_string_lossy());
    }
    help
}

fn plain(text: Option<&StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// Text that the formatter shows as it is: no escapes, no requests at the start of a line, hyphens that can be copied.
fn text(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = escaped.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    #[test]
    fn every_command_that_is_shown_has_a_page_with_all_its_flags_and_examples() {
        let pages: BTreeMap<String, String> = pages(&Cli::command()).into_iter().collect();
        let cli = Cli::command();
        let shown: Vec<&Command> = cli.get_subcommands().filter(|command| !command.is_hide_set()).collect();
        let mut wanted: Vec<String> =
            shown.iter().map(|command| format!("pilothouse-{}", command.get_name())).collect();
        wanted.push("pilothouse".to_owned());
        wanted.sort();
        assert_eq!(pages.keys().cloned().collect::<Vec<_>>(), wanted);
        for command in shown {
            let name = command.get_name();
            assert!(pages["pilothouse"].contains(&entry(name, &plain(command.get_about()))), "{name}");
            let page = &pages[&format!("pilothouse-{name}")];
            for flag in command.get_arguments().filter_map(Arg::get_long) {
                assert!(page.contains(&text(&format!("--{flag}"))), "{name}: {flag}: {page}");
            }
            assert!(page.contains("\n.SH EXAMPLES\n.nf\n"), "{name}: {page}");
        }
        let run = &pages["pilothouse-run"];
        assert!(run.contains("\\fB\\-\\-log\\-format <LOG_FORMAT>\\fR\n"), "{run}");
        assert!(run.contains("[possible values: text, json] [default: text]"), "{run}");
        assert!(run.contains(".SH SYNOPSIS\npilothouse run [OPTIONS]\n"), "{run}");
    }

    #[test]
    fn text_is_shown_as_it_is() {
        assert_eq!(text(".SH a\n'b\n\\fB --c"), "\\&.SH a\n\\&'b\n\\efB \\-\\-c");
    }
}
