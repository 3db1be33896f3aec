//! A shutdown writes what was recorded, within its deadline.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_events::{EventType, SinkCounts};
use tokio::time::Instant;

use crate::support::{Scripted, broadcaster, pod, recorder, transient};

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_what_was_recorded() {
    let broadcaster = broadcaster();
    let sink = Scripted::slow(Vec::new(), Duration::from_secs(1));
    let watch = broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap();
    for at in 0..5 {
        recorder(&broadcaster).event(pod(&format!("pod-{at}")), EventType::Normal, "A", "");
    }
    assert!(broadcaster.shutdown(Duration::from_secs(10)).await);
    assert_eq!(watch.metrics().counts(), SinkCounts { received: 5, sent: 5, ..SinkCounts::default() });
}

#[tokio::test(start_paused = true)]
async fn what_is_left_at_the_deadline_is_dropped_and_counted() {
    for series in [false, true] {
        let broadcaster = broadcaster();
        let sink = Scripted::slow(Vec::new(), Duration::from_secs(1));
        let watch = if series {
            broadcaster.start_recording_series_to_sink(Arc::clone(&sink)).await.unwrap()
        } else {
            broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap()
        };
        for at in 0..100 {
            recorder(&broadcaster).event(pod(&format!("pod-{at}")), EventType::Normal, "A", "");
        }
        let begun = Instant::now();
        assert!(!broadcaster.shutdown(Duration::from_millis(2500)).await);
        assert!(begun.elapsed() < Duration::from_millis(2600));
        let counts = watch.metrics().counts();
        assert_eq!((counts.received, counts.pending(), counts.failed), (100, 0, 0), "{counts:?}");
        let sent = if series { 16 } else { 2 };
        assert_eq!((counts.sent, counts.dropped), (sent, 100 - sent), "series: {series}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_wait_between_tries_and_gives_each_event_one_more() {
    for series in [false, true] {
        let broadcaster = broadcaster();
        let sink = Scripted::new(vec![transient(); 100]);
        let watch = if series {
            broadcaster.start_recording_series_to_sink(Arc::clone(&sink)).await.unwrap()
        } else {
            broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap()
        };
        recorder(&broadcaster).event(pod("a"), EventType::Normal, "A", "");
        tokio::time::sleep(Duration::from_millis(1)).await;
        recorder(&broadcaster).event(pod("b"), EventType::Normal, "A", "");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let tries = sink.writes().len();
        let begun = Instant::now();
        assert!(broadcaster.shutdown(Duration::from_secs(60)).await);
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
        assert_eq!(sink.writes().len(), tries + 2, "series: {series}");
        assert_eq!(watch.metrics().counts().failed, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broadcaster_that_is_dropped_still_writes_what_was_recorded() {
    let sink = Scripted::slow(Vec::new(), Duration::from_secs(1));
    let watch = {
        let broadcaster = broadcaster();
        let watch = broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap();
        recorder(&broadcaster).event(pod("a"), EventType::Normal, "A", "");
        watch
    };
    crate::support::settled(&watch, 1).await;
    assert_eq!(sink.summary(), ["create a 1"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_even_distributed_at_the_deadline_is_counted_too() {
    let broadcaster = broadcaster();
    let watch = broadcaster.start_recording_to_sink(Scripted::new([])).await.unwrap();
    for _ in 0..10 {
        recorder(&broadcaster).event(pod("a"), EventType::Normal, "A", "");
    }
    assert!(!broadcaster.shutdown(Duration::ZERO).await);
    let counts = watch.metrics().counts();
    assert_eq!((counts.received, counts.pending()), (10, 0), "{counts:?}");
}
