//! The events of the audit, as lines of the log in JSON.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

/// The lines of the audit that this thread writes while the guard lives.
#[derive(Clone, Default)]
pub(crate) struct AuditLines(Arc<Mutex<Vec<u8>>>);

impl AuditLines {
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        Self::filtered("info,pilothouse::audit=debug")
    }

    fn filtered(filter: &str) -> (Self, DefaultGuard) {
        let lines = Self::default();
        let out = lines.clone();
        let layer =
            tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(move || out.clone());
        let filter: Targets = filter.parse().unwrap();
        (lines, pilothouse_testkit::log::subscribe(tracing_subscriber::registry().with(filter).with(layer)))
    }

    /// Those so far.
    pub(crate) fn get(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["target"] == AUDIT).collect()
    }
}

impl io::Write for AuditLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_has_what_is_known_and_texts_are_cut() {
    let (lines, _guard) = AuditLines::capture();
    let key = "ns/key".parse().unwrap();
    let write = Write {
        key: Some(&key),
        call: 7,
        cluster: Some("east"),
        verb: "apply",
        group: "apps",
        resource: "deployments",
        subresource: Some("status"),
        namespace: Some("ns"),
        name: Some("before"),
        dry_run: true,
    };
    record("p", &write, &Ended::done(Some("given")));
    let status = pilothouse_client::Status { code: 409, reason: "Conflict".to_owned(), ..Default::default() };
    let error = Error::Api(Box::new(status));
    let long = "ü".repeat(1000);
    // Names of some kinds have no bound.
    let long_key = format!("ns/{long}").parse().unwrap();
    let short = Write {
        key: Some(&long_key),
        verb: "delete",
        resource: "pods",
        name: Some(&long),
        ..Write::default()
    };
    record("p", &short, &Ended::from(&error));
    let mut lines = lines.get();
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("timestamp").unwrap();
    }
    let wanted = json!({
        "level": "DEBUG", "target": "pilothouse::audit", "message": "write", "plugin": "p", "key": "ns/key",
        "call": 7, "cluster": "east", "verb": "apply", "group": "apps", "resource": "deployments",
        "subresource": "status", "namespace": "ns", "name": "given", "dry_run": true, "result": "done",
    });
    assert_eq!(lines[0], wanted);
    let wanted = json!({
        "level": "DEBUG", "target": "pilothouse::audit", "message": "write", "plugin": "p",
        "key": format!("ns/{}", "ü".repeat(157)), "verb": "delete", "group": "", "resource": "pods",
        "name": "ü".repeat(126), "result": "refused", "code": 409, "reason": "Conflict",
    });
    assert_eq!(lines[1], wanted);
}

#[test]
fn a_log_that_does_not_name_the_target_has_no_lines() {
    let (lines, _guard) = AuditLines::filtered("info");
    record("p", &Write { verb: "delete", resource: "pods", ..Write::default() }, &Ended::done(None));
    assert_eq!(lines.get(), [Value::Null; 0]);
}

#[test]
fn an_error_says_whether_the_server_may_have_done_it() {
    let transport = |unsent| Error::Transport {
        doing: String::new(),
        message: String::new(),
        connection_refused: false,
        timeout: false,
        unsent,
    };
    let none = String::new;
    for (error, result) in [
        (transport(true), WriteResult::Unsent),
        (transport(false), WriteResult::Unknown),
        (Error::Protocol { doing: none(), message: none() }, WriteResult::Unknown),
        (Error::Request(none()), WriteResult::Unsent),
        (Error::Config(none()), WriteResult::Unsent),
    ] {
        assert_eq!(Ended::from(&error).result, result, "{error:?}");
    }
}
