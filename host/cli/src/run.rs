//! `pilothouse run`: connects, loads the plugins of a directory, serves the admin endpoints, ends on SIGTERM or SIGINT.
//!
//! Two runtimes: one for the network, the caches and the life of plugins, one for the guests, so that guests which compute
//! can hold up each other for a tick but never a watch.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, ValueEnum};
use pilothouse_cache::{FactoryOptions, SharedInformerFactory};
use pilothouse_client::{Client, ClientOptions};
use pilothouse_engine::{Compiler, Engine, EngineOptions};
use pilothouse_manager::{Manager, ManagerOptions, Metrics, admin};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::worker;

/// Where the admin endpoints listen unless told otherwise.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:9470";

#[derive(Args)]
pub(crate) struct Run {
    /// Directory of the plugins: each NAME.wasm with its NAME.yaml
    #[arg(long, value_name = "DIR")]
    plugins: PathBuf,
    /// Kubeconfig file; without it $KUBECONFIG, ~/.kube/config, then the service account of the pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Directory of compiled plugins, private to this user [default: $XDG_CACHE_HOME/pilothouse or ~/.cache/pilothouse]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Address of /livez, /readyz, /healthz, /metrics and /plugins; port 0 takes a free one and prints it
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_LISTEN)]
    listen: SocketAddr,
    /// Form of the log on standard error; RUST_LOG sets what is logged
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Refuse plugins whose manifest names no serviceAccount
    #[arg(long)]
    require_service_account: bool,
    /// Seconds that a plugin's instance is kept warm without a call
    #[arg(long, value_name = "SECONDS", default_value_t = ManagerOptions::DEFAULT_IDLE_TTL.as_secs())]
    idle_ttl: u64,
    /// Seconds that calls under way may go on when the host is told to end
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    shutdown_timeout: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

impl Run {
    pub(crate) fn main(self) -> Result<()> {
        start_log(self.log_format);
        // kube-client's TLS settings ask for the process's provider.
        rustls::crypto::ring::default_provider()
            .install_default()
            .map_err(|_| anyhow!("a TLS provider is installed already"))?;
        let guests = tokio::runtime::Builder::new_multi_thread().thread_name("guest").enable_all().build()?;
        let io = tokio::runtime::Builder::new_multi_thread().thread_name("io").enable_all().build()?;
        let outcome = io.block_on(self.serve(guests.handle().clone()));
        // What still runs was given its time.
        guests.shutdown_background();
        io.shutdown_background();
        outcome
    }

    async fn serve(self, guests: tokio::runtime::Handle) -> Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let metrics = Metrics::new();
        let options = ClientOptions {
            kubeconfig: self.kubeconfig,
            context: self.context,
            observer: Some(Arc::new(metrics.clone())),
            ..ClientOptions::default()
        };
        let client = Client::new(options).await?;
        let engine = Engine::new(EngineOptions {
            cache_dir: self.cache_dir.map_or_else(default_cache_dir, Ok)?,
            compiler: Compiler::Worker {
                // Also when the file was replaced since the start.
                program: PathBuf::from("/proc/self/exe"),
                args: vec![worker::COMMAND.to_owned()],
            },
            instances: EngineOptions::DEFAULT_INSTANCES,
        })?;
        let listener = admin::bind(self.listen).await.map_err(|e| anyhow!(e))?;
        let address = listener.local_addr()?;
        let factory = SharedInformerFactory::for_client(client.clone(), FactoryOptions::default());
        let options = ManagerOptions {
            idle_ttl: Duration::from_secs(self.idle_ttl),
            require_service_account: self.require_service_account,
            ..ManagerOptions::new(self.plugins)
        };
        let manager = Manager::start(options, engine, client, factory, metrics.clone(), guests)?;
        let serving = tokio::spawn(admin::serve(listener, manager.clone(), metrics));
        {
            let mut out = std::io::stdout();
            // Whoever started the host may have closed its output.
            let _ = writeln!(out, "admin: http://{address}").and_then(|()| out.flush());
        }
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("ending: no new calls; those under way may go on for {} s", self.shutdown_timeout);
        let all_ended = tokio::select! {
            ended = manager.shutdown(Duration::from_secs(self.shutdown_timeout)) => ended,
            // Asked twice.
            _ = terminate.recv() => false,
            _ = interrupt.recv() => false,
        };
        serving.abort();
        if !all_ended {
            tracing::warn!("calls under way were cut");
        }
        tracing::info!("ended");
        Ok(())
    }
}

fn default_cache_dir() -> Result<PathBuf> {
    let from = |variable: &str| std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|home| home.join(".cache")));
    let base = base.context("neither XDG_CACHE_HOME nor HOME is set: name a folder with --cache-dir")?;
    Ok(base.join("pilothouse"))
}

fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
