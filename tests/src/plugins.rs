//! Plugins from the operator's side: [`Manifest`] builds a manifest, [`Status`] is the status of a plugin.

use std::fmt;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{Host, guests, paths, poll};

/// Time limit of a load. On a busy machine the compilation of a component may take long.
pub const LOAD: Duration = poll::SOON;

/// The builder of a manifest. Its text is JSON, which is also YAML.
#[derive(Debug, Clone)]
pub struct Manifest {
    name: String,
    spec: Value,
}

impl Manifest {
    /// A manifest without grants.
    pub fn new(name: &str) -> Manifest {
        Manifest { name: name.to_owned(), spec: json!({"permissions": []}) }
    }

    /// Sets a field of `spec`.
    #[must_use]
    pub fn with(mut self, field: &str, value: Value) -> Manifest {
        self.spec[field] = value;
        self
    }

    /// Sets the configuration.
    #[must_use]
    pub fn config(self, config: Value) -> Manifest {
        self.with("config", config)
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(self, limits: Value) -> Manifest {
        self.with("limits", limits)
    }

    /// Grants verbs on resources of the core group in some namespaces.
    #[must_use]
    pub fn grant(mut self, resources: &[&str], verbs: &[&str], namespaces: &[&str]) -> Manifest {
        let rule = json!({"groups": [""], "resources": resources, "verbs": verbs, "namespaces": namespaces});
        if let Some(rules) = self.spec["permissions"].as_array_mut() {
            rules.push(rule);
        }
        self
    }

    /// Grants reads of resources of the core group in one namespace.
    #[must_use]
    pub fn reads(self, resources: &[&str], namespace: &str) -> Manifest {
        self.grant(resources, &["get", "list", "watch"], &[namespace])
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, spec) = (&self.name, &self.spec);
        let document = json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": name}, "spec": spec,
        });
        write!(f, "{document:#}")
    }
}

/// The status of a plugin in `/plugins`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Status {
    /// The name of the plugin.
    pub name: String,
    /// The number of the active generation; 0 when there is none.
    pub generation: u64,
    /// The digest of the component.
    pub digest: String,
    /// `loading`, `running`, `draining`, `failed`, `waiting`, `quarantined`, `paused`.
    pub state: String,
    /// The last error.
    pub last_error: Option<String>,
    /// What a load or the running generation waits for.
    pub waiting_for: Option<String>,
    /// The time of the next try.
    pub next_try: Option<String>,
    /// Why calls cannot be answered, where that is no fault of the plugin.
    pub host_condition: Option<String>,
    /// The rollback that made the generation.
    pub rolled_back: Option<RolledBack>,
    /// The shard of the plugin.
    pub shard: Option<usize>,
    /// The host that has it.
    pub holder: Option<String>,
    /// What does not work as the plugin asks for, although it runs.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Number of calls that have begun.
    pub calls: u64,
    /// Number of ready keys.
    pub queue_depth: u64,
}

/// A rollback in `/plugins`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolledBack {
    /// The number of the generation that faulted.
    pub from: u64,
    /// The digest of its component.
    pub digest: String,
    /// The number of the generation that was restored.
    pub to: u64,
    /// The last fault.
    pub reason: String,
}

/// All plugins of a host.
pub fn all(host: &Host) -> anyhow::Result<Vec<Status>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        plugins: Vec<Status>,
        /// Present on hosts with `--leader-elect`.
        #[serde(default, rename = "election")]
        _election: Option<Value>,
        /// Present on hosts with `--clusters`.
        #[serde(default, rename = "clusters")]
        _clusters: Vec<Value>,
        /// Present on hosts that are not ready.
        #[serde(default, rename = "notReady")]
        _not_ready: Option<String>,
    }
    let list: List = serde_json::from_value(host.plugins()?).context("the shape of /plugins")?;
    Ok(list.plugins)
}

/// The status of a plugin.
///
/// # Errors
/// When the host does not know the plugin.
pub fn status(host: &Host, name: &str) -> anyhow::Result<Status> {
    let found = all(host)?.into_iter().find(|plugin| plugin.name == name);
    found.with_context(|| format!("/plugins shows no {name}"))
}

/// Waits until a plugin's status meets a condition, and returns the status.
pub fn wait_until(
    host: &Host,
    name: &str,
    what: &str,
    wanted: impl Fn(&Status) -> bool,
) -> anyhow::Result<Status> {
    host.wait_for(&format!("the plugin {name} to be {what}"), LOAD, || match status(host, name)? {
        status if wanted(&status) => Ok(Some(status)),
        status => bail!("{status:?}"),
    })
}

/// Waits until a plugin runs without an error.
pub fn wait_running(host: &Host, name: &str) -> anyhow::Result<Status> {
    wait_until(host, name, "running", |status| status.state == "running" && status.last_error.is_none())
}

/// Puts a guest with a manifest into a plugin directory, which it makes if necessary. A host that runs has [`Host::install`].
///
/// # Errors
/// When the guest cannot be built, or a file cannot be written.
pub fn put(plugins: &Path, name: &str, guest: &str, manifest: &Manifest) -> anyhow::Result<()> {
    fs::create_dir_all(plugins)?;
    fs::copy(guests::wasm(guest)?, plugins.join(format!("{name}.wasm")))?;
    Ok(fs::write(plugins.join(format!("{name}.yaml")), manifest.to_string())?)
}

/// As [`put`], of an example with its own manifest.
///
/// # Errors
/// As [`put`].
pub fn put_example(plugins: &Path, name: &str) -> anyhow::Result<()> {
    fs::create_dir_all(plugins)?;
    let manifest = paths::repository().join(format!("examples/{name}/{name}.yaml"));
    let to = plugins.join(format!("{name}.yaml"));
    fs::copy(&manifest, to).with_context(|| manifest.display().to_string())?;
    let component = format!("{}.wasm", name.replace('-', "_"));
    fs::copy(guests::wasm(name)?, plugins.join(component))?;
    Ok(())
}

/// The digest of a component, as manifests and statuses have it, or of another content.
pub fn digest(content: &[u8]) -> String {
    let hexadecimal: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hexadecimal}")
}

/// The bytes of a component with a custom section appended: the same behaviour with another digest.
pub fn marked(component: &Path, mark: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = fs::read(component).with_context(|| format!("reading {}", component.display()))?;
    let name = b"mark";
    let size = 1 + name.len() + mark.len();
    // Sizes below 128 are one byte of LEB128.
    anyhow::ensure!(size < 128, "the mark {mark:?} is too long");
    bytes.push(0);
    bytes.extend([u8::try_from(size)?, u8::try_from(name.len())?]);
    bytes.extend(name);
    bytes.extend(mark.as_bytes());
    Ok(bytes)
}

/// Serves a component over plain HTTP on loopback until the process ends; the URL of the server, under which each path is the
/// component.
///
/// # Errors
/// When there is no port.
pub fn serve(component: Vec<u8>) -> anyhow::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", component.len());
            // A host that went is no fault of this server.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&[head.as_bytes(), &component].concat());
        }
    });
    Ok(url)
}
