//! Ages and spans between the times that objects hold, as `kubectl get` prints them.

use jiff::Timestamp;
use pilothouse_object::human_duration;

/// How long ago a time was; `<unknown>` for one that is absent, unreadable or Go's zero time.
pub(super) fn age(since: Option<&str>, now: Timestamp) -> String {
    since
        .and_then(time)
        .map_or_else(|| "<unknown>".to_owned(), |time| human_duration(seconds_between(time, now)))
}

/// A time as objects hold it; `None` for Go's zero time too.
pub(super) fn time(text: &str) -> Option<Timestamp> {
    let time: Timestamp = text.parse().ok()?;
    (text != "0001-01-01T00:00:00Z").then_some(time)
}

/// Whole seconds from one time to another, cut towards zero.
pub(super) fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}
