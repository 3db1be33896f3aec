//! [`Metrics`]: the text of a `/metrics` page, parsed for assertions. Supports the classic Prometheus form and
//! OpenMetrics; timestamps and exemplars are skipped.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

/// The labels of a series.
pub type Labels = BTreeMap<String, String>;

/// All series of one page, in the order of the page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    series: Vec<(String, Labels, f64)>,
}

impl Metrics {
    /// Parses a page.
    ///
    /// # Errors
    /// When a line is malformed.
    pub fn parse(text: &str) -> anyhow::Result<Metrics> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let series = lines.map(|line| parse_line(line).with_context(|| format!("in metrics line {line:?}")));
        Ok(Metrics { series: series.collect::<anyhow::Result<_>>()? })
    }

    /// The sum of all series of a name that have at least these labels; `None` if no series matches.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.matching(name, labels).map(|(_, value)| value).reduce(|sum, value| sum + value)
    }

    /// The series of a name that have at least these labels.
    pub fn matching<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = (&'a Labels, f64)> {
        let carries =
            move |has: &Labels| labels.iter().all(|(key, value)| has.get(*key).is_some_and(|it| it == value));
        self.series
            .iter()
            .filter(move |(its_name, its_labels, _)| its_name == name && carries(its_labels))
            .map(|(_, its_labels, value)| (its_labels, *value))
    }

    /// The names of all series, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.series.iter().map(|(name, ..)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// `name{label="value",…} number [timestamp] [# exemplar]`
fn parse_line(line: &str) -> anyhow::Result<(String, Labels, f64)> {
    let end = line.find(['{', ' ', '\t']).context("no value")?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => parse_labels(inside)?,
        None => (Labels::new(), rest),
    };
    let number = rest.split_whitespace().next().context("no value")?;
    // `f64` reads `+Inf` and `NaN` as Prometheus writes them.
    Ok((name.to_owned(), labels, number.parse()?))
}

/// Parses labels up to the closing brace and returns the rest of the line.
fn parse_labels(mut rest: &str) -> anyhow::Result<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((labels, after));
        }
        let (key, quoted) = rest.split_once("=\"").context("a label without a quoted value")?;
        let (value, after) = unquote(quoted)?;
        labels.insert(key.trim().to_owned(), value);
        rest = after;
    }
}

/// Parses up to the closing quote and returns the rest of the line.
fn unquote(quoted: &str) -> anyhow::Result<(String, &str)> {
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped)) => value.push(escaped),
                None => break,
            },
            other => value.push(other),
        }
    }
    bail!("a label's value does not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"
# HELP workqueue_adds Items added.
# TYPE workqueue_adds counter
workqueue_adds_total{name="a",controller="x"} 3
workqueue_adds_total{name="b"} 4 1700000000
pilothouse_odd{path="C:\\ \"q\", {z}\n"} 1.5e3 # {trace="1"} 0.5
up 1
latency_bucket{le="+Inf"} +Inf
# EOF
"#;

    #[test]
    fn series_are_summed_over_the_labels_that_are_not_named() {
        let metrics = Metrics::parse(PAGE).unwrap();
        assert_eq!(metrics.sum("workqueue_adds_total", &[]), Some(7.0));
        assert_eq!(metrics.sum("workqueue_adds_total", &[("name", "a")]), Some(3.0));
        assert_eq!(metrics.sum("workqueue_adds_total", &[("name", "c")]), None);
        assert_eq!(metrics.sum("up", &[]), Some(1.0));
        assert_eq!(metrics.sum("latency_bucket", &[("le", "+Inf")]), Some(f64::INFINITY));
        assert_eq!(metrics.names(), ["latency_bucket", "pilothouse_odd", "up", "workqueue_adds_total"]);
    }

    #[test]
    fn a_label_may_hold_what_looks_like_syntax() {
        let metrics = Metrics::parse(PAGE).unwrap();
        let (labels, value) = metrics.matching("pilothouse_odd", &[]).next().unwrap();
        assert_eq!((labels["path"].as_str(), value), ("C:\\ \"q\", {z}\n", 1500.0));
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = Metrics::parse("a 1\nb{c=\"d} 2").unwrap_err();
        assert!(format!("{error:#}").contains("b{c="), "{error:#}");
        assert!(Metrics::parse("lonely").is_err());
    }
}
