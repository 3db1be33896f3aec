//! An installation as docs/install.md describes it: [`Overlay`] is the folder of a reader with the files that the page
//! shows, [`host_options`] starts a host as the Deployment's container does, [`unit_options`] as the systemd unit does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::host::HostOptions;
use crate::poll::SOON;
use crate::process::Stream;
use crate::tutorial::{self, Step};
use crate::{Host, cli, http, paths, plugins};

/// The namespace of the page.
pub const NAMESPACE: &str = "pilothouse";
/// The ServiceAccount of the page, the Deployment and its container.
pub const NAME: &str = "pilothouse";
/// The page.
const PAGE: &str = "docs/install.md";

/// The folder of a reader: `pilothouse`, which is the repository, and beside it the folder that the commands run in.
#[derive(Debug)]
pub struct Overlay {
    temporary: TempDir,
}

impl Overlay {
    /// Makes the folder, with the files that the page shows and the plugin that they name.
    ///
    /// # Errors
    /// When the page shows no files, or the plugin cannot be built.
    pub fn new() -> Result<Overlay> {
        let temporary = tempfile::Builder::new().prefix("install-").tempdir()?;
        symlink(paths::repository(), temporary.path().join("pilothouse"))?;
        let overlay = Overlay { temporary };
        plugins::put_example(&overlay.dir().join("plugins"), "pods-per-node")?;
        let page = fs::read_to_string(paths::repository().join(PAGE)).context(PAGE)?;
        for step in tutorial::steps(&page)? {
            if let Step::Write { path, text } = step {
                fs::write(overlay.dir().join(path), text)?;
            }
        }
        Ok(overlay)
    }

    /// The folder that the commands of the page run in.
    pub fn dir(&self) -> PathBuf {
        self.temporary.path().join("cluster")
    }

    /// Writes `rbac.yaml` as the page does, with further arguments of `pilothouse rbac`.
    ///
    /// # Errors
    /// When the command fails.
    pub fn write_rbac(&self, args: &[&str]) -> Result<()> {
        let printed = cli::run(&self.dir(), &[&["rbac", "plugins"], args].concat())?;
        ensure!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
        Ok(fs::write(self.dir().join("rbac.yaml"), printed.stdout)?)
    }
}

/// The documents of a YAML file.
///
/// # Errors
/// When one of them cannot be read.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    let documents = text.split("\n---\n").map(str::trim);
    let with_content =
        documents.filter(|document| document.lines().any(|line| !line.starts_with(['#', '-'])));
    with_content
        .map(|document| serde_saphyr::from_str(document).with_context(|| document.to_owned()))
        .collect()
}

/// The container of a Deployment.
///
/// # Errors
/// When there is not exactly one.
pub fn container(deployment: &Value) -> Result<&Value> {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array();
    match containers.map(Vec::as_slice) {
        Some([container]) => Ok(container),
        other => bail!("not one container: {other:?}"),
    }
}

/// The arguments of the container of a Deployment.
///
/// # Errors
/// When there is not exactly one container, or it has none.
pub fn arguments(deployment: &Value) -> Result<Vec<String>> {
    let given = container(deployment)?["args"].as_array().context("no arguments")?;
    Ok(given.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// How a kubelet starts a host: with the arguments and the environment of the Deployment's container. The folders of the
/// mounts are those of `dir`, and ports are free ones.
///
/// # Errors
/// When the container has another command, or names a folder that is not mounted.
pub fn host_options(deployment: &Value, pod: &str, kubeconfig: PathBuf, dir: PathBuf) -> Result<HostOptions> {
    let container = container(deployment)?;
    let mount = |path: &str| {
        let mut mounts = container["volumeMounts"].as_array().into_iter().flatten();
        mounts.find(|mount| mount["mountPath"] == path)
    };
    let given = arguments(deployment)?;
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let ["run", rest @ ..] = &given[..] else { bail!("not `run`: {given:?}") };
    let mut options = HostOptions { dir: Some(dir), ..HostOptions::new(kubeconfig) };
    for arg in rest {
        match arg.split_once('=') {
            // The harness gives it the folder, and the format.
            Some(("--plugins", path)) => ensure!(mount(path).is_some(), "{path} is not mounted"),
            Some(("--cache-dir", path)) => {
                let mount = mount(path).with_context(|| format!("{path} is not mounted"))?;
                ensure!(mount["readOnly"] != true, "{path} is read-only");
            }
            Some(("--log-format", format)) => ensure!(format == "json", "{arg}"),
            Some((flag @ ("--listen" | "--health-addr"), address)) => {
                let (ip, _) = address.rsplit_once(':').context("no port")?;
                options.args.extend([flag.to_owned(), format!("{ip}:0")]);
            }
            _ => options.args.push((*arg).to_owned()),
        }
    }
    for variable in container["env"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str().context("no name")?;
        let value = match variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str) {
            None => variable["value"].as_str().with_context(|| format!("{name} has no value"))?,
            Some("metadata.name") => pod,
            Some("metadata.namespace") => NAMESPACE,
            Some("metadata.uid") => "00000000-0000-4000-8000-000000000000",
            Some(other) => bail!("{name} is {other}"),
        };
        options.env.push((name.to_owned(), value.to_owned()));
    }
    Ok(options)
}

/// How systemd starts a host: with the arguments and the environment of the unit. The folders are those of `dir`, and the
/// port is a free one.
///
/// # Errors
/// When the unit starts another command, or names a folder or a file that it does not have.
pub fn unit_options(unit: &str, kubeconfig: PathBuf, dir: PathBuf) -> Result<HostOptions> {
    let unit = unit.replace("\\\n", " ");
    let settings: Vec<(&str, &str)> = unit.lines().filter_map(|line| line.split_once('=')).collect();
    let command = settings.iter().find(|(name, _)| *name == "ExecStart").context("no ExecStart")?.1;
    let words: Vec<&str> = command.split_whitespace().collect();
    let ["/usr/local/bin/pilothouse", "run", rest @ ..] = &words[..] else {
        bail!("not `/usr/local/bin/pilothouse run`: {command}")
    };
    let mut options = HostOptions { dir: Some(dir), ..HostOptions::new(kubeconfig) };
    let mut rest = rest.iter();
    while let Some(flag) = rest.next() {
        // What the harness gives it, with the setting that makes the folder or the file. root makes the folder of plugins.
        let setting = match *flag {
            "--plugins" => ("/etc/pilothouse/plugins", None),
            "--kubeconfig" => {
                ("%d/kubeconfig", Some(("LoadCredential", "kubeconfig:/etc/pilothouse/kubeconfig")))
            }
            "--cache-dir" => ("/var/cache/pilothouse", Some(("CacheDirectory", "pilothouse"))),
            "--log-format" => ("json", None),
            other => {
                options.args.push(other.to_owned());
                continue;
            }
        };
        let (wanted, needed) = setting;
        let value = rest.next().with_context(|| format!("{flag} has no value"))?;
        ensure!(*value == wanted, "{flag} {value} in place of {wanted}");
        ensure!(needed.is_none_or(|needed| settings.contains(&needed)), "{value} needs {needed:?}");
    }
    for (_, variable) in settings.iter().filter(|(name, _)| *name == "Environment") {
        let (name, value) = variable.split_once('=').with_context(|| format!("no value: {variable}"))?;
        options.env.push((name.to_owned(), value.to_owned()));
    }
    Ok(options)
}

/// Waits until the probes of the container pass, which are asked as a kubelet does.
///
/// # Errors
/// When the container has other probes, or one does not pass in time.
pub fn wait_probed(host: &Host, container: &Value) -> Result<()> {
    let announced = |line: &str| Some(line.strip_prefix("health: ")?.replace("0.0.0.0", "127.0.0.1"));
    for name in ["livenessProbe", "readinessProbe"] {
        let probe = &container[name]["httpGet"];
        let path = probe["path"].as_str().with_context(|| format!("{name} asks nothing"))?;
        host.wait_for(&format!("{name} to pass"), SOON, || {
            let health = host.log().find_map(Stream::Out, announced).context("no health address")?;
            anyhow::Ok(http::request("GET", &health, path, SOON)?.status == 200)
        })?;
    }
    Ok(())
}

/// Writes the files of a ConfigMap as a kubelet mounts them: links to links, in a folder that all may write.
///
/// # Errors
/// When the ConfigMap has no files, or they cannot be written.
pub fn mount_config_map(config_map: &Value, at: &Path) -> Result<()> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Files {
        #[serde(default)]
        data: BTreeMap<String, String>,
        #[serde(default)]
        binary_data: BTreeMap<String, String>,
    }
    let Files { data, binary_data } = Files::deserialize(config_map)?;
    let texts = data.into_iter().map(|(name, text)| anyhow::Ok((name, text.into_bytes())));
    let binaries = binary_data.into_iter().map(|(name, text)| anyhow::Ok((name, STANDARD.decode(text)?)));
    let files: BTreeMap<String, Vec<u8>> = texts.chain(binaries).collect::<Result<_>>()?;
    ensure!(!files.is_empty(), "no files in {config_map}");
    let version = at.join("..version");
    fs::create_dir_all(&version)?;
    for (name, content) in &files {
        fs::write(version.join(name), content)?;
    }
    symlink("..version", at.join("..data"))?;
    for name in files.keys() {
        symlink(Path::new("..data").join(name), at.join(name))?;
    }
    for folder in [at, &version] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
    }
    Ok(())
}
