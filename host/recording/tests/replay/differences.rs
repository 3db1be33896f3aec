//! Another build: the first difference, with its call.

use anyhow::{Context as _, Result};
use pilothouse_plugin::Limits;
use pilothouse_recording::{
    FormatError, Recorder, RecorderError, RecorderOptions, Recording, ReplayError, ReplayOptions, replay,
};
use serde_json::json;

use super::host::{Bounds, Cluster, Stage, assert_same, secret};

async fn courier(bounds: Bounds) -> Result<Stage> {
    let stage = Stage::new("courier", bounds).await?;
    let cluster =
        || Cluster::new(&json!({})).with(&secret("one", "first-value"))?.with(&secret("two", "other-value"));
    for instance in 0..2 {
        let mut recorded = stage.instance(cluster()?, false, Limits::default()).await?;
        for (id, key) in ["a/gone", "a/one", "a/plain", "a/two"].into_iter().enumerate() {
            if instance == 1 || key != "a/plain" {
                let _ = recorded.reconcile(key, 10 * instance + id as u64 + 1).await?;
            }
        }
    }
    Ok(stage)
}

#[tokio::test]
async fn another_log_line_is_a_difference_and_can_be_left_out() -> Result<()> {
    let mut stage = courier(Bounds::default()).await?;
    let report = stage.replay_changed("courier rests", "courier waits", &ReplayOptions::default()).await?;
    let difference = report.difference.context("a difference")?;
    assert_eq!((difference.instance, difference.number, difference.call), (2, 3, 13));
    assert_eq!((&*difference.export, difference.key.as_deref()), ("reconcile", Some("a/plain")));
    assert!(!report.is_same_component && report.calls == 6, "{}", report.calls);
    let text = difference.to_string();
    for line in
        ["-   \"message\": \"courier rests\"", "+   \"message\": \"courier waits\"", "    log: courier comes"]
    {
        assert!(text.contains(line), "{text}");
    }
    let without = ReplayOptions { ignore_logs: true, ..ReplayOptions::default() };
    let report = stage.replay_changed("courier rests", "courier waits", &without).await?;
    assert!(report.difference.is_none() && report.calls == 7);
    Ok(())
}

#[tokio::test]
async fn another_write_is_a_difference_with_the_lines_of_the_body() -> Result<()> {
    let mut stage = courier(Bounds::default()).await?;
    let without = ReplayOptions { ignore_logs: true, ..ReplayOptions::default() };
    let report = stage.replay_changed("@example.org/", "@example.com/", &without).await?;
    let difference = report.difference.context("a difference")?;
    assert_eq!((difference.instance, difference.number), (1, 2));
    assert_eq!(difference.what, "the guest calls client.patch with other arguments");
    let text = difference.to_string();
    assert!(text.contains("@example.org/\"") && text.contains("@example.com/\""), "{text}");
    assert!(!text.contains("first-value"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_value_of_another_length_for_a_secret_is_a_difference() -> Result<()> {
    let mut stage = courier(Bounds::default()).await?;
    // The guest reads another member, and has an empty value.
    let report = stage.replay_changed("/data/password", "/data/passw0rd", &ReplayOptions::default()).await?;
    let difference = report.difference.context("a difference")?;
    assert_eq!((difference.number, difference.key.as_deref()), (2, Some("a/one")));
    Ok(())
}

#[tokio::test]
async fn what_is_left_of_a_cut_file_replays() -> Result<()> {
    let mut stage = courier(Bounds::default()).await?;
    let whole = stage.text()?;
    let bytes = whole.as_bytes();
    let ends: Vec<usize> =
        bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1).collect();
    for end in &ends {
        for cut in [*end, end - 1, end.saturating_sub(20)] {
            let lines = ends.iter().filter(|line| **line <= cut).count();
            match Recording::parse(&bytes[..cut]) {
                Err(error) => assert_eq!(lines, 0, "{error}"),
                Ok(recording) => {
                    assert_eq!(recording.incomplete().is_some(), cut != *end);
                    let calls =
                        whole.lines().take(lines).filter(|line| line.starts_with("{\"call\"")).count();
                    assert_eq!(recording.calls(), calls);
                    // What a cut inside of a line leaves is what the line before left.
                    if cut == *end && calls > 0 {
                        let report = replay(&stage.code, &recording, &ReplayOptions::default()).await?;
                        assert_same(&report, calls);
                    }
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_full_file_is_a_beginning_that_replays() -> Result<()> {
    let max_bytes = 12 << 10;
    let mut stage = courier(Bounds { max_bytes, ..Bounds::default() }).await?;
    let text = stage.text()?;
    assert!(text.len() as u64 <= max_bytes, "{}", text.len());
    let recording = Recording::read(&stage.path())?;
    assert!(recording.incomplete().context("it ended early")?.contains("--record-max"));
    assert!((1..7).contains(&recording.calls()), "{}", recording.calls());
    assert_same(&stage.replay(&ReplayOptions::default()).await?, recording.calls());
    Ok(())
}

#[tokio::test]
async fn a_call_that_is_too_large_ends_its_instance_alone() -> Result<()> {
    let mut stage = courier(Bounds { max_call_bytes: 2000, ..Bounds::default() }).await?;
    let recording = {
        stage.text()?;
        Recording::read(&stage.path())?
    };
    // Each instance is recorded up to its first delivery.
    assert_eq!(recording.calls(), 2);
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_recording_without_an_instance_leaves_no_file() -> Result<()> {
    for closes in [false, true] {
        let mut stage = Stage::new("noop", Bounds::default()).await?;
        assert!(stage.path().exists());
        if closes {
            stage.close();
        } else {
            // As where a host cannot start.
            stage.text().err().context("no file")?;
        }
        assert!(!stage.path().exists());
    }
    let mut stage = Stage::new("noop", Bounds::default()).await?;
    stage.instance(Cluster::new(&json!({})), false, Limits::default()).await?;
    stage.close();
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 0);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_replayed_is_said() -> Result<()> {
    let mut stage = courier(Bounds::default()).await?;
    let options = ReplayOptions { plugin: Some("that".to_owned()), ..ReplayOptions::default() };
    let error = stage.replay(&options).await.err().context("an error")?;
    assert_eq!(error.to_string(), "the recording has no plugin \"that\"; it has it");
    let other = Stage::new("batch", Bounds::default()).await?;
    let recording = Recording::read(&stage.path())?;
    let error = replay(&other.code, &recording, &ReplayOptions::default()).await.err().context("an error")?;
    assert!(matches!(error, ReplayError::OtherWorld { .. }), "{error}");
    assert!(matches!(Recording::parse(b"{}\n"), Err(FormatError::NoRecording)));
    let text = stage.text()?.replacen("\"format\":1", "\"format\":2", 1);
    assert!(matches!(Recording::parse(text.as_bytes()), Err(FormatError::OtherFormat { format: 2, .. })));
    let again = RecorderOptions {
        path: stage.path(),
        plugins: Vec::new(),
        keep_secrets: false,
        max_bytes: 1,
        max_call_bytes: 1,
        host: String::new(),
    };
    assert!(matches!(Recorder::create(again), Err(RecorderError::Exists(_))));
    Ok(())
}
