//! Leases, and candidates for them.

use super::node::{Node, field};
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

pub(super) fn lease(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let duration = spec.field("leaseDurationSeconds");
    if duration.int().is_some_and(|seconds| seconds <= 0) {
        duration.invalid(causes, "must be greater than 0");
    }
    spec.field("leaseTransitions").non_negative(causes);
}

/// A LeaseCandidate.
pub(super) fn candidate(object: &JsonMap, causes: &mut Causes) {
    const OLDEST: &str = "OldestEmulationVersion";
    let spec = field(object, "spec");
    spec.field("leaseName").is_given(causes);
    let (emulated, own) = (spec.field("emulationVersion"), spec.field("binaryVersion"));
    let (emulated_text, own_text) = (emulated.text(), own.text());
    let emulated_version = version(&emulated, causes);
    if own_text.is_empty() {
        own.required(causes, "");
    }
    let own_version = version(&own, causes);
    if !emulated_text.is_empty() && !own_text.is_empty() && own_version < emulated_version {
        own.invalid(causes, "must be greater than or equal to `emulationVersion`");
    }
    let strategy = spec.field("strategy");
    if !strategy.is_given(causes) {
        return;
    }
    if strategy.text() == OLDEST && emulated_version == Version::default() {
        emulated.required(causes, "must be specified when `strategy` is 'OldestEmulationVersion'");
    }
    let at = strategy.field("strategy");
    let strategy = strategy.placed(&at);
    if strategy.text().contains('/') {
        strategy.faults(causes, syntax::qualified_name(strategy.text()));
    } else {
        strategy.one_of(causes, &[OLDEST]);
    }
}

/// A part of a version before a release: numbers come before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

/// A semantic version, in the order of versions: one before a release is less than the release.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    numbers: [u64; 3],
    is_release: bool,
    before: Vec<Part>,
}

impl Default for Version {
    fn default() -> Self {
        Self { numbers: [0; 3], is_release: true, before: Vec::new() }
    }
}

impl Version {
    fn read(text: &str) -> Option<Self> {
        if !syntax::is_semantic_version(text) {
            return None;
        }
        let text = text.split('+').next().unwrap_or_default();
        let (release, before) =
            text.split_once('-').map_or((text, None), |(release, rest)| (release, Some(rest)));
        let mut numbers = [0; 3];
        for (number, part) in numbers.iter_mut().zip(release.split('.')) {
            *number = part.parse().ok()?;
        }
        let part = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().ok().map(Part::Number),
            false => Some(Part::Word(text.to_owned())),
        };
        let parts = before.into_iter().flat_map(|before| before.split('.'));
        Some(Self { numbers, is_release: before.is_none(), before: parts.map(part).collect::<Option<_>>()? })
    }
}

/// A version, if there is one; a text that is none counts as the least one.
fn version(at: &Node<'_, '_>, causes: &mut Causes) -> Version {
    if at.text().is_empty() {
        return Version::default();
    }
    Version::read(at.text()).unwrap_or_else(|| {
        at.invalid(causes, "must be a valid semantic version");
        Version::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_order_of_semantic_versions() {
        let versions =
            ["1.2.3-1", "1.2.3-2", "1.2.3-10", "1.2.3-a", "1.2.3-a.1", "1.2.3", "1.2.10", "1.10.0", "2.0.0"];
        let read: Vec<Version> = versions.iter().map(|text| Version::read(text).unwrap()).collect();
        assert!(read.is_sorted_by(|a, b| a < b), "{read:?}");
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "01.2.3",
            "1.2.x",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3+",
            "99999999999999999999.0.0",
        ] {
            assert_eq!(Version::read(text), None, "{text}");
        }
        assert_eq!(Version::read("1.2.3+a"), Version::read("1.2.3"));
    }
}
