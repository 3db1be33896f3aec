use super::*;

fn watch_pods() -> RequestAttributes<'static> {
    RequestAttributes {
        verb: "watch",
        resource: "pods",
        namespace: "a",
        path: "/api/v1/pods",
        ..RequestAttributes::default()
    }
}

fn hits(faults: &Faults, request: &RequestAttributes<'_>, calls: usize) -> Vec<bool> {
    (0..calls).map(|_| !faults.hits(request).is_empty()).collect()
}

#[test]
fn a_rule_hits_what_it_names() {
    for (rule, hit) in [
        (r#"{"fault":{"type":"reset"}}"#, true),
        (r#"{"verbs":["watch"],"resources":["pods"],"fault":{"type":"reset"}}"#, true),
        (r#"{"verbs":["list"],"fault":{"type":"reset"}}"#, false),
        (r#"{"resources":["pods.apps"],"fault":{"type":"reset"}}"#, false),
        (r#"{"resources":["pods/status"],"fault":{"type":"reset"}}"#, false),
        (r#"{"namespace":"a","fault":{"type":"reset"}}"#, true),
        (r#"{"namespace":"b","fault":{"type":"reset"}}"#, false),
        (r#"{"name":"x","fault":{"type":"reset"}}"#, false),
        (r#"{"path":"/api/v1","fault":{"type":"reset"}}"#, true),
        (r#"{"path":"/apis","fault":{"type":"reset"}}"#, false),
        (r#"{"user":"jane","fault":{"type":"reset"}}"#, false),
        (r#"{"fault":{"type":"silent"}}"#, true),
        (r#"{"fault":{"type":"stale","by":3}}"#, false),
    ] {
        let faults = Faults::default();
        faults.add(serde_json::from_str(rule).unwrap());
        assert_eq!(hits(&faults, &watch_pods(), 1), [hit], "{rule}");
    }
}

#[test]
fn the_nth_call_and_the_first_calls() {
    let faults = Faults::default();
    faults.add(FaultRule::on("watch", "pods", Fault::Reset).when(When::nth(3)));
    assert_eq!(hits(&faults, &watch_pods(), 5), [false, false, true, false, false]);
    faults.clear();
    faults.add(FaultRule::on("watch", "pods", Fault::Reset).when(When::first(2)));
    assert_eq!(hits(&faults, &watch_pods(), 3), [true, true, false]);
    assert_eq!((faults.list()[0].seen, faults.list()[0].hits), (3, 2));
}

#[test]
fn a_seed_stands_for_one_sequence() {
    let sequence = |seed| {
        let faults = Faults::default();
        let when = When { probability: Some(0.5), seed, ..When::default() };
        faults.add(FaultRule::new(Fault::Reset).when(when));
        hits(&faults, &watch_pods(), 64)
    };
    assert_eq!(sequence(1), sequence(1));
    assert_ne!(sequence(1), sequence(2));
    let count = sequence(1).iter().filter(|hit| **hit).count();
    assert!((16..48).contains(&count), "{count}");
}

#[test]
fn delays_and_repetitions_add_up_and_of_the_others_the_first_counts() {
    let faults = Faults::default();
    faults.add(FaultRule::new(Fault::Delay { milliseconds: 1 }));
    let reset = faults.add(FaultRule::new(Fault::Reset));
    faults.add(FaultRule::new(Fault::HalfOpen));
    faults.add(FaultRule::new(Fault::Delay { milliseconds: 2 }));
    faults.add(FaultRule::new(Fault::Duplicate));
    let ids: Vec<u64> = faults.hits(&watch_pods()).iter().map(|hit| hit.id).collect();
    assert_eq!(ids, [1, 2, 4, 5]);
    assert!(faults.remove(reset));
    assert!(!faults.remove(reset));
    let ids: Vec<u64> = faults.hits(&watch_pods()).iter().map(|hit| hit.id).collect();
    assert_eq!(ids, [1, 3, 4, 5]);
}

#[test]
fn a_rule_with_a_misspelt_field_is_refused() {
    let wrong = serde_json::from_str::<FaultRule>(r#"{"verb":["get"],"fault":{"type":"reset"}}"#);
    assert!(wrong.unwrap_err().to_string().contains("verb"));
}
