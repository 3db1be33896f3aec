//! [`Seen`]: what the API server and kubectl show of events, without what is as it happens to be; and its comparison.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::ControlPlane;
use serde_json::{Value, json};

/// What can be seen of events on the server.
pub(crate) struct Seen {
    /// In core/v1, and in events.k8s.io/v1.
    pub(crate) apis: [BTreeMap<String, Value>; 2],
    printed: Vec<String>,
}

impl Seen {
    /// What there is of events in a namespace, and about a node.
    pub(crate) fn of(plane: &ControlPlane, namespace: &str, node: &str) -> Result<Self> {
        Ok(Self {
            apis: [
                events(plane, namespace, node, "events")?,
                events(plane, namespace, node, "events.events.k8s.io")?,
            ],
            printed: printed(plane, namespace, node)?,
        })
    }
}

/// The Events as one API shows them, by reason and message, without what is as it happens to be.
fn events(
    plane: &ControlPlane,
    namespace: &str,
    node: &str,
    resource: &str,
) -> Result<BTreeMap<String, Value>> {
    let mut events = BTreeMap::new();
    let about = if resource == "events" { "involvedObject" } else { "regarding" };
    let of_node = format!("{about}.name={node}");
    for args in [["-n", namespace, "--field-selector", ""], ["-n", "default", "--field-selector", &of_node]] {
        let list = plane.kubectl(&[&["get", resource, "-o", "json"], &args[..]].concat())?;
        let list: Value = serde_json::from_str(&list)?;
        for event in list["items"].as_array().context("no items")? {
            let event = without_chance(event)?;
            let message = event.get("message").or(event.get("note")).and_then(Value::as_str);
            let words: String = message.unwrap_or_default().chars().take(60).collect();
            let key = format!("{} {words}", event["reason"].as_str().unwrap_or_default());
            let double = events.insert(key.clone(), event);
            ensure!(double.is_none(), "{key} is there twice");
        }
    }
    Ok(events)
}

/// What kubectl prints of them, line by line.
fn printed(plane: &ControlPlane, namespace: &str, node: &str) -> Result<Vec<String>> {
    let of_node = format!("involvedObject.name={node}");
    let mut lines = Vec::new();
    for (args, events_only) in [
        (vec!["get", "events", "-o", "wide", "-n", namespace], false),
        (vec!["get", "events", "-o", "wide", "-n", "default", "--field-selector", &of_node], false),
        (vec!["describe", "pod", "web", "-n", namespace], true),
        (vec!["describe", "pod", "many", "-n", namespace], true),
        (vec!["describe", "node", node], true),
    ] {
        let output = plane.kubectl(&args)?;
        let shown = if events_only { output.split_once("Events:").context("no events")?.1 } else { &output };
        let mut of_it: Vec<String> = shown.lines().map(words_without_chance).collect();
        // Events of one second come in any order.
        of_it.sort();
        lines.push(format!("$ kubectl {}", args.join(" ")));
        lines.extend(of_it);
    }
    Ok(lines)
}

/// An event whose times and name are as they have to be, without them.
fn without_chance(event: &Value) -> Result<Value> {
    let mut event = event.clone();
    let meta = event["metadata"].as_object_mut().context("no metadata")?;
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        ensure!(meta.remove(field).is_some(), "no {field}");
    }
    let name = meta["name"].as_str().unwrap_or_default().to_owned();
    let (about, nanoseconds) = name.rsplit_once('.').with_context(|| format!("named {name}"))?;
    ensure!(u64::from_str_radix(nanoseconds, 16).is_ok(), "named {name}");
    meta.insert("name".to_owned(), json!(format!("{about}.*")));
    let forms = [
        ("/firstTimestamp", 20),
        ("/lastTimestamp", 20),
        ("/deprecatedFirstTimestamp", 20),
        ("/deprecatedLastTimestamp", 20),
        ("/eventTime", 27),
        ("/series/lastObservedTime", 27),
    ];
    for (field, length) in forms {
        if let Some(time) = event.pointer_mut(field).filter(|time| !time.is_null()) {
            let text = time.as_str().unwrap_or_default();
            ensure!(text.len() == length && text.ends_with('Z'), "{field} is {time}");
            *time = json!("a time");
        }
    }
    Ok(event)
}

/// A line of kubectl without ages and without the ends of names.
fn words_without_chance(line: &str) -> String {
    let age = |word: &str| {
        let word = word.trim_end_matches(')');
        word.len() > 1
            && word.starts_with(|c: char| c.is_ascii_digit())
            && word.ends_with(['s', 'm'])
            && word.chars().all(|c| c.is_ascii_digit() || matches!(c, 's' | 'm'))
    };
    let named = |word: &str| {
        let (about, hex) = word.rsplit_once('.')?;
        (hex.len() == 16 && u64::from_str_radix(hex, 16).is_ok()).then(|| format!("{about}.*"))
    };
    let words = line.split_whitespace().map(|word| match named(word) {
        Some(name) => name,
        None if age(word) => "*".to_owned(),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A difference that is meant: a field of the event whose reason and message begin so, as client-go leaves it and as ours does. A
/// field `""` is the event itself, which is `null` where there is none.
pub(crate) struct Difference {
    pub(crate) why: &'static str,
    pub(crate) event: &'static str,
    /// As core/v1 shows it, and as events.k8s.io/v1 does.
    pub(crate) fields: [&'static str; 2],
    pub(crate) theirs: fn(&Value) -> bool,
    pub(crate) ours: fn(&Value) -> bool,
}

/// Takes what is meant to differ out of both, and then all is to be the same.
pub(crate) fn compare(theirs: &Seen, ours: &Seen, differences: &[Difference]) -> Result<()> {
    for (api, (theirs, ours)) in theirs.apis.iter().zip(&ours.apis).enumerate() {
        let (mut theirs, mut ours) = (theirs.clone(), ours.clone());
        for difference in differences {
            let Difference { why, event, fields, .. } = difference;
            for (whose, events, expected) in
                [("client-go's", &mut theirs, difference.theirs), ("our", &mut ours, difference.ours)]
            {
                let found = take(events, event, fields[api]);
                ensure!(expected(&found), "{why}: {whose} {:?} of {event:?} is {found}", fields[api]);
            }
        }
        let keys = |events: &BTreeMap<String, Value>| events.keys().cloned().collect::<Vec<_>>();
        ensure!(keys(&theirs) == keys(&ours), "theirs {:#?}, ours {:#?}", keys(&theirs), keys(&ours));
        for (key, theirs) in &theirs {
            ensure!(*theirs == ours[key], "{key}: client-go's {theirs:#}\nours {:#}", ours[key]);
        }
    }
    Ok(())
}

/// The same lines, but for those with one of these words.
pub(crate) fn compare_printed(theirs: &Seen, ours: &Seen, but: &[&str]) -> Result<()> {
    let lines = |seen: &Seen| {
        let same = |line: &&String| !but.iter().any(|word| line.contains(word));
        seen.printed.iter().filter(same).cloned().collect::<Vec<_>>()
    };
    let (theirs, ours) = (lines(theirs), lines(ours));
    ensure!(theirs == ours, "client-go's:\n{}\nours:\n{}", theirs.join("\n"), ours.join("\n"));
    Ok(())
}

/// Takes a field out of an event, or the event.
fn take(events: &mut BTreeMap<String, Value>, event: &str, field: &str) -> Value {
    let Some(key) = events.keys().find(|key| key.starts_with(event)).cloned() else { return Value::Null };
    if field.is_empty() {
        return events.remove(&key).unwrap_or_default();
    }
    let (parent, name) = field.rsplit_once('/').unwrap_or_default();
    let parent = events.get_mut(&key).and_then(|event| event.pointer_mut(parent));
    parent.and_then(Value::as_object_mut).and_then(|parent| parent.remove(name)).unwrap_or_default()
}
