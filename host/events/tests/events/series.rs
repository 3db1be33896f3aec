//! Events in series, as events.k8s.io/v1 has them.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_events::{
    BroadcasterOptions, CorrelatorOptions, EventBroadcaster, EventDetails, EventRecorder, EventSource,
    EventType, EventWatch, ObjectReference, SinkCounts, SinkError, StartError, Write,
};
use tokio::time::sleep;

use crate::support::{BEGIN, Scripted, clock, exists, not_found, options, pod, settled, transient};

const MINUTE: Duration = Duration::from_secs(60);

struct Scene {
    broadcaster: EventBroadcaster,
    recorder: EventRecorder,
    sink: Arc<Scripted>,
    watch: EventWatch,
}

impl Scene {
    async fn new(script: Vec<Result<(), SinkError>>) -> Self {
        Self::with(script, options()).await
    }

    async fn with(script: Vec<Result<(), SinkError>>, options: BroadcasterOptions) -> Self {
        let broadcaster = EventBroadcaster::new(options);
        let sink = Scripted::new(script);
        let watch = broadcaster.start_recording_series_to_sink(Arc::clone(&sink)).await.unwrap();
        let recorder = broadcaster.new_recorder(EventSource::reporting("kubelet", "node-1"));
        Self { broadcaster, recorder, sink, watch }
    }

    fn event(&self, name: &str) {
        self.about(pod(name), "Failed", "Starting");
    }

    fn about(&self, regarding: ObjectReference, reason: &str, action: &str) {
        let details = EventDetails { action: action.to_owned(), ..EventDetails::default() };
        self.recorder.record(regarding, EventType::Normal, reason, format_args!("note"), details);
    }

    async fn settled(&self, received: u64) -> SinkCounts {
        settled(&self.watch, received).await
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_occurrence_begins_a_series_and_further_ones_are_only_counted() {
    let scene = Scene::new(Vec::new()).await;
    for received in 1..=5 {
        scene.event("web");
        scene.settled(received).await;
    }
    assert_eq!(scene.sink.summary(), ["create web 1", "patch web 2"]);
    let counts = scene.settled(5).await;
    assert_eq!(counts, SinkCounts { received: 5, sent: 2, aggregated: 3, ..SinkCounts::default() });
    let Write::Patch(event, patch) = &scene.sink.writes()[1] else { panic!("no patch") };
    let observed = event.series.unwrap().last_observed_time;
    assert!(observed > BEGIN);
    let patch: serde_json::Value = serde_json::from_slice(patch).unwrap();
    // Always six decimals, and what is finer is cut off.
    let text = patch["series"]["lastObservedTime"].as_str().unwrap().to_owned();
    assert_eq!(patch, serde_json::json!({"series": {"count": 2, "lastObservedTime": text}}));
    assert_eq!(
        (text.len(), text.parse::<jiff::Timestamp>().unwrap().as_microsecond()),
        (27, observed.as_microsecond())
    );
}

#[tokio::test(start_paused = true)]
async fn events_that_differ_in_any_part_of_the_key_have_series_of_their_own() {
    let scene = Scene::new(Vec::new()).await;
    scene.about(pod("web"), "Failed", "Starting");
    scene.about(pod("web"), "Other", "Starting");
    scene.about(pod("web"), "Failed", "Stopping");
    scene.about(pod("web").with_field_path("spec"), "Failed", "Starting");
    scene.about(pod("web2"), "Failed", "Starting");
    let details = EventDetails {
        action: "Starting".to_owned(),
        related: Some(Arc::new(pod("web"))),
        ..EventDetails::default()
    };
    scene.recorder.record(pod("web"), EventType::Normal, "Failed", format_args!("note"), details);
    let details = EventDetails { action: "Starting".to_owned(), ..EventDetails::default() };
    scene.recorder.record(pod("web"), EventType::Warning, "Failed", format_args!("note"), details);
    assert_eq!(scene.settled(7).await.sent, 7);
    assert!(scene.sink.writes().iter().all(|write| matches!(write, Write::Create(_))));
}

#[tokio::test(start_paused = true)]
async fn another_note_is_the_same_event() {
    let scene = Scene::new(Vec::new()).await;
    for note in ["a", "b", "c"] {
        scene.recorder.event(pod("web"), EventType::Normal, "Failed", note);
    }
    assert_eq!(scene.settled(3).await.aggregated, 1);
    assert_eq!(scene.sink.summary(), ["create web 1", "patch web 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_series_is_finished_after_six_minutes_of_rest() {
    let scene = Scene::new(Vec::new()).await;
    for _ in 0..4 {
        scene.event("web");
    }
    scene.settled(4).await;
    sleep(11 * MINUTE).await;
    assert_eq!(
        scene.sink.summary().len(),
        2,
        "looked at after six minutes, when it was not yet idle for longer"
    );
    sleep(2 * MINUTE).await;
    assert_eq!(scene.sink.summary()[2..], ["patch web 4"]);
    assert_eq!(scene.settled(4).await.series_writes, 1);
    // Forgotten: the next one is new.
    scene.event("web");
    scene.settled(5).await;
    assert_eq!(scene.sink.summary()[3..], ["create web 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_single_event_is_forgotten_after_six_minutes_of_rest() {
    let scene = Scene::new(Vec::new()).await;
    scene.event("web");
    scene.settled(1).await;
    sleep(13 * MINUTE).await;
    scene.event("web");
    scene.settled(2).await;
    assert_eq!(scene.sink.summary(), ["create web 1", "create web 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_series_that_goes_on_is_refreshed_every_thirty_minutes() {
    let scene = Scene::new(Vec::new()).await;
    for at in 1..=31 {
        scene.event("web");
        scene.settled(at).await;
        sleep(MINUTE).await;
    }
    assert_eq!(scene.sink.summary(), ["create web 1", "patch web 2", "patch web 30"]);
}

#[tokio::test(start_paused = true)]
async fn a_series_that_is_seen_while_it_is_finished_goes_on() {
    let sink = Scripted::slow(Vec::new(), 3 * MINUTE);
    let broadcaster = EventBroadcaster::new(options());
    let watch = broadcaster.start_recording_series_to_sink(Arc::clone(&sink)).await.unwrap();
    let recorder = broadcaster.new_recorder(EventSource::reporting("kubelet", "node-1"));
    let event = || recorder.event(pod("web"), EventType::Normal, "Failed", "note");
    for _ in 0..3 {
        event();
    }
    settled(&watch, 3).await;
    // Written since 12 minutes, until 15.
    sleep(7 * MINUTE).await;
    assert_eq!(sink.summary(), ["create web 1", "patch web 2", "patch web 3"]);
    event();
    settled(&watch, 4).await;
    sleep(3 * MINUTE).await;
    event();
    assert_eq!(settled(&watch, 5).await.aggregated, 3);
    assert_eq!(sink.summary().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_series_whose_event_is_gone_is_created() {
    let scene = Scene::new(vec![Ok(()), not_found()]).await;
    scene.event("web");
    scene.event("web");
    scene.settled(2).await;
    assert_eq!(scene.sink.summary(), ["create web 1", "patch web 2", "create web 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_series_that_came_into_being_meanwhile_is_tried_again() {
    let scene = Scene::new(vec![Ok(()), not_found(), exists()]).await;
    scene.event("web");
    scene.event("web");
    let counts = scene.settled(2).await;
    assert_eq!(scene.sink.summary(), ["create web 1", "patch web 2", "create web 2", "patch web 2"]);
    assert_eq!((counts.sent, counts.retries), (2, 1));
    let wait = scene.sink.waits()[2];
    assert!((Duration::from_secs(10)..Duration::from_millis(12_502)).contains(&wait), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn what_has_no_answer_is_tried_twelve_times_and_holds_up_only_its_own_kind() {
    let scene = Scene::new(vec![transient(); 12]).await;
    scene.event("web");
    scene.event("web");
    let counts = scene.settled(2).await;
    assert_eq!((counts.failed, counts.sent, counts.retries), (1, 1, 11));
    let waits = &scene.sink.waits()[..11];
    assert!(waits.iter().all(|wait| (10_000..12_502).contains(&wait.as_millis())), "{waits:?}");
    assert_eq!(scene.sink.summary()[11..], ["create web 1", "patch web 2"]);
}

#[tokio::test(start_paused = true)]
async fn different_events_are_written_at_the_same_time() {
    let sink = Scripted::slow(Vec::new(), MINUTE);
    let broadcaster = EventBroadcaster::new(options());
    let watch = broadcaster.start_recording_series_to_sink(Arc::clone(&sink)).await.unwrap();
    let recorder = broadcaster.new_recorder(EventSource::reporting("kubelet", "node-1"));
    for at in 0..200 {
        recorder.event(pod(&format!("pod-{at}")), EventType::Normal, "A", "");
    }
    let begun = tokio::time::Instant::now();
    settled(&watch, 200).await;
    // 25 for each of eight, were they all given the same; one alone would take 200.
    assert!(begun.elapsed() < 60 * MINUTE, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_finds_the_writers_busy_is_dropped_and_created_another_time() {
    let mut options = options();
    options.queue_length = 5000;
    let sink = Scripted::slow(Vec::new(), Duration::from_millis(100));
    let broadcaster = EventBroadcaster::new(options);
    let watch = broadcaster.start_recording_series_to_sink(Arc::clone(&sink)).await.unwrap();
    let recorder = broadcaster.new_recorder(EventSource::reporting("kubelet", "node-1"));
    for at in 0..3000 {
        recorder.event(pod(&format!("pod-{at}")), EventType::Normal, "A", "");
    }
    let all = async {
        loop {
            sleep(Duration::from_secs(1)).await;
            let counts = watch.metrics().counts();
            if counts.pending() == 0 {
                return counts;
            }
        }
    };
    let counts = all.await;
    assert_eq!(counts.received, 3000);
    // A thousand wait, and eight are being written; what was taken in before the writers took theirs makes the difference.
    assert!((1000..=1008).contains(&counts.sent), "{counts:?}");
    assert_eq!(counts.dropped, 3000 - counts.sent);
    let written = sink.writes();
    let dropped = (0..3000).map(|at| format!("pod-{at}"));
    let dropped = dropped
        .into_iter()
        .find(|name| !written.iter().any(|write| write.event().body.regarding.name == *name))
        .unwrap();
    // Long before it would be forgotten anyway.
    recorder.event(pod(&dropped), EventType::Normal, "A", "");
    settled(&watch, 3001).await;
    assert_eq!(sink.summary().last(), Some(&format!("create {dropped} 1")));
}

#[tokio::test(start_paused = true)]
async fn new_events_about_one_object_are_filtered_as_in_core_v1() {
    let scene = Scene::new(Vec::new()).await;
    for at in 0..30 {
        scene.about(pod("web"), &format!("Reason{at}"), "Starting");
    }
    let counts = scene.settled(30).await;
    assert_eq!((counts.sent, counts.filtered), (25, 5));
    // What has a series already is no flood.
    scene.about(pod("web"), "Reason0", "Starting");
    assert_eq!(scene.settled(31).await.sent, 26);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_full_writes_what_it_forgets() {
    let correlator = CorrelatorOptions { lru_cache_size: 2, clock: clock(), ..CorrelatorOptions::default() };
    let scene =
        Scene::with(Vec::new(), BroadcasterOptions { correlator, ..BroadcasterOptions::default() }).await;
    for name in ["a", "a", "a", "b", "c"] {
        scene.event(name);
    }
    scene.settled(5).await;
    scene.broadcaster.shutdown(MINUTE).await;
    let mut summary = scene.sink.summary();
    summary.sort();
    assert_eq!(summary, ["create a 1", "create b 1", "create c 1", "patch a 2", "patch a 3"]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_writes_the_counts_that_the_server_lacks() {
    let scene = Scene::new(Vec::new()).await;
    for name in ["a", "a", "a", "b", "b", "c"] {
        scene.event(name);
    }
    assert!(scene.broadcaster.shutdown(MINUTE).await);
    let mut summary = scene.sink.summary();
    summary.sort();
    assert_eq!(summary, ["create a 1", "create b 1", "create c 1", "patch a 2", "patch a 3", "patch b 2"]);
    let expected =
        SinkCounts { received: 6, sent: 5, aggregated: 1, series_writes: 1, ..SinkCounts::default() };
    assert_eq!(scene.watch.metrics().counts(), expected);
}

#[tokio::test(start_paused = true)]
async fn series_are_recorded_to_one_sink_at_a_time() {
    let scene = Scene::new(Vec::new()).await;
    let again = scene.broadcaster.start_recording_series_to_sink(Scripted::new([])).await;
    assert!(matches!(again, Err(StartError::AlreadyStarted)));
    scene.watch.stop();
    sleep(MINUTE).await;
    assert!(scene.broadcaster.start_recording_series_to_sink(Scripted::new([])).await.is_ok());
}

/// A refusal that no other try changes.
fn refused() -> Result<(), SinkError> {
    Err(SinkError::Rejected("namespace is gone".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_series_whose_last_write_is_refused_is_dropped_and_its_occurrences_are_counted() {
    let scene = Scene::new(vec![Ok(()), Ok(()), refused()]).await;
    for _ in 0..5 {
        scene.event("web");
    }
    scene.settled(5).await;
    sleep(13 * MINUTE).await;
    assert_eq!(scene.sink.summary(), ["create web 1", "patch web 2", "patch web 5"]);
    let counts = scene.settled(5).await;
    assert_eq!((counts.aggregated, counts.series_failures, counts.series_lost), (3, 1, 3));
    sleep(60 * MINUTE).await;
    assert_eq!(scene.sink.summary().len(), 3, "not tried again");
    scene.event("web");
    scene.settled(6).await;
    assert_eq!(scene.sink.summary()[3..], ["create web 1"], "the next one is new");
}

#[tokio::test(start_paused = true)]
async fn a_series_whose_last_write_has_no_answer_is_kept() {
    let script = [Ok(()), Ok(())].into_iter().chain(std::iter::repeat_with(transient).take(12));
    let scene = Scene::new(script.collect()).await;
    for _ in 0..3 {
        scene.event("web");
    }
    scene.settled(3).await;
    sleep(30 * MINUTE).await;
    assert_eq!(scene.sink.summary().last(), Some(&"patch web 3".to_owned()));
    let counts = scene.settled(3).await;
    assert_eq!((counts.series_failures, counts.series_writes, counts.series_lost), (1, 1, 0));
}

/// A broadcaster whose queues have room for all events of a test, and its recorder.
async fn roomy(sink: &Arc<Scripted>) -> (EventBroadcaster, EventWatch, EventRecorder) {
    let mut options = options();
    options.queue_length = 10_000;
    let broadcaster = EventBroadcaster::new(options);
    let watch = broadcaster.start_recording_series_to_sink(Arc::clone(sink)).await.unwrap();
    let recorder = broadcaster.new_recorder(EventSource::reporting("kubelet", "node-1"));
    (broadcaster, watch, recorder)
}

#[tokio::test(start_paused = true)]
async fn every_one_of_3000_series_is_refreshed() {
    const SERIES: u64 = 3_000;
    let sink = Scripted::new([]);
    let (_broadcaster, watch, recorder) = roomy(&sink).await;
    let mut received = 0;
    let mut occur = async |times: u64| {
        for at in 0..SERIES {
            for _ in 0..times {
                recorder.event(pod(&format!("pod-{at}")), EventType::Normal, "A", "");
            }
            received += times;
            if at % 400 == 399 {
                settled(&watch, received).await;
            }
        }
        settled(&watch, received).await;
    };
    occur(3).await;
    for _ in 0..6 {
        // None of them rests for six minutes.
        sleep(5 * MINUTE).await;
        occur(1).await;
    }
    let refreshed: std::collections::BTreeSet<String> =
        sink.summary().into_iter().filter(|line| !line.ends_with(" 1") && !line.ends_with(" 2")).collect();
    assert_eq!(refreshed.len() as u64, SERIES);
    assert_eq!(watch.metrics().counts().series_writes, SERIES);
}

#[tokio::test(start_paused = true)]
async fn refreshed_series_take_no_room_of_events() {
    let sink = Scripted::new([]);
    let (_broadcaster, watch, recorder) = roomy(&sink).await;
    for at in 0..2_000 {
        for _ in 0..2 {
            recorder.event(pod(&format!("pod-{at}")), EventType::Normal, "A", "");
        }
        if at % 200 == 199 {
            settled(&watch, (at + 1) * 2).await;
        }
    }
    // From now on each write takes a minute: the series that are finished hold no writer of the others.
    sink.slow_down(MINUTE);
    sleep(12 * MINUTE + Duration::from_secs(30)).await;
    assert!(watch.metrics().counts().series_writes < 2_000, "they are under way");
    for at in 0..900 {
        recorder.event(pod(&format!("new-{at}")), EventType::Normal, "A", "");
    }
    sleep(Duration::from_secs(10)).await;
    let counts = watch.metrics().counts();
    assert_eq!(counts.dropped, 0, "{counts:?}");
    let events = sink.summary().iter().filter(|line| line.starts_with("create new-")).count();
    assert!(events >= 4, "{events} events are written beside the series");
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_a_thousand_different_events_finds_room() {
    let sink = Scripted::slow([], Duration::from_millis(100));
    let (_broadcaster, watch, recorder) = roomy(&sink).await;
    for at in 0..1_000 {
        recorder.event(pod(&format!("pod-{at}")), EventType::Normal, "A", "");
    }
    assert_eq!(settled(&watch, 1_000).await.sent, 1_000);
}

#[tokio::test(start_paused = true)]
async fn occurrences_that_a_deadline_leaves_unwritten_are_counted() {
    let sink = Scripted::new([]);
    let (broadcaster, watch, recorder) = roomy(&sink).await;
    for _ in 0..5 {
        recorder.event(pod("web"), EventType::Normal, "A", "");
    }
    settled(&watch, 5).await;
    sink.slow_down(60 * MINUTE);
    assert!(!broadcaster.shutdown(MINUTE).await);
    let counts = watch.metrics().counts();
    assert_eq!((counts.sent, counts.aggregated, counts.series_lost), (2, 3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_key_function_that_panics_loses_that_event_only() {
    let mut options = options();
    options.correlator.spam_key_func = Some(Arc::new(|event, key| {
        assert_ne!(event.body.reason, "Bad", "a test's");
        key.part("all");
    }));
    let scene = Scene::with(Vec::new(), options).await;
    for reason in ["A", "Bad", "B"] {
        scene.about(pod("web"), reason, "Starting");
    }
    let counts = scene.settled(3).await;
    assert_eq!((counts.sent, counts.failed), (2, 1));
}
