//! Many informers and a server that goes away: few requests, and no rush when it is back.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Running, server, soon};
use crate::testing::{FakeControllerSource, Request};
use crate::{Availability, ReflectorOptions};

const INFORMERS: usize = 50;

fn start(server: &FakeControllerSource) -> Vec<Running> {
    let options = ReflectorOptions::default();
    (0..INFORMERS).map(|_| Running::with(server, options.clone())).collect()
}

/// Requests in the busiest second from an instant on.
fn busiest_second(server: &FakeControllerSource, from: Instant) -> usize {
    let mut at: Vec<_> = server.requests().iter().map(Request::at).filter(|at| *at >= from).collect();
    at.sort_unstable();
    let within =
        |start: Instant| at.iter().filter(|at| (start..start + Duration::from_secs(1)).contains(at)).count();
    at.iter().map(|start| within(*start)).max().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn while_the_server_is_away_tens_of_informers_ask_less_than_once_a_second_together() {
    let server = server();
    let running = start(&server);
    soon(server.wait_for_watches(INFORMERS)).await;
    server.refuse(true);
    // All were told at once and try once.
    soon(server.wait_for_watches(2 * INFORMERS)).await;
    // After the first second, in which each watch is opened anew.
    sleep(Duration::from_secs(2)).await;
    let (from, before) = (Instant::now(), server.requests().len());
    sleep(Duration::from_secs(600)).await;
    let requests = server.requests().len() - before;
    assert!((60..600).contains(&requests), "{requests} in ten minutes");
    assert!(busiest_second(&server, from) <= 2);
    for running in running {
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_never_there_is_asked_by_one_at_a_time() {
    let server = server();
    server.refuse(true);
    let running = start(&server);
    sleep(Duration::from_secs(2)).await;
    let (from, before) = (Instant::now(), server.requests().len());
    sleep(Duration::from_secs(600)).await;
    assert!(server.requests().len() - before < 600);
    assert!(busiest_second(&server, from) <= 2);
    for running in running {
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_server_is_back_all_go_on_soon_and_not_all_at_once() {
    let server = server();
    let running = start(&server);
    soon(server.wait_for_watches(INFORMERS)).await;
    server.refuse(true);
    sleep(Duration::from_secs(600)).await;
    server.refuse(false);
    server.create("a/x", json!({}));
    let back = Instant::now();
    for running in &running {
        running.caught_up(&server).await;
    }
    assert!(back.elapsed() < Duration::from_secs(20), "{:?}", back.elapsed());
    assert!(busiest_second(&server, back) <= INFORMERS * 3 / 4, "{}", busiest_second(&server, back));
    assert_eq!(server.list_versions().len(), INFORMERS, "nobody listed again");
    for running in running {
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_probe_at_a_time_and_a_probe_that_is_dropped_or_never_answered_makes_room() {
    let gate = Availability::new();
    gate.enter().await.settle(true);
    assert!(!gate.is_up());

    let probe = gate.enter().await;
    let began = Instant::now();
    // The probe hangs: after a while another one is let through.
    let second = gate.enter().await;
    assert_eq!(began.elapsed().as_secs(), 5);
    drop(second);
    let began = Instant::now();
    let third = gate.enter().await;
    assert!((Duration::from_millis(500)..Duration::from_secs(5)).contains(&began.elapsed()));
    // The late answer of the first counts all the same.
    probe.settle(false);
    assert!(gate.is_up());
    gate.enter().await.settle(false);
    third.settle(true);
    assert!(!gate.is_up(), "what was refused last is what is known");
}

#[tokio::test(start_paused = true)]
async fn pauses_between_probes_grow_to_five_seconds_and_start_over_after_an_answer() {
    let gate = Availability::new();
    gate.enter().await.settle(true);
    let mut last = Duration::ZERO;
    for _ in 0..8 {
        let began = Instant::now();
        gate.enter().await.settle(true);
        last = began.elapsed();
    }
    assert!((Duration::from_secs(5)..=Duration::from_secs(10)).contains(&last), "{last:?}");
    gate.enter().await.settle(false);
    gate.enter().await.settle(true);
    let began = Instant::now();
    gate.enter().await.settle(true);
    assert!(began.elapsed() <= Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_is_let_through_once_in_a_while() {
    let gate = Availability::new();
    gate.try_enter().expect("it is open").settle(true);
    let mut let_through = 0;
    for _ in 0..600 {
        if let Some(probe) = gate.try_enter() {
            assert!(gate.try_enter().is_none(), "one probe at a time");
            let_through += 1;
            probe.settle(true);
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert!((6..=20).contains(&let_through), "{let_through} in a minute");
    sleep(Duration::from_secs(10)).await;
    gate.try_enter().expect("a probe is due").settle(false);
    assert!(gate.try_enter().is_some() && gate.try_enter().is_some());
}
