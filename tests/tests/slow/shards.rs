//! Hosts with `--shards`: they share plugins, hand them over, and never both work on one; beside hosts without shards as well.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::audit::{self, Audit, ObjectRef};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::counted_maps::{self, CountedMaps};
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, Proxy, Signal, full, guests};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(hosts_share_plugins_and_one_that_ends_hands_its_own_over,);

pilothouse_tests::on_both_servers!(
    full:
    the_plugins_of_a_host_that_was_killed_go_on_at_the_other,
);

pilothouse_tests::on_the_real_server!(
    full:
    three_hosts_that_are_cut_off_stopped_and_killed_lose_no_key_and_never_write_together,
);

/// Lease duration, renew deadline and retry period.
pub(crate) type Times = [u64; 3];

const SHORT: Times = [12, 8, 2];
/// So long that no lease ends within a test: what moves was given up.
pub(crate) const LONG: Times = [3600, 1800, 20];
pub(crate) const SHARDS: usize = 16;
/// Plugins that each host must have before a test goes on.
pub(crate) const SOME: usize = 3;

pub(crate) fn args(namespace: &str, [lease, renew, retry]: Times, shards: bool) -> Vec<String> {
    let mut args = vec![
        "--leader-elect".to_owned(),
        format!("--lease={namespace}/hosts"),
        format!("--leader-elect-lease-duration={lease}s"),
        format!("--leader-elect-renew-deadline={renew}s"),
        format!("--leader-elect-retry-period={retry}s"),
    ];
    if shards {
        args.extend(["--shards".to_owned(), "--shard-join-delay=100ms".to_owned()]);
    }
    args
}

/// A namespace whose hosts share plugins that are called ten times a second.
struct Stage {
    plane: &'static ControlPlane,
    cluster: Cluster,
    namespace: &'static str,
    times: Times,
}

impl Stage {
    fn set(server: Server, namespace: &'static str, times: Times) -> Result<Stage> {
        let plane = ControlPlane::shared(server)?;
        let cluster = Cluster::of(plane)?;
        cluster.namespace(namespace)?;
        Ok(Stage { plane, cluster, namespace, times })
    }

    fn host(&self, shards: bool) -> Result<Host> {
        let args = args(self.namespace, self.times, shards);
        Host::start(HostOptions { args, ..HostOptions::new(self.plane.kubeconfig()) })
    }

    fn install(&self, host: &Host, name: &str) -> Result<()> {
        let key = format!("{}/{name}", self.namespace);
        let schedule = json!({"every": "100ms", "key": key});
        let config = json!({"namespaces": [self.namespace], "schedule": schedule});
        let manifest = Manifest::new(name).reads(&["configmaps"], self.namespace).config(config);
        host.install(name, &guests::wasm("probe")?, Some(&manifest.to_string()))?;
        plugins::wait_running(host, name).map(drop)
    }

    /// Installs plugins on both hosts until each has some of them, and all are at work. Returns their names.
    fn share_plugins(&self, hosts: [&Host; 2]) -> Result<Vec<String>> {
        let mut names = Vec::new();
        loop {
            let name = format!("p{}", names.len());
            hosts.iter().try_for_each(|host| self.install(host, &name))?;
            names.push(name);
            let held = hosts.map(|host| Ok(of_host(host)?.len()));
            let [first, second]: [Result<usize>; 2] = held;
            if first? >= SOME && second? >= SOME {
                break;
            }
            ensure!(names.len() < 60, "the plugins are not shared");
        }
        for name in &names {
            hosts[0].wait_for(&format!("{name} to be at work"), SOON, || {
                hosts.iter().any(|host| !begins(host, name).is_empty())
            })?;
        }
        Ok(names)
    }
}

fn election(host: &Host) -> Result<Value> {
    host.plugins()?.get("election").cloned().context("/plugins says nothing of an election")
}

/// The shards that a host has, as it says itself.
fn held(host: &Host) -> Result<u64> {
    election(host)?["shards"]["held"].as_u64().context("no shards")
}

pub(crate) fn wait_held(host: &Host, shards: usize) -> Result<()> {
    host.wait_for(&format!("the host to have {shards} shards"), SOON, || match held(host)? {
        held if held == shards as u64 => Ok(true),
        held => bail!("{held}"),
    })
}

/// The plugins whose shards a host has, as it says itself.
pub(crate) fn of_host(host: &Host) -> Result<Vec<String>> {
    let own = election(host)?["identity"].clone();
    let plugins = host.plugins()?["plugins"].as_array().cloned().unwrap_or_default();
    let own = plugins.iter().filter(|plugin| plugin["holder"] == own);
    Ok(own.filter_map(|plugin| Some(plugin["name"].as_str()?.to_owned())).collect())
}

fn begins(host: &Host, plugin: &str) -> Vec<Timestamp> {
    loglines::said(host, plugin, "begin").iter().map(|line| line.timestamp).collect()
}

/// For each plugin that both worked on: the seconds from the last call of the first to the first one of the second.
fn handed_over(first: &Host, second: &Host, names: &[String]) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    for name in names {
        let (last, next) = (begins(first, name).into_iter().max(), begins(second, name).into_iter().min());
        let next = next.with_context(|| format!("the second never worked on {name}"))?;
        if let Some(last) = last {
            ensure!(last < next, "two work on {name} at once: {last} and {next}");
            took.push(next.duration_since(last).as_secs_f64());
        }
    }
    took.sort_by(f64::total_cmp);
    Ok(took)
}

/// The Leases of hosts.
fn host_leases(stage: &Stage) -> Result<Vec<String>> {
    let leases = stage.cluster.list("coordination.k8s.io/v1/Lease", stage.namespace)?;
    let names = leases.iter().filter_map(|lease| lease["metadata"]["name"].as_str());
    Ok(names.filter(|name| name.starts_with("hosts-host-")).map(str::to_owned).collect())
}

fn hosts_share_plugins_and_one_that_ends_hands_its_own_over(server: Server) -> Result<()> {
    let stage = Stage::set(server, "shards-ends", LONG)?;
    // A host without shards leads: it is waited for.
    let old = stage.host(false)?;
    stage.install(&old, "p0")?;
    old.wait_for("the old host to work", SOON, || !begins(&old, "p0").is_empty())?;
    let first = stage.host(true)?;
    stage.install(&first, "p0")?;
    let leader = election(&old)?["identity"].as_str().context("no identity")?.to_owned();
    let waits = format!("ok, standby: no shards while {leader} holds the Lease\n");
    first.wait_for("the first to wait for it", SOON, || match first.get("/readyz")?.body {
        body if body == waits => Ok(true),
        body => bail!("{body}"),
    })?;
    assert_eq!(held(&first)?, 0);
    old.signal(Signal::TERM)?;
    ensure!(old.wait_exit(SOON)?.success());
    wait_held(&first, SHARDS)?;
    first.wait_for("the first to work", SOON, || !begins(&first, "p0").is_empty())?;
    handed_over(&old, &first, &["p0".to_owned()])?;

    let second = stage.host(true)?;
    let names = stage.share_plugins([&first, &second])?;
    assert_eq!(held(&first)? + held(&second)?, SHARDS as u64);
    let moved = of_host(&first)?;
    assert_eq!(host_leases(&stage)?.len(), 2);

    first.signal(Signal::TERM)?;
    ensure!(first.wait_exit(SOON)?.success(), "{}", first.log().tail(20));
    wait_held(&second, SHARDS)?;
    for name in &names {
        second.wait_for(&format!("{name} to go on"), SOON, || !begins(&second, name).is_empty())?;
    }
    let took = handed_over(&first, &second, &names)?;
    assert!(took.len() >= moved.len());
    eprintln!("{server:?}: handed over in {took:.3?} s, calls every 100 ms included");
    // Not because a lease was over: none was, and none is left.
    assert_eq!(host_leases(&stage)?.len(), 1);
    assert!(loglines::events(&first, "lease_not_released").is_empty());
    // One that is started again without shards stands by.
    let old = stage.host(false)?;
    old.wait_for("the old host to stand by", SOON, || match election(&old)? {
        view if view["leader"] == "pilothouse-shards/16" && view["role"] == "standby" => Ok(true),
        view => bail!("{view}"),
    })?;
    let ready = old.get("/readyz")?;
    ensure!(ready.status == 503 && ready.body.contains("--shards=16"), "{}", ready.body);
    Ok(())
}

fn the_plugins_of_a_host_that_was_killed_go_on_at_the_other(server: Server) -> Result<()> {
    let stage = Stage::set(server, "shards-killed", SHORT)?;
    let first = stage.host(true)?;
    let second = stage.host(true)?;
    let names = stage.share_plugins([&first, &second])?;
    let of_first = of_host(&first)?;
    for name in &of_first {
        stage.cluster.config_map(stage.namespace, &format!("of-{name}"))?;
    }
    first.signal(Signal::KILL)?;
    let killed = Instant::now();
    wait_held(&second, SHARDS)?;
    let took = killed.elapsed();
    let [lease, renew, _] = stage.times.map(Duration::from_secs);
    ensure!(took > lease - renew, "{took:?}");
    let made = format!("{}/of-", stage.namespace);
    for name in &of_first {
        second.wait_for(&format!("{name} to get all keys"), SOON, || {
            let lines = loglines::said(&second, name, "begin").into_iter();
            let keys: BTreeSet<String> =
                lines.map(|line| line.key).filter(|key| key.starts_with(&made)).collect();
            keys.len() == of_first.len()
        })?;
    }
    let took_plugins = handed_over(&first, &second, &names)?;
    eprintln!("{server:?}: taken over {took:?} after a kill; plugins after {took_plugins:.3?} s");
    Ok(())
}

/// One of three hosts behind a proxy of its own, with a user of its own.
struct Member {
    user: String,
    proxy: Proxy,
    options: HostOptions,
    host: Option<Host>,
    stopped: bool,
}

/// Plugins that have a namespace each.
const COUNTERS: usize = 8;
const KEYS: u64 = 20;
const MEMBERS: usize = 3;
const NAMESPACE: &str = "shards-cut";
/// How long there is trouble.
const TROUBLE: Duration = Duration::from_secs(600);

fn counter(number: usize) -> String {
    format!("counter-{number}")
}

/// The namespaces of the counters, and those of the teams.
fn namespace(number: usize) -> String {
    format!("{NAMESPACE}-{number}")
}

/// A kubeconfig for a host that is a user of its own, through a proxy of its own.
pub(crate) fn kubeconfig_of(plane: &ControlPlane, proxy: &Proxy, user: &str) -> Result<PathBuf> {
    let kubeconfig = plane.kubeconfig_via(proxy)?;
    let text = std::fs::read_to_string(&kubeconfig)?;
    let certificate = "    client-certificate-data:";
    ensure!(text.contains(certificate), "the kubeconfig has another form");
    let acts = format!("    as: {user}\n    as-groups: [system:masters]\n{certificate}");
    std::fs::write(&kubeconfig, text.replace(certificate, &acts))?;
    Ok(kubeconfig)
}

impl Member {
    fn new(plane: &ControlPlane, number: usize) -> Result<Member> {
        let proxy = Proxy::start(plane.address())?;
        let user = format!("host-{number}");
        let kubeconfig = kubeconfig_of(plane, &proxy, &user)?;
        let options = HostOptions { args: args(NAMESPACE, SHORT, true), ..HostOptions::new(&kubeconfig) };
        let mut member = Member { user, proxy, options, host: None, stopped: false };
        member.start()?;
        Ok(member)
    }

    fn start(&mut self) -> Result<()> {
        let host = Host::start(self.options.clone())?;
        for number in 0..COUNTERS {
            let manifest = counted_maps::manifest(&counter(number), &namespace(number));
            host.install(&counter(number), &guests::wasm("key-counter")?, Some(&manifest.to_string()))?;
        }
        self.host = Some(host);
        Ok(())
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        self.stopped = signal == Signal::STOP;
        self.host.as_ref().context("no host")?.signal(signal)
    }

    /// Ends it in one way or another, and starts another one.
    fn restart(&mut self, signal: Signal) -> Result<()> {
        if self.stopped {
            self.signal(Signal::CONT)?;
        }
        self.signal(signal)?;
        if let Some(host) = self.host.take() {
            host.wait_exit(SOON)?;
        }
        self.start()
    }

    /// What it could not send while it was cut off is lost, and not late.
    fn heal(&mut self) -> Result<()> {
        if self.stopped {
            self.signal(Signal::CONT)?;
        }
        self.proxy.cut();
        self.proxy.heal();
        Ok(())
    }
}

/// SplitMix64.
fn random(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % end
}

fn three_hosts_that_are_cut_off_stopped_and_killed_lose_no_key_and_never_write_together() -> Result<()> {
    let audit = Audit::start(Server::Real)?;
    let cluster = Cluster::of(audit.plane())?;
    cluster.namespace(NAMESPACE)?;
    for number in 0..COUNTERS {
        cluster.namespace(&namespace(number))?;
    }
    let mut members: Vec<Member> =
        (0..MEMBERS).map(|number| Member::new(audit.plane(), number)).collect::<Result<_>>()?;
    let mut seed = full::seed(11)?;
    let mut maps = CountedMaps::default();
    let began = Instant::now();
    let (mut next_trouble, mut troubles) = (began + SOON / 2, BTreeMap::<&str, usize>::new());
    while began.elapsed() < TROUBLE {
        let number = usize::try_from(random(&mut seed, COUNTERS as u64))?;
        maps.add_entry(&cluster, &namespace(number), &format!("map-{}", random(&mut seed, KEYS)))?;
        std::thread::sleep(Duration::from_millis(50));
        if Instant::now() < next_trouble {
            continue;
        }
        next_trouble = Instant::now() + Duration::from_secs(5 + random(&mut seed, 15));
        let at = usize::try_from(random(&mut seed, MEMBERS as u64))?;
        let (member, kind) = (&mut members[at], random(&mut seed, 6));
        let what = match kind {
            0 => {
                member.restart(Signal::KILL)?;
                "killed"
            }
            1 if !member.stopped => {
                member.heal()?;
                member.restart(Signal::TERM)?;
                "told to end"
            }
            2 => {
                member.signal(Signal::STOP)?;
                "stopped"
            }
            3 => {
                member.proxy.stall();
                "cut off"
            }
            _ => {
                member.heal()?;
                "healed"
            }
        };
        *troubles.entry(what).or_insert(0) += 1;
    }
    members.iter_mut().try_for_each(Member::heal)?;
    let healed = Instant::now();
    let first = members[0].host.as_ref().context("no host")?;
    first.wait_for("all keys to be counted", 2 * SOON, || {
        let lost = maps.miscounted(&cluster)?;
        ensure!(lost.is_empty(), "not counted: {lost:?}");
        Ok(true)
    })?;
    eprintln!("{} keys are right {:?} after the trouble; {troubles:?}", maps.count(), healed.elapsed());
    let refused: f64 = members
        .iter()
        .filter_map(|member| member.host.as_ref()?.metrics().ok()?.sum("pilothouse_late_writes_total", &[]))
        .sum();
    let shards = (0..COUNTERS)
        .map(|number| {
            Ok((counter(number), plugins::status(first, &counter(number))?.shard.context("no shard")?))
        })
        .collect::<Result<BTreeMap<_, _>>>()?;
    let users: Vec<&str> = members.iter().map(|member| member.user.as_str()).collect();
    let shard_of = |plugin: Option<&str>, _: &ObjectRef| shards.get(plugin?).copied();
    let seen = writes_in_terms(&audit.events()?, shard_of, &users)?;
    eprintln!("{seen:?}; {refused} writes were not sent by the hosts that live");
    ensure!(seen.claims > 2 * SHARDS && seen.writes > 100, "nothing happened: {seen:?}");
    for what in ["killed", "told to end", "stopped", "cut off"] {
        ensure!(troubles.contains_key(what), "nobody was {what}: {troubles:?}");
    }
    ensure!(seen.late.is_empty(), "writes while another host had the shard: {:#?}", seen.late);
    Ok(())
}

/// What the API server has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) claims: usize,
    pub(crate) writes: usize,
    /// For which plugin which host wrote; the kind of the object in place of the plugin, if the host wrote for itself.
    writers: BTreeSet<(String, String)>,
    pub(crate) late: Vec<String>,
}

impl Seen {
    /// How many hosts wrote for a plugin, or objects of a kind for themselves.
    pub(crate) fn writers_for(&self, what: &str) -> usize {
        self.writers.iter().filter(|(written, _)| written == what).count()
    }
}

/// Goes through the server's record in its order: a write that arrives while another host has the shard of its object is late.
pub(crate) fn writes_in_terms(
    events: &[audit::Event],
    shard_of: impl Fn(Option<&str>, &ObjectRef) -> Option<usize>,
    users: &[&str],
) -> Result<Seen> {
    let acting = |event: &audit::Event| Some(event.impersonated_user.as_ref()?.username.clone());
    let users_of: HashMap<&str, String> =
        events.iter().filter_map(|event| Some((event.audit_id.as_str(), acting(event)?))).collect();
    let mut holders: BTreeMap<usize, String> = BTreeMap::new();
    let mut seen = Seen::default();
    for event in events {
        let Some(user) = users_of.get(event.audit_id.as_str()).map(String::as_str) else { continue };
        let (Some(object), true) = (&event.object_ref, users.contains(&user)) else { continue };
        let is_done = event.stage == "ResponseComplete"
            && event.response_status.is_some_and(|response| response.code < 300);
        let shard = object.name.strip_prefix("hosts-shard-").and_then(|number| number.parse().ok());
        if let (Some(shard), true, true) =
            (shard, is_done, ["create", "update"].contains(&event.verb.as_str()))
        {
            let lease = event.request_object.as_ref().context("a write of a Lease without its body")?;
            // Without a holder the shard was given up.
            match lease["spec"]["holderIdentity"].as_str().unwrap_or_default() {
                "" => drop(holders.remove(&shard)),
                _ => {
                    seen.claims += 1;
                    holders.insert(shard, user.to_owned());
                }
            }
        }
        let plugin = event.user_agent.rsplit_once(" (").and_then(|(_, name)| name.strip_suffix(')'));
        let Some(shard) = shard_of(plugin, object) else { continue };
        if event.stage == "RequestReceived"
            && ["create", "update", "patch", "delete"].contains(&event.verb.as_str())
        {
            seen.writes += 1;
            seen.writers.insert((plugin.unwrap_or(&object.resource).to_owned(), user.to_owned()));
            if let Some(holder) = holders.get(&shard).filter(|holder| *holder != user) {
                seen.late.push(format!("{user} while {holder} has shard {shard}: {event:?}"));
            }
        }
    }
    Ok(seen)
}
