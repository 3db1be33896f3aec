//! Times of the API: RFC 3339 as Go reads it, and the one form in which times are written.

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

/// The canonical form of a time; `None` for the first second of the year 1, which Go takes for no time at all.
///
/// # Errors
/// That a text is no time.
pub(super) fn read(text: &str, precision: Precision) -> Result<Option<String>, String> {
    let (layout, form) = match precision {
        Precision::Seconds => ("2006-01-02T15:04:05Z07:00", "%Y-%m-%dT%H:%M:%SZ"),
        Precision::Micros => ("2006-01-02T15:04:05.000000Z07:00", "%Y-%m-%dT%H:%M:%S.%6fZ"),
    };
    let time = parse(text, precision)
        .ok_or_else(|| format!("parsing time {text:?} as {layout:?}: cannot parse {text:?}"))?;
    let is_none = time == DateTime::constant(1, 1, 1, 0, 0, 0, 0);
    Ok((!is_none).then(|| time.strftime(form).to_string()))
}

struct Scanner<'a>(&'a str);

impl Scanner<'_> {
    fn sign(&mut self, sign: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(sign)?;
        Some(())
    }

    /// So many digits.
    fn digits(&mut self, count: usize) -> Option<i32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
    }

    /// So many digits of a number that is not larger.
    fn at_most(&mut self, count: usize, most: i32) -> Option<i8> {
        let number = self.digits(count).filter(|number| *number <= most)?;
        i8::try_from(number).ok()
    }

    /// Nanoseconds of a fraction with so many digits; more than nine count for nothing.
    fn fraction(&mut self, count: usize) -> Option<i32> {
        self.0 = self.0.strip_prefix(['.', ','])?;
        let kept = count.min(9);
        let number = self.digits(kept)?;
        self.0 = self.0.get(count - kept..)?;
        Some((kept..9).fold(number, |number, _| number * 10))
    }

    /// Seconds east of Greenwich.
    fn offset(&mut self) -> Option<i32> {
        if self.sign("Z").is_some() {
            return Some(0);
        }
        let sign = if self.sign("+").is_some() { 1 } else { self.sign("-").map(|()| -1)? };
        let hours = self.at_most(2, 24)?;
        self.sign(":")?;
        let minutes = self.at_most(2, 60)?;
        Some(sign * (i32::from(hours) * 60 + i32::from(minutes)) * 60)
    }
}

fn parse(text: &str, precision: Precision) -> Option<DateTime> {
    let mut scanner = Scanner(text);
    let year = i16::try_from(scanner.digits(4)?).ok()?;
    scanner.sign("-")?;
    let month = scanner.at_most(2, 12)?;
    scanner.sign("-")?;
    let day = scanner.at_most(2, 31)?;
    scanner.sign("T")?;
    // Go takes an hour of one digit too.
    let digits = scanner.0.bytes().take(2).take_while(u8::is_ascii_digit).count().max(1);
    let hour = scanner.at_most(digits, 23)?;
    scanner.sign(":")?;
    let minute = scanner.at_most(2, 59)?;
    scanner.sign(":")?;
    let second = scanner.at_most(2, 59)?;
    let decimals = scanner.0.bytes().skip(1).take_while(u8::is_ascii_digit).count();
    let nanosecond = match precision {
        Precision::Seconds if scanner.0.starts_with(['.', ',']) && decimals > 0 => {
            scanner.fraction(decimals)?
        }
        Precision::Seconds => 0,
        Precision::Micros => scanner.fraction(6)?,
    };
    let offset = scanner.offset()?;
    if !scanner.0.is_empty() {
        return None;
    }
    let local = jiff::civil::Date::new(year, month, day).ok()?.at(hour, minute, second, nanosecond);
    local.checked_sub(SignedDuration::from_secs(offset.into())).ok()
}
