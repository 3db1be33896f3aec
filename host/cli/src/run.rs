//! `pilothouse run`: connects, loads the plugins of a directory and of the cluster, serves the admin endpoints, ends on SIGTERM or SIGINT.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, ValueEnum};
use pilothouse_cache::Compression;
use pilothouse_client::{ClientOptions, RateLimit};
use pilothouse_manager::admin::{self, AdminOptions};
use pilothouse_manager::{DirectoryOptions, ManagerOptions, PluginObjectsOptions, RecentLog};
use pilothouse_plugin::{AllowLists, AllowedAccount, ComponentHost, HostLimits};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::clusters::ClusterArgs;
use crate::keeping::Keeping;
use crate::log_fields::LogFields;
#[cfg(feature = "oci")]
use crate::oci::signatures::SignatureArgs;
#[cfg(feature = "traces")]
use crate::traces::TraceArgs;
use pilothouse_hosting::election::LeaderElectionArgs;
use pilothouse_hosting::hosting::{DEFAULT_LISTEN, Hosting, HostingOptions, default_cache_dir};
use pilothouse_hosting::log_filter::log_filter;
use pilothouse_hosting::own_pod::OwnPod;
use pilothouse_hosting::plugin_objects;
use pilothouse_hosting::record::RecordArgs;
use pilothouse_hosting::runtimes::{Threads, on_runtimes};
use pilothouse_hosting::signals::Signals;

/// Default of `--shutdown-timeout`: with the time to flush Events and to release the Lease it ends before the 30 s that
/// Kubernetes gives a Pod.
const DEFAULT_SHUTDOWN_TIMEOUT: u64 = 20;

/// A year: more is never meant, and moments that far away cannot be reckoned with.
const LONGEST_SECONDS: u64 = 365 * 24 * 3600;

const EXAMPLES: &str = "Examples:
  # The plugins of a directory, on the cluster of the current context
  pilothouse run --plugins plugins

  # In a Pod: probes on a port of their own, a log for machines, one host of several works
  pilothouse run --plugins /plugins --health-addr 0.0.0.0:9471 --log-format json --leader-elect

  # Plugins of others: bounds on what their manifests may name
  pilothouse run --plugins plugins --allow-namespaces team-a --allow-service-accounts 'team-a/*'

  # The Plugins of two namespaces of the cluster
  pilothouse run --plugins-from-cluster team-a,team-b

  # In several clusters: manifests name them in spec.clusters
  pilothouse run --plugins plugins --context hub --clusters east,west=admin@west

  # With a recording of one plugin, for `pilothouse replay`
  pilothouse run --plugins plugins --record calls.jsonl --plugin foo-controller

  # With a line of the log about each write of a plugin
  RUST_LOG=info,pilothouse::audit=debug pilothouse run --plugins plugins

  # With debug lines of plugins
  RUST_LOG=info,guest=debug pilothouse run --plugins plugins";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// Plugin directory: components (.wasm) and their manifests (.yaml)
    #[arg(long, value_name = "DIR", required_unless_present = "plugins_from_cluster")]
    plugins: Option<PathBuf>,
    /// Namespaces whose Plugins (plugins.pilothouse.dev) are run as well, separated by commas; "*" for all
    #[arg(long, value_name = "NAMESPACES", value_delimiter = ',', value_parser = plugin_objects::namespace)]
    plugins_from_cluster: Vec<String>,
    /// Kubeconfig file; without it $KUBECONFIG, ~/.kube/config, then the service account of the pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig, which is the home cluster
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    clusters: ClusterArgs,
    /// Directory of compiled plugins, private to this user [default: $XDG_CACHE_HOME/pilothouse or ~/.cache/pilothouse]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Address of the admin endpoints (/livez, /readyz, /healthz, /metrics, /plugins, and a web page); port 0 takes a free port
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_LISTEN)]
    listen: SocketAddr,
    /// Address of /livez, /readyz and /healthz alone, for probes: no data, no token
    #[arg(long, value_name = "ADDR")]
    health_addr: Option<SocketAddr>,
    /// File with the token that the admin endpoints ask for, in place of tokens of the cluster
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Log format on standard error; RUST_LOG sets the filter
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Keep cached objects compressed: less memory, more CPU for lists and reads
    #[arg(long)]
    compress: bool,
    /// Refuse plugins whose manifest names no serviceAccount
    #[arg(long)]
    require_service_account: bool,
    /// Namespaces that manifests may name, separated by commas [default: all]
    #[arg(long, value_name = "NAMESPACES", value_delimiter = ',')]
    allow_namespaces: Vec<String>,
    /// ServiceAccounts that manifests may name, as NAMESPACE/NAME or NAMESPACE/*, separated by commas; each has to name one
    /// [default: all]
    #[arg(long, value_name = "ACCOUNTS", value_delimiter = ',', value_parser = AllowedAccount::parse)]
    allow_service_accounts: Vec<AllowedAccount>,
    /// Directory below which the files of configFrom are [default: anywhere]
    #[arg(long, value_name = "DIR")]
    config_files_under: Option<PathBuf>,
    /// Take a plugin directory that other users may write, as a mounted ConfigMap
    #[arg(long)]
    allow_writable_plugins: bool,
    /// Hosts from which the components of Plugins are fetched, with registries and where they send to, as HOST[:PORT] for HTTPS
    /// or http://HOST[:PORT], separated by commas [default: none]
    #[arg(
        long,
        value_name = "HOSTS",
        value_delimiter = ',',
        value_parser = ComponentHost::parse,
        requires = "plugins_from_cluster"
    )]
    component_hosts: Vec<ComponentHost>,
    /// Idle time in seconds before an instance is dropped
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = ManagerOptions::DEFAULT_IDLE_TTL.as_secs(),
        value_parser = clap::value_parser!(u64).range(..=LONGEST_SECONDS)
    )]
    idle_ttl: u64,
    /// Seconds that running calls may continue after SIGTERM or SIGINT
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = DEFAULT_SHUTDOWN_TIMEOUT,
        value_parser = clap::value_parser!(u64).range(..=LONGEST_SECONDS)
    )]
    shutdown_timeout: u64,
    /// Maximum requests per second to each API server, shared fairly among plugins; watches are not limited [default: no limit]
    #[arg(long, value_name = "QPS", value_parser = qps)]
    kube_api_qps: Option<f64>,
    /// Burst: requests that may start at once after a pause [default: twice --kube-api-qps]
    #[arg(
        long,
        value_name = "REQUESTS",
        requires = "kube_api_qps",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    kube_api_burst: Option<u32>,
    /// Request lists with gzip: fewer bytes on the network, more CPU on both ends
    #[arg(long)]
    compress_lists: bool,
    /// Limits file: ceilings for the limits of plugins, and limits of the host
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    #[command(flatten)]
    record: RecordArgs,
    #[cfg(feature = "oci")]
    #[command(flatten)]
    signatures: SignatureArgs,
    #[cfg(feature = "traces")]
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    election: LeaderElectionArgs,
    #[command(flatten)]
    pod: OwnPod,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

impl Run {
    pub(crate) fn main(self) -> Result<()> {
        // The allocator asks for huge pages, and a heap of small objects then keeps some 10 MB that it does not need, idle, and
        // twice that after a list. Children inherit it; where it is refused, that is all there is to it.
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::disable_transparent_huge_pages(true);
        let log = RecentLog::default();
        on_runtimes(self.election.is_enabled(), |threads| self.serve(threads, log))
    }

    async fn serve(self, threads: Threads, log: RecentLog) -> Result<()> {
        #[cfg(feature = "traces")]
        let (traces, exporting) = self.traces.start(&threads.work)?.unzip();
        #[cfg(not(feature = "traces"))]
        let traces = None;
        start_log(self.log_format, &log, traces)?;
        let mut signals = Signals::catch()?;
        warn_of_idle_ttl(self.idle_ttl);
        let limits = self.limits.as_deref().map(read_limits).transpose()?.unwrap_or_default();
        let defaults = ClientOptions::default();
        let health = match self.health_addr {
            Some(address) => Some(admin::bind("--health-addr", address).await.map_err(|e| anyhow!(e))?),
            None => None,
        };
        let admin = AdminOptions {
            listener: admin::bind("--listen", self.listen).await.map_err(|e| anyhow!(e))?,
            health,
            token_file: self.admin_token_file,
            log: Some(log),
        };
        let cache_dir = self.cache_dir.map_or_else(default_cache_dir, Ok)?;
        let objects = (!self.plugins_from_cluster.is_empty()).then(|| {
            let namespaces = plugin_objects::namespaces(self.plugins_from_cluster);
            let hosts = self.component_hosts.into_iter().collect();
            PluginObjectsOptions::new(namespaces, cache_dir.join("components"), hosts)
        });
        #[cfg(feature = "oci")]
        let objects = match objects {
            Some(objects) => Some(PluginObjectsOptions { signatures: self.signatures.policy()?, ..objects }),
            None => None,
        };
        let client = ClientOptions {
            kubeconfig: self.kubeconfig,
            context: self.context,
            rate_limit: self.kube_api_qps.map(|qps| RateLimit {
                qps,
                burst: self.kube_api_burst.unwrap_or_else(|| RateLimit::usual_burst(qps)),
            }),
            compress_lists: self.compress_lists,
            max_connections: limits.max_connections.unwrap_or(defaults.max_connections),
            ..defaults
        };
        let options = HostingOptions {
            clusters: self.clusters.clients(&client)?,
            client,
            cache_dir: Some(cache_dir),
            admin,
            compression: if self.compress { Compression::Auto } else { Compression::Off },
            manager: ManagerOptions {
                objects,
                idle_ttl: Duration::from_secs(self.idle_ttl),
                require_service_account: self.require_service_account,
                allowed: AllowLists {
                    namespaces: (!self.allow_namespaces.is_empty())
                        .then(|| self.allow_namespaces.into_iter().collect()),
                    service_accounts: (!self.allow_service_accounts.is_empty())
                        .then_some(self.allow_service_accounts),
                    config_files_under: self.config_files_under,
                    clusters: self.clusters.allowed(),
                },
                directory: DirectoryOptions {
                    allow_writable: self.allow_writable_plugins,
                    ..DirectoryOptions::default()
                },
                limits,
                recorder: self.record.start()?,
                ..ManagerOptions::new(self.plugins)
            },
            pod: Some(self.pod),
            election: self.election.options(Duration::from_secs(self.shutdown_timeout))?,
        };
        let mut hosting = Hosting::start(options, threads).await?;
        {
            let mut out = std::io::stdout();
            // Whoever started the host may have closed its output.
            let _ = writeln!(out, "admin: http://{}", hosting.admin());
            if let Some(health) = hosting.health() {
                let _ = writeln!(out, "health: http://{health}");
            }
            let _ = out.flush();
        }
        let ended = tokio::select! {
            () = signals.next() => hosting.end(Duration::from_secs(self.shutdown_timeout), &mut signals).await,
            // At once: another host may lead by now.
            lost = hosting.lost() => return Err(lost),
        };
        #[cfg(feature = "traces")]
        if let Some(exporting) = exporting {
            exporting.end().await;
        }
        ended
    }
}

/// A rate that the limit of the client takes.
fn qps(text: &str) -> Result<f64, String> {
    let qps = text.parse::<f64>().ok().filter(|qps| (0.001..=1e6).contains(qps));
    qps.ok_or_else(|| {
        "write a number from 0.001 to 1000000, or leave the flag out to have no limit".to_owned()
    })
}

/// Warns of a value that is allowed and seldom meant.
fn warn_of_idle_ttl(idle_ttl: u64) {
    if idle_ttl == 0 {
        tracing::warn!(
            event = "idle_ttl_zero",
            "--idle-ttl is 0: each call makes an instance of its own; leave the flag out to keep instances for 30 s"
        );
    }
}

fn read_limits(path: &Path) -> Result<HostLimits> {
    let shown = path.display().to_string();
    let text = std::fs::read(path)
        .with_context(|| format!("--limits: {shown} cannot be read; name a YAML file of limits"))?;
    HostLimits::parse(&text, &shown).map_err(|e| anyhow!("--limits: {shown}: {e}"))
}

/// What gets the spans of calls.
pub(crate) type TraceLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Logs to standard error, and keeps the last lines. Each layer has a filter of its own: spans of calls are for `traces` alone.
fn start_log(format: LogFormat, recent: &RecentLog, traces: Option<TraceLayer>) -> Result<()> {
    let filter = log_filter("info")?;
    let kept = Keeping(recent.clone()).with_filter(filter.clone());
    let registry = tracing_subscriber::registry().with(traces).with(kept);
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    match format {
        LogFormat::Text => registry.with(lines.fmt_fields(LogFields).with_filter(filter)).init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true).with_filter(filter)).init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::Cli;

    #[test]
    fn values_that_would_stop_or_break_the_host_are_refused_by_the_name_of_their_flag() {
        let parsed = |flags: &[&str]| {
            let parsed = Cli::command()
                .try_get_matches_from(["pilothouse", "run", "--plugins", "p"].iter().chain(flags));
            parsed.map(drop).map_err(|error| error.to_string())
        };
        for (flags, words) in [
            (&["--kube-api-qps=0"][..], ["'--kube-api-qps <QPS>'", "leave the flag out"]),
            (&["--kube-api-qps=-1"], ["'--kube-api-qps <QPS>'", "from 0.001 to 1000000"]),
            (&["--kube-api-qps=NaN"], ["'--kube-api-qps <QPS>'", "from 0.001"]),
            (&["--kube-api-qps=inf"], ["'--kube-api-qps <QPS>'", "from 0.001"]),
            (&["--kube-api-qps=5", "--kube-api-burst=0"], ["'--kube-api-burst <REQUESTS>'", "0 is not in"]),
            (&["--kube-api-burst=5"], ["--kube-api-qps <QPS>", "required"]),
            (&["--idle-ttl=18446744073709551615"], ["'--idle-ttl <SECONDS>'", "31536000"]),
            (&["--shutdown-timeout=31536001"], ["'--shutdown-timeout <SECONDS>'", "31536000"]),
            (&["--allow-clusters=east"], ["--clusters <NAME[=CONTEXT]>", "required"]),
        ] {
            let error = parsed(flags).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{flags:?}: {error}");
        }
        let allowed =
            ["--kube-api-qps=0.5", "--kube-api-burst=1", "--idle-ttl=0", "--shutdown-timeout=31536000"];
        assert_eq!(parsed(&allowed), Ok(()));
    }
}
