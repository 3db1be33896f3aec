//! The systemd unit before systemd's own analysis, which needs no running systemd. At full length only. That its command
//! starts a host is a test of `e2e`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use pilothouse_testkit::paths::repository;
use pilothouse_testkit::poll::SOON;
use pilothouse_testkit::process::{self, Finished};
use pilothouse_testkit::tools::Tool;
use pilothouse_tests::{full, or_skip};

/// The highest exposure, in tenths: 0 to 100. The unit has 18 under systemd 252.
const MOST_EXPOSED: &str = "--threshold=20";

fn analyze(args: &[&str], unit: &Path) -> Result<Finished> {
    process::run(Command::new("systemd-analyze").args(args).arg(unit), "", SOON)
}

#[test]
fn the_unit_has_no_mistakes_and_exposes_little() -> Result<()> {
    full::only(|| or_skip(analysed))
}

fn analysed() -> Result<()> {
    Tool::Systemd.require()?;
    let folder = tempfile::Builder::new().prefix("unit-").tempdir()?;
    let unit = folder.path().join("pilothouse.service");
    let text = fs::read_to_string(repository().join("deploy/pilothouse.service"))?;
    // A program has to be there.
    let text = text.replace("/usr/local/bin/pilothouse", "/bin/true");
    let verify = |text: &str| -> Result<Finished> {
        fs::write(&unit, text)?;
        analyze(&["verify", "--man=no"], &unit)
    };
    // It only warns of settings that it does not know.
    let misspelt = text.replace("\nUMask=", "\nUmask=");
    let warned = verify(&misspelt)?;
    ensure!(warned.stderr.contains("Umask"), "a mistake is not seen: {warned:?}");
    let verified = verify(&text)?;
    ensure!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");

    let security = ["security", "--offline=true", "--no-pager", MOST_EXPOSED];
    let judged = analyze(&security, &unit)?;
    ensure!(judged.status.success(), "{judged:?}");
    // Without the filter of system calls it has 3.2.
    let open: Vec<&str> = text.lines().filter(|line| !line.starts_with("SystemCallFilter=")).collect();
    fs::write(&unit, open.join("\n"))?;
    let judged = analyze(&security, &unit)?;
    ensure!(!judged.status.success(), "the threshold refuses nothing: {judged:?}");
    Ok(())
}
