//! [`Predicate`]: a filter of the updates of watched objects.

use pilothouse_object::{Object, Pointer};

/// A filter of updates. Added and deleted objects always pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate {
    /// `metadata.generation` changed.
    GenerationChanged,
    /// `metadata.resourceVersion` changed.
    ResourceVersionChanged,
    /// A label changed.
    LabelsChanged,
    /// An annotation changed.
    AnnotationsChanged,
    /// The value at a pointer changed.
    FieldChanged(Pointer),
}

impl Predicate {
    /// Whether an update passes.
    #[must_use]
    pub fn passes(&self, old: &Object, new: &Object) -> bool {
        match self {
            Self::GenerationChanged => old.generation() != new.generation(),
            Self::ResourceVersionChanged => old.resource_version() != new.resource_version(),
            Self::LabelsChanged => !old.same_labels(new),
            Self::AnnotationsChanged => !old.same_annotations(new),
            Self::FieldChanged(path) => {
                let mut before = Vec::new();
                old.select(path, |value| before.push(value));
                let mut after = Vec::with_capacity(before.len());
                new.select(path, |value| after.push(value));
                before != after
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(node: &str, label: &str) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","generation":1,"labels":{{"app":"{label}"}}}},
            "spec":{{"nodeName":"{node}"}}}}"#
        );
        Object::decode(json.as_bytes()).unwrap()
    }

    #[test]
    fn predicates_compare_what_they_name() {
        let (a, b) = (pod("n1", "web"), pod("n2", "web"));
        let field = |path: &str| Predicate::FieldChanged(path.parse().unwrap());
        assert!(field("/spec/nodeName").passes(&a, &b));
        assert!(!field("/metadata/name").passes(&a, &b));
        assert!(!Predicate::GenerationChanged.passes(&a, &b));
        assert!(!Predicate::LabelsChanged.passes(&a, &b));
        assert!(Predicate::LabelsChanged.passes(&a, &pod("n1", "db")));
    }
}
