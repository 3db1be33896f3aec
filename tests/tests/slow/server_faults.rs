//! An API server that dies, forgets or falls silent: the host catches up by itself, loses nothing, and hardly stirs
//! meanwhile.
//!
//! The tests on one server share it and take turns: each stops it or what leads to it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::fleet::{self, Counts, Fleet};
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines::{self, Line};
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{ControlPlane, Host, Proxy, Signal, full, guests, poll};
use serde_json::json;

pilothouse_tests::on_both_servers!(
    a_killed_api_server_is_waited_for_and_caught_up_with,
    a_watch_whose_history_was_compacted_is_made_good_by_a_list,
    a_connection_that_fell_silent_is_given_up,
);

const NODES: usize = 5;
const PODS: usize = 200;
/// Changes of pods a second.
const PACE: u32 = 50;

/// How long the server stays away.
const AWAY: Duration = Duration::from_secs(15);
/// How long it stays away behind a proxy that resets connections. Each informer then waits on its own, about as long again.
const RESET: Duration = Duration::from_secs(10);
/// A key that was under way when the server went, or came from its delay then, is first tried eight times in 1.3 s, as the
/// default rate limiter has it (5 ms, doubled each time). What the informers do is seen once that is over.
const FIRST_TRIES: Duration = Duration::from_secs(3);
/// Connections a second that the host may open meanwhile.
const REQUESTS_PER_SECOND: usize = 10;
/// The share of a core that it may use meanwhile. A loop without a pause uses a whole one, or its part of it on a busy machine;
/// the host uses some hundredths.
const CORE: f64 = 0.3;

const REST: Duration = Duration::from_secs(60);
/// A silent connection is asked after 30 s and given up 15 s later; then another is tried.
const GIVEN_UP: Duration = Duration::from_secs(70);

/// The control plane of all tests of this file on one server, while one has its turn. The API server keeps nothing of nodes in its watch
/// cache, so a compaction alone makes a watch of nodes too old; for pods it takes a restart too.
fn turn(server: Server) -> Result<MutexGuard<'static, ControlPlane>> {
    static PLANES: [OnceLock<Mutex<ControlPlane>>; 2] = [const { OnceLock::new() }; 2];
    static STARTING: Mutex<()> = Mutex::new(());
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let shared = &PLANES[server as usize];
    let plane = match shared.get() {
        Some(plane) => plane,
        None => {
            let apiserver_flags = vec!["--watch-cache-sizes=nodes#0".to_owned()];
            let plane = ControlPlane::start(Options { apiserver_flags, ..Options::on(server) })?;
            shared.get_or_init(|| Mutex::new(plane))
        }
    };
    drop(starting);
    let plane = plane.lock().unwrap_or_else(PoisonError::into_inner);
    // One that failed may have left it so.
    if !plane.status()?.apiserver_running {
        plane.start_apiserver()?;
    }
    Ok(plane)
}

/// A fleet with pods, and a host with four plugins on six informers, one of which counts the pods.
struct FleetHost<'a> {
    fleet: Fleet<'a>,
    nodes: Vec<String>,
    host: Host,
}

impl<'a> FleetHost<'a> {
    fn set(plane: &'a ControlPlane, name: &str, kubeconfig: &std::path::Path) -> Result<Self> {
        let fleet = Fleet::new(plane, name)?;
        let nodes: Vec<String> = (0..NODES).map(|number| format!("{name}-{number}")).collect();
        for node in &nodes {
            fleet.add_node(node)?;
        }
        fleet.add_pods("pod", PODS, &nodes)?;
        let host = Host::start(HostOptions::new(kubeconfig))?;
        fleet.install(&host)?;
        let everywhere = |plugin: &str, resource: &str| {
            Manifest::new(plugin).grant(&[resource], &["get", "list", "watch"], &["*"])
        };
        let others = [
            ("pods", "probe", everywhere("pods", "pods").config(json!({"kind": "v1/Pod"}))),
            ("handlers", "handlers", everywhere("handlers", "configmaps")),
            ("services", "probe", everywhere("services", "services").config(json!({"kind": "v1/Service"}))),
            ("secrets", "probe", everywhere("secrets", "secrets").config(json!({"kind": "v1/Secret"}))),
        ];
        for (plugin, guest, manifest) in &others {
            host.install(plugin, &guests::wasm(guest)?, Some(&manifest.to_string()))?;
        }
        for (plugin, ..) in &others {
            plugins::wait_running(&host, plugin)?;
        }
        fleet.settle(&host, REST)?;
        Ok(FleetHost { fleet, nodes, host })
    }

    /// Changes pods for a while, then ends with all changes made.
    fn stir(&self, seed: u64, changes: u64) -> Result<()> {
        let churn = self.fleet.churn(PACE, seed, &self.nodes)?;
        churn.wait_begun(changes, REST)?;
        let tally = churn.stop().tally;
        ensure!(tally.failed == 0, "the load itself failed: {:?}", tally.first_failure);
        Ok(())
    }

    /// Changes of every kind, which nobody is told of later: a quarter of the first pods go, a node goes, a node and
    /// pods come, others move and change.
    fn rearrange(&mut self, round: usize) -> Result<()> {
        self.fleet.delete_pods("pod", (round - 1) * PODS / 4..round * PODS / 4)?;
        let new = format!("{}-new-{round}", self.fleet.namespace());
        self.fleet.add_node(&new)?;
        self.fleet.add_pods(&format!("new-{round}"), PODS / 10, std::slice::from_ref(&new))?;
        self.fleet.delete_node(&self.nodes.remove(0))?;
        self.nodes.push(new);
        self.stir(round as u64, u64::from(PACE))
    }

    fn sum(&self, metric: &str, labels: &[(&str, &str)]) -> Result<f64> {
        self.host.metrics()?.sum(metric, labels).with_context(|| format!("no {metric} with {labels:?}"))
    }

    /// How often a watch of a resource was answered by 410.
    fn expired(&self, resource: &str) -> usize {
        let lines = loglines::events(&self.host, "watch_expired");
        let of_it = |line: &&Line| line.more["resource"].as_str().is_some_and(|it| it.contains(resource));
        lines.iter().filter(of_it).count()
    }
}

/// The ConfigMap of a node that has gone has gone too, and that of a node that has come is there.
fn check_nodes(written: &Counts, gone: &str, come: &str) -> Result<()> {
    ensure!(!written.contains_key(&fleet::map_of(gone)), "{gone} is still counted: {written:?}");
    ensure!(written.contains_key(&fleet::map_of(come)), "{come} is not counted: {written:?}");
    Ok(())
}

/// Checks that a host used little of a core since a moment.
fn check_cpu(host: &Host, (before, since): (Duration, Instant)) -> Result<()> {
    let (used, passed) = (host.cpu_time()? - before, since.elapsed());
    let share = used.as_secs_f64() / passed.as_secs_f64();
    eprintln!(
        "the server was away for {passed:.1?}; the host used {used:?}, {:.1} % of a core",
        share * 100.0
    );
    ensure!(share < CORE, "the host used {:.1} % of a core while the server was away", share * 100.0);
    Ok(())
}

fn a_killed_api_server_is_waited_for_and_caught_up_with(server: Server) -> Result<()> {
    let plane = turn(server)?;
    let fleet_host = FleetHost::set(&plane, "killed", plane.kubeconfig())?;
    let host = &fleet_host.host;
    // One that asks the server in each reconcile, and reconciles each node every second.
    let config = json!({"kind": "v1/Node", "resync": "1s", "mode": "block"});
    let limits = json!({"shortestResync": "1s"});
    let asker = Manifest::new("asker").config(config).limits(limits).grant(
        &["nodes", "secrets"],
        &["get", "list", "watch"],
        &["*"],
    );
    host.install("asker", &guests::wasm("probe")?, Some(&asker.to_string()))?;
    plugins::wait_running(host, "asker")?;

    let churn = fleet_host.fleet.churn(PACE, full::seed(3)?, &fleet_host.nodes)?;
    churn.wait_begun(u64::from(PACE) * 3, REST)?;
    plane.stop_apiserver(Signal::KILL)?;
    let sent = || fleet_host.sum("rest_client_requests_total", &[("code", "<error>")]);
    let failures = || fleet_host.sum("controller_runtime_reconcile_errors_total", &[("controller", "asker")]);
    let (before, failed) = (sent().unwrap_or(0.0), failures()?);
    let from = (host.cpu_time()?, Instant::now());
    let done = churn.stop();
    ensure!(
        done.tally.failed < done.tally.done,
        "the load failed from the start: {:?}",
        done.tally.first_failure
    );
    poll::until("the server to have been away for long enough", AWAY * 2, || from.1.elapsed() >= AWAY)?;
    check_cpu(host, from)?;
    let (refused, failed) = (sent()? - before, failures()? - failed);
    eprintln!("{refused} requests were refused, {failed} reconciles failed");
    let asked = NODES as f64 * AWAY.as_secs_f64() / 2.0;
    ensure!(
        failed >= asked,
        "only {failed} reconciles failed, at least {asked} should have wanted to reach the server"
    );
    ensure!(refused >= 2.0, "the host tried {refused} times only");
    let most = (REQUESTS_PER_SECOND as f64 * AWAY.as_secs_f64()).min(failed / 2.0);
    ensure!(refused <= most, "{refused} requests in {AWAY:?}, at most {most} are allowed");

    plane.start_apiserver()?;
    // The host comes back under load.
    fleet_host.stir(4, u64::from(PACE) * 3)?;
    let settled = fleet_host.fleet.settle(host, REST)?;
    eprintln!("right {:?} after the load", settled.after);
    Ok(())
}

fn a_watch_whose_history_was_compacted_is_made_good_by_a_list(server: Server) -> Result<()> {
    let plane = turn(server)?;
    let proxy = Proxy::start(plane.address())?;
    let mut fleet_host = FleetHost::set(&plane, "compacted", &plane.kubeconfig_via(&proxy)?)?;

    // Nodes: the server has no cache of them.
    proxy.refuse();
    proxy.cut();
    let gone = fleet_host.nodes[0].clone();
    fleet_host.rearrange(1)?;
    plane.compact()?;
    let before = fleet_host.expired("nodes");
    proxy.heal();
    let settled = fleet_host.fleet.settle(&fleet_host.host, REST)?;
    eprintln!("compacted: right after {:?}", settled.after);
    check_nodes(&fleet_host.fleet.written()?, &gone, "compacted-new-1")?;
    ensure!(fleet_host.expired("nodes") > before, "the watch of nodes was not answered by 410");

    // Pods and all others: a server that has just started has nothing older in its cache.
    proxy.refuse();
    proxy.cut();
    let gone = fleet_host.nodes[0].clone();
    fleet_host.rearrange(2)?;
    plane.compact()?;
    plane.restart_apiserver(Signal::KILL)?;
    let before = fleet_host.expired("pods");
    proxy.heal();
    let settled = fleet_host.fleet.settle(&fleet_host.host, REST)?;
    eprintln!("compacted and restarted: right after {:?}", settled.after);
    check_nodes(&fleet_host.fleet.written()?, &gone, "compacted-new-2")?;
    ensure!(fleet_host.expired("pods") > before, "the watch of pods was not answered by 410");

    // The proxy accepts connections and resets them, as a load balancer without a server does.
    plane.stop_apiserver(Signal::KILL)?;
    away(&fleet_host.host, &proxy)?;
    plane.start_apiserver()?;
    let gone = fleet_host.nodes[0].clone();
    fleet_host.rearrange(3)?;
    let settled = fleet_host.fleet.settle(&fleet_host.host, REST)?;
    eprintln!("after resets: right after {:?}", settled.after);
    check_nodes(&fleet_host.fleet.written()?, &gone, "compacted-new-3")
}

/// Watches over what a host does while its connections are accepted and reset.
fn away(host: &Host, proxy: &Proxy) -> Result<()> {
    let stopped = Instant::now();
    poll::until("the first tries to be over", FIRST_TRIES * 2, || stopped.elapsed() >= FIRST_TRIES)?;
    let (from, before) = ((host.cpu_time()?, Instant::now()), proxy.seen().connections);
    let (mut last, mut window, mut most) = (before, VecDeque::new(), 0);
    poll::until("the server to have been away for long enough", RESET * 2, || {
        let now = Instant::now();
        let connections = proxy.seen().connections;
        window.extend((last..connections).map(|_| now));
        last = connections;
        while window.front().is_some_and(|at| now.duration_since(*at) > Duration::from_secs(1)) {
            window.pop_front();
        }
        most = most.max(window.len());
        from.1.elapsed() >= RESET
    })?;
    check_cpu(host, from)?;
    let all = last - before;
    eprintln!("{all} connections, {most} at most within a second");
    ensure!(all >= 2, "the host tried {all} times only");
    ensure!(
        most <= REQUESTS_PER_SECOND,
        "{most} connections within a second, {REQUESTS_PER_SECOND} are allowed"
    );
    Ok(())
}

fn a_connection_that_fell_silent_is_given_up(server: Server) -> Result<()> {
    let plane = turn(server)?;
    let proxy = Proxy::start(plane.address())?;
    let mut fleet_host = FleetHost::set(&plane, "silent", &plane.kubeconfig_via(&proxy)?)?;
    let connections = proxy.seen().connections;
    proxy.stall();
    let began = Instant::now();
    let gone = fleet_host.nodes[0].clone();
    fleet_host.rearrange(1)?;
    // Nothing closes the old connection but the host.
    fleet_host.host.wait_for("the host to give the connection up and try another", GIVEN_UP, || {
        proxy.seen().connections > connections
    })?;
    eprintln!("given up after {:?}", began.elapsed());
    proxy.heal();
    let settled = fleet_host.fleet.settle(&fleet_host.host, REST)?;
    eprintln!("right after {:?}", settled.after);
    check_nodes(&fleet_host.fleet.written()?, &gone, "silent-new-1")
}
