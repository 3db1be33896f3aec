//! The image, built without a network as docs/install.md says: from vendored crates, with an empty folder of Cargo, in a
//! network namespace without a route. At full length only: the host is compiled with the profile that ships.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::paths::{repository, target};
use pilothouse_testkit::tools::Tool;
use pilothouse_tests::image::Layout;
use pilothouse_tests::tutorial::{self, Step};
use pilothouse_tests::{cli, full, or_skip};

/// The part of docs/install.md with the commands.
const HEADING: &str = "\n### Build the image inside\n";

/// The commands of the part, a script for each block: where there is access, and where there is none.
fn scripts() -> Result<[String; 2]> {
    let page = fs::read_to_string(repository().join("docs/install.md"))?;
    let (_, part) = page.split_once(HEADING).context("docs/install.md has no such part")?;
    let part = part.split("\n## ").next().unwrap_or_default();
    let blocks = tutorial::steps(part)?.into_iter().filter_map(|step| match step {
        Step::Shell(commands) => Some(commands),
        _ => None,
    });
    let scripts = blocks.map(|commands| {
        // What follows a command is the rest of it.
        let lines = commands.into_iter().flat_map(|(command, rest)| [vec![command], rest].concat());
        lines.map(|line| line + "\n").collect::<String>()
    });
    let scripts: Vec<String> = scripts.collect();
    <[String; 2]>::try_from(scripts).map_err(|scripts| anyhow::anyhow!("not two blocks: {scripts:?}"))
}

/// Runs a script without the variables of this test run, and returns what it prints. It takes as long as a build takes.
fn run(dir: &Path, program: &str, args: &[&str], cargo_home: Option<&Path>) -> Result<String> {
    let mut command = cli::of_a_user(Path::new(program), dir);
    command.args(args);
    if let Some(home) = cargo_home {
        command.env("CARGO_HOME", home);
    }
    let output = command.output().with_context(|| format!("starting {program}"))?;
    ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_image_is_built_from_vendored_crates_without_a_network() -> Result<()> {
    // The page names this architecture.
    if !cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    full::only(|| or_skip(built_without_a_network))
}

fn built_without_a_network() -> Result<()> {
    Tool::Root.require()?;
    let [before, inside] = scripts()?;
    ensure!(before.contains("cargo vendor") && inside.contains("--offline"), "{before}{inside}");
    // On the disk of builds: it becomes large.
    let folder = tempfile::Builder::new().prefix("air-gap-").tempdir_in(target())?;
    let (copy, home) = (folder.path().join("pilothouse"), folder.path().join("cargo"));
    fs::create_dir(&copy)?;
    fs::create_dir(&home)?;
    let pack = "tar --exclude=./.git --exclude=target --exclude=node_modules -cf - . | tar -xf - -C \"$1\"";
    run(repository(), "/bin/sh", &["-euc", pack, "sh", &copy.to_string_lossy()], None)?;

    run(&copy, "/bin/sh", &["-euc", &before], None)?;
    let without_network = ["--net", "/bin/sh", "-euc"];
    let routes = run(&copy, "unshare", &[&without_network[..], &["cat /proc/net/route"]].concat(), None)?;
    // At most the line with the names of the columns.
    ensure!(routes.lines().count() <= 1, "there is a network: {routes}");
    run(&copy, "unshare", &[&without_network[..], &[inside.as_str()]].concat(), Some(&home))?;

    let layout = Layout::open(&copy.join("image"))?;
    let root = folder.path().join("root");
    layout.unpack("amd64", &root)?;
    let printed = Command::new(root.join("pilothouse")).arg("--version").output()?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    ensure!(printed.trim() == format!("pilothouse {}", env!("CARGO_PKG_VERSION")), "{printed}");
    Ok(())
}
