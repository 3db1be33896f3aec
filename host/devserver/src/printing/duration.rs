//! Spans of time in the short form of `kubectl get`: two units while they are small, then one.

use jiff::Timestamp;

/// How long ago a time was; `<unknown>` for one that is absent, unreadable or Go's zero time.
#[must_use]
pub fn age(since: Option<&str>, now: Timestamp) -> String {
    since.and_then(time).map_or_else(|| "<unknown>".to_owned(), |time| human(seconds_between(time, now)))
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

/// A span of whole seconds. A second back is still now, as the clocks of two machines are never equal.
pub(super) fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |large: i64, large_unit, small: i64, small_unit| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, 'm', seconds % MINUTE, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, 'h', seconds % HOUR / MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, 'd', seconds % DAY / HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds / YEAR, 'y', seconds % YEAR / DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}
