//! `pilothouse completions`: a script with which a shell completes the commands and flags of this binary.

use std::io;

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::Shell;

use pilothouse_hosting::output::print;

/// The name of the binary.
const NAME: &str = "pilothouse";
const VERSION: &str = env!("CARGO_PKG_VERSION");

const EXAMPLES: &str = "Examples:
  # bash, in ~/.bashrc
  source <(pilothouse completions bash)

  # zsh, in ~/.zshrc after compinit
  source <(pilothouse completions zsh)

  # fish
  pilothouse completions fish > ~/.config/fish/completions/pilothouse.fish";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the script for this command line.
    pub(crate) fn main(&self, command: &Command) -> Result<()> {
        print(&script(self.shell, command)?)
    }
}

fn script(shell: Shell, command: &Command) -> io::Result<String> {
    // The scripts of clap_complete offer hidden commands, too.
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut command = Command::new(NAME).version(VERSION).propagate_version(true).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, NAME, &mut script);
    String::from_utf8(script).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, ValueEnum as _};

    use super::*;
    use crate::Cli;

    #[test]
    fn the_script_of_every_shell_has_all_commands_that_are_shown_and_no_other() {
        for shell in Shell::value_variants() {
            let script = script(*shell, &Cli::command()).unwrap();
            let hidden = Cli::command().get_subcommands().filter(|command| command.is_hide_set()).count();
            assert_eq!(hidden, 1);
            for command in Cli::command().get_subcommands() {
                let name = command.get_name();
                // Names that scripts make of others may hold that of a hidden command, so it is known by its text.
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                match command.is_hide_set() {
                    true => assert!(!script.contains(&about), "{shell}: {name}"),
                    false => assert!(script.contains(name), "{shell}: {name}"),
                }
            }
            assert!(script.contains("leader-elect"), "{shell}");
        }
    }
}
