//! Events in logs and to functions.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_events::{EventType, SinkCounts};
use tracing::Level;

use crate::support::{broadcaster, pod, recorder};

#[tokio::test(start_paused = true)]
async fn a_log_function_gets_one_line_for_each_event() {
    let broadcaster = broadcaster();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&lines);
    broadcaster.start_logging(move |line| keeps.lock().push(line.to_string())).await.unwrap();
    recorder(&broadcaster).event(pod("web"), EventType::Warning, "Failed", "no image");
    broadcaster.shutdown(Duration::from_secs(1)).await;
    assert_eq!(*lines.lock(), ["Event(Pod shop/web): type: 'Warning' reason: 'Failed' no image"]);
}

#[tokio::test(start_paused = true)]
async fn structured_logs_take_every_level() {
    let broadcaster = broadcaster();
    let mut watches = Vec::new();
    for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
        watches.push(broadcaster.start_structured_logging(level).await.unwrap());
    }
    recorder(&broadcaster).event(pod("web"), EventType::Warning, "Failed", "no image");
    broadcaster.shutdown(Duration::from_secs(1)).await;
    assert!(watches.iter().all(|watch| watch.metrics().counts().sent == 1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_misses_that_event_only() {
    let broadcaster = broadcaster();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&seen);
    let watch = broadcaster
        .start_event_watcher(move |event| {
            assert_ne!(&*event.message, "bad");
            keeps.lock().push(event.message.to_string());
        })
        .await
        .unwrap();
    for message in ["a", "bad", "b"] {
        recorder(&broadcaster).event(pod("web"), EventType::Normal, "A", message);
    }
    broadcaster.shutdown(Duration::from_secs(1)).await;
    assert_eq!(*seen.lock(), ["a", "b"]);
    let expected = SinkCounts { received: 3, sent: 2, failed: 1, ..SinkCounts::default() };
    assert_eq!(watch.metrics().counts(), expected);
}
