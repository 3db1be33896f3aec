//! Who is told what.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pilothouse_election::{Ended, LeaderCallbacks, LeaderElector};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::memory::{Fault, Server, Way};
use crate::support::{Running, SECOND, config, settle, until};

#[tokio::test(start_paused = true)]
async fn each_new_leader_is_told_once() {
    let server = Server::default();
    let watcher = Running::start(&server, "w");
    watcher.leads().await;
    let a = Running::start(&server, "a");
    sleep(SECOND * 30).await;
    assert_eq!(*a.leaders.lock().unwrap(), ["w"]);
    assert_eq!(watcher.end().await, Ended::Cancelled);
    a.leads().await;
    sleep(SECOND * 30).await;
    assert_eq!(*a.leaders.lock().unwrap(), ["w", "a"]);
    server.write(|record| record.holder_identity = "c".to_owned());
    until("it is told", || a.task.is_finished()).await;
    settle().await;
    assert_eq!(*a.leaders.lock().unwrap(), ["w", "a", "c"]);
    assert_eq!(a.status.leader(), "c");
}

#[tokio::test(start_paused = true)]
async fn who_is_told_holds_up_nothing() {
    let server = Server::default();
    let mut elector = LeaderElector::new(server.lock("a"), config("a")).unwrap();
    let (status, cancel) = (elector.status(), CancellationToken::new());
    let callbacks = LeaderCallbacks::new(|term| async move { term.cancelled().await })
        .on_new_leader(|_| panic!("a bad observer"));
    let stop = cancel.clone();
    let run = tokio::spawn(async move { elector.run(&cancel, callbacks).await });
    sleep(SECOND * 60).await;
    assert!(status.is_leader());
    stop.cancel();
    assert_eq!(run.await.unwrap(), Ended::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn the_end_is_told_also_to_one_that_never_led() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    let term = a.leads().await;
    let b = Running::start(&server, "b");
    sleep(SECOND * 10).await;
    let (told, terms) = (b.stopped.clone(), b.terms.clone());
    assert_eq!(*told.lock().unwrap(), 0);
    assert_eq!(b.end().await, Ended::Cancelled);
    assert_eq!((*told.lock().unwrap(), terms.lock().unwrap().len()), (1, 0));

    // And when the future is dropped.
    let told = a.stopped.clone();
    a.task.abort();
    settle().await;
    assert_eq!(*told.lock().unwrap(), 1);
    assert!(!term.is_leading() && term.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_leader_was_at_work_when_the_lock_was_last_seen_without_its_next_renewal() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    a.leads().await;
    assert_eq!(a.status.leader_at_work(), None, "nobody else has led");
    let cut = Arc::new(AtomicBool::new(false));
    let ways = Arc::clone(&cut);
    let way = move || Way {
        fault: if ways.load(Ordering::SeqCst) { Fault::Lost } else { Fault::None },
        ..Way::default()
    };
    let b = Running::with(server.lock("b").with_ways(Arc::new(way)), config("b"));
    settle().await;
    // It saw a record, and knows nothing of when that was written.
    assert_eq!(b.status.leader_at_work(), None);
    until("a renewal is seen", || b.status.leader_at_work().is_some()).await;
    sleep(SECOND * 60).await;
    let ago = b.status.leader_at_work().unwrap().elapsed();
    // The last two looks, and the renewal that was seen between them.
    assert!(ago <= SECOND * 11, "{ago:?}");

    // The lock cannot be read for an hour; the leader is gone soon after it was seen last, having renewed once more.
    let seen = Instant::now();
    cut.store(true, Ordering::SeqCst);
    sleep(SECOND * 3).await;
    a.task.abort();
    sleep(SECOND * 3600).await;
    cut.store(false, Ordering::SeqCst);
    until("b leads", || b.status.is_leader()).await;
    let at_work = b.status.leader_at_work().unwrap();
    assert!(at_work <= seen, "{:?} later", at_work - seen);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_released_is_no_sign_of_a_leader() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    a.leads().await;
    let b = Running::with(server.lock("b").watched(), config("b"));
    until("a renewal is seen", || b.status.leader_at_work().is_some()).await;
    a.end().await;
    let released = Instant::now();
    b.leads().await;
    sleep(SECOND * 60).await;
    assert!(b.status.leader_at_work().unwrap() < released);
}
