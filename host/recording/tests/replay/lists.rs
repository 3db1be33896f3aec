//! Lists are in a recording as far as the guest reads them: objects, or their keys alone.

use std::path::Path;

use anyhow::{Context as _, Result};
use pilothouse_plugin::Limits;
use pilothouse_recording::{Recording, ReplayOptions, replay};
use pilothouse_testkit::guests;
use serde_json::{Value, json};

use super::host::{Bounds, Cluster, Stage, assert_same, map};

/// Records a call of a component that lists five ConfigMaps.
async fn lists(component: &Path, config: &Value) -> Result<Stage> {
    let stage = Stage::of(component, Bounds::default()).await?;
    let cluster = (0..5).try_fold(Cluster::new(config), |cluster, n| {
        cluster.with(&map(&format!("measured{n}"), &json!({"last": format!("text-{n}")})))
    })?;
    let limits = Limits { page_objects: 2, ..Limits::default() };
    stage.instance(cluster, false, limits).await?.reconcile("a/measured1", 1).await?.ok().context("done")?;
    Ok(stage)
}

/// The recorded objects of the list, and how many there were.
fn listed(text: &str) -> Result<(Vec<Value>, Value)> {
    let call = text.lines().find(|line| line.starts_with("{\"call\"")).context("a call")?;
    let call: Value = serde_json::from_str(call)?;
    let imports = call["call"]["imports"].as_array().context("imports")?;
    let list = imports.iter().rfind(|import| import["op"] == "cache.list").context("a list")?;
    let objects = list["answer"]["objects"].as_array().context("objects")?;
    Ok((objects.clone(), list["answer"]["total"].clone()))
}

#[tokio::test]
async fn objects_are_kept_as_far_as_the_guest_reads_them() -> Result<()> {
    let component = guests::wasm("probe")?;
    let mut stage = lists(&component, &json!({"mode": "list", "count": 1})).await?;
    let text = stage.text()?;
    let (objects, total) = listed(&text)?;
    assert!(objects.len() == 2 && total == 5, "{text}");
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 1);
    // A build that takes more of them.
    let what = stage.difference_to(r#"\"count\":1"#, r#"\"count\":4"#).await?;
    assert_eq!(what, "the guest reads further in the list than the recording has it: cache.list");
    Ok(())
}

#[tokio::test]
async fn keys_are_kept_where_the_guest_reads_keys_alone() -> Result<()> {
    let mut stage = lists(&guests::wasm("reads")?, &json!({"objects": 5})).await?;
    let text = stage.text()?;
    let keys: Vec<Value> = (0..5).map(|n| json!({"key": format!("a/measured{n}")})).collect();
    assert_eq!(listed(&text)?.0, keys, "{text}");
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 1);
    // A recording that has an object there replays as well.
    let object = json!({"json": map("measured3", &json!({})).to_string()}).to_string();
    let report = stage.replay_edited(r#"{"key":"a/measured3"}"#, &object, &ReplayOptions::default()).await?;
    assert_same(&report, 1);
    Ok(())
}

#[tokio::test]
async fn a_guest_that_reads_an_object_where_the_recording_has_its_key_is_a_difference() -> Result<()> {
    let mut stage = lists(&guests::wasm("probe")?, &json!({"mode": "list", "count": 1})).await?;
    let text = stage.text()?;
    let second = listed(&text)?.0[1].to_string();
    assert!(text.contains(&second), "{second}: {text}");
    let recording = Recording::parse(text.replace(&second, r#"{"key":"a/measured1"}"#).as_bytes())?;
    let report = replay(&stage.code, &recording, &ReplayOptions::default()).await?;
    let what = report.difference.context("a difference")?.what;
    assert_eq!(
        what,
        "the guest reads an object of the list, of which the recording has the key alone: cache.list"
    );
    Ok(())
}
