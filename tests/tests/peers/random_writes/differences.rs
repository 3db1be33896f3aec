//! The differences that are known and explained: what they look like, and why the development server has them.

use std::collections::BTreeSet;

use super::compare::{Difference, untyped};
use super::kinds::Kind;
use super::server::Answer;

/// Two answers that differ.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) kind: &'a Kind,
    pub(super) real: &'a Answer,
    pub(super) development: &'a Answer,
    pub(super) difference: &'a Difference,
    /// The steps on the object up to this one, as people read them.
    pub(super) steps: &'a [String],
}

/// A difference that is explained.
pub(super) struct Explained {
    /// The reason, as `docs/devserver.md` has it.
    pub(super) reason: &'static str,
    pub(super) fits: fn(&Case<'_>) -> bool,
}

/// All of them; the first that fits counts.
pub(super) const EXPLAINED: &[Explained] = &[
    Explained {
        reason: "Of several fields that an apply sends and its kind does not have, a real server names one by chance, and what \
                 else is wrong only as far as it has looked by then.",
        fits: |case| {
            const UNDECLARED: &str = ": field not declared in schema";
            let errors = |answer: &Answer| {
                let message = answer.body["message"].as_str().unwrap_or_default().to_owned();
                let (start, errors) = untyped(&message)?;
                let errors: BTreeSet<String> = errors.into_iter().map(str::to_owned).collect();
                Some((start.to_owned(), errors))
            };
            let (Some(real), Some(development)) = (errors(case.real), errors(case.development)) else {
                return false;
            };
            let body = case.steps.last().map(String::as_str).unwrap_or_default();
            let is_sent = |error: &String| {
                let field = error.strip_suffix(UNDECLARED).and_then(|path| path.rsplit('.').next());
                field.is_none_or(|field| body.contains(&format!("\"{field}\":")))
            };
            let all = real.1.union(&development.1);
            real.0 == development.0
                && [&real.1, &development.1]
                    .iter()
                    .all(|errors| errors.iter().any(|error| error.ends_with(UNDECLARED)))
                && all.clone().count() > 1
                && all.clone().all(is_sent)
        },
    },
    Explained {
        reason: "The write after an apply with empty annotations changes the resource version of a custom resource on a real \
                 server, even if it changes nothing else.",
        fits: |case| {
            let is_custom = ["Gadget", "Blob"].contains(&case.kind.kind.as_str());
            is_custom && case.difference.signature() == "/changed" && case.difference.places[0].real == true
        },
    },
    Explained {
        reason: "The first update of a PersistentVolumeClaim, of a Job, and of a StatefulSet with claims changes its resource \
                 version on a real server, even if it changes nothing else.",
        fits: |case| {
            let kinds = ["PersistentVolumeClaim", "StatefulSet", "Job"].contains(&case.kind.kind.as_str());
            kinds && case.difference.signature() == "/changed" && case.difference.places[0].real == true
        },
    },
    Explained {
        reason: "A capacity that is not there is shown as `{}` in a cause, where a real server shows `null`.",
        fits: |case| {
            const NONE: &str = "Unsupported value: null: supported values: \"storage\"";
            let has = |answer: &Answer, text: &str| {
                let causes = answer.body["details"]["causes"].as_array();
                causes.is_some_and(|causes| causes.iter().any(|cause| cause["message"] == text))
            };
            case.kind.kind == "PersistentVolume"
                && has(case.real, NONE)
                && has(case.development, &NONE.replace("null", "{}"))
        },
    },
];

#[cfg(test)]
mod tests {
    use pilothouse_testkit::paths;

    use super::*;

    #[test]
    fn the_page_has_the_same_list() {
        let page = std::fs::read_to_string(paths::repository().join("docs/devserver.md")).unwrap();
        let (_, list) = page.split_once("<!-- differences -->").unwrap();
        let (list, _) = list.split_once("<!-- end of differences -->").unwrap();
        let line = list.split_whitespace().collect::<Vec<_>>().join(" ");
        let found: Vec<&str> = line.split("- ").map(str::trim).filter(|reason| !reason.is_empty()).collect();
        let expected: Vec<&str> = EXPLAINED.iter().map(|explained| explained.reason).collect();
        assert_eq!(found, expected);
    }
}
