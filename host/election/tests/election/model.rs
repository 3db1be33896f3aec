//! Many candidates and a lock that is late, refuses, loses requests and answers, while candidates are stopped, resumed,
//! cancelled, killed and started: never do two lead by their own clocks, which run at one rate; and when the trouble is
//! over, one leads.
//!
//! Looked at is each moment at which the lock changes hands: no other leads then. As a term begins no earlier than the
//! write that the lock took, two terms that overlap would show.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_election::{ElectionStatus, LeaderCallbacks, LeaderElectionConfig, LeaderElector};
use proptest::prelude::*;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::memory::{Fault, Server, Way, Ways};
use crate::support::{SECOND, until};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// For how long there is trouble.
const TROUBLE: Duration = Duration::from_secs(300);

/// How one life of a candidate goes and ends.
#[derive(Debug, Clone)]
struct Life {
    lasts: Duration,
    /// Killed, or told to stop.
    killed: bool,
    /// Stopped from when, and for how long.
    stopped: (Duration, Duration),
    /// Time that the work takes to end.
    work: Duration,
    /// Whether it watches the lock.
    watched: bool,
}

fn milliseconds(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn ways() -> impl Strategy<Value = Vec<Way>> {
    let time =
        prop_oneof![4 => milliseconds(0..20), 2 => milliseconds(20..1500), 1 => milliseconds(1500..8000)];
    let fault = prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Refused),
        1 => Just(Fault::Lost),
        1 => Just(Fault::Unanswered)
    ];
    let way = (time.clone(), time, fault).prop_map(|(there, back, fault)| Way { there, back, fault });
    prop::collection::vec(way, 1..60)
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let life = (milliseconds(100..60_000), any::<bool>(), milliseconds(0..20_000), milliseconds(0..12_000))
        .prop_flat_map(|(lasts, killed, from, length)| {
            (milliseconds(0..3000), any::<bool>()).prop_map(move |(work, watched)| Life {
                lasts,
                killed,
                stopped: (from, length),
                work,
                watched,
            })
        });
    prop::collection::vec(life, 1..12)
}

/// Runs a future that stands still in between, as a process that was stopped does.
async fn stopped_between<F: Future>(future: F, from: Instant, until: Instant) -> F::Output {
    let mut future = pin!(future);
    let mut resumed: Option<Pin<Box<tokio::time::Sleep>>> = None;
    std::future::poll_fn(|context| {
        let now = Instant::now();
        if now >= from && now < until {
            let wake = resumed.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            std::task::ready!(wake.as_mut().poll(context));
        }
        future.as_mut().poll(context)
    })
    .await
}

/// The candidates that ever were, by the names they wrote.
#[derive(Default)]
struct All(Mutex<Vec<ElectionStatus>>);

impl All {
    /// Those that lead by their own clocks, except one.
    fn leading_beside(&self, identity: &str) -> Vec<String> {
        let all = self.0.lock().unwrap();
        let others = all.iter().filter(|status| status.identity() != identity && status.is_leader());
        others.map(|status| status.identity().to_owned()).collect()
    }
}

async fn live(server: &Server, all: &All, identity: String, ways: Ways, who: &'static str, life: &Life) {
    let lock = server.lock(who).with_ways(ways);
    let lock = if life.watched { lock.watched() } else { lock };
    let config = LeaderElectionConfig {
        lease_duration: SECOND * 5,
        renew_deadline: SECOND * 3,
        retry_period: SECOND / 2,
        ..LeaderElectionConfig::new(identity)
    };
    let mut elector = LeaderElector::new(lock, config).unwrap();
    all.0.lock().unwrap().push(elector.status());
    let cancel = CancellationToken::new();
    let work = life.work;
    let callbacks = LeaderCallbacks::new(move |term| async move {
        term.cancelled().await;
        sleep(work).await;
    });
    let from = Instant::now() + life.stopped.0;
    let run = stopped_between(elector.run(&cancel, callbacks), from, from + life.stopped.1);
    let mut run = pin!(run);
    if timeout(life.lasts, &mut run).await.is_err() && !life.killed {
        cancel.cancel();
        run.await;
    }
}

/// What a run has shown, so that one which shows nothing is noticed.
static TRANSITIONS: AtomicUsize = AtomicUsize::new(0);

async fn trouble(ways: Vec<Vec<Way>>, lives: Vec<Vec<Life>>) {
    let (server, all) = (Server::default(), Arc::new(All::default()));
    let two = Arc::new(Mutex::new(Vec::new()));
    server.hook({
        let (all, two, last) = (Arc::clone(&all), Arc::clone(&two), Mutex::new(String::new()));
        move |_, record| {
            // Who releases does not lead any more either.
            let leading = all.leading_beside(&record.holder_identity);
            if !leading.is_empty() {
                two.lock().unwrap().push((leading, record.clone()));
            }
            let mut last = last.lock().unwrap();
            if *last != record.holder_identity {
                record.holder_identity.clone_into(&mut last);
                TRANSITIONS.fetch_add(1, SeqCst);
            }
        }
    });
    let began = Instant::now();
    let mut tasks = Vec::new();
    for (who, (ways, lives)) in NAMES.into_iter().zip(ways.into_iter().zip(lives)) {
        let (server, all, at) = (server.clone(), Arc::clone(&all), AtomicUsize::new(0));
        let draw: Ways = Arc::new(move || {
            // The trouble is over.
            if began.elapsed() > TROUBLE {
                Way::default()
            } else {
                ways[at.fetch_add(1, SeqCst) % ways.len()]
            }
        });
        tasks.push(tokio::spawn(async move {
            for (number, life) in lives.iter().cycle().enumerate() {
                let life = match began.elapsed() {
                    time if time < TROUBLE => life.clone(),
                    now => Life { lasts: now + TROUBLE, stopped: Default::default(), ..life.clone() },
                };
                live(&server, &all, format!("{who}-{number}"), Arc::clone(&draw), who, &life).await;
            }
        }));
    }
    sleep(TROUBLE + SECOND * 100).await;
    let one = || all.leading_beside("").len() == 1;
    let led = Instant::now();
    until("one leads", one).await;
    assert!(led.elapsed() < SECOND * 20, "{:?}", led.elapsed());
    for _ in 0..100 {
        sleep(SECOND / 10).await;
        assert!(one(), "nobody leads, or several");
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let two = two.lock().unwrap();
    assert!(two.is_empty(), "two leaders: {two:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn never_do_two_lead_and_one_does_when_the_trouble_is_over(
        ways in prop::collection::vec(ways(), NAMES.len()),
        lives in prop::collection::vec(lives(), NAMES.len()),
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let before = TRANSITIONS.load(SeqCst);
        runtime.block_on(trouble(ways, lives));
        let transitions = TRANSITIONS.load(SeqCst) - before;
        prop_assert!(transitions > 0);
    }
}
