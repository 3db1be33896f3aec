//! The differences that are known and explained: what they look like, and why the development server has them.

use super::compare::Difference;
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
        reason: "The write after an apply with empty annotations changes the resource version of a custom resource on a real \
                 server, even if it changes nothing else.",
        fits: |case| {
            let is_custom = ["Gadget", "Blob"].contains(&case.kind.kind.as_str());
            is_custom && case.difference.signature() == "/changed" && case.difference.places[0].real == true
        },
    },
    Explained {
        reason: "A conflict of UIDs does not name the key in the store.",
        fits: |case| {
            let message = case.real.body["message"].as_str().unwrap_or_default();
            case.development.code == 409 && message.contains("StorageError: invalid object")
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
        reason: "If a member occurs twice in a text, the last one counts; a real server reads both.",
        fits: |case| {
            let message = case.real.body["message"].as_str().unwrap_or_default();
            let is_twice =
                case.development.warnings.iter().any(|warning| warning.starts_with("duplicate field"));
            case.real.code == 400 && message.contains(" cannot be handled as a ") && is_twice
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
    Explained {
        reason: "Values of ValidatingAdmissionPolicies and of the kinds of resource.k8s.io are not checked.",
        fits: |case| {
            const KINDS: [&str; 5] = [
                "ValidatingAdmissionPolicy",
                "DeviceClass",
                "ResourceClaim",
                "ResourceClaimTemplate",
                "ResourceSlice",
            ];
            let is_refused =
                case.real.body["details"]["causes"].as_array().is_some_and(|causes| !causes.is_empty());
            KINDS.contains(&case.kind.kind.as_str()) && case.real.code == 422 && is_refused
        },
    },
    Explained {
        reason: "Warnings of fields that stand in a body twice come before those of unknown fields.",
        fits: |case| {
            let sorted = |answer: &Answer| {
                let mut warnings = answer.warnings.clone();
                warnings.sort();
                warnings
            };
            let places = &case.difference.places;
            places.iter().all(|place| place.path.starts_with("/warnings/"))
                && sorted(case.real) == sorted(case.development)
        },
    },
    Explained {
        reason: "The resources of a Pod can be changed whether its node is there or not.",
        fits: |case| {
            let message = case.real.body["message"].as_str().unwrap_or_default();
            let is_resize = case.steps.last().is_some_and(|step| step.contains("/resize?"));
            is_resize
                && case.development.code == 200
                && message.contains(": node \"")
                && message.ends_with(" not found")
        },
    },
    Explained {
        reason: "An update of a custom resource that is of another kind is refused because of that, not because of its resource \
                 version.",
        fits: |case| {
            let message = case.development.body["message"].as_str().unwrap_or_default();
            case.real.code == 409
                && case.development.code == 422
                && message.contains(" is invalid: kind: Invalid value: ")
        },
    },
    Explained {
        reason: "A dry run of an apply that would make an object does not answer the resource version of the configuration.",
        fits: |case| {
            let is_dry = case
                .steps
                .last()
                .is_some_and(|step| step.contains("dryRun=All") && step.contains("[apply-patch+yaml]"));
            is_dry
                && case.real.code == 201
                && case.development.code == 201
                && case.difference.signature() == "/changed"
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
