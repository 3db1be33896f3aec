//! `pilothouse rbac`: the least rights of a host that runs the plugins of a directory, or of the cluster, as YAML.
//!
//! ```text
//!  DIR ─► manifests, components ─► describe, imports ─► needs ─► rights ─► rules ─► YAML
//! ```

mod manifest;
mod needs;
mod rights;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use pilothouse_object::is_dns_subdomain;
use pilothouse_plugin::directory::{Change, Files, Rules, Scanner, read_component};
use pilothouse_plugin::{HOME_CLUSTER, check_cluster_name};

use self::needs::{Host, Plugin};
use self::rights::Rights;
use pilothouse_hosting::election::{LEASE, lease};
use pilothouse_hosting::hosting::default_cache_dir;
use pilothouse_hosting::inspect::interfaces::Interfaces;
use pilothouse_hosting::inspect::{self, Inspector, describe};
use pilothouse_hosting::output::print;
use pilothouse_hosting::plugin_objects;

const EXAMPLES: &str = "Examples:
  # A ServiceAccount for a host that runs the plugins of a directory
  kubectl create namespace pilothouse
  pilothouse rbac plugins > rbac.yaml
  kubectl apply -f rbac.yaml

  # For a host that runs the Plugins of two namespaces
  pilothouse rbac --plugins-from-cluster team-a,team-b

  # For the identity of the host in another cluster, for the plugins that name that cluster
  pilothouse rbac plugins --cluster east

  # With other names, for a host without leader election
  pilothouse rbac plugins --namespace controllers --service-account host --no-leader-election";

/// Looks at a directory until its files are settled: one for each 64 MiB of components, and some more.
const MOST_LOOKS: usize = 10_000;

/// The command `pilothouse rbac`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Rbac {
    /// Plugin directory: components (.wasm) and their manifests (.yaml)
    #[arg(value_name = "DIR", required_unless_present = "plugins_from_cluster")]
    directory: Option<PathBuf>,
    /// Namespaces whose Plugins (plugins.pilothouse.dev) the host runs as well, as for `run`
    #[arg(long, value_name = "NAMESPACES", value_delimiter = ',', value_parser = plugin_objects::namespace)]
    plugins_from_cluster: Vec<String>,
    /// Name of another cluster (run --clusters) whose permissions are printed, in place of those in the home cluster: of plugins
    /// that run there, and of live calls from elsewhere (spec.remoteClusters)
    #[arg(long, value_name = "NAME", default_value = HOME_CLUSTER, hide_default_value = true, value_parser = cluster)]
    cluster: String,
    /// Namespace of the host's ServiceAccount and Pod
    #[arg(short, long, value_name = "NS", default_value = "pilothouse", value_parser = name)]
    namespace: String,
    /// Name of the host's ServiceAccount; its roles are NS:NAME
    #[arg(long, value_name = "NAME", default_value = "pilothouse", value_parser = name)]
    service_account: String,
    /// Lease of the election, as for `run` [default: pilothouse in --namespace]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = lease)]
    lease: Option<(String, String)>,
    /// Leave out what `run --leader-elect` needs
    #[arg(long, conflicts_with = "lease")]
    no_leader_election: bool,
    /// Add what `run --shards` needs
    #[arg(long, conflicts_with = "no_leader_election")]
    shards: bool,
    /// Leave out what tokens of the admin endpoints need: for a host with --admin-token-file
    #[arg(long)]
    no_admin_tokens: bool,
    /// For a host outside a Pod, with --namespace as the namespace of its context: its Events are about that Namespace
    #[arg(long)]
    no_pod: bool,
    /// Directory of compiled plugins, private to this user [default: $XDG_CACHE_HOME/pilothouse or ~/.cache/pilothouse]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

/// The name of a cluster.
fn cluster(text: &str) -> Result<String, String> {
    check_cluster_name(text).map(|()| text.to_owned())
}

/// The name of an object of the cluster.
fn name(text: &str) -> Result<String, String> {
    match is_dns_subdomain(text) {
        true => Ok(text.to_owned()),
        false => Err("it is not a name of Kubernetes: use lower-case letters, digits, - and .".to_owned()),
    }
}

impl Rbac {
    /// Runs the command.
    ///
    /// # Errors
    /// With what went wrong, and what to do about it.
    pub fn main(self) -> Result<()> {
        inspect::run(self.print())
    }

    async fn print(self) -> Result<()> {
        let Self { namespace, service_account, lease, cluster, .. } = self;
        let is_home = cluster == HOME_CLUSTER;
        let lease = lease.unwrap_or_else(|| (namespace.clone(), LEASE.to_owned()));
        let host = Host {
            lease: (!self.no_leader_election).then_some(lease),
            shares_plugins: self.shards,
            admin_tokens: !self.no_admin_tokens,
            in_pod: !self.no_pod,
            namespace,
            account: service_account,
        };
        let mut rights = Rights::default();
        if is_home {
            needs::of_host(&host, &mut rights)?;
        }
        if !self.plugins_from_cluster.is_empty() {
            let namespaces = plugin_objects::namespaces(self.plugins_from_cluster).context(
                "--plugins-from-cluster: all namespaces have no form in RBAC, which cannot give the groups of their ServiceAccounts \
                 without those of administrators; name the namespaces",
            )?;
            match is_home {
                true => needs::of_plugin_objects(&namespaces, &mut rights)?,
                false => needs::of_tenants(&namespaces, &mut rights)?,
            }
        }
        if let Some(directory) = &self.directory {
            let inspector = Inspector::new(self.cache_dir.map_or_else(default_cache_dir, Ok)?)?;
            for (path, plugin) in plugins(directory, &inspector, &cluster).await?.into_values() {
                let added = match plugin.manifest.runs_in(&cluster) {
                    true if is_home => needs::of_plugin(&plugin, &mut rights),
                    true => needs::of_run(&plugin, &mut rights),
                    false if is_home => needs::of_config_sources(&plugin.manifest, &mut rights),
                    false => Ok(()),
                };
                added
                    .and_then(|()| needs::of_remote_cluster(&plugin, &cluster, &mut rights))
                    .context(path)?;
            }
        }
        print(&manifest::yaml(&host, &rights))
    }
}

/// The plugins of a directory by their names, each with the file that it is called after. Each is looked into when its
/// component is read, which nobody keeps: those of a whole directory may be gigabytes.
async fn plugins(
    directory: &Path,
    inspector: &Inspector,
    cluster: &str,
) -> Result<BTreeMap<String, (String, Plugin)>> {
    // It is read once, by its owner: files are what they are now, and who else may write them is the host's business.
    let rules = Rules { allow_writable: true, ..Rules::default() };
    let mut scanner = Scanner::new(directory.to_owned(), rules);
    let mut plugins = BTreeMap::new();
    for _ in 0..MOST_LOOKS {
        for change in scanner.look(Instant::now()).changes {
            match change {
                Change::Changed(files) => {
                    let path = files.places.manifest_or_component().to_owned();
                    let name = files.name.clone();
                    let plugin = inspect(inspector, files, cluster).await.with_context(|| path.clone())?;
                    plugins.insert(name, (path, plugin));
                }
                Change::Broken { file, reason, .. } => bail!("{}: {reason}", file.display()),
                Change::Unreadable { .. } => {
                    let error = std::fs::read_dir(directory).err().map(|error| format!(": {error}"));
                    let error = error.unwrap_or_default();
                    bail!("{} cannot be read{error}; name a plugin directory", directory.display())
                }
                Change::Removed { name } => drop(plugins.remove(&name)),
                Change::Synced => return Ok(plugins),
            }
        }
    }
    bail!("the files in {} keep changing; try again when they are written", directory.display())
}

/// Finds out what a plugin is in a cluster.
async fn inspect(inspector: &Inspector, files: Files, cluster: &str) -> Result<Plugin> {
    let Files { manifest, wasm_path, digest, .. } = files;
    let manifest = Arc::new(manifest.in_cluster(cluster));
    let wasm = read_component(&wasm_path, &digest)
        .with_context(|| format!("{} cannot be read", wasm_path.display()))?
        .with_context(|| {
            format!("{} changed meanwhile; try again when it is written", wasm_path.display())
        })?;
    let interfaces = Interfaces::of(&wasm);
    let code = inspector.prepare(wasm).await?;
    // What the sources of spec.configFrom say is known to a host alone.
    let description = match manifest.config_from.is_empty() {
        true => {
            let answer = describe::call(&code, &manifest, &manifest.config).await;
            let parse = |answer: Vec<u8>| describe::parse(&answer, &code, &manifest);
            Some(answer.and_then(parse).map_err(|reason| anyhow!(reason))?)
        }
        false => None,
    };
    Ok(Plugin { manifest, interfaces, description })
}
