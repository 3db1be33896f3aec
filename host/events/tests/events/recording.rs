//! How events get to a sink by way of the correlator: tries, waits, patches and creates.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_client::{Error, Status, StatusCause, StatusDetails};
use pilothouse_events::{
    BroadcasterOptions, EventBroadcaster, EventType, FnSink, MAX_TRIES_PER_EVENT, MemorySink, SinkCounts,
    SinkError, Write,
};
use tokio::time::Instant;

use crate::support::{
    BEGIN, Scripted, broadcaster, exists, not_found, options, pod, recorder, settled, transient,
};

type Script = Vec<Result<(), SinkError>>;

/// Records that many equal events about `web` to a sink with a script, and waits for their end.
async fn record(script: Script, events: u64) -> (Arc<Scripted>, SinkCounts) {
    let (broadcaster, sink) = (broadcaster(), Scripted::new(script));
    let watch = broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap();
    let recorder = recorder(&broadcaster);
    for _ in 0..events {
        recorder.event(pod("web"), EventType::Normal, "Failed", "again");
    }
    let counts = settled(&watch, events).await;
    (sink, counts)
}

#[tokio::test(start_paused = true)]
async fn the_first_event_is_created_and_the_next_ones_are_patched() {
    let (sink, counts) = record(Vec::new(), 3).await;
    assert_eq!(sink.summary(), ["create web 1", "patch web 2", "patch web 3"]);
    let Write::Patch(event, patch) = &sink.writes()[2] else { panic!("no patch") };
    assert_eq!(&*event.name, &*sink.writes()[0].event().name);
    let time = format!("{:.0}", jiff::Timestamp::from_second(BEGIN.as_second()).unwrap());
    let patch: serde_json::Value = serde_json::from_slice(patch).unwrap();
    assert_eq!(patch, serde_json::json!({"count": 3, "lastTimestamp": time, "message": "again"}));
    assert_eq!(counts, SinkCounts { received: 3, sent: 3, ..SinkCounts::default() });
}

#[tokio::test(start_paused = true)]
async fn what_the_sink_refuses_is_tried_once() {
    let refusals = [
        SinkError::Rejected("forbidden".to_owned()),
        SinkError::Construction("no namespace".to_owned()),
        SinkError::NamespaceTerminating("shop".to_owned()),
        SinkError::NotFound("no such namespace".to_owned()),
        SinkError::AlreadyExists("web".to_owned()),
    ];
    for refusal in refusals {
        let (sink, counts) = record(vec![Err(refusal.clone())], 1).await;
        assert_eq!(sink.writes().len(), 1, "{refusal}");
        assert_eq!(counts, SinkCounts { received: 1, failed: 1, ..SinkCounts::default() }, "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_finds_the_sinks_queue_full_is_counted_while_another_is_tried_again() {
    let broadcaster = EventBroadcaster::new(BroadcasterOptions { queue_length: 2, ..options() });
    let watch = broadcaster.start_recording_to_sink(Scripted::new(vec![transient(); 12])).await.unwrap();
    let recorder = recorder(&broadcaster);
    for number in 0..9 {
        recorder.event(pod(&format!("pod-{number}")), EventType::Normal, "Failed", "no server");
        // Less than any wait between tries, and long enough for the distributor.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // One is tried, two wait.
    let counts = watch.metrics().counts();
    assert_eq!((counts.received, counts.dropped, counts.pending()), (7, 6, 1), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn what_has_no_answer_is_tried_twelve_times() {
    let (sink, counts) = record(vec![transient(); 12], 1).await;
    assert_eq!(sink.writes().len(), MAX_TRIES_PER_EVENT as usize);
    assert_eq!(MAX_TRIES_PER_EVENT, 12);
    assert_eq!(counts, SinkCounts { received: 1, failed: 1, retries: 11, ..SinkCounts::default() });
    let waits = sink.waits();
    assert!(waits[0] < Duration::from_secs(10), "{waits:?}");
    // Tokio's clock has milliseconds.
    let ten = Duration::from_secs(10)..=Duration::from_millis(10_001);
    assert!(waits[1..].iter().all(|wait| ten.contains(wait)), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_goes_well_the_second_time_is_tried_twice() {
    let (sink, counts) = record(vec![transient()], 1).await;
    assert_eq!(sink.writes().len(), 2);
    assert_eq!(counts, SinkCounts { received: 1, sent: 1, retries: 1, ..SinkCounts::default() });
}

#[tokio::test(start_paused = true)]
async fn the_first_wait_is_random() {
    let mut waits = Vec::new();
    for _ in 0..4 {
        waits.push(record(vec![transient()], 1).await.0.waits()[0]);
    }
    waits.dedup();
    assert!(waits.len() > 1, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_says_when_to_come_again_is_asked_then() {
    for (asked, waited) in [(3, 3), (600, 60)] {
        let retry_after = Some(Duration::from_secs(asked));
        let busy = SinkError::Transient { message: "busy".to_owned(), retry_after, unsent: false };
        let (sink, _) = record(vec![Err(busy)], 1).await;
        assert_eq!(sink.waits()[0].as_secs(), waited);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_of_the_same_name_counts_as_ours_only_if_a_request_may_have_arrived() {
    for (unsent, counts) in [
        (false, SinkCounts { received: 1, sent: 1, retries: 1, ..SinkCounts::default() }),
        (true, SinkCounts { received: 1, failed: 1, retries: 1, ..SinkCounts::default() }),
    ] {
        let lost = SinkError::Transient { message: "lost".to_owned(), retry_after: None, unsent };
        let taken = SinkError::AlreadyExists("web".to_owned());
        assert_eq!(record(vec![Err(lost), Err(taken)], 1).await.1, counts, "unsent: {unsent}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_gone_is_created_again_under_its_name_and_with_its_count() {
    let (sink, counts) = record(vec![Ok(()), not_found()], 2).await;
    assert_eq!(sink.summary(), ["create web 1", "patch web 2", "create web 2"]);
    let names: Vec<_> = sink.writes().iter().map(|write| write.event().name.clone()).collect();
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    assert_eq!((counts.sent, counts.retries), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn after_a_create_that_failed_the_next_occurrence_is_created() {
    let (sink, counts) = record(vec![Err(SinkError::Rejected("no".to_owned()))], 2).await;
    assert_eq!(sink.summary(), ["create web 1", "create web 2"]);
    assert_eq!((counts.sent, counts.failed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_is_done_when_the_event_exists() {
    let (sink, counts) = record(vec![transient(), exists()], 2).await;
    assert_eq!(sink.summary(), ["create web 1", "create web 1", "patch web 2"]);
    assert_eq!((counts.sent, counts.failed), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn others_wait_while_one_is_tried_again_and_then_overflow() {
    let broadcaster =
        EventBroadcaster::new(pilothouse_events::BroadcasterOptions { queue_length: 10, ..options() });
    let sink = Scripted::new(vec![transient(); 3]);
    let watch = broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap();
    let recorder = recorder(&broadcaster);
    for at in 0..50 {
        recorder.event(pod(&format!("pod-{at}")), EventType::Normal, "A", "");
        // Lets it be distributed.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let counts = settled(&watch, 50).await;
    // The one that is tried, and ten that wait.
    assert_eq!((counts.sent, counts.dropped), (11, 39));
    assert_eq!(broadcaster.metrics().counts().dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_takes_nothing_from_the_others() {
    let broadcaster =
        EventBroadcaster::new(pilothouse_events::BroadcasterOptions { queue_length: 5, ..options() });
    let slow = Scripted::slow(Vec::new(), Duration::from_secs(1000));
    let slow_watch = broadcaster.start_recording_to_sink(slow).await.unwrap();
    let quick = Arc::new(MemorySink::new(100));
    let quick_watch = broadcaster.start_recording_to_sink(Arc::clone(&quick)).await.unwrap();
    let recorder = recorder(&broadcaster);
    for at in 0..20 {
        recorder.event(pod(&format!("pod-{at}")), EventType::Normal, "A", "");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(settled(&quick_watch, 20).await.sent, 20);
    assert_eq!(quick.writes().len(), 20);
    assert_eq!(slow_watch.metrics().counts().sent, 0);
}

#[tokio::test(start_paused = true)]
async fn combined_and_filtered_events_are_counted_as_such() {
    let broadcaster = broadcaster();
    let watch = broadcaster.start_recording_to_sink(MemorySink::new(0)).await.unwrap();
    let recorder = recorder(&broadcaster);
    for at in 0..40 {
        recorder.eventf(pod("web"), EventType::Normal, "A", format_args!("message {at}"));
    }
    let counts = settled(&watch, 40).await;
    let expected =
        SinkCounts { received: 40, sent: 9, aggregated: 16, filtered: 15, ..SinkCounts::default() };
    assert_eq!(counts, expected);
}

#[tokio::test(start_paused = true)]
async fn any_async_function_is_a_sink() {
    let broadcaster = broadcaster();
    let (sender, mut writes) = tokio::sync::mpsc::channel(8);
    let sink = FnSink::new(move |write: Write| {
        let sender = sender.clone();
        async move { sender.send(write).await.map_err(|_| SinkError::Rejected("closed".to_owned())) }
    });
    broadcaster.start_recording_to_sink(sink).await.unwrap();
    let recorder = recorder(&broadcaster);
    recorder.event(pod("web"), EventType::Normal, "A", "x");
    recorder.event(pod("web"), EventType::Normal, "A", "x");
    assert!(matches!(writes.recv().await, Some(Write::Create(event)) if event.count == 1));
    assert!(matches!(writes.recv().await, Some(Write::Patch(event, _)) if event.count == 2));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_loses_that_event_only() {
    for series in [false, true] {
        let broadcaster = broadcaster();
        let sink = FnSink::new(|write: Write| async move {
            assert_ne!(write.event().body.regarding.name, "bad");
            Ok(())
        });
        let watch = if series {
            broadcaster.start_recording_series_to_sink(sink).await.unwrap()
        } else {
            broadcaster.start_recording_to_sink(sink).await.unwrap()
        };
        let recorder = recorder(&broadcaster);
        for name in ["a", "bad", "b"] {
            recorder.event(pod(name), EventType::Normal, "A", "");
        }
        let counts = settled(&watch, 3).await;
        assert_eq!((counts.sent, counts.failed), (2, 1), "series: {series}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_memory_sink_keeps_the_newest_writes() {
    let broadcaster = broadcaster();
    let sink = Arc::new(MemorySink::new(2));
    let watch = broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap();
    for name in ["a", "b", "c"] {
        recorder(&broadcaster).event(pod(name), EventType::Normal, "A", "x");
    }
    settled(&watch, 3).await;
    let names: Vec<String> =
        sink.writes().iter().map(|write| write.event().body.regarding.name.clone()).collect();
    assert_eq!(names, ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_stopped_writes_what_it_has_and_takes_no_more() {
    let broadcaster = broadcaster();
    let sink = Scripted::slow(Vec::new(), Duration::from_secs(1));
    let watch = broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap();
    let recorder = recorder(&broadcaster);
    for name in ["a", "b"] {
        recorder.event(pod(name), EventType::Normal, "A", "");
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    watch.stop();
    let begun = Instant::now();
    settled(&watch, 2).await;
    assert!(begun.elapsed() > Duration::from_secs(1));
    recorder.event(pod("c"), EventType::Normal, "A", "");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(watch.metrics().counts().received, 2);
}

#[test]
fn answers_are_told_apart_by_whether_another_try_may_help() {
    let api = |code, reason: &str, details: Option<StatusDetails>| {
        let reason = reason.to_owned();
        SinkError::from(Error::Api(Box::new(Status { code, reason, details, ..Status::default() })))
    };
    let after =
        |seconds| Some(StatusDetails { retry_after_seconds: Some(seconds), ..StatusDetails::default() });
    assert!(matches!(api(404, "NotFound", None), SinkError::NotFound(_)));
    assert!(matches!(api(409, "AlreadyExists", None), SinkError::AlreadyExists(_)));
    assert!(matches!(api(403, "Forbidden", None), SinkError::Rejected(_)));
    assert!(matches!(api(422, "Invalid", None), SinkError::Rejected(_)));
    assert!(matches!(api(500, "InternalError", None), SinkError::Rejected(_)));
    let cause = StatusCause { reason: "NamespaceTerminating".to_owned(), ..StatusCause::default() };
    let details = StatusDetails { causes: vec![cause], ..StatusDetails::default() };
    assert!(matches!(api(403, "Forbidden", Some(details)), SinkError::NamespaceTerminating(_)));
    for (code, reason) in [(429, "TooManyRequests"), (503, "ServiceUnavailable")] {
        let SinkError::Transient { retry_after, .. } = api(code, reason, after(5)) else { panic!("{code}") };
        assert_eq!(retry_after, Some(Duration::from_secs(5)));
    }
    assert!(matches!(Error::Request(String::new()).into(), SinkError::Construction(_)));
    assert!(matches!(Error::Config(String::new()).into(), SinkError::Construction(_)));
    let html = Error::Protocol { doing: String::new(), message: String::new() };
    assert!(matches!(html.into(), SinkError::Transient { retry_after: None, .. }));
}

/// An answer of a server that has too much to do.
fn busy(seconds: u64) -> Result<(), SinkError> {
    let retry_after = Some(Duration::from_secs(seconds));
    Err(SinkError::Transient { message: "busy".to_owned(), retry_after, unsent: false })
}

#[tokio::test(start_paused = true)]
async fn an_event_of_the_same_name_is_somebody_elses_when_every_try_was_answered() {
    let (_, counts) = record(vec![busy(1), exists()], 1).await;
    assert_eq!((counts.sent, counts.failed), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_asks_to_wait_each_time_holds_up_others_for_three_minutes_at_most() {
    let began = Instant::now();
    let (sink, counts) = record(vec![busy(60); 12], 2).await;
    assert_eq!((counts.failed, sink.writes().len()), (2, 2 * 3));
    assert_eq!(began.elapsed().as_secs() / 60, 4, "two waits of a minute for each");
}

#[tokio::test(start_paused = true)]
async fn functions_of_the_correlator_that_panic_lose_that_event_only() {
    let mut options = options();
    options.correlator.max_events = 2;
    options.correlator.key_func = Some(Arc::new(|event, similar, own| {
        assert_ne!(event.body.reason, "BadKey", "a test's");
        similar.part("all");
        own.part(&event.message);
    }));
    options.correlator.message_func = Some(Arc::new(|event| {
        assert_ne!(event.body.reason, "BadMessage", "a test's");
        "combined".to_owned()
    }));
    let (broadcaster, sink) = (EventBroadcaster::new(options), Scripted::new([]));
    let watch = broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap();
    for reason in ["A", "BadKey", "BadMessage", "B"] {
        recorder(&broadcaster).event(pod("web"), EventType::Normal, reason, reason);
    }
    let counts = settled(&watch, 4).await;
    assert_eq!((counts.sent, counts.aggregated, counts.failed), (1, 1, 2));
}
