//! Times of the API: RFC 3339 as Go reads it, with its messages, and the one form in which times are written.

use jiff::SignedDuration;
use jiff::civil::DateTime;

/// To what a time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// `metav1.Time`.
    Seconds,
    /// `metav1.MicroTime`, which is read with exactly six decimals only.
    Micros,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// The canonical form of a time; `None` for the first second of the year 1, which Go takes for no time at all.
///
/// # Errors
/// What Go says of a text that is no time.
pub(super) fn read(text: &str, precision: Precision) -> Result<Option<String>, String> {
    let failed = |why: Problem<'_>| {
        let layout = precision.layout();
        match why {
            Problem::Part(rest, part) => {
                format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}")
            }
            Problem::Range(what) => format!("parsing time {text:?}: {what} out of range"),
            Problem::Extra(rest) => format!("parsing time {text:?}: extra text: {rest:?}"),
        }
    };
    let time = parse(text, precision).map_err(failed)?;
    if time == DateTime::constant(1, 1, 1, 0, 0, 0, 0) {
        return Ok(None);
    }
    let form = match precision {
        Precision::Seconds => "%Y-%m-%dT%H:%M:%SZ",
        Precision::Micros => "%Y-%m-%dT%H:%M:%S.%6fZ",
    };
    Ok(Some(time.strftime(form).to_string()))
}

enum Problem<'a> {
    /// This rest of the text is not this part of the layout.
    Part(&'a str, &'static str),
    Range(&'static str),
    Extra(&'a str),
}

struct Scanner<'a>(&'a str);

impl<'a> Scanner<'a> {
    fn sign(&mut self, sign: &'static str) -> Result<(), Problem<'a>> {
        self.0 = self.0.strip_prefix(sign).ok_or(Problem::Part(self.0, sign))?;
        Ok(())
    }

    /// So many digits.
    fn digits(&mut self, count: usize, part: &'static str) -> Result<i32, Problem<'a>> {
        let whole = self.0;
        let digits = whole.get(..count).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let number = digits.and_then(|text| text.parse().ok()).ok_or(Problem::Part(whole, part))?;
        self.0 = whole.get(count..).unwrap_or_default();
        Ok(number)
    }

    /// Nanoseconds of a fraction with so many digits; more than nine count for nothing.
    fn fraction(&mut self, count: usize, part: &'static str) -> Result<i32, Problem<'a>> {
        let whole = self.0;
        self.0 = whole.strip_prefix(['.', ',']).ok_or(Problem::Part(whole, part))?;
        let kept = count.min(9);
        let number = self.digits(kept, part).map_err(|_| Problem::Part(whole, part))?;
        let rest = count - kept;
        self.0 = self.0.get(rest..).unwrap_or_default();
        Ok((kept..9).fold(number, |number, _| number * 10))
    }
}

fn parse(text: &str, precision: Precision) -> Result<DateTime, Problem<'_>> {
    let mut scanner = Scanner(text);
    let year = scanner.digits(4, "2006")?;
    scanner.sign("-")?;
    let month = scanner.digits(2, "01")?;
    if !(1..=12).contains(&month) {
        return Err(Problem::Range("month"));
    }
    scanner.sign("-")?;
    let day = scanner.digits(2, "02")?;
    scanner.sign("T")?;
    // Go takes an hour of one digit too.
    let digits = scanner.0.bytes().take(2).take_while(u8::is_ascii_digit).count().max(1);
    let hour = scanner.digits(digits, "15")?;
    if hour > 23 {
        return Err(Problem::Range("hour"));
    }
    scanner.sign(":")?;
    let minute = scanner.digits(2, "04")?;
    if minute > 59 {
        return Err(Problem::Range("minute"));
    }
    scanner.sign(":")?;
    let second = scanner.digits(2, "05")?;
    if second > 59 {
        return Err(Problem::Range("second"));
    }
    let mut nanosecond = 0;
    let decimals = scanner.0.bytes().skip(1).take_while(u8::is_ascii_digit).count();
    match precision {
        Precision::Seconds if scanner.0.starts_with(['.', ',']) && decimals > 0 => {
            nanosecond = scanner.fraction(decimals, "05")?;
        }
        Precision::Seconds => {}
        Precision::Micros => nanosecond = scanner.fraction(6, ".000000")?,
    }
    let offset = offset(&mut scanner)?;
    if !scanner.0.is_empty() {
        return Err(Problem::Extra(scanner.0));
    }
    let narrow = |number: i32| i8::try_from(number).unwrap_or(i8::MAX);
    let year = i16::try_from(year).unwrap_or(i16::MAX);
    let date = jiff::civil::Date::new(year, narrow(month), narrow(day)).map_err(|_| Problem::Range("day"))?;
    let local = date.at(narrow(hour), narrow(minute), narrow(second), nanosecond);
    local
        .checked_sub(SignedDuration::from_secs(offset.into()))
        .map_err(|_| Problem::Range("time zone offset hour"))
}

/// Seconds east of Greenwich.
fn offset<'a>(scanner: &mut Scanner<'a>) -> Result<i32, Problem<'a>> {
    const PART: &str = "Z07:00";
    let whole = scanner.0;
    if let Some(rest) = whole.strip_prefix('Z') {
        scanner.0 = rest;
        return Ok(0);
    }
    let bad = |_| Problem::Part(whole, PART);
    let sign = match whole.bytes().next() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(Problem::Part(whole, PART)),
    };
    scanner.0 = whole.get(1..).unwrap_or_default();
    let hours = scanner.digits(2, PART).map_err(bad)?;
    scanner.sign(":").map_err(bad)?;
    let minutes = scanner.digits(2, PART).map_err(bad)?;
    if hours > 24 {
        return Err(Problem::Range("time zone offset hour"));
    }
    if minutes > 60 {
        return Err(Problem::Range("time zone offset minute"));
    }
    Ok(sign * (hours * 60 + minutes) * 60)
}
