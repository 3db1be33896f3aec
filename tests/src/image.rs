//! The container image as `deploy/image.sh` writes it: [`Layout`] reads an OCI layout and checks its digests, [`contained`]
//! runs its root file system as a container runtime does, without one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::paths;
use crate::plugins::digest;
use crate::process::{self, Finished};

/// Time limit of the script and of `tar`.
const COMMAND: Duration = Duration::from_secs(300);

/// Runs `deploy/image.sh`.
///
/// # Errors
/// When the script cannot be started.
pub fn script<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Result<Finished> {
    let script = paths::repository().join("deploy/image.sh");
    let mut command = Command::new("/bin/sh");
    command.arg(script).args(args).env_remove("SOURCE_DATE_EPOCH").env_remove("CA_BUNDLE");
    process::run(&mut command, "", COMMAND)
}

/// An OCI layout with one tag.
#[derive(Debug)]
pub struct Layout {
    folder: PathBuf,
    /// The tag.
    pub tag: String,
    /// The image index that the tag names.
    pub index: Value,
}

impl Layout {
    /// Reads the layout in a folder.
    ///
    /// # Errors
    /// When it is none.
    pub fn open(folder: &Path) -> Result<Layout> {
        let json = |name: &str| -> Result<Value> {
            Ok(serde_json::from_slice(&fs::read(folder.join(name)).with_context(|| name.to_owned())?)?)
        };
        let version = &json("oci-layout")?["imageLayoutVersion"];
        ensure!(version == "1.0.0", "a layout of version {version}");
        let outer = json("index.json")?;
        let tag = outer.pointer("/manifests/0/annotations/org.opencontainers.image.ref.name");
        let tag = tag.and_then(Value::as_str).context("no tag")?.to_owned();
        let mut layout = Layout { folder: folder.to_owned(), tag, index: Value::Null };
        layout.index = layout.document(&outer["manifests"][0])?;
        Ok(layout)
    }

    /// The manifest and the configuration of an architecture.
    ///
    /// # Errors
    /// When there is none.
    pub fn image(&self, architecture: &str) -> Result<(Value, Value)> {
        let manifests = self.index["manifests"].as_array().context("no manifests")?;
        let of = |manifest: &&Value| manifest["platform"]["architecture"] == architecture;
        let manifest = manifests.iter().find(of).with_context(|| format!("nothing for {architecture}"))?;
        let manifest = self.document(manifest)?;
        let config = self.document(&manifest["config"])?;
        Ok((manifest, config))
    }

    /// Unpacks the layers of an architecture into a new folder.
    ///
    /// # Errors
    /// When a layer is not the one that the manifest and the configuration name.
    pub fn unpack(&self, architecture: &str, root: &Path) -> Result<()> {
        fs::create_dir(root)?;
        let (manifest, config) = self.image(architecture)?;
        let layers = manifest["layers"].as_array().context("no layers")?;
        let unpacked = config["rootfs"]["diff_ids"].as_array().context("no layers")?;
        ensure!(layers.len() == unpacked.len(), "{layers:?} {unpacked:?}");
        for (layer, wanted) in layers.iter().zip(unpacked) {
            let (path, _) = self.blob(layer)?;
            let tar = root.with_extension("tar");
            let gunzip = Command::new("gzip").args(["-dc"]).arg(&path).output()?;
            ensure!(gunzip.status.success(), "{path:?}: {}", String::from_utf8_lossy(&gunzip.stderr));
            let digest = digest(&gunzip.stdout);
            ensure!(*wanted == digest.as_str(), "{wanted} is {digest}");
            fs::write(&tar, gunzip.stdout)?;
            let mut command = Command::new("tar");
            command.arg("-xpf").arg(&tar).arg("-C").arg(root);
            let done = process::run(&mut command, "", COMMAND)?;
            ensure!(done.status.success(), "{done:?}");
            fs::remove_file(tar)?;
        }
        Ok(())
    }

    /// The sum of the sizes of all blobs.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn bytes(&self) -> Result<u64> {
        let mut sum = 0;
        for blob in fs::read_dir(self.folder.join("blobs/sha256"))? {
            sum += blob?.metadata()?.len();
        }
        Ok(sum)
    }

    fn document(&self, descriptor: &Value) -> Result<Value> {
        Ok(serde_json::from_slice(&self.blob(descriptor)?.1)?)
    }

    /// Path and content of a blob, which has the digest and the size of its descriptor.
    fn blob(&self, descriptor: &Value) -> Result<(PathBuf, Vec<u8>)> {
        let wanted = descriptor["digest"].as_str().context("no digest")?;
        let name = wanted.strip_prefix("sha256:").context("another digest")?;
        let path = self.folder.join("blobs/sha256").join(name);
        let content = fs::read(&path).with_context(|| wanted.to_owned())?;
        ensure!(digest(&content) == wanted, "{wanted} is {}", digest(&content));
        ensure!(descriptor["size"] == content.len(), "{descriptor} has {} bytes", content.len());
        Ok((path, content))
    }
}

/// Mounts and a new root, for which `$1` is the root file system, `$2` the folder, `$3` the user and `$4` the entrypoint.
const RUN: &str = r#"set -eu
root=$1 folder=$2 user=$3 entrypoint=$4
shift 4
mkdir -p "$root/proc" "$root/dev" "$root$folder"
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
for device in null zero full random urandom; do
    : > "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount --bind "$folder" "$root$folder"
mount -o remount,bind,ro "$root"
# The shell stays, as process 1: the kernel would forget whom it has to end with `--kill-child` once that has another user.
status=0
chroot --userspec="$user" "$root" "$entrypoint" "$@" || status=$?
exit "$status"
"#;

/// Writes a program into `folder` that runs the entrypoint of an image in its root file system, as in a Pod: read-only, with
/// the user of the image, with `/proc`, with the devices that every container runtime gives, and with `folder` at its own
/// path. It needs [`Tool::Root`](crate::tools::Tool::Root).
///
/// # Errors
/// When the configuration names no user or no entrypoint, or the files cannot be written.
pub fn contained(root: &Path, config: &Value, folder: &Path) -> Result<PathBuf> {
    let user = config["config"]["User"].as_str().context("no user")?;
    let entrypoint = config["config"]["Entrypoint"][0].as_str().context("no entrypoint")?;
    let (script, program) = (folder.join("run.sh"), folder.join("contained"));
    fs::write(&script, RUN)?;
    let (script, root, folder) = (script.display(), root.display(), folder.display());
    let unshare = "unshare --mount --pid --fork --kill-child";
    let run = format!("exec {unshare} sh {script} {root} {folder} {user} {entrypoint} \"$@\"");
    fs::write(&program, format!("#!/bin/sh\n{run}\n"))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(program)
}
