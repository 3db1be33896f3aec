//! `pilothouse check`: what a component is, what it asks for and what it costs, and whether a host would take it. No cluster
//! is asked.

mod needs;
mod report;
pub(crate) mod subject;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use pilothouse_engine::{Code, Instance, Nothing};
use pilothouse_plugin::{Description, Grants, printable};
use serde_json::value::RawValue;

use self::report::{CodeReport, Report, Wake};
use self::subject::Subject;
use pilothouse_hosting::inspect::interfaces::Interfaces;
use pilothouse_hosting::inspect::watches::{Unwatchable, watched};
use pilothouse_hosting::inspect::{self, Inspector, describe};
use pilothouse_hosting::output::{print, shown};

/// Wakes that are measured.
const WAKES: usize = 50;

const EXAMPLES: &str = "Examples:
  # What it is, what it asks for and what it costs, with the manifest beside it
  pilothouse check plugins/pods_per_node.wasm

  # The same, with a configuration that is in a Secret on the cluster
  pilothouse check plugins/pods-per-node.yaml --config config.yaml

  # A manifest with the permissions that it needs
  pilothouse check pods_per_node.wasm --manifest > pods-per-node.yaml

  # For a script: the world of the component
  pilothouse check pods_per_node.wasm -o json | jq -r .world";

/// The command `pilothouse check`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// A component (.wasm), with its manifest beside it if it has one; or a manifest (.yaml)
    file: PathBuf,
    /// Configuration in place of the manifest's: a YAML or JSON file with one object
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print only a manifest with the permissions and hosts that the component needs
    #[arg(long, conflicts_with = "output")]
    manifest: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One JSON object
    Json,
}

impl Check {
    /// Runs the command.
    ///
    /// # Errors
    /// With what went wrong, and what to do about it.
    pub fn main(self) -> Result<()> {
        inspect::run(self.check())
    }

    async fn check(self) -> Result<()> {
        let subject = Subject::find(&self.file, self.config.as_deref())?;
        let scratch = tempfile::Builder::new().prefix("pilothouse-check-").tempdir();
        let scratch = scratch
            .context("making a folder for the machine code; set TMPDIR to a folder that can be written")?;
        let mut report = Report {
            component: shown(&subject.path).to_string(),
            component_bytes: subject.wasm.len(),
            interfaces: Interfaces::of(&subject.wasm),
            plugin: subject.manifest.name.clone(),
            manifest: subject.manifest_path.as_ref().map(|path| shown(path).to_string()),
            ..Report::default()
        };
        let outcome = fill(&mut report, &subject, scratch.path(), self.manifest).await?;
        match (self.manifest, self.output, &report.parsed) {
            (true, _, Some(description)) if outcome.is_ok() => {
                print(&needs::manifest(&subject.manifest.name, &subject.component(), description))?;
            }
            (true, ..) => {}
            (false, Output::Text, _) => print(&report.text())?,
            (false, Output::Json, _) => {
                report.refused = match &outcome {
                    Err(Failed::Refused { reason, .. }) => Some(reason.clone()),
                    Ok(()) | Err(Failed::ConfigUnknown { .. }) => None,
                };
                print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
            }
        }
        match outcome {
            Ok(()) => Ok(()),
            Err(Failed::Refused { file, reason }) => bail!("{}: {reason}", file.display()),
            Err(Failed::ConfigUnknown { reason }) => bail!(
                "{}: without the configuration of spec.configFrom it cannot be said whether a host refuses it: name the whole with --config FILE ({reason})",
                subject.path.display()
            ),
        }
    }
}

/// Why the check failed.
enum Failed {
    /// A host refuses the plugin.
    Refused {
        /// The file to blame.
        file: PathBuf,
        reason: String,
    },
    /// A host would, with the part of the configuration that is known here.
    ConfigUnknown { reason: String },
}

/// Finds out all that is to be known. The outer error is the trouble of this machine. For a manifest that is to be
/// written, the present one is no reason to refuse anything, and nothing is measured.
async fn fill(
    report: &mut Report,
    subject: &Subject,
    scratch: &Path,
    for_manifest: bool,
) -> Result<Result<(), Failed>> {
    let refused = |reason: String| Ok(Err(Failed::Refused { file: subject.path.clone(), reason }));
    // What a component says with a part of its configuration is not what a host hears.
    let described = |file: &Path, reason: String| match subject.config_is_whole {
        true => Failed::Refused { file: file.to_owned(), reason },
        false => Failed::ConfigUnknown { reason },
    };
    let inspector = Inspector::new(scratch.to_owned())?;
    let begin = Instant::now();
    let code = match inspector.prepare(subject.wasm.clone()).await {
        Ok(code) => code,
        Err(error) if error.is_refusal() => return refused(error.to_string()),
        Err(error) => return Err(error).with_context(|| format!("compiling {}", subject.path.display())),
    };
    report.code = Some(CodeReport {
        digest: code.digest().to_owned(),
        world: code.world()?.as_str(),
        machine_code_bytes: machine_code(scratch)?,
        compile_seconds: begin.elapsed().as_secs_f64(),
    });
    let demanded = subject.manifest.source.digest.as_ref().filter(|_| !for_manifest);
    if let (Some(demanded), Some(path)) =
        (demanded.filter(|digest| *digest != code.digest()), &subject.manifest_path)
    {
        let reason = format!(
            "the digest of {} is {}, but spec.source.digest demands {demanded}; copy the right component or correct the digest",
            subject.component(),
            code.digest()
        );
        return Ok(Err(Failed::Refused { file: path.clone(), reason }));
    }
    if !subject.config_is_whole {
        let text = "spec.configFrom is not read: name the whole configuration with --config FILE";
        report.warnings.push(text.to_owned());
    }
    let answer = match describe::call(&code, &subject.manifest, &subject.config).await {
        Ok(answer) => answer,
        Err(reason) => return Ok(Err(described(&subject.path, reason))),
    };
    let description = match describe::parse(&answer, &code, &subject.manifest) {
        Ok(description) => report.parsed.insert(description),
        Err(reason) => return Ok(Err(described(&subject.path, reason))),
    };
    report.description = Some(serde_json::from_slice::<Box<RawValue>>(&answer)?);
    if for_manifest {
        return Ok(Ok(()));
    }
    let verdict = match &subject.manifest_path {
        Some(path) => {
            compare(&mut report.warnings, subject, description).map_err(|reason| described(path, reason))
        }
        None => {
            let text = "no manifest beside it: it runs without permissions; `pilothouse check FILE --manifest` prints one";
            report.warnings.push(text.to_owned());
            Ok(())
        }
    };
    match wake(&code, subject).await {
        Ok(wake) => report.wake = Some(wake),
        Err(reason) => return refused(reason),
    }
    Ok(verdict)
}

/// Compares what the component asks for with what the manifest grants; the error is why a host refuses it.
fn compare(warnings: &mut Vec<String>, subject: &Subject, description: &Description) -> Result<(), String> {
    let manifest = &subject.manifest;
    let grants = Grants::new(manifest.permissions.clone());
    let missing = grants.not_granted(&description.permissions, None);
    if !missing.is_empty() {
        warnings.push(printable(&missing.to_string()));
    }
    for host in manifest.outgoing_hosts.not_granted(&description.outgoing_hosts) {
        let text =
            format!("HTTP host not granted; to grant, add to spec.outgoingHosts of the manifest: \"{host}\"");
        warnings.push(printable(&text));
    }
    let mut refused = Ok(());
    for watched in watched(description, &grants, manifest.limits.data.informers) {
        match watched.scopes {
            Ok(_) => {}
            Err(Unwatchable::Refused(reason)) => refused = refused.and(Err(printable(&reason))),
            Err(Unwatchable::PluralUnknown(reason)) => {
                let plural = &watched.resource.plural;
                warnings.push(printable(&format!("{reason} (if the cluster calls the resource {plural})")));
            }
        }
    }
    refused
}

/// Measures the time from an unloaded component to an instance, as a host has it at the first call after a pause.
async fn wake(code: &Code, subject: &Subject) -> Result<Wake, String> {
    let mut wakes = Vec::with_capacity(WAKES);
    for _ in 0..WAKES {
        code.unload();
        let begin = Instant::now();
        let instance = Instance::new(code, Arc::new(Nothing), subject.manifest.limits.engine).await;
        let instance = instance.map_err(|fault| format!("no instance can be made: {fault}"))?;
        wakes.push(begin.elapsed());
        drop(instance);
    }
    wakes.sort_unstable();
    let seconds = |wake: Option<&Duration>| wake.map_or(0.0, Duration::as_secs_f64);
    Ok(Wake {
        times: wakes.len(),
        median_seconds: seconds(wakes.get(wakes.len() / 2)),
        longest_seconds: seconds(wakes.last()),
    })
}

/// Bytes of machine code in a compile cache.
fn machine_code(cache_dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(cache_dir.join("compiled")).context("reading the compile cache")? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|ending| ending == "cwasm") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
