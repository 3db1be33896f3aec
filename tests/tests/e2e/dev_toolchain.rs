//! `pilothouse dev` on machines that lack something: a compiler without the WebAssembly target, no rustup, no lock file. What the
//! machine has are scripts first on the PATH, which write down what they were asked and hand on to the real tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_testkit::{full, paths, script};
use pilothouse_tests::dev::{self, Dev};
use pilothouse_tests::process::{self, Finished};
use pilothouse_tests::{cli, guests};

const BUILD: Duration = Duration::from_secs(600);
const TARGET: &str = "wasm32-wasip2";

/// A folder with a guest without dependencies, and a machine to build it on.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    /// A compiler that does not have the target until the folder `libraries` exists, and a Cargo that uses it.
    fn new() -> Result<Machine> {
        // The target itself is wanted after all.
        guests::wasm("noop")?;
        let machine = Machine { dir: tempfile::Builder::new().prefix("machine-").tempdir()? };
        let real = real_tools()?;
        let (rustc, cargo) = (real.join("rustc"), real.join("cargo"));
        fs::create_dir_all(machine.path("guest/src"))?;
        let toml = "[package]\nname = \"guest\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n";
        fs::write(machine.path("guest/Cargo.toml"), toml)?;
        fs::write(machine.path("guest/src/lib.rs"), "")?;
        machine.program(
            "rustc",
            &format!(
                "case \" $* \" in *' --print target-libdir '*) echo {} ;; *) exec {} \"$@\" ;; esac",
                machine.path("libraries").display(),
                rustc.display()
            ),
        )?;
        machine.program("cargo", &format!("exec {} \"$@\"", cargo.display()))?;
        Ok(machine)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A program first on the PATH.
    fn program(&self, name: &str, script: &str) -> Result<()> {
        let file = self.path("bin").join(name);
        fs::create_dir_all(self.path("bin"))?;
        let log = self.path(&format!("{name}.log"));
        script::write(&file, &format!("echo \"$PWD> $*\" >> {}\n{script}", log.display()))
    }

    /// What a program was asked, with the folder it was started in.
    fn asked(&self, program: &str) -> Vec<String> {
        let log = fs::read_to_string(self.path(&format!("{program}.log"))).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// `pilothouse dev guest`. `alone`: nothing but the own programs is on the PATH.
    fn dev(&self, alone: bool) -> Result<Dev> {
        let mut command = dev::command(self.dir.path(), &["guest"])?;
        self.put_first(&mut command, alone)?;
        Dev::spawn(self.dir.path(), &mut command)
    }

    /// `pilothouse build guest ARGS`, to its end.
    fn build(&self, alone: bool, args: &[&str]) -> Result<Finished> {
        let mut command = cli::command(self.dir.path(), &[&["build", "guest"], args].concat())?;
        self.put_first(&mut command, alone)?;
        process::run(&mut command, "", BUILD)
    }

    fn put_first(&self, command: &mut Command, alone: bool) -> Result<()> {
        let mut folders = vec![self.path("bin")];
        if !alone {
            folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        }
        command.env("PATH", std::env::join_paths(folders)?).env_remove("RUSTC");
        Ok(())
    }
}

/// The folder of the compiler and the Cargo that the repository uses, without rustup's proxies.
fn real_tools() -> Result<PathBuf> {
    let mut rustc = Command::new("rustc");
    let output = rustc.args(["--print", "sysroot"]).current_dir(paths::repository()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(Path::new(String::from_utf8(output.stdout)?.trim()).join("bin"))
}

#[test]
fn a_missing_target_is_added_through_rustup_in_the_guest_s_folder_with_one_line() -> Result<()> {
    let machine = Machine::new()?;
    let add = format!("mkdir {}", machine.path("libraries").display());
    machine.program("rustup", &format!("case $1 in show) echo 1.95.0-stub ;; *) {add} ;; esac"))?;
    let dev = machine.dev(false)?;
    dev.wait_lines(1, "; loading", BUILD)?;
    let said = dev.lines("adding the Rust target wasm32-wasip2 to the toolchain 1.95.0-stub");
    ensure!(said.len() == 1, "{said:?}");
    let guest = machine.path("guest").canonicalize()?;
    let asked = machine.asked("rustup");
    let wanted = format!("{}> target add wasm32-wasip2", guest.display());
    ensure!(asked.iter().filter(|line| **line == wanted).count() == 1, "{asked:?}");
    Ok(())
}

#[test]
fn a_target_that_could_not_be_added_is_asked_for_again_with_the_next_build() -> Result<()> {
    let machine = Machine::new()?;
    let (tried, libraries) = (machine.path("tried"), machine.path("libraries"));
    let first = format!("if [ ! -e {0} ]; then touch {0}; echo no network >&2; exit 1; fi", tried.display());
    let add = format!("{first}; mkdir {}", libraries.display());
    machine.program("rustup", &format!("case $1 in show) echo 1.95.0-stub ;; *) {add} ;; esac"))?;
    let dev = machine.dev(false)?;
    let said = dev.wait_lines(1, "build failed", SOON)?;
    ensure!(said[0].contains("no network"), "{said:?}");
    fs::write(machine.path("guest/src/lib.rs"), "// changed\n")?;
    dev.wait_lines(1, "; loading", BUILD)?;
    let asked =
        machine.asked("rustup").into_iter().filter(|line| line.ends_with("target add wasm32-wasip2")).count();
    ensure!(asked == 2, "{:?}", machine.asked("rustup"));
    Ok(())
}

#[test]
fn without_rustup_it_says_what_to_install_before_it_builds() -> Result<()> {
    let machine = Machine::new()?;
    let dev = machine.dev(true)?;
    let said = dev.wait_lines(1, "build failed", SOON)?;
    ensure!(said[0].contains("install Rust with rustup (https://rustup.rs)"), "{said:?}");
    ensure!(said[0].contains("cannot build for wasm32-wasip2"), "{said:?}");
    let builds = machine.asked("cargo").into_iter().filter(|line| line.contains("> build")).count();
    ensure!(builds == 0, "{builds} builds");
    Ok(())
}

#[test]
fn a_build_without_rustup_or_without_cargo_says_what_to_install() -> Result<()> {
    let machine = Machine::new()?;
    for (args, target) in [(&[][..], TARGET), (&["--no-wasi"][..], "wasm32-unknown-unknown")] {
        let built = machine.build(true, args)?;
        let wanted = format!("cannot build for {target}; install Rust with rustup (https://rustup.rs)");
        ensure!(built.status.code() == Some(1) && built.stderr.contains(&wanted), "{built:?}");
    }
    ensure!(machine.asked("cargo").iter().all(|line| !line.contains("> build")));
    fs::remove_file(machine.path("bin/cargo"))?;
    let built = machine.build(true, &[])?;
    ensure!(built.status.code() == Some(1) && built.stderr.contains("cargo is not installed"), "{built:?}");
    // With the target it is built, and without a word of Cargo on standard output.
    fs::create_dir(machine.path("libraries"))?;
    let built = machine.build(false, &[])?;
    ensure!(built.status.success() && built.stdout.lines().count() == 1, "{built:?}");
    ensure!(machine.path("guest/guest.wasm").exists());
    Ok(())
}

#[test]
fn a_lock_file_that_cargo_writes_starts_no_second_build() -> Result<()> {
    let machine = Machine::new()?;
    fs::create_dir(machine.path("libraries"))?;
    let dev = machine.dev(false)?;
    dev.wait_lines(1, "; loading", BUILD)?;
    let lock = machine.path("guest/Cargo.lock");
    ensure!(lock.exists(), "Cargo wrote no lock file");
    // Changes are seen in order: when this one is, that of the lock file has been.
    fs::write(machine.path("guest/guest.yaml"), manifest("5s"))?;
    dev.wait_lines(1, "manifest installed", SOON)?;
    let builds = || machine.asked("cargo").into_iter().filter(|line| line.contains("> build")).count();
    ensure!(builds() == 1, "{:?}", machine.asked("cargo"));
    // One that somebody else writes does.
    let text = fs::read_to_string(&lock)?;
    fs::write(&lock, format!("# by hand\n{text}"))?;
    dev.wait_for("a second build", SOON, || builds() == 2)?;
    Ok(())
}

/// With a real rustup, on a copy of the toolchain: it has the target, loses it, and gets it again from where rustup gets it.
#[test]
fn a_target_that_was_removed_from_a_real_toolchain_is_added_again() -> Result<()> {
    full::only(|| {
        let machine = Machine::new()?;
        // A link where the channel is that of another name.
        let toolchain = real_tools()?.parent().context("a toolchain")?.canonicalize()?;
        let name = toolchain.file_name().and_then(|name| name.to_str()).context("a name")?;
        let host = name.split_once('-').context("a host")?.1;
        let pinned = fs::read_to_string(paths::repository().join("rust-toolchain.toml"))?;
        let channel = pinned.split('"').nth(1).context("a channel")?;
        let home = machine.path("rustup");
        let copy = home.join("toolchains").join(format!("{channel}-{host}"));
        fs::create_dir_all(home.join("toolchains"))?;
        let copied = Command::new("cp").arg("-r").arg(&toolchain).arg(&copy).status()?;
        ensure!(copied.success(), "copying {}: {copied}", toolchain.display());
        let pinned = format!("[toolchain]\nchannel = \"{channel}\"\n");
        fs::write(machine.path("guest/rust-toolchain.toml"), pinned)?;
        let removed = Command::new("rustup")
            .args(["target", "remove", TARGET])
            .current_dir(machine.path("guest"))
            .env("RUSTUP_HOME", &home)
            .env_remove("RUSTUP_TOOLCHAIN")
            .output()?;
        ensure!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
        let libraries = copy.join("lib/rustlib").join(TARGET);
        ensure!(!libraries.join("lib").exists(), "{} is still there", libraries.display());

        let mut command = dev::command(machine.dir.path(), &["guest"])?;
        command.env("RUSTUP_HOME", &home).env_remove("RUSTC");
        let dev = Dev::spawn(machine.dir.path(), &mut command)?;
        dev.wait_lines(1, "; loading", BUILD)?;
        let said = dev.lines("adding the Rust target wasm32-wasip2 to the toolchain");
        ensure!(said.len() == 1, "{said:?}");
        ensure!(libraries.join("lib").exists(), "{} is not there", libraries.display());
        Ok(())
    })
}

fn manifest(timeout: &str) -> String {
    format!(
        "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {{name: guest}}\nspec:\n  source: {{file: guest.wasm}}\n  \
         limits: {{callTimeout: {timeout}}}\n"
    )
}
