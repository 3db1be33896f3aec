use super::{DAY, HOUR, MINUTE, ago, now};
use crate::printing::age;

#[test]
fn an_age_changes_its_form_at_the_servers_thresholds() {
    let year = 365 * DAY;
    for (seconds, expected) in [
        (0, "0s"),
        (5, "5s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE, "10m"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (5 * HOUR + 10 * MINUTE, "5h10m"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR, "8h"),
        (48 * HOUR - 1, "47h"),
        (48 * HOUR, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"),
        (45 * DAY, "45d"),
        (2 * year - 1, "729d"),
        (2 * year, "2y"),
        (2 * year + 10 * DAY, "2y10d"),
        (8 * year - 1, "7y364d"),
        (8 * year, "8y"),
        (20 * year + 3 * DAY, "20y"),
    ] {
        assert_eq!(age(Some(&ago(seconds)), now()), expected, "{seconds} s");
    }
}

#[test]
fn a_clock_that_is_a_second_ahead_is_now_and_two_seconds_are_invalid() {
    assert_eq!(age(Some(&ago(-1)), now()), "0s");
    assert_eq!(age(Some("2026-03-01T12:00:01.9Z"), now()), "0s");
    assert_eq!(age(Some(&ago(-2)), now()), "<invalid>");
}

#[test]
fn what_is_no_time_has_an_unknown_age() {
    for since in [None, Some(""), Some("yesterday"), Some("0001-01-01T00:00:00Z")] {
        assert_eq!(age(since, now()), "<unknown>", "{since:?}");
    }
    assert_eq!(age(Some("2026-03-01T13:59:55+02:00"), now()), "5s");
}
