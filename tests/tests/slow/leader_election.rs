//! Two hosts with `--leader-elect`: one works, the other stands by with warm caches and takes over all of the work, after a
//! kill, a clean exit, a cut network and a standstill; and what operators see of it.
//!
//! Each test has a namespace and a Lease of its own.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines::{self, Line};
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, Proxy, Signal, cli, full, guests, rest};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    a_standby_takes_over_all_work_within_the_lease_time_after_a_kill,
    a_standby_takes_over_long_before_the_lease_ends_after_a_clean_exit,
    a_leader_whose_calls_have_not_ended_when_it_does_keeps_the_lease,
    operators_see_who_leads,
    a_run_with_options_that_cannot_work_says_why_in_one_line,
);

pilothouse_tests::on_both_servers!(
    full:
    a_leader_that_cannot_renew_ends_with_an_error_before_another_works,
    a_leader_that_was_stopped_begins_nothing_when_it_goes_on,
    a_standby_forgets_what_went_long_ago_and_tells_of_what_went_right_before_its_term,
);

/// Lease duration, renew deadline and retry period.
type Times = [u64; 3];

/// So short that a test can wait for the end of a lease, and so long that a leader on a busy machine does not lose it.
const SHORT: Times = [20, 10, 2];
/// Of the one end of a lease that the gate waits for.
const SAMPLE: Times = [14, 10, 2];
/// So long that no lease ends within a test: a standby takes over from one that was released, or not at all.
const LONG: Times = [3600, 1800, 20];

/// A namespace with some ConfigMaps on a shared control plane.
struct Candidates {
    plane: &'static ControlPlane,
    cluster: Cluster,
    namespace: &'static str,
}

impl Candidates {
    fn set(server: Server, namespace: &'static str, maps: usize) -> Result<Candidates> {
        let plane = ControlPlane::shared(server)?;
        let cluster = Cluster::of(plane)?;
        cluster.namespace(namespace)?;
        (0..maps).try_for_each(|number| cluster.config_map(namespace, &format!("map-{number}")).map(drop))?;
        Ok(Candidates { plane, cluster, namespace })
    }

    fn options(&self, [lease, renew, retry]: Times) -> HostOptions {
        let args = [
            "--leader-elect".to_owned(),
            format!("--lease={}/hosts", self.namespace),
            format!("--leader-elect-lease-duration={lease}s"),
            format!("--leader-elect-renew-deadline={renew}s"),
            format!("--leader-elect-retry-period={retry}s"),
        ];
        HostOptions { args: args.to_vec(), ..HostOptions::new(self.plane.kubeconfig()) }
    }

    /// A host with a plugin `probe` of this configuration, loaded.
    fn host(&self, options: HostOptions, mut config: Value) -> Result<Host> {
        let host = Host::start(options)?;
        config["namespaces"] = json!([self.namespace]);
        let manifest = Manifest::new("probe").reads(&["configmaps"], self.namespace).config(config);
        host.install("probe", &guests::wasm("probe")?, Some(&manifest.to_string()))?;
        plugins::wait_running(&host, "probe")?;
        Ok(host)
    }

    fn add_handlers(&self, host: &Host) -> Result<()> {
        let manifest = self.handlers("handlers", "resync", 1).to_string();
        host.install("handlers", &guests::wasm("handlers")?, Some(&manifest))?;
        plugins::wait_running(host, "handlers").map(drop)
    }

    /// The manifest of a plugin of handlers; each version of it is another generation.
    fn handlers(&self, name: &str, on_reload: &str, version: usize) -> Manifest {
        let manifest = Manifest::new(name).reads(&["configmaps"], self.namespace);
        manifest.with("onReload", json!(on_reload)).config(json!({"version": version}))
    }

    /// Waits until the host's cache has so many ConfigMaps of the namespace.
    fn wait_cached(&self, host: &Host, maps: usize) -> Result<()> {
        host.wait_for(&format!("{maps} cached ConfigMaps"), SOON, || {
            match figure(host, "pilothouse_cache_objects")? {
                cached if cached == maps as f64 => Ok(true),
                cached => bail!("{cached}"),
            }
        })
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }
}

/// What `/plugins` says of the election.
fn election(host: &Host) -> Result<Value> {
    host.plugins()?.get("election").cloned().context("/plugins says nothing of an election")
}

fn wait_role(host: &Host, role: &str, deadline: Duration) -> Result<Value> {
    host.wait_for(&format!("the host to be {role}"), deadline, || match election(host)? {
        view if view["role"] == role => Ok(Some(view)),
        view => bail!("{view}"),
    })
}

/// A figure of a host, of all its plugins and informers together.
fn figure(host: &Host, name: &str) -> Result<f64> {
    host.metrics()?.sum(name, &[]).with_context(|| format!("no {name}"))
}

fn begins(host: &Host) -> Vec<Line> {
    loglines::said(host, "probe", "begin")
}

fn keys(lines: &[Line]) -> BTreeSet<String> {
    lines.iter().map(|line| line.key.clone()).collect()
}

/// Whether the handlers have said this.
fn handled(host: &Host, message: &str) -> bool {
    !loglines::said(host, "handlers", message).is_empty()
}

/// That the second began nothing before the first had begun its last, and did begin.
fn one_after_the_other(first: &Host, second: &Host) -> Result<()> {
    let (first, second) = (begins(first), begins(second));
    let last = first.iter().map(|line| line.timestamp).max().context("the first did nothing")?;
    let next = second.iter().map(|line| line.timestamp).min().context("the second did nothing")?;
    ensure!(last < next, "two work at once: {last} and {next}");
    Ok(())
}

fn a_standby_takes_over_all_work_within_the_lease_time_after_a_kill(server: Server) -> Result<()> {
    let times = full::or_sample(SHORT, SAMPLE);
    let stage = Candidates::set(server, "leader-killed", 20)?;
    let first = stage.host(stage.options(times), json!({}))?;
    stage.add_handlers(&first)?;
    wait_role(&first, "leader", SOON)?;
    ensure!(rest::wait_quiet(&first, "probe", SOON)? >= 20);

    let second = stage.host(stage.options(times), json!({}))?;
    stage.add_handlers(&second)?;
    wait_role(&second, "standby", SOON)?;
    stage.wait_cached(&second, 20)?;
    // The leader is told of it, and the standby sees it come.
    stage.cluster.config_map(stage.namespace, "brief")?;
    first.wait_for("the leader to work", SOON, || handled(&first, &format!("add {}", stage.key("brief"))))?;
    stage.wait_cached(&second, 21)?;
    // It calls nobody, and fills no queue, before it leads.
    let status = plugins::status(&second, "probe")?;
    assert_eq!((status.calls, status.queue_depth), (0, 0));

    first.signal(Signal::KILL)?;
    let killed = Instant::now();
    for gone in ["brief", "map-0"] {
        stage.cluster.delete("v1/ConfigMap", stage.namespace, gone)?;
    }
    stage.cluster.config_map(stage.namespace, "late")?;
    let view = wait_role(&second, "leader", SOON)?;
    let took = killed.elapsed();
    eprintln!("{server:?}: taken over {took:?} after a kill");
    let [lease, renew, _] = times.map(Duration::from_secs);
    // Its last renewal was at most the renew deadline before the kill, or it would have ended: never sooner.
    ensure!(took > lease - renew, "{took:?}");
    assert_eq!((&view["transitions"], &view["leader"]), (&json!(1), &view["identity"]));

    let all: BTreeSet<String> =
        (0..20).map(|n| format!("map-{n}")).chain(["brief".into(), "late".into()]).collect();
    let all: BTreeSet<String> = all.iter().map(|name| stage.key(name)).collect();
    second.wait_for("all keys to be reconciled", SOON, || keys(&begins(&second)) == all)?;
    // Also those that the standby saw come and go, and never told of.
    for gone in ["brief", "map-0"] {
        let message = format!("delete {}", stage.key(gone));
        second.wait_for(&message, SOON, || handled(&second, &message))?;
    }
    for name in (1..20).map(|map| format!("map-{map}")).chain(["late".to_owned()]) {
        let message = format!("add {}", stage.key(&name));
        second.wait_for(&message, SOON, || handled(&second, &message))?;
        assert_eq!(loglines::said(&second, "handlers", &message).len(), 1);
    }
    one_after_the_other(&first, &second)
}

fn a_standby_takes_over_long_before_the_lease_ends_after_a_clean_exit(server: Server) -> Result<()> {
    let stage = Candidates::set(server, "leader-exits", 20)?;
    let slow = json!({"mode": "slow", "milliseconds": 500});
    let first = stage.host(stage.options(LONG), slow)?;
    wait_role(&first, "leader", SOON)?;
    let second = stage.host(stage.options(LONG), json!({}))?;
    stage.wait_cached(&second, 20)?;
    first.wait_for("a call", SOON, || !begins(&first).is_empty())?;

    first.signal(Signal::TERM)?;
    let status = first.wait_exit(SOON)?;
    ensure!(status.code() == Some(0), "{status}: {}", first.log().tail(20));
    wait_role(&second, "leader", SOON)?;
    second.wait_for("all keys to be reconciled", SOON, || keys(&begins(&second)).len() == 20)?;
    // The work had ended when the lease was released.
    let released = loglines::events(&first, "lease_released");
    let released = released.first().context("nothing is said of a release")?;
    let ends = loglines::said(&first, "probe", "end");
    assert_eq!(ends.len(), begins(&first).len());
    assert!(ends.iter().all(|end| end.timestamp <= released.timestamp));
    assert!(begins(&second).iter().all(|begin| begin.timestamp >= released.timestamp));
    let lease =
        stage.cluster.get("coordination.k8s.io/v1/Lease", stage.namespace, "hosts")?.context("no lease")?;
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    Ok(())
}

fn a_leader_whose_calls_have_not_ended_when_it_does_keeps_the_lease(server: Server) -> Result<()> {
    // Because the grace is over, and because it is told a second time.
    for (namespace, grace, signals) in [("leader-late", 1, 1), ("leader-told-twice", 600, 2)] {
        let stage = Candidates::set(server, namespace, 1)?;
        let mut options = stage.options(LONG);
        options.args.push(format!("--shutdown-timeout={grace}"));
        let host = Host::start(options)?;
        let config = json!({"mode": "slow", "milliseconds": 600_000, "namespaces": [namespace]});
        let limits = json!({"callTimeout": "10m", "cpuPerCall": "10m"});
        let manifest = Manifest::new("probe").reads(&["configmaps"], namespace).config(config).limits(limits);
        host.install("probe", &guests::wasm("probe")?, Some(&manifest.to_string()))?;
        let view = wait_role(&host, "leader", SOON)?;
        host.wait_for("a call", SOON, || !begins(&host).is_empty())?;
        host.signal(Signal::TERM)?;
        for _ in 1..signals {
            // One that comes at the same time as another would not count.
            host.wait_for("the host to have heard", SOON, || {
                !loglines::events(&host, "shutdown_started").is_empty()
            })?;
            host.signal(Signal::TERM)?;
        }
        let status = host.wait_exit(SOON)?;
        ensure!(status.code() == Some(0), "{status}: {}", host.log().tail(20));
        let lease =
            stage.cluster.get("coordination.k8s.io/v1/Lease", namespace, "hosts")?.context("no lease")?;
        assert_eq!(lease["spec"]["holderIdentity"], view["identity"], "{}", host.log().tail(20));
        assert_eq!(loglines::events(&host, "lease_not_released").len(), 1);
    }
    Ok(())
}

/// A key that is reconciled ten times a second.
fn busy(stage: &Candidates) -> Value {
    json!({"schedule": {"every": "100ms", "key": stage.key("again")}})
}

fn a_leader_that_cannot_renew_ends_with_an_error_before_another_works(server: Server) -> Result<()> {
    let stage = Candidates::set(server, "leader-cut-off", 3)?;
    let proxy = Proxy::start(stage.plane.address())?;
    let options = HostOptions { kubeconfig: stage.plane.kubeconfig_via(&proxy)?, ..stage.options(SHORT) };
    let first = stage.host(options, busy(&stage))?;
    wait_role(&first, "leader", SOON)?;
    let second = stage.host(stage.options(SHORT), busy(&stage))?;
    wait_role(&second, "standby", SOON)?;
    first.wait_for("the leader to be at work", SOON, || begins(&first).len() > 10)?;

    proxy.stall();
    let status = first.wait_exit(SOON)?;
    assert_eq!(status.code(), Some(1), "{status}");
    let said = first.log().matching("error: leader election lost: ");
    assert_eq!(said.len(), 1, "{}", first.log().tail(20));
    wait_role(&second, "leader", SOON)?;
    // The first ends at its renew deadline; nobody else leads before that.
    let (lost, elected) =
        (loglines::events(&first, "leader_election_lost"), loglines::events(&second, "leader_elected"));
    let (lost, elected) = (lost.first().context("not lost")?, elected.first().context("not elected")?);
    assert!(lost.timestamp < elected.timestamp, "{lost:?} {elected:?}");
    second.wait_for("the second to work", SOON, || begins(&second).len() > 10)?;
    one_after_the_other(&first, &second)
}

fn a_leader_that_was_stopped_begins_nothing_when_it_goes_on(server: Server) -> Result<()> {
    let stage = Candidates::set(server, "leader-stopped", 3)?;
    // Always in a call, with the next key waiting.
    let mut always = busy(&stage);
    always["mode"] = json!("slow");
    always["milliseconds"] = json!(5000);
    let first = stage.host(stage.options(SHORT), always)?;
    wait_role(&first, "leader", SOON)?;
    let second = stage.host(stage.options(SHORT), busy(&stage))?;
    wait_role(&second, "standby", SOON)?;
    // At the beginning of one, and not between the look at the clock and the call: that one could begin when it wakes.
    let before = begins(&first).len();
    first.wait_for("another call", SOON, || begins(&first).len() > before)?;

    first.signal(Signal::STOP)?;
    wait_role(&second, "leader", SOON)?;
    second.wait_for("the second to work", SOON, || begins(&second).len() > 10)?;
    first.signal(Signal::CONT)?;
    let status = first.wait_exit(SOON)?;
    assert_eq!(status.code(), Some(1), "{status}");
    one_after_the_other(&first, &second)?;
    // The second goes on.
    let before = begins(&second).len();
    second.wait_for("the second to work on", SOON, || begins(&second).len() > before + 10)
}

fn a_standby_forgets_what_went_long_ago_and_tells_of_what_went_right_before_its_term(
    server: Server,
) -> Result<()> {
    let passing = match server {
        Server::Development => 5000,
        Server::Real => 1000,
    };
    let stage = Candidates::set(server, "leader-churn", 10)?;
    let options = || {
        let mut options = stage.options(SHORT);
        // What goes away is remembered until the leader was seen so much more than the lease duration later.
        options.args.push("--shutdown-timeout=1".to_owned());
        options
    };
    let first = stage.host(options(), json!({}))?;
    stage.add_handlers(&first)?;
    wait_role(&first, "leader", SOON)?;
    let second = stage.host(options(), json!({}))?;
    stage.add_handlers(&second)?;
    wait_role(&second, "standby", SOON)?;
    stage.wait_cached(&second, 10)?;

    let remembered = || figure(&second, "pilothouse_standby_remembered_keys");
    // The rings of the two plugins with handlers.
    let waiting = || figure(&second, "pilothouse_listener_depth");
    let keeps = stage.handlers("keeps", "keep", 1).to_string();
    second.install("keeps", &guests::wasm("handlers")?, Some(&keeps))?;
    plugins::wait_running(&second, "keeps")?;
    assert_eq!((remembered()?, waiting()?), (0.0, 20.0));
    let mut most = 0.0_f64;
    for batch in 0..passing / 100 {
        let names = || (0..100).map(|n| format!("passing-{}", batch * 100 + n));
        names().try_for_each(|name| stage.cluster.config_map(stage.namespace, &name).map(drop))?;
        names().try_for_each(|name| stage.cluster.delete("v1/ConfigMap", stage.namespace, &name))?;
        most = most.max(remembered()?);
        assert_eq!(figure(&second, "workqueue_depth")?, 0.0);
    }
    stage.wait_cached(&second, 10)?;
    ensure!(
        most > 0.0 && remembered()? > 0.0 && waiting()? > 20.0,
        "{most}, {}, {}",
        remembered()?,
        waiting()?
    );
    let forgotten = Instant::now();
    second.wait_for("the standby to forget", 2 * SOON, || match (remembered()?, waiting()?) {
        (0.0, 20.0) => Ok(true),
        (remembered, waiting) => bail!("{remembered} keys, {waiting} events"),
    })?;
    eprintln!(
        "{server:?}: {passing} came and went, {most} were remembered, none after {:?}",
        forgotten.elapsed()
    );

    // The leader does not see it any more.
    first.signal(Signal::STOP)?;
    stage.cluster.delete("v1/ConfigMap", stage.namespace, "map-0")?;
    stage.wait_cached(&second, 9)?;
    assert_eq!((remembered()?, figure(&second, "workqueue_depth")?), (1.0, 0.0));
    // Nothing is lost, and nothing grows, over new generations.
    for version in 2..5 {
        for (name, on_reload) in [("handlers", "resync"), ("keeps", "keep")] {
            let manifest = stage.handlers(name, on_reload, version).to_string();
            second.install_manifest(name, &manifest)?;
            plugins::wait_until(&second, name, "reloaded", |status| status.generation == version as u64)?;
        }
        // What is there, and what went; unless the machine is so busy that the term has begun.
        let held = (remembered()?, waiting()?);
        ensure!(
            held == (1.0, 20.0) || election(&second)?["role"] == "leader",
            "generation {version}: {held:?}"
        );
    }
    first.signal(Signal::KILL)?;
    wait_role(&second, "leader", SOON)?;
    let all: BTreeSet<String> = (0..10).map(|n| stage.key(&format!("map-{n}"))).collect();
    second.wait_for("all keys to be reconciled", SOON, || keys(&begins(&second)) == all)?;
    for plugin in ["handlers", "keeps"] {
        let told = |what: &str, map: usize| {
            let message = format!("{what} {}", stage.key(&format!("map-{map}")));
            second.wait_for(&message, SOON, || !loglines::said(&second, plugin, &message).is_empty())?;
            // The other one is told again of everything if the term begins before its last generation does.
            let times = loglines::said(&second, plugin, &message).len();
            ensure!(times == 1 || plugin == "handlers", "{plugin}: {message} {times} times");
            anyhow::Ok(())
        };
        told("delete", 0)?;
        (1..10).try_for_each(|map| told("add", map))?;
        assert!(!loglines::of_plugin(&second, plugin).iter().any(|line| line.message.contains("passing")));
    }
    assert_eq!((keys(&begins(&second)), remembered()?), (all, 0.0));
    Ok(())
}

fn operators_see_who_leads(server: Server) -> Result<()> {
    let stage = Candidates::set(server, "leader-seen", 3)?;
    let usual = || HostOptions {
        args: vec!["--leader-elect".to_owned()],
        ..HostOptions::new(stage.plane.kubeconfig())
    };
    let first = stage.host(usual(), json!({}))?;
    let view = wait_role(&first, "leader", SOON)?;
    // The Lease's name and namespace unless told otherwise.
    assert_eq!((&view["lease"], &view["transitions"]), (&json!("default/pilothouse"), &json!(0)));
    let leader = view["identity"].as_str().context("no identity")?.to_owned();
    let second = stage.host(usual(), json!({}))?;
    second.wait_for("the second to know the first", SOON, || {
        Ok::<_, anyhow::Error>(election(&second)?["leader"] == leader)
    })?;

    let name = [("name", "default/pilothouse")];
    for (host, status, ready) in [
        (&first, 1.0, "ok, leader\n".to_owned()),
        (&second, 0.0, format!("ok, standby: the leader is {leader}\n")),
    ] {
        // A standby is ready: it is what a rolling update waits for.
        host.wait_for("the host to be ready", SOON, || {
            host.get("/readyz").map(|answer| answer.status == 200)
        })?;
        assert_eq!(host.get("/readyz")?.body, ready);
        assert_eq!(host.get("/livez")?.body, "ok\n");
        let metrics = host.metrics()?;
        assert_eq!(metrics.sum("leader_election_master_status", &name), Some(status));
        assert_eq!(metrics.sum("leader_election_slowpath_total", &name), Some(0.0));
        let address = host.admin().to_owned();
        let finished = cli::pilothouse(host, &["status", "--admin", &address])?;
        let begins = ready.trim_start_matches("ok, ").trim_end();
        assert!(
            finished.stdout.starts_with(begins) && finished.stdout.contains("\nNAME"),
            "{}",
            finished.stdout
        );
    }
    // The first releases what others would wait for.
    first.signal(Signal::TERM)?;
    ensure!(first.wait_exit(SOON)?.success());
    wait_role(&second, "leader", SOON)?;
    second.signal(Signal::TERM)?;
    ensure!(second.wait_exit(SOON)?.success());
    Ok(())
}

fn a_run_with_options_that_cannot_work_says_why_in_one_line(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let folder = host.plugins_dir();
    let (plugins, kubeconfig) = (folder.display().to_string(), plane.kubeconfig().display().to_string());
    let run = ["run", "--plugins", &plugins, "--kubeconfig", &kubeconfig, "--listen", "127.0.0.1:0"];
    let args = ["--leader-elect", "--leader-elect-lease-duration", "8s"];
    let finished = cli::pilothouse(&host, &[&run[..], &args].concat())?;
    let said = finished.stderr.trim_end();
    assert_eq!((finished.status.code(), finished.stdout.as_str()), (Some(1), ""), "{said}");
    let words = "error: --leader-elect-lease-duration: 8s is not longer than the renew deadline, 10s; ";
    assert!(said.starts_with(words) && said.lines().count() == 1, "{said}");
    Ok(())
}
