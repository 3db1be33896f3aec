//! How a candidate comes to lead.

use std::time::Duration;

use jiff::Timestamp;
use pilothouse_election::{Ended, LeaderElectionConfig};
use tokio::time::{Instant, sleep};

use crate::memory::{Fault, Server, Verb, Way};
use crate::support::{Running, SECOND, config, settle, until};

fn wall(text: &str) -> Option<Timestamp> {
    Some(text.parse().unwrap())
}

/// Somebody else leads and does not renew any more.
fn led_by_another(server: &Server, seconds: i32) {
    server.write(|record| {
        record.holder_identity = "other".to_owned();
        record.lease_duration_seconds = seconds;
        record.leader_transitions = 4;
        // A clock that is years off means nothing.
        record.renew_time = wall("2001-01-01T00:00:00Z");
        record.acquire_time = wall("2001-01-01T00:00:00Z");
    });
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_there_is_made() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    let term = a.leads().await;
    let record = server.record();
    assert_eq!((record.holder_identity.as_str(), record.leader_transitions), ("a", 0));
    assert_eq!(record.lease_duration_seconds, 15);
    assert!(record.acquire_time.is_some() && record.acquire_time == record.renew_time);
    let token = term.token();
    assert_eq!((token.transitions, token.lock.as_str(), token.uid.as_str()), (0, "ns/lock", "uid-1"));
    assert_eq!(token.to_string(), "ns/lock/uid-1/0/1");
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_by_local_observation_alone_and_by_the_length_in_its_record() {
    for (seconds, wall_clock) in
        [(30, "2001-01-01T00:00:00Z"), (30, "2101-01-01T00:00:00Z"), (5, "2101-01-01T00:00:00Z")]
    {
        let server = Server::default();
        led_by_another(&server, seconds);
        server.write(|record| record.renew_time = wall(wall_clock));
        let began = Instant::now();
        let a = Running::start(&server, "a");
        a.leads().await;
        let (took, lease) = (began.elapsed(), SECOND * u32::try_from(seconds).unwrap());
        assert!(took >= lease && took < lease + SECOND * 44 / 10 + SECOND / 10, "{seconds} s: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_changes_is_a_sign_of_life_and_a_new_version_of_the_same_is_none() {
    let server = Server::default();
    led_by_another(&server, 15);
    let a = Running::start(&server, "a");
    for second in 0..60 {
        sleep(SECOND).await;
        server.write(|record| record.renew_time = wall(&format!("2001-01-01T00:00:{second:02}Z")));
        assert!(!a.status.is_leader());
    }
    let last = Instant::now();
    while !a.status.is_leader() {
        sleep(SECOND / 2).await;
        if !a.status.is_leader() {
            server.touch();
        }
        assert!(last.elapsed() < SECOND * 30, "labels keep the lease alive");
    }
    assert!(last.elapsed() >= SECOND * 15);
}

#[tokio::test(start_paused = true)]
async fn taking_over_is_a_transition_and_begins_a_new_acquire_time() {
    let server = Server::default();
    led_by_another(&server, 1);
    let a = Running::start(&server, "a");
    let term = a.leads().await;
    let record = server.record();
    assert_eq!((record.leader_transitions, term.token().transitions), (5, 5));
    assert!(record.acquire_time > wall("2020-01-01T00:00:00Z"));
}

#[tokio::test(start_paused = true)]
async fn a_released_lock_is_free_and_a_lock_of_one_s_own_name_is_taken_up_again() {
    let server = Server::default();
    led_by_another(&server, 15);
    server.write(|record| record.holder_identity.clear());
    let began = Instant::now();
    let a = Running::start(&server, "a");
    let first = a.leads().await;
    assert!(began.elapsed() < SECOND);
    assert_eq!(first.token().transitions, 5);
    let acquired = server.record().acquire_time;
    a.task.abort();

    let again = Running::start(&server, "a");
    let second = again.leads().await;
    assert!(began.elapsed() < SECOND);
    assert_eq!((server.record().leader_transitions, server.record().acquire_time), (5, acquired));
    // No transition, and yet another term.
    assert_ne!(first.token(), second.token());
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_a_length_lasts_as_long_as_ours() {
    let server = Server::default();
    led_by_another(&server, 0);
    let began = Instant::now();
    Running::start(&server, "a").leads().await;
    assert!(began.elapsed() >= SECOND * 15, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_deleted_is_its_leader_s_for_as_long_as_if_it_were_there() {
    let server = Server::default();
    led_by_another(&server, 15);
    let began = Instant::now();
    let a = Running::start(&server, "a");
    sleep(SECOND).await;
    server.delete();
    let term = a.leads().await;
    assert!(began.elapsed() >= SECOND * 15, "{:?}", began.elapsed());
    // And terms are counted on.
    assert_eq!(term.token().transitions, 5);
}

#[tokio::test(start_paused = true)]
async fn tries_are_a_retry_period_and_up_to_1_2_more_apart() {
    let server = Server::default();
    led_by_another(&server, 3600);
    let a = Running::start(&server, "a");
    sleep(SECOND * 1000).await;
    let times: Vec<Instant> = server.requests().iter().map(|request| request.at).collect();
    let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
    assert!(*least >= SECOND * 2 && *most <= SECOND * 44 / 10 + SECOND / 100, "{least:?} to {most:?}");
    assert!(*most - *least > SECOND, "{least:?} to {most:?}");
    assert_eq!(server.count(Verb::Update), 0);
    assert_eq!(a.end().await, Ended::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_watch_shows_to_be_free_is_taken_at_once_and_not_tried_in_a_loop() {
    let server = Server::default();
    led_by_another(&server, 3600);
    // Times that tell one from the other.
    let times = LeaderElectionConfig {
        lease_duration: SECOND * 300,
        renew_deadline: SECOND * 200,
        retry_period: SECOND * 100,
        ..config("a")
    };
    let a = Running::with(server.lock("a").watched(), times);
    settle().await;
    assert_eq!(server.count(Verb::Get), 1);
    // It is not as the watch shows it.
    let began = Instant::now();
    while began.elapsed() < SECOND * 50 {
        server.tell(None);
        sleep(SECOND / 100).await;
    }
    assert!((2..=52).contains(&server.count(Verb::Get)), "{}", server.count(Verb::Get));
    let began = Instant::now();
    server.write(|record| record.holder_identity.clear());
    a.leads().await;
    assert!(began.elapsed() <= SECOND * 2, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_watched_is_taken_when_its_last_renewal_has_run_out() {
    let server = Server::default();
    let a = Running::start(&server, "a");
    a.leads().await;
    let b = Running::with(server.lock("b").watched(), config("b"));
    sleep(SECOND * 101).await;
    a.task.abort();
    let killed = Instant::now();
    b.leads().await;
    // It renewed at most a retry period before, and the next does not wait for its next try.
    let took = killed.elapsed();
    assert!(took >= SECOND * 13 - SECOND / 10 && took <= SECOND * 15 + SECOND / 4, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_may_take_half_the_renew_deadline_and_a_second_at_least() {
    for (renew, expected) in [(SECOND * 10, SECOND * 5), (SECOND * 5 / 4, SECOND)] {
        let server = Server::default();
        server.next(Verb::Get, Way { there: SECOND * 1000, ..Way::default() });
        let times = LeaderElectionConfig { renew_deadline: renew, retry_period: SECOND / 10, ..config("a") };
        let began = Instant::now();
        Running::with(server.lock("a"), times).leads().await;
        let took = began.elapsed();
        assert!(took >= expected && took < expected + SECOND / 2, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_leads_to_another_try() {
    let server = Server::default();
    server.fail(Verb::Get, Fault::Lost);
    server.fail(Verb::Get, Fault::Refused);
    server.fail(Verb::Create, Fault::Refused);
    let a = Running::start(&server, "a");
    a.leads().await;
    assert_eq!((server.count(Verb::Get), server.count(Verb::Create)), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_nobody_answered_is_found_again() {
    let server = Server::default();
    server.fail(Verb::Create, Fault::Unanswered);
    let a = Running::start(&server, "a");
    settle().await;
    assert_eq!(server.holder(), "a");
    assert!(!a.status.is_leader());
    assert_eq!(a.leads().await.token().transitions, 0);
}

#[tokio::test(start_paused = true)]
async fn a_term_begins_when_its_acquisition_was_sent() {
    let server = Server::default();
    server.next(Verb::Create, Way { back: SECOND * 4, ..Way::default() });
    let a = Running::start(&server, "a");
    let term = a.leads().await;
    let answered = Instant::now();
    for verb in [Verb::Update, Verb::Get, Verb::Update, Verb::Get] {
        server.next(verb, Way { there: SECOND * 1000, ..Way::default() });
    }
    until("the term ends", || !term.is_leading()).await;
    assert!(answered.elapsed() <= SECOND * 6, "{:?}", answered.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_whose_answer_comes_after_its_term_is_none() {
    let server = Server::default();
    // Shorter than a request may take.
    let times = LeaderElectionConfig { renew_deadline: SECOND / 2, retry_period: SECOND / 10, ..config("a") };
    server.next(Verb::Create, Way { back: SECOND * 9 / 10, ..Way::default() });
    let a = Running::with(server.lock("a"), times);
    a.leads().await;
    assert_eq!((server.count(Verb::Create), server.count(Verb::Update)), (1, 1));
    assert_eq!(a.terms.lock().unwrap().len(), 1);
}
