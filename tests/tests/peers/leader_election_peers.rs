//! Our leader election on the Leases of both servers: beside client-go's, unmodified, on one Lease, which alternates
//! correctly; and what it leaves alone in a Lease.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use pilothouse_election::{
    ElectionStatus, Ended, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, LeaseLock,
};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::process::{Process, Stream};
use pilothouse_tests::{Cluster, ControlPlane, Signal, clientgo, informers, poll};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pilothouse_tests::on_both_servers!(
    client_go_s_election_and_ours_alternate_on_one_lease,
    what_others_put_into_a_lease_stays_there,
    a_lease_that_is_deleted_is_made_anew_by_its_leader,
);

const KIND: &str = "coordination.k8s.io/v1/Lease";
/// So long that a leader on a busy machine does not lose it.
const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(1);

/// From when to when somebody led, in nanoseconds since 1970.
type Terms = Vec<(String, u128, u128)>;

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}

/// One of ours, within this process.
struct Ours {
    status: ElectionStatus,
    cancel: CancellationToken,
    task: JoinHandle<Ended>,
    /// When it began and ceased to lead.
    term: Arc<Mutex<(Option<u128>, Option<u128>)>>,
}

impl Ours {
    fn start(runtime: &Runtime, plane: &ControlPlane, namespace: &str, identity: &str) -> Result<Ours> {
        let client = runtime.block_on(informers::client(plane.kubeconfig()))?;
        let config = LeaderElectionConfig {
            lease_duration: LEASE,
            renew_deadline: RENEW,
            retry_period: RETRY,
            ..LeaderElectionConfig::new(identity)
        };
        let mut elector = LeaderElector::new(LeaseLock::new(client, namespace, "lease")?, config)?;
        let (status, cancel) = (elector.status(), CancellationToken::new());
        let term = Arc::new(Mutex::new((None, None)));
        let callbacks = LeaderCallbacks::new({
            let term = Arc::clone(&term);
            move |leadership: Leadership| async move {
                term.lock().unwrap().0 = Some(now());
                leadership.cancelled().await;
                term.lock().unwrap().1 = Some(now());
            }
        });
        let token = cancel.clone();
        let task = runtime.spawn(async move { elector.run(&token, callbacks).await });
        Ok(Ours { status, cancel, task, term })
    }

    fn leads(&self) -> Result<()> {
        poll::until(&format!("{} to lead", self.status.identity()), SOON, || self.status.is_leader())
    }

    fn sees(&self, leader: &str) -> Result<()> {
        poll::until(&format!("{leader} to be seen"), SOON, || self.status.leader() == leader)?;
        ensure!(!self.status.is_leader());
        Ok(())
    }

    /// Stops it, with a release or without.
    fn stop(self, runtime: &Runtime, release: bool, terms: &mut Terms) -> Result<()> {
        if release {
            self.cancel.cancel();
            ensure!(runtime.block_on(self.task)? == Ended::Cancelled);
        } else {
            self.task.abort();
            let _ = runtime.block_on(self.task);
            poll::until("the work to end", SOON, || self.term.lock().unwrap().1.is_some())?;
        }
        let (began, ended) = *self.term.lock().unwrap();
        let (began, ended) = (began.context("it never led")?, ended.context("it did not stop")?);
        terms.push((self.status.identity().to_owned(), began, ended));
        Ok(())
    }
}

/// One of client-go's, a process.
struct Theirs {
    process: Process,
    identity: &'static str,
}

impl Theirs {
    fn start(
        program: &Path,
        plane: &ControlPlane,
        namespace: &str,
        identity: &'static str,
    ) -> Result<Theirs> {
        let mut command = Command::new(program);
        command.arg(plane.kubeconfig()).args([namespace, "lease", identity]);
        command.args([LEASE, RENEW, RETRY].map(|time| format!("{}ms", time.as_millis())));
        Ok(Theirs { process: Process::spawn(&mut command)?, identity })
    }

    fn time(&self, word: &str) -> Option<u128> {
        let word = format!("{word} ");
        self.process.output().find_map(Stream::Out, |line| line.strip_prefix(&word)?.parse().ok())
    }

    fn leads(&self) -> Result<()> {
        poll::until(&format!("{} to lead", self.identity), SOON, || self.time("leads").is_some())
    }

    fn sees(&self, leader: &str) -> Result<()> {
        let line = format!("leader {leader}");
        poll::until(&line, SOON, || !self.process.output().matching(&line).is_empty())?;
        ensure!(self.time("leads").is_none(), "{} leads as well", self.identity);
        Ok(())
    }

    /// Stops it, with a release or by a kill.
    fn stop(mut self, release: bool, terms: &mut Terms) -> Result<()> {
        if release {
            self.process.close_stdin();
            let status = self.process.wait_exit(SOON)?;
            ensure!(status.success(), "{status}: {}", self.process.output().tail(20));
        } else {
            self.process.signal(Signal::KILL)?;
            self.process.wait_exit(SOON)?;
        }
        let ended = if release { self.time("stops").context("it did not stop")? } else { now() };
        terms.push((self.identity.to_owned(), self.time("leads").context("it never led")?, ended));
        Ok(())
    }
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

fn client_go_s_election_and_ours_alternate_on_one_lease(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let (cluster, namespace) = (Cluster::of(plane)?, "alternate");
    cluster.namespace(namespace)?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("elector");
    clientgo::build("./elector", &program)?;
    let runtime = runtime()?;
    let ours = |identity| Ours::start(&runtime, plane, namespace, identity);
    let theirs = |identity| Theirs::start(&program, plane, namespace, identity);
    let holder = |expected: &str, transitions: u64| -> Result<()> {
        let lease = cluster.get(KIND, namespace, "lease")?.context("no lease")?;
        let spec = &lease["spec"];
        ensure!(spec["holderIdentity"] == expected && spec["leaseTransitions"] == transitions, "{spec}");
        Ok(())
    };
    let mut terms = Terms::new();

    // By release, from ours to theirs and back.
    let first = ours("ours-1")?;
    first.leads()?;
    let second = theirs("theirs-2")?;
    second.sees("ours-1")?;
    holder("ours-1", 0)?;
    first.stop(&runtime, true, &mut terms)?;
    second.leads()?;
    holder("theirs-2", 1)?;
    let third = ours("ours-3")?;
    third.sees("theirs-2")?;
    second.stop(true, &mut terms)?;
    third.leads()?;
    holder("ours-3", 2)?;

    // By expiry, from ours to theirs and back.
    let fourth = theirs("theirs-4")?;
    fourth.sees("ours-3")?;
    third.stop(&runtime, false, &mut terms)?;
    fourth.leads()?;
    holder("theirs-4", 3)?;
    let fifth = ours("ours-5")?;
    fifth.sees("theirs-4")?;
    fourth.stop(false, &mut terms)?;
    fifth.leads()?;
    holder("ours-5", 4)?;
    fifth.stop(&runtime, true, &mut terms)?;
    holder("", 4)?;

    // As both logs have it.
    let waits: Vec<f64> = terms.windows(2).map(|pair| (pair[1].1 as f64 - pair[0].2 as f64) / 1e9).collect();
    eprintln!("{server:?}: seconds without a leader, after two releases and two ends without: {waits:.3?}");
    for pair in terms.windows(2) {
        ensure!(pair[0].1 < pair[0].2 && pair[0].2 < pair[1].1, "two leaders at once: {pair:?}");
    }
    // A lease is left to its holder until it has run out, but for the time since it was renewed last: the renew deadline at
    // most, which client-go's counts from its next round on.
    let least = (LEASE - RENEW - RETRY).as_secs_f64();
    ensure!(waits[2..].iter().all(|wait| *wait > least), "{waits:?}");
    // After a release nobody waits for the end of the lease; otherwise not much longer. (That ours does not wait for its
    // next try either is shown on a paused clock.)
    let lease = LEASE.as_secs_f64();
    ensure!(waits[..2].iter().all(|wait| *wait < lease / 2.0), "{waits:?}");
    ensure!(waits[2..].iter().all(|wait| *wait < lease * 2.0), "{waits:?}");
    Ok(())
}

fn what_others_put_into_a_lease_stays_there(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let (cluster, namespace) = (Cluster::of(plane)?, "lease-kept");
    cluster.namespace(namespace)?;
    let owner = cluster.config_map(namespace, "owner")?;
    let owners = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    cluster.create(&json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "namespace": namespace, "name": "lease", "labels": {"a": "b"}, "annotations": {"c": "d"},
            "ownerReferences": owners,
        },
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 1, "leaseTransitions": 7},
    }))?;
    let runtime = runtime()?;
    let ours = Ours::start(&runtime, plane, namespace, "ours")?;
    ours.leads()?;
    // A label that is set while it leads costs it a conflict, and is kept as well.
    cluster.merge(KIND, namespace, "lease", &json!({"metadata": {"labels": {"e": "f"}}}))?;
    poll::until("a renewal after a conflict", SOON, || ours.status.figures().slowpath_total > 0)?;
    let token = ours.status.leadership().context("no term")?.token().clone();
    ensure!(ours.status.is_leader());
    ours.stop(&runtime, true, &mut Terms::new())?;
    let lease = cluster.get(KIND, namespace, "lease")?.context("no lease")?;
    let (meta, spec) = (&lease["metadata"], &lease["spec"]);
    assert_eq!(meta["labels"], json!({"a": "b", "e": "f"}));
    assert_eq!((&meta["annotations"], &meta["ownerReferences"]), (&json!({"c": "d"}), &owners));
    assert_eq!((token.transitions, Value::from(token.uid)), (8, meta["uid"].clone()));
    assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!(""), &json!(8)));
    assert_eq!(spec["leaseDurationSeconds"], 1);
    Ok(())
}

fn a_lease_that_is_deleted_is_made_anew_by_its_leader(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let (cluster, namespace) = (Cluster::of(plane)?, "lease-deleted");
    cluster.namespace(namespace)?;
    let runtime = runtime()?;
    let ours = Ours::start(&runtime, plane, namespace, "ours")?;
    ours.leads()?;
    let other = Ours::start(&runtime, plane, namespace, "other")?;
    other.sees("ours")?;
    let before = cluster.get(KIND, namespace, "lease")?.context("no lease")?;
    cluster.delete(KIND, namespace, "lease")?;
    let after = poll::until("the lease to be there again", SOON, || cluster.get(KIND, namespace, "lease"))?;
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(after["spec"]["holderIdentity"], "ours");
    // Renewed on, and not lost to the other.
    poll::until("a renewal", SOON, || {
        let lease = cluster.get(KIND, namespace, "lease")?.context("no lease")?;
        anyhow::Ok(lease["spec"]["renewTime"] != after["spec"]["renewTime"])
    })?;
    ensure!(ours.status.is_leader() && !other.status.is_leader());
    Ok(())
}
