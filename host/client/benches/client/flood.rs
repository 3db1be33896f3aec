//! Two plugins of one host, one of which floods the API server: what the other's requests take, beside what they take alone.
//!
//! The server is the development server in a process of its own. The client has the host's shape: one connection pool, one rate limit
//! for all, an identity for each plugin. The quiet plugin asks 40 times a second, the other as fast as it gets answers, with 64 calls
//! at once.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use pilothouse_bench::{Better, Process, Report, peers, quantile};
use pilothouse_client::{ApiResource, Client, ClientOptions, Identity, RateLimit, WriteParams};
use pilothouse_devserver::{DevServer, DevServerOptions};
use pilothouse_object::{Gvk, ObjectKey};

/// First word of the command line of the server's process: `server`.
pub(crate) const COMMAND: &str = "server";

const RUNS: usize = 5;
/// Of the quiet plugin, in each of the two states.
const REQUESTS: usize = 300;
const PACE: Duration = Duration::from_millis(25);
/// Calls that the other has under way.
const FLOOD: usize = 64;
/// Of all together; client-go's ratio of burst to rate.
const LIMIT: RateLimit = RateLimit { qps: 200.0, burst: 400 };

/// Serves until the other end of its standard input is closed.
pub(crate) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let options = DevServerOptions { tls: true, ..DevServerOptions::default() };
    let server = runtime.block_on(DevServer::start(options))?;
    serde_json::to_writer(std::io::stdout(), &server.kubeconfig())?;
    writeln!(std::io::stdout())?;
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// Milliseconds of the quiet plugin's requests.
struct Latencies {
    alone: Vec<f64>,
    beside: Vec<f64>,
    /// Requests a second that the other got.
    flood: f64,
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let mut figures: [Figures; 3] = Default::default();
    for _ in 0..RUNS {
        let mut server = Process::start(Command::new(std::env::current_exe()?).arg(COMMAND))?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.read::<String>()?)?;
        figures[0].add(ours(&kubeconfig, Some(LIMIT))?);
        figures[1].add(ours(&kubeconfig, None)?);
        figures[2].add(client_go(&kubeconfig)?);
    }
    let [fair, free, theirs] = &mut figures;
    let limited = format!("beside a flood, {} requests/s for both", LIMIT.qps);
    let peers = vec![("client-go, one limiter for both", theirs.ratio.clone())];
    report.versus(
        &limited,
        "times its p99 alone",
        Better::Lower,
        &mut fair.ratio,
        peers,
        pilothouse_bench::Aim::Value(2.0),
    );
    let mut row = |scenario: &str, metric: &str, ours: &mut Vec<f64>, theirs: &[f64]| {
        let peers = vec![("client-go, one limiter for both", theirs.to_vec())];
        report.versus(scenario, metric, Better::Lower, ours, peers, pilothouse_bench::Aim::Shown);
    };
    row("alone", "p99 ms", &mut fair.alone, &theirs.alone);
    row(&limited, "p99 ms", &mut fair.beside, &theirs.beside);
    report.bound("the flood itself, limited", "requests/s", Better::Higher, &mut fair.flood, None);
    let unlimited = "beside a flood, no limit";
    report.bound(unlimited, "times its p99 alone", Better::Lower, &mut free.ratio, None);
    report.bound(unlimited, "p99 ms", Better::Lower, &mut free.beside, None);
    report.bound("the flood itself, no limit", "requests/s", Better::Higher, &mut free.flood, None);
    Ok(())
}

/// One value a run.
#[derive(Default)]
struct Figures {
    alone: Vec<f64>,
    beside: Vec<f64>,
    ratio: Vec<f64>,
    flood: Vec<f64>,
}

impl Figures {
    fn add(&mut self, mut latencies: Latencies) {
        let (alone, beside) = (quantile(&mut latencies.alone, 0.99), quantile(&mut latencies.beside, 0.99));
        self.alone.push(alone);
        self.beside.push(beside);
        self.ratio.push(beside / alone);
        self.flood.push(latencies.flood);
    }
}

fn client_go(kubeconfig: &Path) -> anyhow::Result<Latencies> {
    #[derive(serde::Deserialize)]
    struct Said {
        alone: Vec<f64>,
        beside: Vec<f64>,
        flood: f64,
    }
    let mut command = Command::new(peers::go()?);
    command.arg("flood").arg("-kubeconfig").arg(kubeconfig);
    command.args(["-requests", &REQUESTS.to_string()]);
    command.args(["-pace", &format!("{PACE:?}"), "-flood", &FLOOD.to_string()]);
    command.args(["-qps", &LIMIT.qps.to_string(), "-burst", &LIMIT.burst.to_string()]);
    let Said { alone, beside, flood } = Process::start(&mut command)?.read()?;
    Ok(Latencies { alone, beside, flood })
}

fn ours(kubeconfig: &Path, rate_limit: Option<RateLimit>) -> anyhow::Result<Latencies> {
    // As the host's runtime for the network on the machine of the figures.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let kubeconfig = Some(kubeconfig.to_owned());
    let options = ClientOptions { kubeconfig, rate_limit, ..ClientOptions::default() };
    runtime.block_on(async { tokio::spawn(measure(options)).await? })
}

async fn measure(options: ClientOptions) -> anyhow::Result<Latencies> {
    let host = Client::new(options).await?;
    let config_maps = ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true);
    let key: ObjectKey = "default/asked-for".parse()?;
    let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"asked-for"},"data":{"a":"b"}}"#;
    match host.create(&config_maps, Some("default"), body, &WriteParams::default()).await {
        Err(error) if !error.is_already_exists() => bail!(error),
        _ => {}
    }
    let of = |name: &str| host.with_identity(Identity { user_agent: name.to_owned(), ..Identity::default() });
    let (quiet, busy) = (of("quiet"), of("busy"));
    let alone = ask(&quiet, &config_maps, &key).await?;
    let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut flood = tokio::task::JoinSet::new();
    for _ in 0..FLOOD {
        let (busy, config_maps, key) = (busy.clone(), config_maps.clone(), key.clone());
        let (over, count) = (Arc::clone(&over), Arc::clone(&count));
        flood.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                busy.get(&config_maps, &key, None).await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    // What the flood may do at once is over by then.
    tokio::time::sleep(burst_over()).await;
    let (began, before) = (Instant::now(), count.load(Ordering::Relaxed));
    let beside = ask(&quiet, &config_maps, &key).await?;
    let done = count.load(Ordering::Relaxed) - before;
    let rate = done as f64 / began.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = flood.join_next().await {
        ended.context("the flood")??;
    }
    Ok(Latencies { alone, beside, flood: rate })
}

/// Until a flood has used up its burst.
fn burst_over() -> Duration {
    Duration::from_secs_f64(f64::from(LIMIT.burst) / LIMIT.qps)
}

/// Asks at a steady pace, whatever the answers take; milliseconds of each.
async fn ask(client: &Client, resource: &ApiResource, key: &ObjectKey) -> anyhow::Result<Vec<f64>> {
    let mut tick = tokio::time::interval(PACE);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..REQUESTS {
        tick.tick().await;
        let (client, resource, key) = (client.clone(), resource.clone(), key.clone());
        calls.spawn(async move {
            let began = Instant::now();
            client.get(&resource, &key, None).await?;
            anyhow::Ok(began.elapsed().as_secs_f64() * 1e3)
        });
    }
    let mut times = Vec::new();
    while let Some(time) = calls.join_next().await {
        times.push(time??);
    }
    Ok(times)
}
