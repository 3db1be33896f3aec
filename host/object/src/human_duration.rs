//! [`human_duration`]: prints a duration as `kubectl get` does (apimachinery's `HumanDuration`): in two units for some
//! ranges, in one unit for the others. The tables of the development server and of `pilothouse events` use it.

/// Prints a duration in whole seconds. -1 prints as `0s`, because the clocks of two machines may differ slightly;
/// smaller values print as `<invalid>`.
#[must_use]
pub fn human_duration(seconds: i64) -> String {
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
