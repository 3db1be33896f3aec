//! `pilothouse replay`: runs the calls of a recording again, against a component, and shows the first difference.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use pilothouse_recording::{Recording, ReplayOptions, ReplayReport, replay};

use pilothouse_hosting::hosting::default_cache_dir;
use pilothouse_hosting::inspect::{self, Inspector};
use pilothouse_hosting::output::{complain, print};

/// The code with which the command ends where nothing could be replayed, as that of diff(1).
const TROUBLE: u8 = 2;

const EXAMPLES: &str = "Examples:
  # The calls that `pilothouse run --record calls.jsonl` kept, again and without the cluster
  pilothouse replay calls.jsonl plugins/foo_controller.wasm

  # Against a newer build, whose log lines are other ones
  pilothouse replay calls.jsonl new/foo_controller.wasm --ignore-logs

  # One plugin of a recording of several
  pilothouse replay calls.jsonl plugins/foo_controller.wasm --plugin foo-controller";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// The recording, of `pilothouse run --record`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The component (.wasm): the one that was recorded, or a newer build
    #[arg(value_name = "COMPONENT")]
    component: PathBuf,
    /// Replay this plugin [default: all whose world and contract are those of the component]
    #[arg(long, value_name = "NAME")]
    plugin: Option<String>,
    /// Leave log lines and metrics out of the comparison
    #[arg(long)]
    ignore_logs: bool,
    /// Directory of compiled plugins, private to this user [default: $XDG_CACHE_HOME/pilothouse or ~/.cache/pilothouse]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

impl Replay {
    /// 0: all calls are the same; 1: one is not; 2: nothing could be replayed.
    pub(crate) fn main(self) -> ExitCode {
        let is_same = inspect::run(self.replay());
        match is_same {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                complain(&format!("{error:#}"));
                ExitCode::from(TROUBLE)
            }
        }
    }

    async fn replay(self) -> Result<bool> {
        let shown = self.file.display();
        let recording = Recording::read(&self.file).map_err(|error| anyhow!("{shown}: {error}"))?;
        let wasm = std::fs::read(&self.component)
            .with_context(|| format!("{}: it cannot be read", self.component.display()))?;
        let inspector = Inspector::new(self.cache_dir.map_or_else(default_cache_dir, Ok)?)?;
        let code = inspector
            .prepare(wasm)
            .await
            .map_err(|error| anyhow!("{}: {error}", self.component.display()))?;
        let options = ReplayOptions { plugin: self.plugin, ignore_logs: self.ignore_logs };
        let report =
            replay(&code, &recording, &options).await.map_err(|error| anyhow!("{shown}: {error}"))?;
        if let Some(difference) = &report.difference {
            print(&format!("{difference}\n"))?;
        }
        print(&summary(&report))?;
        if let Some(reason) = recording.incomplete() {
            print(&format!("The recording is not whole: {reason}.\n"))?;
        }
        Ok(report.difference.is_none())
    }
}

/// The last line.
fn summary(report: &ReplayReport) -> String {
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (calls, instances) = (count(report.calls, "call"), count(report.instances, "instance"));
    let build = if report.is_same_component { "the recorded component" } else { "another component" };
    let verdict = if report.difference.is_some() { "the last one differs" } else { "all are the same" };
    let cut = match report.cut {
        0 => String::new(),
        cut => format!("; {} ran out of time when recorded, compared up to there", count(cut, "call")),
    };
    format!(
        "{calls} of {instances} of {} replayed against {build}: {verdict}{cut}\n",
        report.plugins.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_was_replayed() {
        let report = ReplayReport {
            plugins: vec!["a".to_owned(), "b".to_owned()],
            calls: 12,
            instances: 1,
            cut: 1,
            is_same_component: true,
            difference: None,
        };
        assert_eq!(
            summary(&report),
            "12 calls of 1 instance of a, b replayed against the recorded component: all are the same; 1 call ran out of time when recorded, compared up to there\n"
        );
    }
}
