//! How a term is given up.

use std::sync::{Arc, Mutex};

use pilothouse_election::{Ended, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::memory::{Fault, Server, Verb, Way};
use crate::support::{Running, SECOND, config, settle, until};

#[tokio::test(start_paused = true)]
async fn a_released_lock_has_no_holder_a_second_to_live_and_the_same_count() {
    let server = Server::default();
    server.write(|record| record.leader_transitions = 8);
    let a = Running::start(&server, "a");
    let term = a.leads().await;
    assert_eq!(a.end().await, Ended::Cancelled);
    let record = server.record();
    assert_eq!((record.holder_identity.as_str(), record.lease_duration_seconds), ("", 1));
    assert_eq!(record.leader_transitions, 9);
    assert!(record.renew_time.is_some() && record.renew_time == record.acquire_time);
    assert!(!term.is_leading());
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_renewed_until_the_work_has_ended_and_released_then() {
    let server = Server::default();
    let a = Running::working(server.lock("a"), config("a"), SECOND * 100);
    let term = a.leads().await;
    a.cancel.cancel();
    settle().await;
    assert!(term.is_cancelled() && term.is_leading());
    sleep(SECOND * 99).await;
    assert!(term.is_leading());
    assert_eq!((server.holder().as_str(), server.count(Verb::Update)), ("a", 49));
    sleep(SECOND * 2).await;
    assert_eq!(server.holder(), "");
    assert_eq!(a.task.await.unwrap(), Ended::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_term_that_is_lost_while_the_work_ends_is_lost() {
    let server = Server::default();
    let a = Running::working(server.lock("a"), config("a"), SECOND * 100);
    a.leads().await;
    a.cancel.cancel();
    settle().await;
    server.write(|record| record.holder_identity = "other".to_owned());
    assert!(matches!(a.task.await.unwrap(), Ended::Lost(_)));
    assert_eq!(server.holder(), "other");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_somebody_took_over_is_left_to_them() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    a.leads().await;
    // Between the last renewal and the release.
    server.write(|record| record.holder_identity = "other".to_owned());
    assert_eq!(a.end().await, Ended::Cancelled);
    assert_eq!((server.holder().as_str(), server.count(Verb::Update)), ("other", 0));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_over_between_reading_and_releasing_is_left_to_them() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    a.leads().await;
    server.next(Verb::Update, Way { there: SECOND, ..Way::default() });
    let cancelling = a.end();
    let taking = async {
        until("the release is sent", || server.count(Verb::Update) == 1).await;
        server.write(|record| record.holder_identity = "other".to_owned());
    };
    let (ended, ()) = tokio::join!(cancelling, taking);
    assert_eq!((ended, server.holder().as_str()), (Ended::Cancelled, "other"));
}

#[tokio::test(start_paused = true)]
async fn a_release_is_tried_again_on_conflict_and_on_errors() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    a.leads().await;
    server.next(Verb::Get, Way::default());
    server.next(Verb::Update, Way { there: SECOND / 2, ..Way::default() });
    server.fail(Verb::Get, Fault::Lost);
    let began = Instant::now();
    let touching = async {
        until("the release is sent", || server.count(Verb::Update) == 1).await;
        server.touch();
    };
    let (ended, ()) = tokio::join!(a.end(), touching);
    assert_eq!((ended, server.holder().as_str()), (Ended::Cancelled, ""));
    assert_eq!(server.count(Verb::Update), 2);
    assert!(began.elapsed() < SECOND * 3, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_is_given_up_after_the_renew_deadline() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    a.leads().await;
    for _ in 0..100 {
        server.fail(Verb::Get, Fault::Lost);
    }
    let began = Instant::now();
    assert_eq!(a.end().await, Ended::Cancelled);
    assert!(began.elapsed() >= SECOND * 10 && began.elapsed() < SECOND * 11, "{:?}", began.elapsed());
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_to_be_released_runs_out() {
    let server = Server::default();
    let times = LeaderElectionConfig { release_on_cancel: false, ..config("a") };
    let a = Running::with(server.lock("a"), times);
    let term = a.leads().await;
    assert_eq!(a.end().await, Ended::Cancelled);
    assert_eq!(server.holder(), "a");
    assert!(!term.is_leading());
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_cancelled_while_it_acquires_leaves_nothing_behind() {
    // The write is under way, answered or not, when it is told to stop.
    for fault in [Fault::None, Fault::Unanswered] {
        let server = Server::default();
        server.next(Verb::Create, Way { there: SECOND, fault, ..Way::default() });
        let a = Running::start(&server, "a");
        until("it writes", || server.count(Verb::Create) == 1).await;
        a.cancel.cancel();
        assert_eq!(a.task.await.unwrap(), Ended::Cancelled);
        assert_eq!(server.holder(), "", "{fault:?}");
        assert!(server.record().acquire_time.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_reads_when_it_is_cancelled_ends_at_once() {
    let server = Server::default();
    server.next(Verb::Get, Way { there: SECOND * 1000, ..Way::default() });
    let a = Running::start(&server, "a");
    settle().await;
    let began = Instant::now();
    assert_eq!(a.end().await, Ended::Cancelled);
    assert_eq!(began.elapsed().as_millis(), 0);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_two_candidates_the_second_leads_soon_after_the_first_has_released() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    a.leads().await;
    let b = Running::with(server.lock("b").watched(), config("b"));
    sleep(SECOND * 60).await;
    assert!(!b.status.is_leader());
    assert_eq!(a.end().await, Ended::Cancelled);
    let began = Instant::now();
    assert_eq!(b.leads().await.token().transitions, 1);
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_meets_nothing_but_conflicts_is_not_tried_in_a_loop() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    a.leads().await;
    // As a webhook may answer.
    for _ in 0..50 {
        server.fail(Verb::Get, Fault::None);
        server.fail(Verb::Update, Fault::Conflict);
    }
    let began = Instant::now();
    assert_eq!(a.end().await, Ended::Cancelled);
    assert!(began.elapsed() >= SECOND * 10 && began.elapsed() < SECOND * 11, "{:?}", began.elapsed());
    assert!((10..=21).contains(&server.count(Verb::Update)), "{}", server.count(Verb::Update));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_taken_too_late_for_a_term_is_released_when_cancelled() {
    let server = Server::default();
    // Shorter than a request may take.
    let times = LeaderElectionConfig { renew_deadline: SECOND / 2, retry_period: SECOND / 10, ..config("a") };
    server.next(Verb::Create, Way { back: SECOND * 9 / 10, ..Way::default() });
    let a = Running::with(server.lock("a"), times);
    until("the lock is taken", || server.holder() == "a").await;
    // Told before the answer comes.
    a.cancel.cancel();
    assert_eq!(a.task.await.unwrap(), Ended::Cancelled);
    assert!(a.terms.lock().unwrap().is_empty());
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn the_work_of_a_run_that_was_dropped_is_waited_for_by_the_next() {
    let server = Server::default();
    let mut elector = LeaderElector::new(server.lock("a"), config("a")).unwrap();
    let (status, cancel) = (elector.status(), CancellationToken::new());
    let at_work = Arc::new(Mutex::new((0, 0)));
    let work = || {
        let at_work = Arc::clone(&at_work);
        LeaderCallbacks::new(move |term: Leadership| async move {
            let number = |change: i32| {
                let mut at_work = at_work.lock().unwrap();
                at_work.0 += change;
                at_work.1 = at_work.1.max(at_work.0);
            };
            number(1);
            term.cancelled().await;
            sleep(SECOND * 30).await;
            number(-1);
        })
    };
    let first = timeout(SECOND, elector.run(&cancel, work())).await;
    assert!(first.is_err() && !status.is_leader(), "the future was dropped, and the term has ended");
    assert_eq!(at_work.lock().unwrap().0, 1);
    let stop = cancel.clone();
    tokio::spawn(async move {
        sleep(SECOND * 100).await;
        stop.cancel();
    });
    assert_eq!(elector.run(&cancel, work()).await, Ended::Cancelled);
    assert_eq!(*at_work.lock().unwrap(), (0, 1), "never two at once");
    assert_eq!(server.record().leader_transitions, 0);
}
