//! Violations of the rules are found.

use serde_json::json;

use super::*;

fn line(message: &str, key: &str, generation: u64, call: u64) -> Line {
    let fields = json!({"attempt": "0", "reasons": "added,owned"}).to_string();
    let line = json!({
        "timestamp": "2025-01-01T00:00:00.5Z", "level": "INFO", "target": "guest", "plugin": "probe", "message": message,
        "key": key, "generation": generation, "call": call, "fields": fields,
    });
    serde_json::from_value(line).unwrap()
}

fn problems(lines: &[Line]) -> Vec<String> {
    CallLog::read(lines).unwrap().problems
}

#[test]
fn calls_of_different_keys_may_overlap() {
    let lines = [
        line("begin", "a", 1, 1),
        line("begin", "b", 2, 2),
        line("end", "a", 1, 1),
        line("begin", "a", 2, 3),
        line("end", "b", 2, 2),
    ];
    let log = CallLog::read(&lines).unwrap();
    assert_eq!(log.problems, [""; 0]);
    assert_eq!(log.on(2).map(|call| call.key.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(log.calls[0].reasons, ["added", "owned"]);
    let error = log.check().unwrap_err().to_string();
    assert!(error.starts_with("1 problems:\na: a call has not ended"), "{error}");
}

#[test]
fn two_calls_of_a_key_at_once_are_told() {
    let told = problems(&[line("begin", "a", 1, 1), line("begin", "a", 1, 2)]);
    assert_eq!(told, ["a: call 2 began while call 1 was under way"]);
}

#[test]
fn a_call_that_changes_its_generation_is_told() {
    let told = problems(&[line("begin", "a", 1, 1), line("end", "a", 2, 1)]);
    assert_eq!(told, ["a: call 1 began on generation 1 and ended on 2"]);
}

#[test]
fn a_key_that_goes_back_to_an_old_generation_is_told() {
    let told = problems(&[line("begin", "a", 2, 1), line("end", "a", 2, 1), line("begin", "a", 1, 2)]);
    assert_eq!(told, ["a: call 2 began on generation 1 after 2"]);
}

#[test]
fn an_end_of_another_call_is_told() {
    let told = problems(&[line("begin", "a", 1, 1), line("end", "a", 1, 2)]);
    assert_eq!(told, ["a: call 2 ended, but under way was Some((1, 0))"]);
}

#[test]
fn a_fault_is_told() {
    let mut fault = line("guest fault: cpu", "a", 1, 1);
    (fault.target, fault.fault) = ("pilothouse_manager".to_owned(), "cpu".to_owned());
    let told = problems(&[line("begin", "a", 1, 1), fault, line("begin", "a", 1, 2), line("end", "a", 1, 2)]);
    assert_eq!(told, ["a: guest fault: cpu"]);
}
