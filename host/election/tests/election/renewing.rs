//! How a term lasts and ends.

use std::time::Duration;

use pilothouse_election::{
    Ended, LeaderCallbacks, LeaderElectionConfig, LeaderElector, LeaderHealthzAdaptor,
};
use tokio::time::{Instant, advance, sleep};
use tokio_util::sync::CancellationToken;

use crate::memory::{Fault, Server, Verb, Way};
use crate::support::{Running, SECOND, config, settle, until};

/// No request of this kind comes back for a long time.
fn silence(server: &Server, count: usize) {
    for _ in 0..count {
        server.next(Verb::Update, Way { there: SECOND * 1000, ..Way::default() });
        server.next(Verb::Get, Way { there: SECOND * 1000, ..Way::default() });
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_every_retry_period_without_reading() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    let term = a.leads().await;
    let first = server.record();
    sleep(SECOND * 101).await;
    assert!(term.is_leading());
    assert_eq!((server.count(Verb::Get), server.count(Verb::Create)), (1, 1));
    let updates: Vec<Instant> =
        server.requests().iter().filter(|r| r.verb == Verb::Update).map(|r| r.at).collect();
    assert_eq!(updates.len(), 50);
    for pair in updates.windows(2) {
        assert!(pair[1] - pair[0] <= SECOND * 2 + Duration::from_millis(5));
    }
    let last = server.record();
    assert_eq!((last.acquire_time, last.leader_transitions), (first.acquire_time, 0));
    assert!(last.renew_time > first.renew_time);
    assert_eq!(a.status.figures().slowpath_total, 0);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_reads_first_and_counts_as_slow_path() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    let term = a.leads().await;
    // Somebody sets a label.
    server.touch();
    sleep(SECOND * 3).await;
    assert_eq!((server.count(Verb::Get), server.count(Verb::Update)), (2, 2));
    let figures = a.status.figures();
    assert_eq!((figures.name.as_str(), figures.master_status, figures.slowpath_total), ("ns/lock", true, 1));
    assert_eq!(server.record().leader_transitions, 0);
    assert!(term.is_leading());
}

#[tokio::test(start_paused = true)]
async fn a_term_ends_the_renew_deadline_after_its_last_good_renewal_was_sent() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    let term = a.leads().await;
    // This one is answered late, by which the term gains nothing.
    server.next(Verb::Update, Way { there: SECOND * 2, back: SECOND * 2, ..Way::default() });
    until("the renewal is sent", || server.count(Verb::Update) == 1).await;
    let sent = Instant::now();
    silence(&server, 9);
    until("the term ends", || !term.is_leading()).await;
    let lasted = sent.elapsed();
    assert!(lasted <= SECOND * 10 && lasted > SECOND * 99 / 10, "{lasted:?}");
    let Ended::Lost(why) = a.task.await.unwrap() else { panic!("not lost") };
    assert!(sent.elapsed() <= SECOND * 10 + Duration::from_millis(5), "{:?}", sent.elapsed());
    assert!(why.contains("no answer"), "{why}");
    assert!(term.is_cancelled() && !a.status.figures().master_status);
}

#[tokio::test(start_paused = true)]
async fn a_term_ends_by_the_clock_alone_when_nothing_runs() {
    let server = Server::default();
    let mut elector = LeaderElector::new(server.lock("a"), config("a")).unwrap();
    let status = elector.status();
    let cancel = CancellationToken::new();
    let callbacks = LeaderCallbacks::new(|term| async move { term.cancelled().await });
    let mut run = Box::pin(elector.run(&cancel, callbacks));
    tokio::select! {
        biased;
        _ = &mut run => panic!("it ended"),
        () = until("it leads", || status.is_leader()) => {}
    }
    // From here on the elector is not polled, as in a process that was stopped.
    let term = status.leadership().unwrap();
    advance(SECOND * 9).await;
    assert!(term.is_leading());
    advance(SECOND).await;
    assert!(!term.is_leading());
    // And when it wakes it does not go on as if nothing had been.
    assert!(matches!(run.await, Ended::Lost(_)));
    assert_eq!(server.count(Verb::Update), 0);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_tried_until_the_deadline() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    let term = a.leads().await;
    for fault in [Fault::Lost, Fault::Refused, Fault::Lost] {
        server.fail(Verb::Update, fault);
        server.fail(Verb::Get, fault);
    }
    sleep(SECOND * 60).await;
    assert!(term.is_leading());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_finds_another_holder_or_none_has_lost_at_once() {
    for holder in ["other", ""] {
        let server = Server::default();
        let a = Running::start(&server, "a");
        let term = a.leads().await;
        server.write(|record| holder.clone_into(&mut record.holder_identity));
        let changed = Instant::now();
        let Ended::Lost(why) = a.task.await.unwrap() else { panic!("not lost") };
        assert!(changed.elapsed() <= SECOND * 2 + Duration::from_millis(5));
        assert!(why.contains(if holder.is_empty() { "nobody" } else { holder }), "{why}");
        assert!(!term.is_leading());
        // It has not touched what it found.
        assert_eq!(server.holder(), holder);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_makes_a_deleted_lock_anew_with_the_same_count() {
    let server = Server::default();
    server.write(|record| record.leader_transitions = 6);
    let a = Running::start(&server, "a");
    let term = a.leads().await;
    server.delete();
    sleep(SECOND * 10).await;
    assert!(term.is_leading());
    assert_eq!((server.holder().as_str(), server.record().leader_transitions), ("a", 7));
    assert_eq!(server.count(Verb::Create), 1);
}

#[tokio::test(start_paused = true)]
async fn an_elector_can_run_again_and_waits_for_the_work_of_a_lost_term() {
    let server = Server::default();
    let mut elector = LeaderElector::new(server.lock("a"), config("a")).unwrap();
    let cancel = CancellationToken::new();
    let status = elector.status();
    server.next(Verb::Update, Way { fault: Fault::Refused, ..Way::default() });
    let lost = elector.run(
        &cancel,
        LeaderCallbacks::new(|term| async move {
            term.cancelled().await;
            sleep(SECOND * 100).await;
        }),
    );
    let taken = async {
        until("it leads", || status.is_leader()).await;
        server.write(|record| record.holder_identity.clear());
    };
    let (ended, ()) = tokio::join!(lost, taken);
    assert!(matches!(ended, Ended::Lost(_)));
    let began = Instant::now();
    let callbacks = LeaderCallbacks::new({
        let cancel = cancel.clone();
        move |_| async move { cancel.cancel() }
    });
    assert_eq!(elector.run(&cancel, callbacks).await, Ended::Cancelled);
    assert!(began.elapsed() >= SECOND * 99, "{:?}", began.elapsed());
    assert_eq!(status.leadership().unwrap().token().transitions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_work_panics_has_lost_and_releases() {
    let server = Server::default();
    let mut elector = LeaderElector::new(server.lock("a"), config("a")).unwrap();
    let (cancel, status) = (CancellationToken::new(), elector.status());
    let callbacks = LeaderCallbacks::new(|_| async {
        sleep(SECOND * 60).await;
        panic!("out of order");
    });
    let began = Instant::now();
    let run = tokio::time::timeout(SECOND * 600, elector.run(&cancel, callbacks));
    let Ended::Lost(why) = run.await.expect("it leads on") else { panic!("not lost") };
    assert!(why.contains("out of order"), "{why}");
    assert_eq!((began.elapsed().as_secs(), server.holder().as_str()), (60, ""));
    assert!(!status.is_leader());
    // It may compete again, and does not wait for what is over.
    let callbacks = LeaderCallbacks::new({
        let cancel = cancel.clone();
        move |_| async move { cancel.cancel() }
    });
    assert_eq!(elector.run(&cancel, callbacks).await, Ended::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_by_itself_ends_no_term() {
    let server = Server::default();
    let mut elector = LeaderElector::new(server.lock("a"), config("a")).unwrap();
    let (cancel, status) = (CancellationToken::new(), elector.status());
    for cancelled in [true, false] {
        let cancel = if cancelled { cancel.clone() } else { CancellationToken::new() };
        let run = elector.run(&cancel, LeaderCallbacks::new(|_| async {}));
        let meanwhile = async {
            sleep(SECOND * 100).await;
            assert!(status.is_leader());
            if cancelled {
                cancel.cancel();
            } else {
                server.write(|record| record.holder_identity.clear());
            }
        };
        let (ended, ()) = tokio::join!(run, meanwhile);
        assert_eq!((ended == Ended::Cancelled, server.holder().as_str()), (cancelled, ""));
    }
    // Work of the lost term is over: nothing is waited for.
    cancel.cancel();
    assert_eq!(elector.run(&cancel, LeaderCallbacks::new(|_| async {})).await, Ended::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn health_fails_when_a_holder_has_not_renewed_for_longer_than_lease_and_tolerance() {
    let server = Server::default();
    let check = LeaderHealthzAdaptor::new(SECOND * 20);
    assert_eq!((check.name(), check.check()), ("leaderElection", Ok(())));
    let mut elector = LeaderElector::new(server.lock("a"), config("a")).unwrap();
    check.set_leader_election(elector.status());
    let cancel = CancellationToken::new();
    let mut run = Box::pin(elector.run(&cancel, LeaderCallbacks::new(|_| async {})));
    tokio::select! {
        biased;
        _ = &mut run => panic!("it ended"),
        () = sleep(SECOND * 60) => {}
    }
    assert_eq!(check.check(), Ok(()));
    // It hangs: nothing is renewed, nothing ends.
    advance(SECOND * 33).await;
    assert_eq!(check.check(), Ok(()));
    advance(SECOND * 4).await;
    assert!(check.check().unwrap_err().contains("ns/lock"));
    drop(run);

    // One that stands by is healthy, however long.
    server.write(|record| record.holder_identity = "other".to_owned());
    let b = Running::with(server.lock("b"), LeaderElectionConfig { name: "b".to_owned(), ..config("b") });
    settle().await;
    advance(SECOND * 100).await;
    assert_eq!(b.status.check(Duration::ZERO), Ok(()));
    assert_eq!(b.status.figures().name, "b");
}
