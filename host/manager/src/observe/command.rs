//! [`Command`]: what an operator on call may tell a host to do with a plugin.

use std::fmt;

use pilothouse_object::ObjectKey;

/// A command about one plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Begin no call until `Resume`.
    Pause,
    Resume,
    /// Load the files again, as if they had changed.
    Reload,
    /// Reconcile a key now.
    Reconcile(ObjectKey),
    /// End a quarantine.
    Release,
}

/// Why a command was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandError {
    NoPlugin,
    /// Not in the present state of the plugin or the host.
    Not(&'static str),
}

impl CommandError {
    /// The plugin goes.
    pub(crate) const REMOVED: Self = Self::Not("the plugin is being removed");
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPlugin => "there is no such plugin",
            Self::Not(why) => why,
        })
    }
}

impl Command {
    /// The words of all commands.
    pub(crate) const NAMES: [&'static str; 5] = ["pause", "resume", "reload", "reconcile", "release"];

    /// Reads a command from the last part of its path and the query.
    pub(crate) fn parse(name: &str, query: Option<&str>) -> Option<Self> {
        Some(match name {
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "reload" => Self::Reload,
            // Names of objects have no character that a query escapes, but for the slash.
            "reconcile" => {
                let key = query?.split('&').find_map(|part| part.strip_prefix("key="))?;
                Self::Reconcile(key.replace("%2F", "/").replace("%2f", "/").parse().ok()?)
            }
            "release" => Self::Release,
            _ => return None,
        })
    }

    /// The word of the command.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Reload => "reload",
            Self::Reconcile(_) => "reconcile",
            Self::Release => "release",
        }
    }

    /// The key that it is about.
    pub(crate) fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::Reconcile(key) => Some(key),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_a_command_and_a_key_may_be_escaped() {
        for name in Command::NAMES {
            let command = Command::parse(name, Some("a=b&key=ns%2Fx")).unwrap();
            assert_eq!(command.name(), name);
            let key = command.key().map(ToString::to_string);
            assert_eq!(key.as_deref(), (name == "reconcile").then_some("ns/x"));
        }
        assert_eq!(Command::parse("stop", None), None);
        assert_eq!(Command::parse("reconcile", None), None);
        assert_eq!(Command::parse("reconcile", Some("key=a/b/c")), None);
    }
}
