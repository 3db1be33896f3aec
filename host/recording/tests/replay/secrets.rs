//! Values of Secrets are in a recording as tokens, and the recording replays all the same.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use pilothouse_plugin::Limits;
use pilothouse_recording::ReplayOptions;
use serde_json::json;

use super::host::{Bounds, Cluster, Stage, TOKEN, assert_same, mode, secret};

const PASSWORD: &str = "hunter2 \"ö/?";

/// Records the courier, which carries the password everywhere.
async fn courier(bounds: Bounds, writes: bool) -> Result<Stage> {
    let stage = Stage::new("courier", bounds).await?;
    let cluster = || {
        Cluster::new(&json!({"password": "of-the-configuration", "mode": "open"}))
            .with(&secret("one", PASSWORD))?
            .with(&secret("two", "another-value"))?
            .with(&secret("leaky", PASSWORD))
    };
    let mut first = stage.instance(cluster()?, writes, Limits::default()).await?;
    for (id, key) in ["a/plain", "a/one", "a/two", "a/leaky", "a/gone"].into_iter().enumerate() {
        let answer = first.reconcile(key, id as u64 + 1).await?;
        assert_eq!(answer.is_err(), key == "a/leaky", "{key}: {answer:?}");
    }
    let mut second = stage.instance(cluster()?, writes, Limits::default()).await?;
    second.reconcile("a/one", 6).await?.expect("it is delivered");
    Ok(stage)
}

/// The forms in which a value may stand in a file.
fn forms(value: &str) -> Vec<String> {
    let json = |text: &str| {
        let quoted = serde_json::Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![value.to_owned(), json(value), json(&json(value)), format!("{value:?}"), hex];
    for before in ["", "x", "xx", "courier:", "prefix-"] {
        for engine in [&STANDARD, &URL_SAFE] {
            let text = engine.encode(format!("{before}{value}"));
            // Without what depends on what is around it.
            forms.push(text[4 * before.len().div_ceil(3)..text.len() - 4].to_owned());
        }
    }
    forms
}

#[tokio::test]
async fn a_value_of_a_secret_is_nowhere_in_a_recording_that_replays_the_same() -> Result<()> {
    for writes in [false, true] {
        let mut stage = courier(Bounds::default(), writes).await?;
        let text = stage.text()?;
        for value in [PASSWORD, "another-value", "of-the-configuration"] {
            for form in forms(value) {
                assert!(!text.contains(&form), "{form} of {value}");
            }
        }
        assert!(text.contains("courier has ") && text.contains("\"masked\":true"));
        assert_eq!(mode(&stage.path())?, 0o600);
        assert_same(&stage.replay(&ReplayOptions::default()).await?, 6);
    }
    Ok(())
}

#[tokio::test]
async fn a_value_that_the_guest_made_up_for_a_secret_cannot_be_made_again() -> Result<()> {
    let mut stage = courier(Bounds::default(), true).await?;
    let text = stage.text()?;
    let made = text.split("made up ").nth(1).expect("a line of the log");
    let made = &made[..16];
    assert!(text.matches(made).count() >= 3, "it is one token in the log, the Secret and the ConfigMap");
    let random = text.split("\"random\":\"").nth(1).expect("random bytes");
    let random = STANDARD.decode(random.split('"').next().unwrap_or_default())?;
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!text.contains(&hex), "the recorded bytes are the guest's");
    Ok(())
}

#[tokio::test]
async fn a_token_of_a_service_account_is_masked() -> Result<()> {
    let mut stage = Stage::new("courier", Bounds::default()).await?;
    let mut recorded = stage.instance(Cluster::new(&json!({})), false, Limits::default()).await?;
    recorded.reconcile("a/account", 1).await?.expect("done");
    let text = stage.text()?;
    assert!(text.contains("courier shows ") && text.contains("\"of\":\"TokenRequest\""), "{text}");
    for form in forms(TOKEN) {
        assert!(!text.contains(&form), "{form}");
    }
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 1);
    Ok(())
}

#[tokio::test]
async fn with_secrets_the_values_are_there() -> Result<()> {
    let mut stage = courier(Bounds { keep_secrets: true, ..Bounds::default() }, true).await?;
    let text = stage.text()?;
    assert!(text.contains("another-value") && text.contains(&STANDARD.encode("another-value")));
    assert_eq!(mode(&stage.path())?, 0o600);
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 6);
    Ok(())
}
