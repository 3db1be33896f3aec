//! Events and metrics of guests are replayed and compared.

use anyhow::{Context as _, Result};
use pilothouse_plugin::Limits;
use pilothouse_recording::ReplayOptions;
use pilothouse_testkit::guests;
use serde_json::json;

use super::host::{Bounds, Cluster, Stage, assert_same, map, secret};

#[tokio::test]
async fn events_that_were_taken_and_events_that_were_refused_are_replayed() -> Result<()> {
    let config = json!({"events": [
        {"reason": "Seen", "note": "it is there", "times": 2},
        {"reason": "Odd", "note": "it is odd", "warning": true, "action": "Look", "relatedNode": "n1",
            "annotation": ["example.org/a", "b"], "fieldPath": "spec", "timestamp": "2026-01-01T00:00:00Z"},
        {"reason": "About", "note": "of another one", "key": "b/other", "uid": "u-1"},
        {"note": "the host refuses it"},
    ]});
    let component = guests::wasm("recorder")?;
    let mut stage = Stage::of(&component, Bounds::default()).await?;
    let cluster = Cluster::new(&config).with(&map("m", &json!({})))?;
    let mut recorded = stage.instance(cluster, false, Limits::default()).await?;
    recorded.reconcile("a/m", 1).await?.ok().context("done")?;
    let text = stage.text()?;
    assert_eq!(text.matches("\"op\":\"events.record\"").count(), 5, "{text}");
    assert_eq!(
        text.matches("\"answer\":{\"message\":\"no reason\",\"refused\":\"invalid\"}").count(),
        1,
        "{text}"
    );
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 1);
    let what = stage.difference_to(r#""note":"it is odd""#, r#""note":"it is not""#).await?;
    assert_eq!(what, "the guest calls events.record with other arguments");
    Ok(())
}

#[tokio::test]
async fn metrics_are_replayed_and_can_be_left_out() -> Result<()> {
    let mut stage = Stage::new("namespace-quota", Bounds::default()).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a",
        "annotations": {"quota.pilothouse.dev/configmaps": "1"}}});
    let maps = ["m1", "m2", "m3"].map(|name| map(name, &json!({})));
    let cluster = maps.iter().try_fold(Cluster::new(&json!({})).with(&namespace)?, Cluster::with)?;
    let mut recorded = stage.instance(cluster, false, Limits::default()).await?;
    for call in [1, 2] {
        recorded.reconcile("a", call).await?.ok().context("done")?;
    }
    let text = stage.text()?;
    // Two metrics, and in each call three resources of which one has a limit.
    assert_eq!(text.matches("\"op\":\"metrics.declare\"").count(), 2, "{text}");
    for (change, count) in [("\"set\":\"3\"", 2), ("\"set\":\"1\"", 2), ("\"remove\":\"\"", 8)] {
        assert_eq!(text.matches(change).count(), count, "{change}: {text}");
    }
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 2);
    let (from, to) = (r#""set":"3""#, r#""set":"4""#);
    assert_eq!(stage.difference_to(from, to).await?, "the guest calls metrics.change with other arguments");
    let without = ReplayOptions { ignore_logs: true, ..ReplayOptions::default() };
    assert_same(&stage.replay_edited(from, to, &without).await?, 2);
    Ok(())
}

#[tokio::test]
async fn live_calls_to_a_remote_cluster_are_replayed_with_its_number() -> Result<()> {
    let mut stage = Stage::new("probe", Bounds::default()).await?;
    let config =
        json!({"mode": "write", "targetKind": "v1/Secret", "targetKey": "a/one", "remoteCluster": "east"});
    let cluster = Cluster::new(&config).with(&secret("one", "password"))?;
    let cluster = Cluster { remote: Some("east"), ..cluster };
    let mut recorded = stage.instance(cluster, true, Limits::default()).await?;
    recorded.reconcile("a/m", 1).await?.ok().context("done")?;
    let text = stage.text()?;
    assert!(text.contains(r#""clusters":["home","east"]"#), "{text}");
    assert_eq!(text.matches(r#""cluster":1"#).count(), 1, "{text}");
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 1);
    let what = stage.difference_to(r#""cluster":1"#, r#""cluster":2"#).await?;
    assert_eq!(what, "the guest calls client.patch with other arguments");
    Ok(())
}
