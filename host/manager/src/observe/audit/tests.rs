//! Lines, gaps and the end of an audit, on an output that can be held up and that can fail.

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use super::*;

/// An output of tests.
#[derive(Default)]
struct TestOut {
    lines: Mutex<Vec<String>>,
    /// Whether a write waits.
    is_held: Mutex<bool>,
    freed: Condvar,
    fails: AtomicBool,
}

impl Out for Arc<TestOut> {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let mut is_held = self.is_held.lock();
        while *is_held {
            self.freed.wait(&mut is_held);
        }
        if self.fails.load(SeqCst) {
            return Err(io::Error::other("full"));
        }
        self.lines.lock().push(String::from_utf8(line.to_vec()).unwrap());
        Ok(())
    }
}

impl TestOut {
    fn hold(&self, hold: bool) {
        *self.is_held.lock() = hold;
        self.freed.notify_all();
    }

    fn lines(&self) -> Vec<Value> {
        self.lines.lock().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// An audit whose lines are kept; and the lines, once it has ended.
pub(crate) struct TestAudit {
    pub(crate) audit: Audit,
    out: Arc<TestOut>,
}

impl TestAudit {
    pub(crate) fn new() -> Self {
        let out = Arc::<TestOut>::default();
        let audit = Audit::to(Box::new(Arc::clone(&out))).unwrap();
        Self { audit, out }
    }

    /// Ends the audit; its lines.
    pub(crate) async fn end(&self) -> Vec<Value> {
        self.audit.close(Duration::from_secs(60)).await;
        self.out.lines()
    }
}

fn record(audit: &Audit, name: &str) {
    let write =
        Write { verb: "update", version: "v1", resource: "pods", name: Some(name), ..Write::default() };
    audit.of(&"p".into(), 3, None).record(Began::now(), write, Ended::done(None, None));
}

fn count(audit: &Audit, result: &str) -> u64 {
    audit.counts().into_iter().find(|(name, _)| *name == result).unwrap().1
}

#[tokio::test]
async fn a_line_has_what_is_known_and_texts_are_cut() {
    let test = TestAudit::new();
    let key = "ns/key".parse().unwrap();
    let write = Write {
        key: Some(&key),
        call: 7,
        cluster: Some("east"),
        verb: "apply",
        group: "apps",
        version: "v1",
        resource: "deployments",
        subresource: Some("status"),
        namespace: Some("ns"),
        name: Some("before"),
        dry_run: true,
        demanded_version: Some("4"),
    };
    let plugin = test.audit.of(&"p".into(), 3, Some("system:serviceaccount:ns:robot".to_owned()));
    plugin.record(Began::now(), write, Ended::done(Some("given".to_owned()), Some("5".to_owned())));
    let status = pilothouse_client::Status { code: 409, reason: "Conflict".to_owned(), ..Default::default() };
    let refused = Ended::from(&pilothouse_client::Error::Api(Box::new(status)));
    let long = "ü".repeat(1000);
    // Names of some kinds have no bound.
    let long_key = format!("ns/{long}").parse().unwrap();
    let short = Write {
        key: Some(&long_key),
        verb: "delete",
        version: "v1",
        resource: "pods",
        name: Some(&long),
        ..Write::default()
    };
    plugin.record(Began::now(), short, refused);
    let mut lines = test.end().await;
    for line in &mut lines {
        assert!(line["time"].as_str().unwrap().parse::<Timestamp>().is_ok(), "{line}");
        assert!(line["milliseconds"].as_f64().unwrap() >= 0.0, "{line}");
        let line = line.as_object_mut().unwrap();
        line.remove("time");
        line.remove("milliseconds");
    }
    assert_eq!(
        lines[0],
        json!({
            "plugin": "p", "generation": 3, "key": "ns/key", "call": 7, "cluster": "east", "verb": "apply",
            "group": "apps", "version": "v1", "resource": "deployments", "subresource": "status", "namespace": "ns", "name": "given",
            "user": "system:serviceaccount:ns:robot", "dryRun": true, "outcome": "done",
            "resourceVersionBefore": "4", "resourceVersion": "5",
        })
    );
    assert_eq!(
        lines[1],
        json!({
            "plugin": "p", "generation": 3, "key": format!("ns/{}", "ü".repeat(157)), "verb": "delete", "group": "",
            "version": "v1", "resource": "pods",
            "name": "ü".repeat(126), "user": "system:serviceaccount:ns:robot", "outcome": "refused", "code": 409,
            "reason": "Conflict",
        })
    );
}

#[test]
fn an_error_says_whether_the_server_may_have_done_it() {
    use pilothouse_client::Error;
    let transport = |unsent| Error::Transport {
        doing: String::new(),
        message: String::new(),
        connection_refused: false,
        timeout: false,
        unsent,
    };
    let none = String::new;
    for (error, outcome) in [
        (transport(true), Outcome::Unsent),
        (transport(false), Outcome::Unknown),
        (Error::Protocol { doing: none(), message: none() }, Outcome::Unknown),
        (Error::Request(none()), Outcome::Unsent),
        (Error::Config(none()), Outcome::Unsent),
    ] {
        assert_eq!(Ended::from(&error).outcome, outcome, "{error:?}");
    }
}

#[tokio::test]
async fn nobody_waits_for_an_output_that_is_held_up_and_what_is_dropped_is_counted_and_said() {
    let test = TestAudit::new();
    test.out.hold(true);
    // One is with the thread, or about to be.
    let most = WAITING + 1;
    for number in 0..most + 10 {
        record(&test.audit, &number.to_string());
    }
    let dropped = count(&test.audit, "dropped");
    assert!((10..=11).contains(&dropped), "{dropped}");
    test.out.hold(false);
    let lines = test.end().await;
    let gaps: Vec<u64> = lines.iter().filter_map(|line| line["dropped"].as_u64()).collect();
    assert_eq!(gaps.iter().sum::<u64>(), dropped, "{gaps:?}");
    let names = lines.iter().filter_map(|line| line["name"].as_str());
    let kept = (most + 10) as u64 - dropped;
    assert_eq!(names.count() as u64, kept);
    assert_eq!(count(&test.audit, "written"), kept + gaps.len() as u64);
    // After its end nothing is written, and that is counted.
    record(&test.audit, "late");
    assert_eq!(count(&test.audit, "dropped"), dropped + 1);
}

#[tokio::test]
async fn a_line_that_cannot_be_written_is_counted_and_the_next_one_is_tried() {
    let test = TestAudit::new();
    test.out.fails.store(true, SeqCst);
    record(&test.audit, "a");
    pilothouse_testkit::poll::until("the line to fail", pilothouse_testkit::poll::SOON, || {
        count(&test.audit, "failed") == 1
    })
    .unwrap();
    test.out.fails.store(false, SeqCst);
    record(&test.audit, "b");
    let lines = test.end().await;
    assert_eq!((lines.len(), &lines[0]["name"]), (1, &json!("b")));
}

#[tokio::test]
async fn an_end_does_not_wait_for_ever() {
    let test = TestAudit::new();
    test.out.hold(true);
    record(&test.audit, "a");
    test.audit.close(Duration::from_millis(1)).await;
    test.out.hold(false);
}

#[tokio::test]
async fn a_thread_ends_with_the_last_handle() {
    let TestAudit { audit, out } = TestAudit::new();
    let ended = audit.shared.ended.clone();
    record(&audit, "a");
    drop(audit);
    ended.cancelled().await;
    assert_eq!(out.lines().len(), 1);
}
