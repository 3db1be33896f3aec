//! Failed events of handlers: when they come again, what they are merged with, and what is kept meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_engine::{Failure, FaultKind, Outcome};
use pilothouse_plugin::World;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::testing::panics::panic_at;
use crate::testing::{Calls, FakeComponent, TestPlugin, fault, settle};

/// A handler of ConfigMaps.
fn handler(digest: &'static str, watch: Value) -> (FakeComponent, Calls) {
    let mut all = json!({"version": "v1", "kind": "ConfigMap"});
    all.as_object_mut().unwrap().extend(watch.as_object().unwrap().clone());
    FakeComponent::new(digest, World::EventHandler, json!({"watches": [all]}))
}

type Times = Arc<Mutex<Vec<(String, Instant)>>>;

/// Fails this many times, for events with this reason; notes when each came.
fn failing(component: FakeComponent, reason: &'static str, times: usize, noted: &Times) -> FakeComponent {
    let (left, noted) = (Arc::new(AtomicUsize::new(times)), Arc::clone(noted));
    component.script(move |call| {
        let (left, noted) = (Arc::clone(&left), Arc::clone(&noted));
        async move {
            let answer = |(key, reasons): (&String, &Vec<&str>)| {
                noted.lock().push((format!("{key} {}", reasons.join("+")), Instant::now()));
                let fails = reasons.contains(&reason)
                    && left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
                let failure = || Failure { message: "no".to_owned(), terminal: false, retry_after: None };
                if fails { Err(failure()) } else { Ok(Outcome::Done) }
            };
            Ok(call.keys.iter().zip(&call.reasons).map(answer).collect())
        }
    })
}

/// The waits before each of them, in milliseconds.
fn waits(noted: &Times) -> (Vec<String>, Vec<u128>) {
    let noted = noted.lock();
    let waits = noted.windows(2).map(|pair| (pair[1].1 - pair[0].1).as_millis()).collect();
    (noted.iter().map(|(what, _)| what.clone()).collect(), waits)
}

/// The object that is there again stands behind its failed deletion, which has its delay all the same.
#[tokio::test(start_paused = true)]
async fn a_failed_event_has_its_delay_also_with_a_later_one_behind_it() {
    for (delivery, wanted) in [
        ("latest", &["ns/a deleted", "ns/a deleted", "ns/a deleted", "ns/a deleted", "ns/a added"][..]),
        ("every", &["ns/a deleted", "ns/a deleted", "ns/a deleted", "ns/a deleted", "ns/a added"][..]),
    ] {
        let test = TestPlugin::new().await;
        test.server.create("ns/a", json!({}));
        let (component, _calls) = handler("sha256:h", json!({"delivery": delivery}));
        let noted = Times::default();
        test.run(failing(component, "deleted", 3, &noted)).await;
        settle().await;
        noted.lock().clear();
        test.server.delete("ns/a");
        test.server.create("ns/a", json!({}));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (told, waits) = waits(&noted);
        assert_eq!(told, wanted, "{delivery}");
        assert!(waits[0] >= 5 && waits[1] >= 10 && waits[2] >= 20, "{delivery}: {waits:?}");
        test.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_each_change_delivered_the_changes_behind_a_failed_one_wait_with_it() {
    let test = TestPlugin::new().await;
    let (component, _calls) = handler("sha256:h", json!({"delivery": "every"}));
    let noted = Times::default();
    test.run(failing(component, "added", 3, &noted)).await;
    test.server.create("ns/a", json!({}));
    (0..50).for_each(|n| _ = test.server.update("ns/a", json!({"data": {"x": n.to_string()}})));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (told, waits) = waits(&noted);
    assert_eq!(told.len(), 4 + 50, "{told:?}");
    assert!(told[..4].iter().all(|what| what == "ns/a added"), "{told:?}");
    assert!(waits[0] >= 5 && waits[1] >= 10 && waits[2] >= 20, "{waits:?}");
    test.end().await;
}

/// The guest chooses the time, and the objects how often it fails: one entry of a key is kept.
#[tokio::test(start_paused = true)]
async fn a_key_that_fails_again_and_again_is_noted_once() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h", json!({}));
    let retry_after = Some(Duration::from_secs(3_600));
    let fails = Arc::new(AtomicBool::new(true));
    let is_failing = Arc::clone(&fails);
    let component = component.script(move |call| {
        let failure = Failure { message: "no".to_owned(), terminal: false, retry_after };
        let answer = if is_failing.load(Relaxed) { Err(failure) } else { Ok(Outcome::Done) };
        async move { Ok(call.keys.iter().map(|_| answer.clone()).collect()) }
    });
    test.run(component).await;
    test.server.create("ns/a", json!({}));
    settle().await;
    for n in 0..100 {
        test.server.update("ns/a", json!({"data": {"x": n.to_string()}}));
        settle().await;
    }
    assert_eq!(calls.calls_so_far().await.len(), 1 + 101, "on-synced, and each change ends the delay");
    let due = || test.plugin.current().unwrap().retries_due();
    assert_eq!(due(), 1);
    fails.store(false, Relaxed);
    test.server.update("ns/a", json!({"data": {"x": "last"}}));
    settle().await;
    assert_eq!(due(), 0);
    let _ = calls.calls_so_far().await;
    tokio::time::sleep(Duration::from_secs(10_000)).await;
    assert_eq!(calls.calls_so_far().await, [""; 0]);
    test.end().await;
}

/// The guest was told of a change and may have done half of its work; the change back is told too.
#[tokio::test(start_paused = true)]
async fn predicates_do_not_drop_a_failed_event_that_was_merged_with_its_opposite() {
    let test = TestPlugin::new().await;
    test.server.create("ns/a", json!({"data": {"x": "1"}}));
    let predicates = json!({"predicates": [{"type": "fieldChanged", "path": "/data/x"}]});
    let (component, _calls) = handler("sha256:h", predicates);
    let noted = Times::default();
    test.run(failing(component, "updated", 1, &noted)).await;
    settle().await;
    noted.lock().clear();
    test.server.update("ns/a", json!({"data": {"x": "2"}}));
    settle().await;
    test.server.update("ns/a", json!({"data": {"x": "1"}}));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(waits(&noted).0, ["ns/a updated", "ns/a updated"]);
    // From here on they are judged again.
    test.server.update("ns/a", json!({"data": {"x": "1", "y": "1"}}));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(noted.lock().len(), 2);
    test.end().await;
}

/// A bug of the host costs a call, and no event.
#[tokio::test(start_paused = true)]
async fn a_panic_at_the_delivery_of_a_batch_loses_no_event() {
    let test = TestPlugin::new().await;
    (0..20).for_each(|n| _ = test.server.create(&format!("ns/{n}"), json!({})));
    let (component, _calls) = handler("sha256:h", json!({}));
    let noted = Times::default();
    let component = failing(component, "added", 1, &noted);
    let _panicking = panic_at("event_failed", 1);
    test.run(component).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut keys = waits(&noted).0;
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 20, "{keys:?}");
    assert_eq!(test.plugin.metrics().panics.get(), 1);
    // Each came twice, the second time alone.
    assert_eq!(noted.lock().len(), 40);
    test.end().await;
}

/// One event tries a plugin after its quarantine, not a batch.
#[tokio::test(start_paused = true)]
async fn after_a_quarantine_one_event_tries_the_plugin() {
    let test = TestPlugin::new().await;
    let (component, mut calls) = handler("sha256:h", json!({}));
    let faults = Arc::new(AtomicBool::new(true));
    let is_faulty = Arc::clone(&faults);
    let component = component.script(move |call| {
        let faults = is_faulty.load(Relaxed) && call.function == "on-events";
        async move {
            let answers = || call.keys.iter().map(|_| Ok(Outcome::Done)).collect();
            if faults { Err(fault(FaultKind::Trap)) } else { Ok(answers()) }
        }
    });
    test.run(component).await;
    for n in 0..3 {
        test.server.create(&format!("ns/{n}"), json!({}));
        settle().await;
    }
    assert_eq!(test.plugin.metrics().quarantines.get(), 1);
    let _ = calls.calls_so_far().await;
    (3..20).for_each(|n| _ = test.server.create(&format!("ns/{n}"), json!({})));
    while test.plugin.metrics().quarantines.get() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let probe = calls.calls_so_far().await;
    assert!(probe.len() == 1 && probe[0].split(',').count() == 1, "{probe:?}");
    faults.store(false, Relaxed);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let after = calls.calls_so_far().await.join(",").replace("on-events ", "") + ",";
    assert!((0..20).all(|n| after.contains(&format!("ns/{n},"))), "{after}");
    test.end().await;
}

/// A reload leaves a long list of events, of which all fail: those of a key that has several go back together.
#[tokio::test(start_paused = true)]
async fn what_a_generation_leaves_and_the_next_one_fails_comes_again_in_order() {
    let test = TestPlugin::new().await;
    (0..300).for_each(|n| _ = test.server.create(&format!("ns/{n}"), json!({})));
    let (old, _old_calls) = handler("sha256:old", json!({}));
    // The first generation answers nothing for long, so all changes wait.
    let old = old.script(|call| async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(call.keys.iter().map(|_| Ok(Outcome::Done)).collect())
    });
    test.run_with(old, json!({"onReload": "keep"})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    for n in 0..300 {
        test.server.delete(&format!("ns/{n}"));
        test.server.create(&format!("ns/{n}"), json!({}));
    }
    settle().await;
    let noted = Times::default();
    let (new, _new_calls) = handler("sha256:new", json!({}));
    test.run_with(failing(new, "deleted", 300, &noted), json!({"onReload": "keep"})).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let told = waits(&noted).0;
    for n in 0..300 {
        let of = |what: &str| format!("ns/{n} {what}");
        let own: Vec<&String> = told.iter().filter(|told| told.starts_with(&of(""))).collect();
        let added = own.iter().position(|told| **told == of("added"));
        let deleted = own.iter().rposition(|told| **told == of("deleted"));
        assert!(added.is_some() && deleted < added, "{own:?}");
    }
    test.end().await;
}
