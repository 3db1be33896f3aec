//! [`render`]: a template with the names of a plugin in it.
//!
//! ```text
//! __name__       the value of `name`
//! %% if crd      lines up to `%% else` or `%% end` are there only if the condition holds; conditions nest
//! ```

use std::collections::{BTreeMap, BTreeSet};

/// What templates can refer to.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) names: BTreeMap<&'static str, String>,
    pub(crate) conditions: BTreeSet<&'static str>,
}

/// The text of a template with these values.
pub(crate) fn render(template: &str, values: &Values) -> String {
    let mut text = String::with_capacity(template.len());
    // One for each `if` that is open.
    let mut shown: Vec<bool> = Vec::new();
    for line in template.lines() {
        match line.strip_prefix("%% ") {
            None if shown.iter().all(|shown| *shown) => {
                text += line;
                text.push('\n');
            }
            None => {}
            Some("else") => shown.last_mut().into_iter().for_each(|shown| *shown = !*shown),
            Some("end") => _ = shown.pop(),
            Some(condition) => {
                let name = condition.strip_prefix("if ");
                shown.push(name.is_some_and(|name| values.conditions.contains(name)));
            }
        }
    }
    values.names.iter().fold(text, |text, (name, value)| text.replace(&format!("__{name}__"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_in_and_lines_depend_on_conditions() {
        let template =
            "a __x__\n%% if one\nb\n%% if two\ne\n%% else\nf\n%% end\n%% else\nc __x__\n%% end\nd\n";
        let mut values = Values { names: BTreeMap::from([("x", "y".to_owned())]), ..Values::default() };
        assert_eq!(render(template, &values), "a y\nc y\nd\n");
        values.conditions.insert("one");
        assert_eq!(render(template, &values), "a y\nb\nf\nd\n");
    }
}
