//! `pilothouse dev`: an API server in memory, plugins built from source and reloaded at every change, and what they do as a
//! running log.
//!
//! ```text
//!  paths ─► projects ─► workshop (watch, build, install) ─► .pilothouse/plugins ─► hosting (as `run`) ─┐
//!  objects ─────────────────────────────────► DevServer ◄── .pilothouse/kubeconfig ◄───────────────────┘
//! ```
//!
//! The server is there first, so that the kubeconfig holds from the start; the host starts while the first build runs. At the
//! end it goes the other way round: builds, host, server. With `--kubeconfig` or `--context` the host works on that cluster and
//! there is no server.

pub(crate) mod build;
pub(crate) mod cargo;
mod depinfo;
pub(crate) mod folder;
mod install;
pub(crate) mod log;
pub(crate) mod manifests;
mod objects;
pub(crate) mod projects;
mod snapshot;
mod watch;
mod workshop;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use pilothouse_cache::Compression;
use pilothouse_client::{Client, ClientOptions};
use pilothouse_devserver::{ControllerSet, DevServer, DevServerOptions};
use pilothouse_manager::admin::AdminOptions;
use pilothouse_manager::{DirectoryOptions, ManagerOptions};
use tokio::net::TcpListener;

use self::folder::{Folder, ServerConfig};
use self::log::{Log, Tone, counted, spell};
use self::objects::Objects;
use self::projects::Found;
use self::workshop::Workshop;
use pilothouse_hosting::hosting::{DEFAULT_LISTEN, Hosting, HostingOptions};
use pilothouse_hosting::record::RecordArgs;
use pilothouse_hosting::runtimes::{Threads, on_runtimes};
use pilothouse_hosting::signals::Signals;

/// How long calls under way may go on at the end.
const GRACE: Duration = Duration::from_secs(5);
/// How long the API server's connections may take to end.
const SERVER_GRACE: Duration = Duration::from_secs(2);
/// The folder beneath a given one whose objects the server starts with.
const OBJECTS: &str = "objects";

const EXAMPLES: &str = "Examples:
  # Build and run the plugin crates below this folder, on an API server in memory
  pilothouse dev

  # Some crates, with objects of your own
  pilothouse dev plugins/greeter plugins/cleaner --objects testdata

  # Only the API server, on a port for other programs
  pilothouse dev --api-only --api-port 8001

  # The plugins of this folder on a cluster of yours, with your permissions
  pilothouse dev --context kind-dev";

/// The command `pilothouse dev`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Dev {
    /// Plugin crates, .wasm files, or folders of either
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Run only the API server, without plugins
    #[arg(long, conflicts_with_all = CLUSTER)]
    api_only: bool,
    /// Port of the API server on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, conflicts_with_all = CLUSTER)]
    api_port: u16,
    /// YAML file or folder with the initial objects, applied again when a file changes [default: `objects` below the first
    /// PATH that has one]
    #[arg(long, value_name = "DIR", conflicts_with_all = CLUSTER)]
    objects: Option<PathBuf>,
    /// Serve the API over TLS, with a generated certificate that the kubeconfig trusts
    #[arg(long, conflicts_with_all = CLUSTER)]
    tls: bool,
    /// A further name or address of the API server, for port forwarding and containers: accepted in `Host`, and in the
    /// certificate; repeatable
    #[arg(long, value_name = "NAME", value_parser = host_name, conflicts_with_all = CLUSTER)]
    api_host: Vec<String>,
    /// Controllers of the API server that run, as kube-controller-manager's flag: `*` for all, `NAME`, `-NAME`
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        allow_hyphen_values = true,
        conflicts_with_all = CLUSTER
    )]
    controllers: ControllerSet,
    /// Run the plugins on the cluster of this kubeconfig file instead of an API server in memory
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    record: RecordArgs,
    /// Run the plugins on the cluster of this context, of --kubeconfig or of your kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// The flags that name a cluster.
const CLUSTER: [&str; 2] = ["kubeconfig", "context"];

impl Dev {
    /// Runs the command.
    ///
    /// # Errors
    /// With what went wrong, and what to do about it.
    pub fn main(self) -> Result<()> {
        let log = Log::to_stdout();
        let nature = match self.is_on_cluster() {
            true => "",
            false => ": for development and tests, not a Kubernetes distribution; nothing is stored",
        };
        log.verbatim(&format!("pilothouse {} dev{nature}", env!("CARGO_PKG_VERSION")));
        log.show_events()?;
        on_runtimes(false, |threads| self.serve(log, threads))
    }

    async fn serve(self, log: Log, threads: Threads) -> Result<()> {
        let mut signals = Signals::catch()?;
        let dropped = log.clone();
        tokio::spawn(async move { dropped.tell_of_dropped().await });
        let started = tokio::select! {
            started = self.start(&log, threads) => started?,
            // Ended before there was anything to end.
            () = signals.next() => return Ok(()),
        };
        let Started { server, mut objects, hosting, mut workshop, config } = started;
        let work = async {
            match &mut workshop {
                Some(workshop) => workshop.run().await,
                None => std::future::pending().await,
            }
        };
        let follow = async {
            match (&mut objects, &server) {
                (Some(objects), Some(server)) => objects.run(server).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = work => {}
            () = follow => {}
            () = signals.next() => {}
        }
        log.say("dev", Tone::Plain, "shutting down; press Ctrl-C again to exit at once");
        if let Some(workshop) = workshop {
            workshop.end().await;
        }
        if let Some(hosting) = hosting {
            hosting.end(GRACE, &mut signals).await?;
        }
        if let Some(server) = server {
            tokio::select! {
                _ = tokio::time::timeout(SERVER_GRACE, server.shutdown()) => {}
                () = signals.next() => {}
            }
        }
        drop(config);
        log.say("dev", Tone::Plain, "stopped");
        Ok(())
    }

    async fn start(&self, log: &Log, threads: Threads) -> Result<Started> {
        if self.api_only {
            let (server, objects) = self.start_server(log).await?;
            let port = server.address().port();
            let config = ServerConfig::write(Path::new("."), port, &server.kubeconfig())?;
            show_kubeconfig(log, &config.path);
            let (server, config) = (Some(server), Some(config));
            return Ok(Started { server, objects, hosting: None, workshop: None, config });
        }
        let folder = Arc::new(Folder::open(Path::new("."))?);
        let paths = self.paths.clone();
        let Found { projects, left_out } =
            tokio::task::spawn_blocking(move || projects::find(&paths)).await??;
        projects.iter().for_each(|project| log.expect_name(&project.label));
        let (server, objects, client) = if self.is_on_cluster() {
            (None, None, self.cluster(log).await?)
        } else {
            let (server, objects) = self.start_server(log).await?;
            let kubeconfig = folder.put_kubeconfig(&server.kubeconfig())?;
            show_kubeconfig(log, &kubeconfig);
            let client = ClientOptions { kubeconfig: Some(kubeconfig), ..ClientOptions::default() };
            (Some(server), objects, client)
        };
        let names: Vec<&str> = projects.iter().map(|project| project.label.as_str()).collect();
        log.say("dev", Tone::Plain, &format!("{}: {}", counted(names.len(), "plugin"), names.join(", ")));
        for (name, folder) in left_out {
            let text = format!("{name} is left out: to run it, name its path ({})", folder.display());
            log.say("dev", Tone::Quiet, &text);
        }
        // Before the host, which looks into the plugin directory at once.
        let workshop = Workshop::new(projects, Arc::clone(&folder), log.clone())?;
        let options = HostingOptions {
            client,
            clusters: BTreeMap::new(),
            cache_dir: None,
            admin: AdminOptions { listener: listen().await?, health: None, token_file: None, log: None },
            compression: Compression::default(),
            manager: ManagerOptions {
                // Made by this program, for its user.
                directory: DirectoryOptions { allow_writable: true, ..DirectoryOptions::default() },
                recorder: self.record.start()?,
                ..ManagerOptions::new(folder.plugins())
            },
            election: None,
            pod: None,
        };
        let hosting = Hosting::start(options, threads).await?;
        let admin = hosting.admin();
        let flag =
            if admin.to_string() == DEFAULT_LISTEN { String::new() } else { format!(" --admin {admin}") };
        log.say(
            "host",
            Tone::Plain,
            &format!("admin: http://{admin} (/plugins, /metrics; `pilothouse status{flag}`)"),
        );
        Ok(Started { server, objects, hosting: Some(hosting), workshop: Some(workshop), config: None })
    }

    fn is_on_cluster(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The cluster that the flags name, once it has answered.
    async fn cluster(&self, log: &Log) -> Result<ClientOptions> {
        let options = ClientOptions {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            ..ClientOptions::default()
        };
        let client = Client::new(options.clone()).await?;
        let version = client.discovery().server_version().await.with_context(|| {
            format!("the cluster {} does not answer; check --kubeconfig and --context", client.server())
        })?;
        let (server, version) = (client.server(), version.git_version);
        let text =
            format!("cluster {server}, {version}: plugins read and write there, with your permissions");
        log.say("dev", Tone::Warning, &text);
        Ok(options)
    }

    async fn start_server(&self, log: &Log) -> Result<(DevServer, Option<Objects>)> {
        let begin = Instant::now();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, self.api_port));
        let options = DevServerOptions {
            listen,
            tls: self.tls,
            hosts: self.api_host.clone(),
            controllers: self.controllers,
            ..DevServerOptions::default()
        };
        let server = DevServer::start(options).await.context("the API server does not start")?;
        log.say("api", Tone::Plain, &format!("{} is up after {}", server.url(), spell(begin.elapsed())));
        let found = || self.paths.iter().map(|path| path.join(OBJECTS)).find(|path| path.is_dir());
        let path = self.objects.clone().or_else(found);
        let objects = path.map(|path| Objects::start(&path, &server, log)).transpose()?;
        Ok((server, objects))
    }
}

/// All that runs.
struct Started {
    /// None on a cluster of the user's.
    server: Option<DevServer>,
    objects: Option<Objects>,
    hosting: Option<Hosting>,
    workshop: Option<Workshop>,
    /// Removed at the end.
    config: Option<ServerConfig>,
}

fn show_kubeconfig(log: &Log, path: &Path) {
    log.say("api", Tone::Plain, "for kubectl, in another terminal:");
    log.verbatim(&format!("\n  export KUBECONFIG={}\n\n", quoted(path)));
}

/// Listens where `pilothouse status` looks, or on a free port when another host is there.
async fn listen() -> Result<TcpListener> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    match TcpListener::bind(DEFAULT_LISTEN).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(free).await.context("listening for the admin endpoints"),
    }
}

/// The name or address of a host, without a scheme or a port.
fn host_name(text: &str) -> Result<String, String> {
    let is_name = |text: &str| {
        let labels = |label: &str| {
            !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        text.split('.').all(labels)
    };
    match text.parse::<IpAddr>().is_ok() || is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("expected a name or an address, without a scheme or a port".to_owned()),
    }
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    if path.chars().all(|c| c.is_alphanumeric() || "/._-+@%:,".contains(c)) {
        return path;
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_no_scheme_and_no_port() {
        for name in ["dev.example.org", "host_1", "10.0.0.1", "fe80::1", "LOCAL"] {
            assert_eq!(host_name(name).as_deref(), Ok(name));
        }
        for name in ["", "http://dev", "dev:80", "[::1]", "dev.", "*.dev", "a b", "ä"] {
            assert!(host_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn paths_can_be_copied_into_a_shell() {
        assert_eq!(quoted(Path::new("/home/a/.pilothouse/kubeconfig")), "/home/a/.pilothouse/kubeconfig");
        assert_eq!(quoted(Path::new("/my things/it's")), r"'/my things/it'\''s'");
    }
}
