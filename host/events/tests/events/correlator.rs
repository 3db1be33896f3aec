//! The correlator's rules, with the vectors of client-go's tests.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pilothouse_events::{
    Correlated, Correlation, CorrelatorOptions, Event, EventCorrelator, EventSource, EventType, KeyBuilder,
    Recorded,
};

use crate::support::{BEGIN, about, event, pod};

/// A correlator whose every write is stored, and the time.
struct Run {
    correlator: EventCorrelator,
    now: Timestamp,
}

impl Run {
    fn new(options: CorrelatorOptions) -> Self {
        Self { correlator: EventCorrelator::new(options), now: BEGIN }
    }

    fn correlate(&mut self, event: Event) -> Correlated {
        let correlated = self.correlator.correlate(event, self.now);
        if let Correlated::Create(correlation) | Correlated::Patch(correlation) = &correlated {
            self.correlator.update_state(correlation, Recorded::from(&correlation.event));
        }
        correlated
    }

    fn after(&mut self, seconds: u64, event: Event) -> Correlated {
        self.now += Duration::from_secs(seconds);
        self.correlate(event)
    }
}

fn default() -> Run {
    Run::new(CorrelatorOptions::default())
}

fn created(correlated: Correlated) -> Correlation {
    match correlated {
        Correlated::Create(correlation) => correlation,
        other => panic!("not created: {other:?}"),
    }
}

fn patched(correlated: Correlated) -> Correlation {
    match correlated {
        Correlated::Patch(correlation) => correlation,
        other => panic!("not patched: {other:?}"),
    }
}

#[test]
fn an_event_that_comes_again_is_counted_under_its_first_name_and_time() {
    let mut run = default();
    assert_eq!(created(run.correlate(event("a"))).event.count, 1);
    for count in 2..=5 {
        let mut again = event("a");
        again.name = format!("web.{count}").into();
        again.first_timestamp = BEGIN + Duration::from_secs(count);
        again.last_timestamp = again.first_timestamp;
        let correlation = patched(run.after(1, again.clone()));
        assert!(!correlation.aggregated);
        assert_eq!(u64::from(correlation.event.count), count);
        assert_eq!(&*correlation.event.name, "web.a");
        assert_eq!(correlation.event.first_timestamp, BEGIN);
        assert_eq!(correlation.event.last_timestamp, again.last_timestamp);
    }
}

#[test]
fn an_event_that_comes_eleven_times_in_half_minutes_is_never_combined() {
    let mut run = default();
    for _ in 0..10 {
        run.after(30, event("a"));
    }
    let eleventh = patched(run.after(30, event("a")));
    assert_eq!((eleventh.event.count, eleventh.aggregated), (11, false));
}

#[test]
fn the_twenty_seventh_in_as_many_seconds_is_spam() {
    let mut run = default();
    let passed = (0..26).filter(|_| run.after(1, event("a")) != Correlated::Skip).count();
    assert_eq!(passed, 25);
    assert_eq!(run.after(1, event("a")), Correlated::Skip);
}

#[test]
fn what_was_skipped_is_in_the_count_of_what_passes_next() {
    let mut run = default();
    for _ in 0..27 {
        run.correlate(event("a"));
    }
    let next = patched(run.after(300, event("a")));
    assert_eq!(next.event.count, 28);
}

#[test]
fn a_bucket_refills_with_one_event_in_three_hundred_seconds() {
    let mut run = default();
    for _ in 0..25 {
        run.correlate(event("a"));
    }
    assert_eq!(run.after(299, event("a")), Correlated::Skip);
    assert_ne!(run.after(1, event("a")), Correlated::Skip);
    assert_eq!(run.after(1, event("a")), Correlated::Skip);
}

#[test]
fn each_source_and_object_and_type_has_its_own_bucket() {
    let mut run = default();
    for _ in 0..30 {
        run.correlate(event("a"));
    }
    assert_eq!(run.correlate(about(pod("web"), "Other", "b")), Correlated::Skip, "the reason does not count");
    assert_ne!(run.correlate(about(pod("other"), "Failed", "a")), Correlated::Skip);
    let mut warning = event("a");
    Arc::make_mut(&mut warning.body).event_type = EventType::Warning;
    assert_ne!(run.correlate(warning), Correlated::Skip);
    let mut other_source = event("a");
    Arc::make_mut(&mut other_source.body).source = Arc::new(EventSource::new("kubelet", "node-2"));
    assert_ne!(run.correlate(other_source), Correlated::Skip);
}

#[test]
fn nine_similar_events_and_one_more_become_one() {
    let mut run = default();
    for at in 0..9 {
        let correlation = created(run.after(1, event(&format!("message {at}"))));
        assert!(!correlation.aggregated);
    }
    let tenth = created(run.after(1, event("message 9")));
    assert!(tenth.aggregated);
    let event = tenth.event;
    assert_eq!(event.count, 1);
    assert_eq!(&*event.message, "(combined from similar events): message 9");
    assert_eq!((event.first_timestamp, event.last_timestamp), (run.now, run.now));
}

#[test]
fn an_eleventh_similar_event_is_counted_in_the_combined_one() {
    let mut run = default();
    for at in 0..9 {
        run.after(1, event(&format!("message {at}")));
    }
    let combined = created(run.after(1, event("message 9"))).event;
    let eleventh = patched(run.after(1, event("message 10")));
    assert!(eleventh.aggregated);
    assert_eq!(eleventh.event.count, 2);
    assert_eq!(
        (&eleventh.event.name, eleventh.event.first_timestamp),
        (&combined.name, combined.first_timestamp)
    );
    assert_eq!(&*eleventh.event.message, "(combined from similar events): message 10");
    assert_eq!(eleventh.event.last_timestamp, run.now);
}

#[test]
fn events_that_were_there_before_go_on_counting_beside_the_combined_one() {
    let mut run = default();
    for at in 0..12 {
        run.after(1, event(&format!("message {at}")));
    }
    for at in 0..9 {
        let again = patched(run.after(1, event(&format!("message {at}"))));
        assert_eq!((again.event.count, again.aggregated), (2, false), "message {at}");
    }
}

#[test]
fn similar_events_more_than_six_hundred_seconds_apart_are_never_combined() {
    let mut run = default();
    for at in 0..30 {
        assert!(!created(run.after(601, event(&format!("message {at}")))).aggregated);
    }
    let mut run = default();
    let combined = |run: &mut Run, at| match run.after(600, event(&format!("message {at}"))) {
        Correlated::Create(correlation) | Correlated::Patch(correlation) => correlation.aggregated,
        Correlated::Skip => false,
    };
    assert!((0..10).any(|at| combined(&mut run, at)), "but they are in less");
}

#[test]
fn events_of_different_containers_are_counted_apart() {
    let mut run = default();
    for container in ["web", "sidecar"] {
        let regarding = pod("web").with_field_path(&format!("spec.containers{{{container}}}"));
        assert_eq!(created(run.correlate(about(regarding.clone(), "Failed", "a"))).event.count, 1);
        assert_eq!(patched(run.correlate(about(regarding, "Failed", "a"))).event.count, 2);
    }
}

#[test]
fn parts_of_keys_that_read_the_same_together_are_different_keys() {
    let mut run = default();
    let mut first = pod("web");
    (first.kind, first.namespace, first.name) = ("Pod".into(), "a".into(), "bc".into());
    let mut second = first.clone();
    (second.namespace, second.name) = ("ab".into(), "c".into());
    created(run.correlate(about(first.clone(), "Failed", "x")));
    created(run.correlate(about(second.clone(), "Failed", "x")));
    // The reason ends where the message begins.
    created(run.correlate(about(first.clone(), "FailedA", "message")));
    created(run.correlate(about(first.clone(), "Failed", "Amessage")));
    // Nor are they mixed up by the filter.
    for _ in 0..30 {
        run.correlate(about(first.clone(), "Failed", "x"));
    }
    assert_eq!(run.correlate(about(first, "Failed", "x")), Correlated::Skip);
    assert_ne!(run.correlate(about(second, "Failed", "x")), Correlated::Skip);
}

#[test]
fn every_field_of_the_keys_tells_events_apart() {
    let mut run = default();
    created(run.correlate(event("a")));
    let changes: [fn(&mut Event); 12] = [
        |event| edit(event, |object| object.kind.push('x')),
        |event| edit(event, |object| object.namespace.push('x')),
        |event| edit(event, |object| object.name.push('x')),
        |event| edit(event, |object| object.uid.push('x')),
        |event| edit(event, |object| object.api_version.push('x')),
        |event| edit(event, |object| object.field_path.push('x')),
        |event| Arc::make_mut(&mut event.body).event_type = EventType::Warning,
        |event| Arc::make_mut(&mut event.body).reason.push('x'),
        |event| {
            Arc::make_mut(&mut event.body).source =
                Arc::new(EventSource::with_instance("x", "node-1", "node-1"));
        },
        |event| {
            Arc::make_mut(&mut event.body).source =
                Arc::new(EventSource::with_instance("kubelet", "x", "node-1"));
        },
        |event| {
            Arc::make_mut(&mut event.body).source =
                Arc::new(EventSource::with_instance("kubelet", "node-1", "x"));
        },
        |event| event.message = "b".into(),
    ];
    for change in changes {
        let mut other = event("a");
        change(&mut other);
        created(run.correlate(other.clone()));
        patched(run.correlate(other));
    }
    // A version of the object is no other object.
    let mut newer = event("a");
    edit(&mut newer, |object| object.resource_version.push('x'));
    patched(run.correlate(newer));
}

fn edit(event: &mut Event, change: impl FnOnce(&mut pilothouse_events::ObjectReference)) {
    change(Arc::make_mut(&mut Arc::make_mut(&mut event.body).regarding));
}

#[test]
fn an_event_that_was_never_written_is_created_with_its_whole_count() {
    let mut correlator = EventCorrelator::new(CorrelatorOptions::default());
    let first = created(correlator.correlate(event("a"), BEGIN));
    let second = created(correlator.correlate(event("a"), BEGIN));
    assert_eq!((second.event.count, &second.event.name), (2, &first.event.name));
    correlator.update_state(&second, Recorded::from(&second.event));
    assert_eq!(patched(correlator.correlate(event("a"), BEGIN)).event.count, 3);
}

#[test]
fn what_the_sink_has_made_of_an_event_is_counted_on_from() {
    let mut correlator = EventCorrelator::new(CorrelatorOptions::default());
    let first = created(correlator.correlate(event("a"), BEGIN));
    let earlier = BEGIN - Duration::from_secs(60);
    correlator.update_state(&first, Recorded { name: "other".into(), count: 7, first_timestamp: earlier });
    let next = patched(correlator.correlate(event("a"), BEGIN)).event;
    assert_eq!((&*next.name, next.count, next.first_timestamp), ("other", 8, earlier));
}

#[test]
fn a_combined_message_keeps_the_api_s_limit_and_no_annotations() {
    let mut run = default();
    let long = |at: usize| format!("{at}{}", "é".repeat(511));
    for at in 0..9 {
        run.correlate(event(&long(at)));
    }
    let mut tenth = event(&long(9));
    Arc::make_mut(&mut tenth.body).annotations.push(("a".to_owned(), "b".to_owned()));
    let combined = created(run.correlate(tenth)).event;
    assert!(combined.message.starts_with("(combined from similar events): 9é"));
    assert_eq!(combined.message.len(), 1023, "the last character would not fit");
    assert!(combined.body.annotations.is_empty());
}

#[test]
fn the_caches_forget_what_was_not_seen_for_longest() {
    let mut run = Run::new(CorrelatorOptions { lru_cache_size: 2, ..CorrelatorOptions::default() });
    for name in ["a", "b", "c"] {
        created(run.correlate(about(pod(name), "Failed", "x")));
    }
    assert_eq!(patched(run.correlate(about(pod("b"), "Failed", "x"))).event.count, 2);
    assert_eq!(created(run.correlate(about(pod("a"), "Failed", "x"))).event.count, 1);
    assert_eq!(created(run.correlate(about(pod("c"), "Failed", "x"))).event.count, 1);
}

#[test]
fn burst_and_rate_are_options() {
    let options = CorrelatorOptions { burst_size: 2, qps: 0.5, ..CorrelatorOptions::default() };
    let mut run = Run::new(options);
    let passes = |correlated| correlated != Correlated::Skip;
    assert!(passes(run.correlate(event("a"))) && passes(run.correlate(event("a"))));
    assert!(!passes(run.correlate(event("a"))) && !passes(run.after(1, event("a"))));
    assert!(passes(run.after(1, event("a"))) && !passes(run.after(1, event("a"))));
}

#[test]
fn number_and_interval_of_similar_events_are_options() {
    let options =
        CorrelatorOptions { max_events: 3, max_interval_in_seconds: 5, ..CorrelatorOptions::default() };
    let mut run = Run::new(options);
    let mut at = 0;
    let mut aggregated = |run: &mut Run, seconds| {
        at += 1;
        created(run.after(seconds, event(&at.to_string()))).aggregated
    };
    assert!(!aggregated(&mut run, 1) && !aggregated(&mut run, 6) && !aggregated(&mut run, 5));
    assert!(aggregated(&mut run, 5));
}

#[test]
fn keys_and_messages_are_options() {
    let options = CorrelatorOptions {
        max_events: 2,
        burst_size: 3,
        key_func: Some(Arc::new(
            |event: &Event, aggregate: &mut KeyBuilder<'_>, local: &mut KeyBuilder<'_>| {
                aggregate.part(&event.body.regarding.kind);
                local.part(&event.body.regarding.name);
            },
        )),
        message_func: Some(Arc::new(|event: &Event| format!("many like {}", event.body.regarding.name))),
        spam_key_func: Some(Arc::new(|event: &Event, key: &mut KeyBuilder<'_>| {
            key.part(&event.body.reason);
        })),
        ..CorrelatorOptions::default()
    };
    let mut run = Run::new(options);
    assert!(!created(run.correlate(about(pod("a"), "Failed", "1"))).aggregated);
    assert!(!created(run.correlate(about(pod("a"), "Failed", "2"))).aggregated, "the same local key");
    let combined = created(run.correlate(about(pod("b"), "Failed", "3")));
    assert_eq!((combined.aggregated, &*combined.event.message), (true, "many like b"));
    assert_eq!(run.correlate(about(pod("c"), "Failed", "4")), Correlated::Skip, "three of one reason");
    assert_ne!(run.correlate(about(pod("c"), "Other", "4")), Correlated::Skip);
}

#[test]
fn with_an_immense_number_of_similar_events_none_is_combined() {
    let options = CorrelatorOptions { max_events: 1025, burst_size: 2_000, ..CorrelatorOptions::default() };
    let mut run = Run::new(options);
    for at in 0..1_100 {
        assert!(!created(run.correlate(event(&at.to_string()))).aggregated);
    }
}
