//! [`IndexPattern`]: the name of an Event's index, as `events-%Y.%m.%d`. Part of the settings.
//!
//! Invariants: what a pattern makes is a name that Elasticsearch and OpenSearch accept; it depends on nothing but the day when
//! the Event was created, which never changes. An Event that is exported again after an update therefore meets its own document.
//! By the time of the last occurrence it would leave a second one in the index of another day.

use pilothouse_sdk::serde::Deserialize;

/// Characters that an index name must not have, beside upper-case letters. A comma or an asterisk would name several indices, a
/// colon one of another cluster.
const FORBIDDEN: &str = "\\/*?\"<>| ,#:%";

/// How many bytes the name of an index may have.
const MAX: usize = 255;

/// The pattern of an index name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct IndexPattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Year,
    Month,
    Day,
}

impl IndexPattern {
    /// The index of an Event that was created at this time, RFC 3339 as the API server writes it.
    pub(crate) fn index(&self, created: &str) -> Result<String, String> {
        let (year, month, day) = day(created)
            .ok_or_else(|| format!("metadata.creationTimestamp is no time in UTC: {created:?}"))?;
        let part = |part: &'_ Part| match part {
            Part::Text(text) => text.clone(),
            Part::Year => year.to_owned(),
            Part::Month => month.to_owned(),
            Part::Day => day.to_owned(),
        };
        Ok(self.0.iter().map(part).collect())
    }
}

impl Default for IndexPattern {
    fn default() -> Self {
        Self(vec![
            Part::Text("events-".to_owned()),
            Part::Year,
            Part::Text(".".to_owned()),
            Part::Month,
            Part::Text(".".to_owned()),
            Part::Day,
        ])
    }
}

impl TryFrom<String> for IndexPattern {
    type Error = String;

    fn try_from(pattern: String) -> Result<Self, String> {
        let mut parts = Vec::new();
        for (nth, piece) in pattern.split('%').enumerate() {
            let text = if nth == 0 {
                piece
            } else {
                let mut rest = piece.chars();
                parts.push(match rest.next() {
                    Some('Y') => Part::Year,
                    Some('m') => Part::Month,
                    Some('d') => Part::Day,
                    _ => return Err(format!("`{pattern}`: `%` stands only in %Y, %m and %d")),
                });
                rest.as_str()
            };
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
        }
        let pattern = Self(parts);
        check(&pattern.index("2000-01-01T00:00:00Z")?)?;
        Ok(pattern)
    }
}

/// Refuses what is no name of an index. All days make names of one length.
fn check(name: &str) -> Result<(), String> {
    let refused = |reason: String| Err(format!("it makes `{name}`, which is no name of an index: {reason}"));
    if name.is_empty() || name == "." || name == ".." {
        return refused("there must be some text in it".to_owned());
    }
    if let Some(first) = name.chars().next().filter(|first| "-_+".contains(*first)) {
        return refused(format!("it must not begin with `{first}`"));
    }
    let is_bad = |c: &char| c.is_uppercase() || c.is_control() || c.is_whitespace() || FORBIDDEN.contains(*c);
    if let Some(bad) = name.chars().find(is_bad) {
        return refused(format!("`{}` is not allowed", bad.escape_default()));
    }
    if name.len() > MAX {
        return refused(format!("it has {} bytes, and {MAX} are allowed", name.len()));
    }
    Ok(())
}

/// Year, month and day of a time in UTC. The API server writes all times so, whatever its own zone.
fn day(time: &str) -> Option<(&str, &str, &str)> {
    let (date, rest) = time.split_once('T')?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let number = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    let is_date = number(year, 4) && number(month, 2) && number(day, 2) && parts.next().is_none();
    (is_date && rest.ends_with('Z')).then_some((year, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: &str = "2026-11-02T23:59:59Z";

    fn pattern(text: &str) -> Result<IndexPattern, String> {
        IndexPattern::try_from(text.to_owned())
    }

    #[test]
    fn an_event_goes_to_the_index_of_the_day_it_was_created_on() {
        assert_eq!(IndexPattern::default().index(CREATED).unwrap(), "events-2026.11.02");
        assert_eq!(pattern("events-%Y.%m.%d"), Ok(IndexPattern::default()));
        assert_eq!(pattern("k8s-%Y-%m").unwrap().index(CREATED).unwrap(), "k8s-2026-11");
        assert_eq!(pattern("%d%m%Y").unwrap().index(CREATED).unwrap(), "02112026");
        assert_eq!(pattern("events").unwrap().index(CREATED).unwrap(), "events");
        // With a fraction of a second too.
        assert_eq!(pattern("a%d").unwrap().index("2026-01-31T00:00:00.000001Z").unwrap(), "a31");
    }

    #[test]
    fn what_is_no_time_in_utc_is_an_error() {
        for time in ["", "2026-11-02", "2026-11-02T23:59:59+01:00", "26-11-02T00:00:00Z", "2026-11-0xT0Z"] {
            assert!(IndexPattern::default().index(time).is_err(), "{time}");
        }
    }

    #[test]
    fn what_makes_no_name_of_an_index_is_refused() {
        for (text, reason) in [
            ("", "there must be some text"),
            ("..", "there must be some text"),
            ("_events", "must not begin with `_`"),
            ("-%Y", "must not begin with `-`"),
            ("Events-%Y", "`E` is not allowed"),
            ("events %Y", "` ` is not allowed"),
            ("events/%Y", "`/` is not allowed"),
            ("events-*", "`*` is not allowed"),
            ("other:events", "`:` is not allowed"),
            ("a,b", "`,` is not allowed"),
            ("a\nb", "`\\n` is not allowed"),
            ("events-%H", "only in %Y, %m and %d"),
            ("100%", "only in %Y, %m and %d"),
            ("%%", "only in %Y, %m and %d"),
            (&"a".repeat(256), "it has 256 bytes"),
        ] {
            let error = pattern(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(pattern(&format!("{}%Y", "a".repeat(251))).is_ok());
    }
}
