//! Guests of each world replay the same.

use std::path::Path;

use anyhow::{Context as _, Result};
use pilothouse_engine::{Event, FaultKind, ReasonSet, Request};
use pilothouse_object::{Object, ObjectKey, Projection};
use pilothouse_plugin::Limits;
use pilothouse_recording::ReplayOptions;
use pilothouse_testkit::guests;
use serde_json::{Value, json};

use super::host::{Bounds, Cluster, Stage, assert_same, map};

/// Records one call of a probe, and what became of it.
async fn probe(component: &Path, config: Value, limits: Limits) -> Result<(Stage, Option<FaultKind>)> {
    let stage = Stage::of(component, Bounds::default()).await?;
    let cluster = (0..5).try_fold(Cluster::new(&config), |cluster, n| {
        cluster.with(&map(&format!("m{n}"), &json!({"k": "v"})))
    })?;
    let mut recorded = stage.instance(cluster, false, limits).await?;
    let answer = recorded.reconcile("a/m1", 1).await;
    Ok((stage, answer.err().map(|fault| fault.kind)))
}

#[tokio::test]
async fn what_the_probe_does_is_replayed() -> Result<()> {
    for config in [
        json!({"mode": "list", "count": 3}),
        json!({"mode": "rewrite"}),
        json!({"mode": "await", "count": 2}),
        json!({"mode": "fail", "delay": "5s"}),
        json!({"mode": "terminal"}),
        json!({"mode": "snoop", "targetKind": "v1/ConfigMap", "targetKey": "a/m2"}),
        json!({"mode": "apply", "targetKind": "v1/ConfigMap", "targetKey": "a/m2"}),
        json!({"mode": "flood", "count": 3}),
        json!({"mode": "slow", "milliseconds": 5}),
        json!({"mode": "sleep", "milliseconds": 5}),
    ] {
        let component = guests::wasm("probe")?;
        let (mut stage, fault) = probe(&component, config.clone(), Limits::default()).await?;
        assert_eq!(fault, None, "{config}");
        assert_same(&stage.replay(&ReplayOptions::default()).await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_trap_is_the_same_trap_and_a_call_that_was_cut_is_compared_up_to_there() -> Result<()> {
    let component = guests::wasm("probe")?;
    let (mut stage, fault) = probe(&component, json!({"mode": "trap"}), Limits::default()).await?;
    assert_eq!(fault, Some(FaultKind::Trap));
    let report = stage.replay(&ReplayOptions::default()).await?;
    assert_same(&report, 1);
    assert_eq!(report.cut, 0);
    // Cut in an endless loop of reads: the replay has no more of them, and the guest ends with the refusal.
    let limits = Limits { cpu_per_call: std::time::Duration::from_millis(20), ..Limits::default() };
    let config = json!({"mode": "read", "targetKind": "v1/ConfigMap", "targetKey": "a/m2"});
    let (mut stage, fault) = probe(&component, config, limits).await?;
    assert_eq!(fault, Some(FaultKind::Cpu));
    let report = stage.replay(&ReplayOptions::default()).await?;
    assert_same(&report, 1);
    assert_eq!(report.cut, 1);
    Ok(())
}

#[tokio::test]
async fn batches_are_replayed() -> Result<()> {
    let component = guests::wasm("batch")?;
    let mut stage = Stage::of(&component, Bounds::default()).await?;
    let cluster = ["fail", "later", "terminal", "ok"]
        .iter()
        .try_fold(Cluster::new(&json!({})), |cluster, told| cluster.with(&map(told, &json!({"do": told}))))?;
    let mut recorded = stage.instance(cluster, false, Limits::default()).await?;
    let keys: Vec<ObjectKey> = ["a/fail", "a/later", "a/terminal", "a/ok"]
        .iter()
        .map(|key| key.parse())
        .collect::<Result<_, _>>()?;
    let reasons = ReasonSet::of_bits(0b1_0000_0011);
    let requests: Vec<_> =
        keys.iter().map(|key| Request { key, attempt: 2, reasons, priority: -3 }).collect();
    for id in 1..4 {
        let call = recorded.instance.reconcile_many(&requests, id);
        let answers = recorded.tape.reconcile_many(&requests, id, call).await?;
        assert_eq!(answers.len(), 4);
    }
    assert!(stage.text()?.contains(r#""priority":-3,"reasons":["added","updated","manual"]"#));
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 3);
    Ok(())
}

#[tokio::test]
async fn events_with_whole_and_partial_objects_and_without_any_are_replayed() -> Result<()> {
    let component = guests::wasm("handlers")?;
    let mut stage = Stage::of(&component, Bounds::default()).await?;
    let mut recorded = stage.instance(Cluster::new(&json!({})), false, Limits::default()).await?;
    let object = |version: &str| {
        let mut object = map("it", &json!({"k": "v", "left": "out"}));
        object["metadata"]["resourceVersion"] = version.into();
        Object::decode(object.to_string().as_bytes())
    };
    let (first, second) = (object("1")?, Projection::parse(["/data/k"])?.apply(&object("2")?));
    let key = "a/it".parse()?;
    let events = [
        Event::Added { object: &first, initial: true },
        Event::Updated { old: Some(&first), new: &second },
        Event::Updated { old: None, new: &second },
        Event::Deleted { key: &key, object: Some(&second), final_state_unknown: true },
        Event::Deleted { key: &key, object: None, final_state_unknown: false },
    ];
    let call = recorded.instance.handle("v1/ConfigMap", &events, 1);
    recorded.tape.handle("v1/ConfigMap", &events, 1, call).await?;
    let call = recorded.instance.synced("v1/ConfigMap", 2);
    recorded.tape.synced("v1/ConfigMap", 2, call).await?;
    recorded.reconcile("a/it", 3).await?.ok().context("done")?;
    let call = recorded.instance.describe(b"{}");
    recorded.tape.describe(b"{}", call).await?.ok().context("a description")?;
    assert!(stage.text()?.contains(r#""partial":true"#));
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 4);
    Ok(())
}
