//! [`bars`]: a row of a report as a chart, in SVG.

use std::fmt::Write as _;

use crate::Row;

const WIDTH: f64 = 720.0;
/// Where bars begin, behind the names.
const LEFT: f64 = 260.0;
/// The longest bar; the rest is for its figure.
const LONGEST: f64 = 340.0;
/// From one bar to the next.
const STEP: usize = 30;
const BAR: usize = 18;
/// Height of the title.
const TOP: usize = 44;
/// Height of the line below the bars.
const BOTTOM: usize = 34;

/// A bar for ours, which has this name, and one for each peer, with their figures, from zero and to one scale; `note` is the
/// line below. Readable on light and dark pages.
#[must_use]
pub fn bars(row: &Row, ours: &str, note: &str) -> String {
    let bars: Vec<(&str, f64)> = [(ours, row.ours)]
        .into_iter()
        .chain(row.peers.iter().map(|(name, value)| (name.as_str(), *value)))
        .collect();
    let most = bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let height = TOP + bars.len() * STEP + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <style>text {{ fill: #24292f }} .peer {{ fill: #8c959f }} .ours {{ fill: #0969da }} \
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} .ours {{ fill: #58a6ff }} }}</style>\n\
         <text x=\"10\" y=\"26\" font-size=\"16\" font-weight=\"bold\">{}</text>\n",
        escaped(&row.scenario)
    );
    for (at, (name, value)) in bars.iter().enumerate() {
        let class = if at == 0 { "ours" } else { "peer" };
        let (top, width) = (TOP + at * STEP, (value / most * LONGEST).max(1.0));
        let line = top + BAR - 4;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{line}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"{BAR}\"/>\
             <text x=\"{:.1}\" y=\"{line}\">{}</text>",
            LEFT - 10.0,
            escaped(name),
            LEFT + width + 8.0,
            escaped(&figure(*value, &row.metric)),
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"10\" y=\"{}\" font-size=\"11\">{}</text>\n</svg>",
        height - 12,
        escaped(note)
    );
    svg
}

/// A figure with its unit: three digits, and thousands with commas.
fn figure(value: f64, unit: &str) -> String {
    let (value, unit) =
        if unit == "MiB" && value >= 10_240.0 { (value / 1024.0, "GiB") } else { (value, unit) };
    let decimals = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if let Some(fraction) = fraction {
        grouped = format!("{grouped}.{fraction}");
    }
    format!("{grouped} {unit}").trim_end().to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Better;

    fn row(ours: f64, peers: &[(&str, f64)]) -> Row {
        Row {
            scenario: "a < b".to_owned(),
            metric: "MiB".to_owned(),
            better: Better::Lower,
            ours,
            peers: peers.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            ratio: None,
            target: None,
            met: None,
            runs: 1,
            command: String::new(),
        }
    }

    #[test]
    fn bars_are_to_scale_and_each_has_its_figure() {
        let svg = bars(&row(50.0, &[("x", 200.0), ("y", 0.001)]), "us & more", "one <command>");
        for part in [
            "a &lt; b",
            "us &amp; more",
            "one &lt;command&gt;",
            "width=\"85.0\"",
            "50.0 MiB",
            "width=\"340.0\"",
            "200 MiB",
            "width=\"1.0\"",
            "0.00 MiB",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<rect").count(), 3);
    }

    #[test]
    fn figures_have_three_digits_and_large_ones_commas() {
        for (value, unit, expected) in [
            (0.126, "s", "0.13 s"),
            (12.34, "s", "12.3 s"),
            (1_234.4, "µs", "1,234 µs"),
            (1_234_567.0, "", "1,234,567"),
            (20_480.0, "MiB", "20.0 GiB"),
        ] {
            assert_eq!(figure(value, unit), expected);
        }
    }
}
