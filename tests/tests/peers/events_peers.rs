//! What recorders leave on the real API server: the same calls are made by client-go's (`tests/clientgo/recorder`) and by ours, and
//! the Events are compared field by field, in both APIs, and with them what `kubectl get events` and `kubectl describe` show.
//!
//! Both record about the same objects, one after the other. Names end, and times are, as they happen to be: both are checked for their
//! form only. What differs is listed, each with its reason (docs/events.md, "Differences from client-go"), and must differ just so.

mod recorders;
mod seen;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use recorders::{Api, Call, PAST, Recorders};
use seen::{Difference, compare, compare_printed};
use serde_json::Value;

pilothouse_tests::on_the_real_server!(
    core_v1_events_are_those_that_client_go_records,
    events_k8s_io_events_are_those_that_client_go_records,
);

fn about(kind: &str, name: &str, r#type: &str, reason: &str, message: &str) -> Call {
    let [method, kind, name, r#type, reason, message] =
        ["eventf", kind, name, r#type, reason, message].map(str::to_owned);
    Call { method, kind, name, r#type, reason, message, ..Call::default() }
}

fn web(reason: &str, message: &str) -> Call {
    about("Pod", "web", "Normal", reason, message)
}

fn long() -> String {
    "long ".repeat(240)
}

/// One API shows an empty text, the other leaves it out.
fn is_empty(text: &Value) -> bool {
    text.is_null() || text == ""
}

fn is_long_text(text: &Value, length: usize) -> bool {
    text.as_str().is_some_and(|text| text.len() == length && long().starts_with(text))
}

fn core_v1_events_are_those_that_client_go_records() -> Result<()> {
    let recorders = Recorders::set("events-record")?;
    let mut calls = vec![
        Call { method: "event".to_owned(), ..web("Plain", "100% done") },
        web("Formatted", "pulled \"example/none:1\" in 1.2s"),
        about("Pod", "web", "Warning", "Failed", "could not"),
        Call {
            method: "annotated".to_owned(),
            annotations: BTreeMap::from([("a".to_owned(), "b".to_owned()), ("c".to_owned(), String::new())]),
            ..web("Annotated", "with notes")
        },
        web("Twice", "two of it"),
        web("Thrice", "three of it"),
        web("Twice", "two of it"),
        web("Thrice", "three of it"),
        web("Thrice", "three of it"),
        about("Node", "", "Normal", "OfNode", "of a cluster-scoped object"),
        Call { field_path: "spec.containers{main}".to_owned(), ..web("OfPart", "of a container") },
        web("Empty", ""),
        web("Länge", "Ünïcödé ✓"),
        web("Long", &long()),
    ];
    // client-go's was taken out; what it had was a plain event at another time.
    calls.push(Call { method: "past".to_owned(), ..web("Past", "long ago") });
    // 10 of 13 are four too many: nine stay, the others become one.
    calls.extend((0..13).map(|n| about("Pod", "many", "Normal", "Similar", &format!("text {n:02}"))));
    let (theirs, ours, _running) = recorders.both(Api::Record, &calls)?;

    compare(
        &theirs,
        &ours,
        &[
            Difference {
                why: "the combined event carries the reporting controller",
                event: "Similar (combined",
                fields: ["/reportingComponent", "/reportingController"],
                theirs: is_empty,
                ours: |value| value == "shop",
            },
            Difference {
                why: "the combined event carries the reporting instance",
                event: "Similar (combined",
                fields: ["/reportingInstance", "/reportingInstance"],
                theirs: is_empty,
                ours: |value| value == "node-1",
            },
            Difference {
                why: "texts are cut",
                event: "Long ",
                fields: ["/message", "/note"],
                theirs: |text| is_long_text(text, 1200),
                ours: |text| is_long_text(text, 1024),
            },
        ],
    )?;
    compare_printed(&theirs, &ours, &["Long", "Past"])?;
    for field in ["firstTimestamp", "lastTimestamp"] {
        let path = format!(r#"-o=jsonpath={{.items[?(@.reason=="Past")].{field}}}"#);
        let time = recorders.plane.kubectl(&["get", "events", "-n", recorders.namespace, &path])?;
        ensure!(time == PAST, "{field} of what is past is {time}");
    }
    Ok(())
}

fn events_k8s_io_events_are_those_that_client_go_records() -> Result<()> {
    let recorders = Recorders::set("events-events")?;
    let acting = |call: Call| Call { action: "Acting".to_owned(), ..call };
    let calls = [
        acting(web("Plain", "100% done")),
        acting(about("Pod", "web", "Warning", "Failed", "could not")),
        Call { related: "other".to_owned(), action: "Scaling".to_owned(), ..web("Related", "with another") },
        acting(web("Twice", "the first of two")),
        acting(web("Thrice", "the first of three")),
        // A series has the text of its first event.
        acting(web("Twice", "the second of two")),
        acting(web("Thrice", "the second of three")),
        acting(web("Thrice", "the third of three")),
        acting(about("Node", "", "Normal", "OfNode", "of a cluster-scoped object")),
        acting(Call { field_path: "spec.containers{main}".to_owned(), ..web("OfPart", "of a container") }),
        acting(web("Empty", "")),
        acting(web("Länge", "Ünïcödé ✓")),
        acting(web("Long", &long())),
        web("Actionless", "without an action"),
    ];
    let (theirs, ours, (broadcaster, _watch)) = recorders.both(Api::Events, &calls)?;
    compare(
        &theirs,
        &ours,
        &[
            Difference {
                why: "texts are cut, where the server refuses client-go's",
                event: "Long ",
                fields: ["", ""],
                theirs: Value::is_null,
                ours: |event| is_long_text(event.get("note").unwrap_or(&event["message"]), 1024),
            },
            Difference {
                why: "the reason stands in for an action, where the server refuses client-go's",
                event: "Actionless ",
                fields: ["", ""],
                theirs: Value::is_null,
                ours: |event| event["action"] == "Actionless",
            },
        ],
    )?;
    compare_printed(&theirs, &ours, &["Long", "Actionless"])?;

    // A shutdown writes the counts that the server lacks: of the third. client-go would have at the series' end.
    let count = |seen: &seen::Seen, event: &str| -> Result<Vec<Value>> {
        let found = |events: &BTreeMap<String, Value>| {
            events
                .iter()
                .find(|(key, _)| key.starts_with(event))
                .map(|(_, event)| event["series"]["count"].clone())
        };
        seen.apis.iter().map(|events| found(events).with_context(|| format!("no {event}"))).collect()
    };
    for seen in [&theirs, &ours] {
        assert_eq!((count(seen, "Twice ")?, count(seen, "Thrice ")?), (vec![2.into(); 2], vec![2.into(); 2]));
    }
    assert!(recorders.runtime.block_on(broadcaster.shutdown(Duration::from_secs(60))));
    let ours = recorders.seen()?;
    assert_eq!((count(&ours, "Twice ")?, count(&ours, "Thrice ")?), (vec![2.into(); 2], vec![3.into(); 2]));
    Ok(())
}
