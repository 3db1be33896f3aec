//! Schedules of CronJobs: five fields of ranges, or a word like `@daily`.

use crate::schema::is_go_duration;

/// A field: its least and its greatest value, and names of values.
type Bounds = (u64, u64, &'static [&'static str]);

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Bounds; 5] = [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, MONTHS), (0, 6, DAYS)];

/// What is wrong with a schedule.
pub(super) fn fault(schedule: &str) -> Option<String> {
    read(schedule).err()
}

fn read(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if let Some(zone) = schedule.strip_prefix("CRON_TZ=").or_else(|| schedule.strip_prefix("TZ=")) {
        let Some((_, behind)) = zone.split_once(' ') else {
            return Err("no schedule behind the time zone".to_owned());
        };
        rest = behind.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.into_iter().zip(FIELDS) {
        for expression in field.split(',').filter(|expression| !expression.is_empty()) {
            range(expression, bounds)?;
        }
    }
    Ok(())
}

fn descriptor(word: &str) -> Result<(), String> {
    if matches!(word, "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly") {
        return Ok(());
    }
    let Some(duration) = word.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {word}"));
    };
    match is_go_duration(duration) {
        true => Ok(()),
        false => Err(format!("failed to parse duration {word}")),
    }
}

fn range(expression: &str, (min, max, names): Bounds) -> Result<(), String> {
    let mut steps = expression.split('/');
    let values = steps.next().unwrap_or_default();
    let limits: Vec<&str> = values.splitn(4, '-').collect();
    let (start, mut end) = if matches!(limits[0], "*" | "?") {
        (min, max)
    } else {
        let start = value(limits[0], names)?;
        match limits[..] {
            [_] => (start, start),
            [_, end] => (start, value(end, names)?),
            _ => return Err(format!("too many hyphens: {expression}")),
        }
    };
    let step = match (steps.next(), steps.next()) {
        (None, _) => 1,
        (Some(step), None) => {
            let step = number(step)?;
            if limits.len() == 1 {
                end = max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    if start < min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {expression}"));
    }
    if end > max {
        return Err(format!("end of range ({end}) above maximum ({max}): {expression}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {expression}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {expression}"));
    }
    Ok(())
}

fn value(text: &str, names: &[&str]) -> Result<u64, String> {
    let name = text.to_lowercase();
    match names.iter().position(|known| *known == name) {
        // Months begin with one, days with zero.
        Some(at) => Ok(at as u64 + u64::from(names.len() == MONTHS.len())),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let number = text.parse::<i64>().map_err(|_| format!("failed to parse int from {text}"))?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for good in [
            "* * * * *",
            "*/5 0-6,12 1 jan-MAR 0",
            "0 0 * * sun",
            "@hourly",
            "@every 1h30m",
            "5/10 ? * * *",
            "TZ=UTC 1 2 3 4 5",
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
        for (bad, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("x * * * *", "failed to parse int from x"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every 5", "failed to parse duration @every 5"),
        ] {
            assert_eq!(fault(bad).as_deref(), Some(why), "{bad}");
        }
        assert!(fault("TZ=UTC").is_some());
    }
}
