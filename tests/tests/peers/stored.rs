//! Kinds that controllers seldom write: both servers store an object, show it as it was sent, and refuse what is wrong with its
//! metadata or of another type. What else a real server checks of these kinds, the development server does not.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::sides::{Both, Side, Verdict};

pilothouse_tests::on_the_real_server!(kinds_that_are_seldom_written_are_stored_and_shown);

const NAME: &str = "barrel";

/// What a server makes of an object, and of the same one with something wrong.
#[derive(Debug, PartialEq)]
struct Made {
    /// What it shows of the fields that were sent.
    shown: Value,
    labelled: Verdict,
    of_another_type: Verdict,
    unknown_field: Verdict,
    changed: Verdict,
    deleted: Verdict,
}

fn kinds_that_are_seldom_written_are_stored_and_shown() -> Result<()> {
    let kinds: BTreeMap<String, Value> =
        serde_saphyr::from_str(include_str!("stored.yaml")).context("the objects")?;
    let both = Both::start()?;
    let (real, development) = both.each(async |side| {
        side.make_namespace("cellar").await?;
        let mut all = Vec::new();
        for (path, object) in &kinds {
            all.push(make(side, path, object).await.with_context(|| path.clone())?);
        }
        Ok(all)
    })?;
    for ((path, object), (real, ours)) in kinds.iter().zip(real.iter().zip(&development)) {
        ensure!(real == ours, "{path}\n--- real {real:?}\n--- ours {ours:?}");
        ensure!(real.shown == *object, "{path}\n--- sent {object}\n--- shown {}", real.shown);
        ensure!(matches!(real.labelled, Verdict::Refused { code: 422, .. }), "{path}: {real:?}");
        ensure!(matches!(real.of_another_type, Verdict::Refused { code: 400, .. }), "{path}: {real:?}");
    }
    Ok(())
}

async fn make(side: &Side, path: &str, object: &Value) -> Result<Made> {
    let parts: Vec<&str> = path.split('/').collect();
    let version = if parts[1] == "api" { parts[2].to_owned() } else { format!("{}/{}", parts[2], parts[3]) };
    let mut whole = object.clone();
    whole["apiVersion"] = version.into();
    whole["metadata"] = json!({"name": NAME});
    let with = |pointer: &str, value: Value| {
        let mut other = whole.clone();
        other["metadata"]["name"] = "other".into();
        match pointer.split_once('/') {
            Some((above, field)) => other[above][field] = value,
            None => other[pointer] = value,
        }
        other
    };
    let strict = [("fieldValidation", "Strict".to_owned())];
    let labelled = side.create(path, &with("metadata/labels", json!({"a": "-b-"}))).await?.verdict();
    let field = object.as_object().and_then(|fields| fields.keys().rfind(|field| *field != "kind"));
    let field = field.context("no field")?;
    let wrong = if object[field].is_number() { json!("text") } else { json!(5) };
    let of_another_type = side.create(path, &with(field, wrong)).await?.verdict();
    let unknown = with("surprise", json!(1));
    let unknown_field = side.write("POST", path, &strict, &unknown).await?.verdict();
    side.make(path, &whole).await?;
    let one = format!("{path}/{NAME}");
    let stored = side.get(&one).await?;
    let changed = side.merge(&one, &json!({"metadata": {"labels": {"a": "b"}}})).await?.verdict();
    let deleted = side.write("DELETE", &one, &[], &json!({})).await?.verdict();
    let shown = shown(object, &stored.body);
    Ok(Made { shown, labelled, of_another_type, unknown_field, changed, deleted })
}

/// What is shown of the fields that were sent: a server adds others.
fn shown(sent: &Value, stored: &Value) -> Value {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(_)) => {
            sent.iter().map(|(field, value)| (field.clone(), shown(value, &stored[field]))).collect()
        }
        (Value::Array(sent), Value::Array(stored)) if sent.len() == stored.len() => {
            sent.iter().zip(stored).map(|(sent, stored)| shown(sent, stored)).collect()
        }
        _ => stored.clone(),
    }
}
