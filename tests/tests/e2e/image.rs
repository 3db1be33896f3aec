//! The container image that `deploy/image.sh` writes: an OCI layout whose root file system runs read-only, without root and
//! without libraries. At full length it is the host itself.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::cargo::{self, Build};
use pilothouse_testkit::tools::{self, Tool};
use pilothouse_testkit::{paths, process};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::image::{Layout, contained, script};
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, full, guests, or_skip};
use tempfile::TempDir;

/// What an image of the host may have, unpacked.
const MOST_BYTES: u64 = 60_000_000;

/// Says who it is, that it cannot write, and what it finds of the image.
const PROGRAM: &str = r#"
use std::os::unix::fs::MetadataExt;

fn main() {
    println!("user {}", std::fs::metadata("/proc/self").unwrap().uid());
    println!("writes {}", std::fs::write("/etc/x", "x").is_ok());
    println!("certificates {}", std::fs::read_to_string("/etc/ssl/certs/ca-certificates.crt").unwrap().contains("BEGIN"));
    println!("arguments {:?}", std::env::args().skip(1).collect::<Vec<_>>());
}
"#;

/// The architecture of this machine, in the words of images.
fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

/// A folder that others may enter, since the image's user is none of this machine.
fn folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("image-").tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// Compiles the program, with or without the libraries of this machine in it.
fn compile(folder: &Path, is_static: bool) -> Result<PathBuf> {
    let (source, program) = (folder.join("program.rs"), folder.join(format!("static-{is_static}")));
    fs::write(&source, PROGRAM)?;
    let linkage = if is_static { "+crt-static" } else { "-crt-static" };
    let mut rustc = Command::new("rustc");
    // In the repository, where rustup selects the toolchain of rust-toolchain.toml.
    rustc.current_dir(paths::repository()).arg(&source).args([
        "-C",
        &format!("target-feature={linkage}"),
        "-o",
    ]);
    let done = process::run(rustc.arg(&program), "", Duration::from_secs(300))?;
    ensure!(done.status.success(), "{done:?}");
    Ok(program)
}

/// Writes an image with the program, and reads it.
fn layout(folder: &Path, name: &str, program: &Path) -> Result<Layout> {
    layout_of(folder, name, &[(architecture(), program)])
}

/// Writes an image with a program for each of these architectures, and reads it.
fn layout_of(folder: &Path, name: &str, programs: &[(&str, &Path)]) -> Result<Layout> {
    let out = folder.join(name);
    let mut args = vec![out.display().to_string(), "0.1.0".to_owned()];
    args.extend(
        programs.iter().map(|(architecture, program)| format!("{architecture}={}", program.display())),
    );
    let done = script(&args)?;
    ensure!(done.status.success(), "{done:?}");
    Layout::open(&out)
}

#[test]
fn the_root_file_system_runs_read_only_and_without_root() -> Result<()> {
    or_skip(|| {
        Tool::Root.require()?;
        let folder = folder()?;
        let folder = folder.path();
        let layout = layout(folder, "image", &compile(folder, true)?)?;
        ensure!(layout.tag == "0.1.0");
        let root = folder.join("root");
        layout.unpack(architecture(), &root)?;
        let mut files: Vec<String> = Vec::new();
        list(&root, &root, &mut files)?;
        files.sort();
        ensure!(files == ["/etc/ssl/certs/ca-certificates.crt", "/pilothouse"], "{files:?}");
        let (_, config) = layout.image(architecture())?;
        let program = contained(&root, &config, folder)?;
        let done = process::run(Command::new(program).args(["a", "b c"]), "", Duration::from_secs(60))?;
        let wanted = "user 65532\nwrites false\ncertificates true\narguments [\"a\", \"b c\"]\n";
        ensure!(done.stdout == wanted, "{done:?}");
        Ok(())
    })
}

/// The files below a folder, as paths from the root.
fn list(root: &Path, folder: &Path, files: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => list(root, &path, files)?,
            false => files.push(format!("/{}", path.strip_prefix(root)?.display())),
        }
    }
    Ok(())
}

#[test]
fn the_same_program_makes_the_same_image() -> Result<()> {
    let folder = folder()?;
    let folder = folder.path();
    let program = compile(folder, true)?;
    let first = layout(folder, "first", &program)?;
    // Neither the time nor the mode of the file is in it.
    fs::File::options().append(true).open(&program)?.set_modified(std::time::SystemTime::UNIX_EPOCH)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o711))?;
    let second = layout(folder, "second", &program)?;
    ensure!(first.index == second.index, "{} {}", first.index, second.index);
    fs::write(&program, [fs::read(&program)?, b"more".to_vec()].concat())?;
    let third = layout(folder, "third", &program)?;
    ensure!(first.index != third.index);
    Ok(())
}

#[test]
fn a_program_that_cannot_run_in_the_image_is_refused_with_a_remedy() -> Result<()> {
    let folder = folder()?;
    let folder = folder.path();
    let (dynamic, text) = (compile(folder, false)?, folder.join("program.rs"));
    let own = architecture();
    let other = if own == "amd64" { "arm64" } else { "amd64" };
    for (pair, wanted) in [
        (format!("{own}={}", dynamic.display()), "is linked dynamically"),
        (format!("{other}={}", dynamic.display()), "is not for"),
        (format!("{own}={}", text.display()), "is no Linux program"),
        (format!("{own}={}", folder.join("none").display()), "is no file"),
        (format!("s390x={}", dynamic.display()), "write amd64=BINARY or arm64=BINARY"),
    ] {
        let out = folder.join("image");
        let done = script(&[&*out.to_string_lossy(), "0.1.0", &pair])?;
        ensure!(!done.status.success() && done.stderr.contains(wanted), "{pair}: {done:?}");
        ensure!(!out.exists(), "{pair}: half an image");
    }
    // Nothing is left of a try.
    let left: Vec<_> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?;
    ensure!(left.len() == 2, "{left:?}");
    Ok(())
}

/// The Dockerfile and the script make the same image.
#[test]
fn the_dockerfile_says_the_same_as_the_script() -> Result<()> {
    let folder = folder()?;
    let folder = folder.path();
    let (_, config) = layout(folder, "image", &compile(folder, true)?)?.image(architecture())?;
    let dockerfile = fs::read_to_string(paths::repository().join("deploy/Dockerfile"))?;
    let (_, last) =
        dockerfile.split_once("\nFROM scratch\n").context("the last stage is not FROM scratch")?;
    let instruction = |name: &str| {
        let found = last.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.with_context(|| format!("no {name}"))
    };
    let config = &config["config"];
    ensure!(config["User"] == instruction("USER")?, "{config}");
    let entrypoint: serde_json::Value = serde_json::from_str(instruction("ENTRYPOINT")?)?;
    ensure!(config["Entrypoint"] == entrypoint, "{config}");
    let labels = config["Labels"].as_object().context("no labels")?;
    for name in labels.keys() {
        ensure!(last.contains(&format!("{name}=")), "{name} is not in the Dockerfile");
    }
    ensure!(last.matches("org.opencontainers").count() == labels.len(), "{last}");
    let version = env!("CARGO_PKG_VERSION");
    ensure!(instruction("ARG")? == format!("VERSION={version}"), "the version is {version}");
    Ok(())
}

/// Builds the host for a target as docs/install.md says.
fn dist(triple: &str) -> Result<PathBuf> {
    let manifest = paths::repository().join("Cargo.toml");
    let manifest = manifest.to_str().context("the repository's path is not UTF-8")?;
    let args = [
        "build",
        "--locked",
        "--profile",
        "dist",
        "--package",
        "pilothouse",
        "--no-default-features",
        "--target",
        triple,
        "--manifest-path",
        manifest,
    ];
    let target = paths::target().join("image");
    let mut command = cargo::command(Build::Guest, &args, &target);
    if !triple.starts_with(std::env::consts::ARCH) {
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    }
    let output =
        command.env("RUSTFLAGS", "-C target-feature=+crt-static").output().context("starting cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(target.join(triple).join("dist/pilothouse"))
}

#[test]
fn the_image_of_the_host_runs_a_plugin() -> Result<()> {
    full::only(|| {
        or_skip(|| {
            Tool::Root.require()?;
            let folder = folder()?;
            let folder = folder.path();
            let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
            let layout = layout(folder, "image", &dist(&triple)?)?;
            let root = folder.join("root");
            layout.unpack(architecture(), &root)?;
            let mut files = Vec::new();
            list(&root, &root, &mut files)?;
            let sizes = files.iter().map(|file| anyhow::Ok(fs::metadata(root.join(&file[1..]))?.len()));
            let unpacked = sizes.sum::<Result<u64>>()?;
            eprintln!("the image has {unpacked} bytes, {} packed", layout.bytes()?);
            ensure!(unpacked <= MOST_BYTES, "{unpacked} bytes are more than {MOST_BYTES}");

            let plane = ControlPlane::shared(Server::Development)?;
            let cluster = Cluster::of(plane)?;
            cluster.namespace("image")?;
            let dir = folder.join("host");
            fs::create_dir_all(dir.join("cache"))?;
            fs::set_permissions(dir.join("cache"), fs::Permissions::from_mode(0o777))?;
            let kubeconfig = dir.join("kubeconfig");
            fs::copy(plane.kubeconfig(), &kubeconfig)?;
            fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o644))?;
            let (_, config) = layout.image(architecture())?;
            let program = contained(&root, &config, folder)?;
            let options =
                HostOptions { dir: Some(dir), program: Some(program), ..HostOptions::new(kubeconfig) };
            let host = Host::start(options)?;
            let manifest = Manifest::new("noop").reads(&["configmaps"], "image");
            host.install("noop", &guests::wasm("noop")?, Some(&manifest.to_string()))?;
            plugins::wait_running(&host, "noop")?;
            cluster.config_map("image", "one")?;
            plugins::wait_until(&host, "noop", "called", |status| status.calls > 0)?;
            Ok(())
        })
    })
}

/// The machine of a program in the ELF format of 64 bits and little endian, and whether it names a loader.
fn machine_and_loader(program: &[u8]) -> Result<(u16, bool)> {
    fn bytes<const N: usize>(program: &[u8], at: usize) -> Result<[u8; N]> {
        let found = program.get(at..at + N).context("the program is cut off")?;
        Ok(found.try_into()?)
    }
    /// The type of the segment that names the loader.
    const INTERPRETER: u32 = 3;
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "no such program");
    let machine = u16::from_le_bytes(bytes(program, 18)?);
    let table = usize::try_from(u64::from_le_bytes(bytes(program, 32)?))?;
    let size = usize::from(u16::from_le_bytes(bytes(program, 54)?));
    let count = usize::from(u16::from_le_bytes(bytes(program, 56)?));
    let mut has_loader = false;
    for segment in 0..count {
        has_loader |= u32::from_le_bytes(bytes(program, table + segment * size)?) == INTERPRETER;
    }
    Ok((machine, has_loader))
}

/// Beside a small program for amd64: the host for the architecture of this machine is the matter of the test above.
#[test]
fn one_image_has_the_host_for_arm64_beside_another_architecture() -> Result<()> {
    if architecture() == "arm64" {
        return Ok(());
    }
    full::only(|| {
        or_skip(|| {
            Tool::Arm64.require()?;
            let folder = folder()?;
            let folder = folder.path();
            let triple = "aarch64-unknown-linux-gnu";
            let mut rustup = Command::new("rustup");
            // In the repository, where rustup selects the toolchain of rust-toolchain.toml.
            rustup.current_dir(paths::repository()).args(["target", "add", triple]);
            let added = process::run(&mut rustup, "", Duration::from_secs(300))?;
            ensure!(added.status.success(), "{added:?}");
            let (small, host) = (compile(folder, true)?, dist(triple)?);
            // Else the check below would not tell anything.
            ensure!(machine_and_loader(&fs::read(compile(folder, false)?)?)?.1, "a loader is not seen");
            let layout = layout_of(folder, "image", &[("amd64", &*small), ("arm64", &*host)])?;
            let platforms = layout.index["manifests"].as_array().context("no manifests")?.iter();
            let platforms: Vec<_> = platforms.map(|manifest| &manifest["platform"]).collect();
            let platform =
                |architecture: &str| serde_json::json!({"architecture": architecture, "os": "linux"});
            ensure!(platforms == [&platform("amd64"), &platform("arm64")], "{platforms:?}");
            // The numbers of the machines are those of the format.
            for (architecture, machine) in [("amd64", 62), ("arm64", 183)] {
                let root = folder.join(architecture);
                layout.unpack(architecture, &root)?;
                let (_, config) = layout.image(architecture)?;
                ensure!(config["architecture"] == architecture, "{config}");
                let found = machine_and_loader(&fs::read(root.join("pilothouse"))?)?;
                ensure!(found == (machine, false), "{architecture}: {found:?}");
            }
            let path = std::env::var_os("PATH").unwrap_or_default();
            let Some(emulator) = tools::find("qemu-aarch64-static", &path) else {
                eprintln!("the program for arm64 was not started: install qemu-user-static");
                return Ok(());
            };
            let mut command = Command::new(emulator);
            command.arg(folder.join("arm64/pilothouse")).arg("--version");
            let done = process::run(&mut command, "", Duration::from_secs(300))?;
            ensure!(done.stdout.trim() == format!("pilothouse {}", env!("CARGO_PKG_VERSION")), "{done:?}");
            Ok(())
        })
    })
}
