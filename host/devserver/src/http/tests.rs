//! Faults of watches, on a clock that stands still; the log.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::Log;
use super::Served;
use super::faulty_watch::{FaultyWatch, WatchFaults, WatchOutput};
use super::{AllowedHosts, Service};
use crate::faults::{Fault, FaultRule, Faults, RequestAttributes};
use crate::openapi::OpenApi;
use crate::store::Store;
use crate::verbs::{Answer, Core, config_maps};

fn create(core: &Arc<Core>, name: &str) {
    let write = core.own_write("/configmaps", Some("default"), "").unwrap();
    let object = json!({"metadata": {"name": name}});
    core.create_object(&write, object.as_object().unwrap().clone()).unwrap();
}

/// A watch on ConfigMaps with these faults.
fn watch(core: &Arc<Core>, query: &str, faults: &[Fault]) -> FaultyWatch {
    let rules = Faults::default();
    faults.iter().for_each(|fault| {
        rules.add(FaultRule::new(fault.clone()));
    });
    let hits = rules.hits(&RequestAttributes { verb: "watch", resource: "configmaps", ..Default::default() });
    assert_eq!(hits.len(), faults.len());
    match core.answer("watch", &config_maps(core, query)).unwrap() {
        Answer::Watch(stream) => FaultyWatch::new(*stream, WatchFaults::of(&hits)),
        other => panic!("{other:?}"),
    }
}

/// Type and name of the next line; empty at the end.
async fn next(watch: &mut FaultyWatch) -> String {
    match watch.next().await {
        Some(WatchOutput::Line(line)) => {
            let event: Value = serde_json::from_slice(&line).unwrap();
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
            format!("{} {name}", event["type"].as_str().unwrap())
        }
        Some(other) => panic!("{other:?}"),
        None => String::new(),
    }
}

const LAG: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn a_lag_delays_each_change_by_as_much_and_no_initial_event() {
    let core = Core::new(Store::new(10), Duration::from_secs(60));
    create(&core, "old");
    let mut watch = watch(&core, "timeoutSeconds=1", &[Fault::Lag { milliseconds: 100 }]);
    let start = Instant::now();
    assert_eq!((next(&mut watch).await.as_str(), start.elapsed()), ("ADDED old", Duration::ZERO));
    create(&core, "a");
    let later = Duration::from_millis(60);
    assert!(timeout(later, watch.next()).await.is_err());
    create(&core, "b");
    assert_eq!((next(&mut watch).await.as_str(), start.elapsed()), ("ADDED a", LAG));
    assert_eq!((next(&mut watch).await.as_str(), start.elapsed()), ("ADDED b", later + LAG));
    assert_eq!((next(&mut watch).await.as_str(), start.elapsed()), ("", Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_waits_for_another_comes_before_the_end() {
    let core = Core::new(Store::new(10), Duration::from_secs(60));
    ["a", "b", "c"].iter().for_each(|name| create(&core, name));
    let mut watch = watch(&core, "timeoutSeconds=1", &[Fault::OutOfOrder, Fault::Duplicate]);
    let mut lines = Vec::new();
    loop {
        match next(&mut watch).await.as_str() {
            "" => break,
            line => lines.push(line.trim_start_matches("ADDED ").to_owned()),
        }
    }
    assert_eq!(lines.concat(), "abbacc");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_gone_forgets_what_it_kept_back() {
    let core = Core::new(Store::new(10), Duration::from_secs(60));
    let faults = [Fault::Lag { milliseconds: 100 }, Fault::OutOfOrder, Fault::Gone { after: Some(2) }];
    let mut watch = watch(&core, "", &faults);
    ["a", "b", "c", "d"].iter().for_each(|name| create(&core, name));
    for expected in ["ADDED b", "ADDED a", "ERROR ", ""] {
        assert_eq!(next(&mut watch).await, expected);
    }
}

#[test]
fn the_log_keeps_the_last_requests_bounded_by_number_and_bytes() {
    let log = Log::default();
    let request = |length: usize| Served { uri: "x".repeat(length), ..Served::default() };
    (0..10_005).for_each(|_| log.add(request(10)));
    assert_eq!((log.all().len(), log.all()[0].sequence), (10_000, 6));
    (0..20).for_each(|_| log.add(request(1 << 20)));
    assert_eq!((log.all().len(), log.all()[0].sequence), (16, 10_010));
    log.clear();
    (0..16).for_each(|_| log.add(request(1 << 20)));
    assert_eq!(log.all().len(), 16);
}

#[tokio::test(start_paused = true)]
async fn large_writes_wait_for_their_turn_and_small_ones_do_not() {
    let core = Core::new(Store::new(10), Duration::from_secs(60));
    let service = Service {
        core: core.clone(),
        openapi: OpenApi::default(),
        faults: Faults::default(),
        log: Log::default(),
        hosts: AllowedHosts::new(([127, 0, 0, 1], 0).into(), &[]),
        long_answers: Arc::new(Semaphore::new(1)),
    };
    let write = |name: &str, length: usize, on: Option<&str>| {
        let mut call = config_maps(&core, "");
        call.target.name = on.map(str::to_owned);
        call.body = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(length)}}).to_string().into();
        call
    };
    let is_answered =
        async |verb, call| timeout(Duration::from_secs(1), service.do_verb(verb, call)).await.is_ok();
    assert!(is_answered("create", write("large", 500_000, None)).await);
    let turn = service.long_answers.clone().try_acquire_owned().unwrap();
    assert!(is_answered("create", write("small", 10, None)).await);
    assert!(is_answered("update", write("small", 10, Some("small"))).await);
    assert!(!is_answered("create", write("other", 500_000, None)).await);
    // A small change of a large object is a large write too.
    assert!(!is_answered("update", write("large", 10, Some("large"))).await);
    drop(turn);
    assert!(is_answered("update", write("large", 10, Some("large"))).await);
}
