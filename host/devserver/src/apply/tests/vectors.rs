//! Writes as the real libraries do them: `tests/data/applies.jsonl`, a case a line. The suite `apply` of `peers` compares others.

use serde_json::Value;

use crate::apply::testing::replay_applies;

#[test]
fn writes_are_owned_merged_and_refused_as_by_the_real_libraries() {
    let mut writes = 0;
    let mut failures = Vec::new();
    let lines: Vec<&str> = include_str!("../../../tests/data/applies.jsonl").lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        match replay_applies(&case) {
            Ok(count) => writes += count,
            Err(why) => {
                failures.push(format!("case {index} ({}): {why}\n  schema {}", case["kind"], case["schema"]));
            }
        }
    }
    let shown = &failures[..failures.len().min(5)];
    assert!(failures.is_empty(), "{} of {} cases differ:\n{}", failures.len(), lines.len(), shown.join("\n"));
    assert!(writes > lines.len());
}
