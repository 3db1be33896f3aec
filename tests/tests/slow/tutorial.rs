//! `docs/tutorial.md`, as a reader follows it: its blocks become the files of a new plugin, its commands are run, and what
//! they print is what it shows. The development server stands in for the cluster at its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::paths;
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_testkit::tools::Tool;
use pilothouse_tests::dev::{self, Dev};
use pilothouse_tests::process::{self, Finished};
use pilothouse_tests::tutorial::{Step, compare, steps};
use pilothouse_tests::{Signal, cli, or_skip};

/// A cold build of the SDK and its dependencies, beside other suites.
const BUILD: Duration = Duration::from_secs(600);

/// Somebody who follows the tutorial.
struct Reader {
    /// Where the commands run.
    folder: PathBuf,
    /// Caches of the commands.
    caches: tempfile::TempDir,
    kubeconfig: Option<PathBuf>,
    dev: Option<Dev>,
    /// How many lines of the log of `dev` were read.
    read: usize,
}

impl Reader {
    fn follows(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Write { path, text } => {
                let path = self.folder.join(path);
                fs::create_dir_all(path.parent().context("a file without a folder")?)?;
                Ok(fs::write(path, text)?)
            }
            Step::Replace { path, old, new } => {
                let (path, text) = self.file(path)?;
                ensure!(text.matches(old).count() == 1, "not once in {}: {old}", path.display());
                Ok(fs::write(path, text.replace(old, new))?)
            }
            Step::Append { path, text } => {
                let (path, before) = self.file(path)?;
                Ok(fs::write(path, before + text)?)
            }
            Step::Shell(commands) => {
                commands.iter().try_for_each(|(command, shown)| self.runs(command, shown))
            }
            Step::Log(lines) => self.sees(lines),
            Step::Reader(text) => {
                // How the command is built, which the tests have done.
                let readme = fs::read_to_string(paths::repository().join("README.md"))?;
                let first = text.lines().next().unwrap_or_default();
                ensure!(readme.contains(&format!("$ {first}\n")), "the README has no {first:?}");
                Ok(())
            }
        }
    }

    fn file(&self, path: &str) -> Result<(PathBuf, String)> {
        let path = self.folder.join(path);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok((path, text))
    }

    fn runs(&mut self, command: &str, shown: &[String]) -> Result<()> {
        let words: Vec<_> = command.split_whitespace().collect();
        match words[..] {
            ["cd", folder] => {
                self.folder = self.folder.join(folder);
                dev::share_target(&self.folder)
            }
            ["export", "KUBECONFIG=$PWD/.pilothouse/kubeconfig"] => {
                self.kubeconfig = Some(self.folder.join(".pilothouse/kubeconfig"));
                ensure!(self.kubeconfig.as_ref().is_some_and(|path| path.exists()), "no kubeconfig");
                Ok(())
            }
            ["pilothouse", "dev"] => {
                self.dev = Some(Dev::start(&self.folder, &[] as &[&str])?);
                self.sees(shown)
            }
            ["pilothouse", "run", ref args @ ..] => self.runs_a_host(args),
            // The server refuses it, as shown.
            ["kubectl", "patch", ..] if shown.iter().any(|line| line.contains(" is invalid: ")) => {
                let refused = process::run(&mut self.command(command), "", SOON)?;
                ensure!(!refused.status.success(), "{refused:?}");
                compare(shown, &refused.stderr)
            }
            // What the plugin does is seen some time later.
            ["kubectl", "get", ..] => {
                poll::until(command, SOON, || compare(shown, &self.bash(command)?.stdout).map(|()| true))
            }
            _ => {
                let finished = self.bash(command)?;
                if shown.is_empty() {
                    return Ok(());
                }
                compare(shown, &finished.stdout)
            }
        }
        .with_context(|| format!("$ {command}"))
    }

    /// Runs a command as in a terminal; it must succeed.
    fn bash(&self, command: &str) -> Result<Finished> {
        let finished = process::run(&mut self.command(command), "", BUILD)?;
        ensure!(finished.status.success(), "{finished:?}");
        Ok(finished)
    }

    fn command(&self, command: &str) -> Command {
        let bin = self.caches.path().join("bin");
        let mut bash = cli::of_a_user(Path::new("bash"), &self.folder);
        let path = std::env::var("PATH").unwrap_or_default();
        bash.args(["-c", command]).env("PATH", format!("{}:{path}", bin.display()));
        bash.env("KUBECACHEDIR", self.caches.path()).env("XDG_CACHE_HOME", self.caches.path());
        bash.envs(self.kubeconfig.iter().map(|path| ("KUBECONFIG", path)));
        if command.starts_with("cargo ") {
            // Native builds of new plugins share a folder.
            bash.env("CARGO_TARGET_DIR", paths::target().join("new-plugins"));
        }
        bash
    }

    /// Waits for lines of the log of `dev`, in their order; other lines may be between them.
    fn sees(&mut self, shown: &[String]) -> Result<()> {
        let dev = self.dev.as_ref().context("`pilothouse dev` does not run")?;
        for line in shown.iter().filter(|line| *line != "…") {
            let from = self.read;
            let at = dev.wait_for(line, BUILD, || {
                let lines = dev.lines("");
                let is = |other: &String| compare(std::slice::from_ref(line), other).is_ok();
                lines.iter().skip(from).position(is)
            })?;
            self.read = from + at + 1;
        }
        Ok(())
    }

    /// Runs `pilothouse run` until it has reconciled an object of the cluster.
    fn runs_a_host(&self, args: &[&str]) -> Result<()> {
        let mut command = cli::command(&self.folder, &[&["run", "--listen", "127.0.0.1:0"], args].concat())?;
        command.envs(self.kubeconfig.iter().map(|path| ("KUBECONFIG", path)));
        let host = process::Process::spawn_watched(&mut command)?;
        self.bash("kubectl apply -f objects/example.yaml")?;
        poll::until("the host to publish a page", SOON, || {
            self.bash("kubectl get configmap home-html -o name").map(|_| true)
        })
        .with_context(|| host.output().tail(60))
    }

    /// Ends `dev`, and puts an API server without plugins in the place of the cluster.
    fn gets_a_cluster(&mut self) -> Result<()> {
        let dev = self.dev.take().context("`pilothouse dev` does not run")?;
        dev.signal(Signal::TERM)?;
        ensure!(dev.wait_exit(SOON)?.success());
        // A cluster knows nothing of the plugin's objects.
        let empty = self.caches.path().join("objects");
        fs::create_dir(&empty)?;
        let args = ["--api-only".as_ref(), "--objects".as_ref(), empty.as_os_str()];
        let cluster = Dev::start(&self.folder, &args)?;
        cluster.wait_lines(1, "export KUBECONFIG=", SOON)?;
        self.kubeconfig = Some(cluster.kubeconfig()?);
        self.dev = Some(cluster);
        Ok(())
    }
}

fn reader() -> Result<(tempfile::TempDir, Reader)> {
    let dir = tempfile::Builder::new().prefix("tutorial-").tempdir()?;
    let caches = tempfile::Builder::new().prefix("tutorial-caches-").tempdir()?;
    let program = PathBuf::from(cli::command(dir.path(), &[] as &[&str])?.get_program());
    fs::create_dir(caches.path().join("bin"))?;
    std::os::unix::fs::symlink(program, caches.path().join("bin/pilothouse"))?;
    let folder = dir.path().to_owned();
    Ok((dir, Reader { folder, caches, kubeconfig: None, dev: None, read: 0 }))
}

fn tutorial() -> Result<Vec<Step>> {
    steps(&fs::read_to_string(paths::repository().join("docs/tutorial.md"))?)
}

#[test]
fn the_tutorial_is_followed_to_its_end() -> Result<()> {
    or_skip(followed)
}

fn followed() -> Result<()> {
    Tool::Kubectl.require()?;
    let (_dir, mut reader) = reader()?;
    for step in tutorial()? {
        if matches!(&step, Step::Shell(commands) if commands[0].0.contains("--out plugins")) {
            reader.gets_a_cluster()?;
        }
        reader.follows(&step)?;
    }
    // Its code is as a formatter leaves it.
    reader.bash("cargo fmt --check").map(drop)
}
