//! The differences that are known and explained: what they look like, and why the development server has them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::compare::{Difference, Place, untyped};
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
        reason: "An apply has several fields that its kind does not have: a real server names one of them at random, and may omit \
                 other errors.",
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
        reason: "Expressions of CEL are not compiled.",
        fits: |case| {
            let message = case.real.body["message"].as_str().unwrap_or_default();
            let is_accepted = (200..300).contains(&case.development.code);
            is_accepted && case.real.code == 422 && message.contains("compilation failed: ERROR: <input>:")
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
        reason: "An empty map and one that is not there are the same in causes: `{}` may be shown as `null`, or `null` as `{}`.",
        fits: |case| {
            let told = |value: &Value| value.as_str().map(|text| text.replace("{}: ", "null: "));
            let places = &case.difference.places;
            places.iter().all(|place| {
                place.path.ends_with("/message") && told(&place.real) == told(&place.development)
            })
        },
    },
    Explained {
        reason: "A patch that changes nothing may be answered with an empty list by a real server, where the stored object has \
                 null.",
        fits: |case| {
            let is_patch = case.steps.last().is_some_and(|step| step.contains("-patch+json]"));
            let places = &case.difference.places;
            is_patch
                && places
                    .iter()
                    .all(|place| place.real == Value::Array(Vec::new()) && place.development.is_null())
        },
    },
    Explained {
        reason: "The generation of a NetworkPolicy or a webhook configuration does not count an empty list that becomes none, or \
                 none that becomes an empty list.",
        fits: |case| {
            const KINDS: [&str; 3] =
                ["NetworkPolicy", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
            let places = &case.difference.places;
            let counts = |place: &Place| {
                let one_more = place.development.as_i64().map(|generation| generation + 1);
                place.path == "/body/metadata/generation" && place.real.as_i64() == one_more
            };
            KINDS.contains(&case.kind.kind.as_str())
                && places.iter().any(counts)
                && places.iter().all(|place| counts(place) || place.path == "/changed" && place.real == true)
        },
    },
    Explained {
        reason: "A write of `namespaces/finalize` changes the finalizers of a Namespace alone.",
        fits: |case| {
            let is_of_body = |place: &Place| place.path.starts_with("/body/") || place.path == "/changed";
            case.steps.last().is_some_and(|step| step.contains("/finalize?"))
                && (case.real.code, case.development.code) == (200, 200)
                && case.difference.places.iter().all(is_of_body)
        },
    },
    Explained {
        reason: "An apply that leaves a wrong value beside an entry of another version is refused in other words before the cause.",
        fits: |case| {
            let cause = |answer: &Answer| {
                let message = answer.body["message"].as_str().unwrap_or_default();
                message.split_once("unable to convert unstructured object to ").map(|(_, why)| why.to_owned())
            };
            let message = case.real.body["message"].as_str().unwrap_or_default();
            message.starts_with("failed to prune fields: ")
                && (case.real.code, case.development.code) == (500, 500)
                && cause(case.real) == cause(case.development)
        },
    },
    Explained {
        reason: "A Service without a name is refused because of that, and not because an IPAddress cannot be made for it.",
        fits: |case| {
            let message = case.real.body["message"].as_str().unwrap_or_default();
            case.kind.kind == "Service"
                && message.contains("failed to allocate IP: IPAddress.networking.k8s.io")
                && case.development.body["details"]["causes"][0]["field"] == "metadata.name"
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
