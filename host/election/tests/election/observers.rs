//! Who is told what.

use pilothouse_election::{Ended, LeaderCallbacks, LeaderElector};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::memory::Server;
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
