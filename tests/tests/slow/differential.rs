//! client-go's shared informer, unmodified, and ours on the same server with the same faults and the same writes: what
//! each tells of a key is a legal sequence of states that the key really had, and in the end both stores are what a
//! fresh list shows.
//!
//! `PILOTHOUSE_FULL=1` has the storm last longer, `PILOTHOUSE_SEED` repeats its writes and faults (not their timing).

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pilothouse_devserver::{Fault, FaultRule, When};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::informers::{self, Informer};
use pilothouse_tests::process::Process;
use pilothouse_tests::sequence::{self, Liberties, Told, View};
use pilothouse_tests::workload::Workload;
use pilothouse_tests::{Cluster, ControlPlane, Signal, clientgo, full, or_skip, poll};

const NAMESPACE: &str = "differential";
const KEYS: u64 = 30;
/// Between two writes.
const PACE: Duration = Duration::from_millis(5);
const SEED: u64 = 7;
const STORM: Duration = Duration::from_secs(120);
/// In the gate.
const SAMPLE: Duration = Duration::from_secs(10);
/// Events that each must have told of; the storm goes on until they have.
const ENOUGH: usize = 5 * KEYS as usize;
/// No storm takes longer until then, not even on a machine that other processes keep busy.
const PATIENCE: Duration = Duration::from_secs(1200);
/// client-go waits for up to 30 s, and twice that with jitter, after several failures.
const REST: Duration = Duration::from_secs(90);

/// What client-go tells that ours does not: an object created anew is an update of the old one to it, and it hands each
/// deletion on that a watch shows, also of what it does not hold.
const CLIENT_GO: Liberties = Liberties { uid_changes: true, deletes_again: true };

fn faults(seed: u64) -> Vec<FaultRule> {
    let on = |verbs: &[&str], share: f64, fault: Fault| FaultRule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        resources: vec!["configmaps".to_owned()],
        when: When { probability: Some(share), seed, ..When::default() },
        ..FaultRule::new(fault)
    };
    let status = |code, retry_after| Fault::Status { code, retry_after };
    let (reads, watches, lists) = (&["list", "watch"], &["watch"], &["list"]);
    vec![
        on(reads, 0.2, Fault::Delay { milliseconds: 50 }),
        on(watches, 0.1, Fault::Gone { after: None }),
        on(reads, 0.03, status(503, None)),
        on(reads, 0.05, status(429, Some(1))),
        on(reads, 0.03, Fault::Reset),
        on(lists, 0.1, Fault::Truncate),
        on(lists, 0.05, Fault::ContentType { value: "text/html".to_owned() }),
        on(watches, 0.3, Fault::Tear { after: 30 }),
        on(watches, 0.4, Fault::Gone { after: Some(50) }),
        on(watches, 0.5, Fault::Duplicate),
        // No watch outlasts the storm.
        on(watches, 1.0, Fault::Tear { after: 200 }),
    ]
}

/// A process with client-go's informer, which writes what it is told to a file.
struct ClientGo {
    process: Process,
    file: std::path::PathBuf,
}

impl ClientGo {
    fn start(plane: &ControlPlane, streaming: bool) -> Result<ClientGo> {
        let (binary, file) = (plane.dir().join("differential"), plane.dir().join("told"));
        clientgo::build("./differential", &binary)?;
        let mut command = Command::new(binary);
        command
            .arg(plane.kubeconfig())
            .arg(NAMESPACE)
            .arg(&file)
            .env("KUBE_FEATURE_WatchListClient", streaming.to_string());
        Ok(ClientGo { process: Process::spawn(&mut command)?, file })
    }

    fn lines(&self) -> Result<Vec<String>> {
        let text = std::fs::read_to_string(&self.file)?;
        // The last line may not be whole yet.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        Ok(text[..whole].lines().map(str::to_owned).collect())
    }

    fn told(&self) -> Result<Vec<Told>> {
        let of_events = |line: &&String| !line.starts_with("store ") && *line != "end";
        self.lines()?.iter().filter(of_events).map(|line| line.parse()).collect()
    }

    /// Stops the informer; what its store held.
    fn stop(mut self) -> Result<View> {
        self.process.close_stdin();
        let status = self.process.wait_exit(Duration::from_secs(30))?;
        ensure!(status.success(), "{status}: {}", self.process.output().tail(20));
        let lines = self.lines()?;
        ensure!(lines.last().is_some_and(|line| line == "end"), "it did not come to its end");
        let held = lines.iter().filter_map(|line| line.strip_prefix("store ")).map(|line| {
            let mut fields = line.split(' ').map(str::to_owned);
            let mut next = || fields.next().with_context(|| format!("{line:?}"));
            Ok((next()?, (next()?, next()?)))
        });
        held.collect()
    }
}

fn compare(streaming: bool) -> Result<()> {
    let (seed, storm) = (full::seed(SEED)?, full::or_sample(STORM, SAMPLE));
    let plane = ControlPlane::start(Options::on(Server::Development))?;
    let server = plane.development().context("it is the development server")?;
    Cluster::of(&plane)?.namespace(NAMESPACE)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let writer = runtime.block_on(informers::client(plane.kubeconfig()))?;
    let mut workload = Workload::new(writer, NAMESPACE, KEYS, seed);
    for _ in 0..KEYS {
        runtime.block_on(workload.write())?;
    }
    faults(seed).into_iter().for_each(|rule| _ = server.faults().add(rule));
    let theirs = ClientGo::start(&plane, streaming)?;
    let ours = Informer::start(&runtime, plane.kubeconfig(), NAMESPACE, streaming)?;

    let began = Instant::now();
    let mut writes: u64 = 0;
    runtime.block_on(async {
        let mut tick = tokio::time::interval(PACE);
        // Retries that are ever further apart may leave one of the two with little of it to tell for long.
        let is_over = |writes: u64| match began.elapsed() {
            lasted if lasted < storm => Ok(false),
            lasted if lasted > storm + PATIENCE => Ok(true),
            _ if !writes.is_multiple_of(100) => Ok(false),
            _ => anyhow::Ok(ours.told().len() > ENOUGH && theirs.told()?.len() > ENOUGH),
        };
        while !is_over(writes)? {
            tick.tick().await;
            workload.write().await?;
            writes += 1;
            if workload.below(300) == 0 {
                server.compact();
            }
        }
        anyhow::Ok(())
    })?;
    let ended = Instant::now();
    let hits: Vec<_> =
        server.faults().list().iter().map(|state| (format!("{:?}", state.rule.fault), state.hits)).collect();
    server.faults().clear();
    runtime.block_on(workload.put("last"))?;
    let truth = runtime.block_on(workload.list())?;
    // What is open began in the storm.
    plane.restart_apiserver(Signal::KILL)?;
    ours.settle(&truth, REST)?;
    let believed = || sequence::believe(&theirs.told()?, CLIENT_GO);
    let agrees = poll::until("client-go to know what a list shows", REST, || {
        believed().is_ok_and(|view| view == truth)
    });
    ensure!(believed()? == truth, "client-go told {:?}, is {truth:?}", believed()?);
    agrees?;

    let (our_told, their_told) = (ours.told(), theirs.told()?);
    eprintln!(
        "{writes} writes, {} events of ours, {} of client-go, all right {:?} after the storm; {hits:?}",
        our_told.len(),
        their_told.len(),
        ended.elapsed()
    );
    for (whose, told) in [("ours", &our_told), ("client-go", &their_told)] {
        ensure!(workload.invented(told).is_none(), "{whose}: {:?} was never so", workload.invented(told));
        ensure!(told.len() > ENOUGH, "{whose} told of too little to prove anything");
    }
    ensure!(hits.iter().map(|(_, hits)| hits).sum::<u64>() > 3, "too few faults struck");
    let (held_by_ours, held_by_theirs) = (ours.holds(), theirs.stop()?);
    ensure!(
        held_by_ours == truth && held_by_theirs == truth,
        "{held_by_ours:?}\n{held_by_theirs:?}\n{truth:?}"
    );
    ours.stop(&runtime)
}

#[test]
fn client_go_and_ours_tell_legal_sequences_and_end_equal_with_lists() -> Result<()> {
    or_skip(|| compare(false))
}

#[test]
fn client_go_and_ours_tell_legal_sequences_and_end_equal_with_streaming_lists() -> Result<()> {
    or_skip(|| compare(true))
}
