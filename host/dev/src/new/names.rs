//! [`plugin_name`] and [`CustomKind`]: the names that a new plugin may have, and the kind that it may be for.

use pilothouse_object::is_dns_subdomain;

/// Names that Cargo or Rust has for something else.
const TAKEN: [&str; 12] = [
    "alloc",
    "build",
    "core",
    "crate",
    "deps",
    "examples",
    "pilothouse-sdk",
    "pilothouse-sdk-macros",
    "proc-macro",
    "self",
    "std",
    "test",
];

/// Keywords that a package cannot be called after.
const KEYWORDS: [&str; 48] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "super",
    "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while",
];

/// Types that the files of a new plugin name beside the kind's own.
const TYPES: [&str; 28] = [
    "Added",
    "BatchReconciler",
    "Config",
    "Context",
    "Controller",
    "Deleted",
    "Descriptor",
    "Duration",
    "Err",
    "EventHandler",
    "Failure",
    "Key",
    "Map",
    "Metadata",
    "Ok",
    "Option",
    "Outcome",
    "Plugin",
    "Reconciler",
    "Request",
    "Resource",
    "Result",
    "Self",
    "String",
    "Updated",
    "Vec",
    "Watch",
    "World",
];

/// The name of a plugin and of its crate.
pub(crate) fn plugin_name(text: &str) -> Result<String, String> {
    let usual = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = (1..=63).contains(&text.len())
        && text.bytes().all(usual)
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-');
    if !is_label {
        return Err(
            "use lower-case letters, digits and \"-\", 63 at most, with a letter at the beginning".to_owned()
        );
    }
    if TAKEN.contains(&text) || KEYWORDS.contains(&text) {
        return Err(format!("{text:?} is a word of Rust or Cargo: use another name, as my-{text}"));
    }
    Ok(text.to_owned())
}

/// The kind of a CustomResourceDefinition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CustomKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl CustomKind {
    /// Parses `GROUP/VERSION/KIND`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let form = "write GROUP/VERSION/KIND, as example.org/v1/Foo";
        let [group, version, kind] = text.split('/').collect::<Vec<_>>()[..] else {
            return Err(form.to_owned());
        };
        if !is_dns_subdomain(group) || !group.contains('.') {
            return Err(format!("the group {group:?} is not a domain name; {form}"));
        }
        if !is_version(version) {
            return Err(format!("the version {version:?} is none like v1 or v1alpha1; {form}"));
        }
        let is_kind = kind.starts_with(|c: char| c.is_ascii_uppercase())
            && kind.len() <= 63
            && kind.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_kind {
            return Err(format!("the kind {kind:?} is not a word like Foo or CronTab; {form}"));
        }
        if TYPES.contains(&kind) || kind.ends_with("Spec") || kind.ends_with("Status") {
            return Err(format!(
                "the kind {kind:?} has the name of another type of the plugin: use another word, as My{kind}"
            ));
        }
        Ok(Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() })
    }
}

/// `v1`, `v1alpha1`, `v2beta3`
fn is_version(text: &str) -> bool {
    let number =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    let Some(rest) = text.strip_prefix('v').filter(|_| text.len() <= 63) else { return false };
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        None => number(rest),
        Some((major, minor)) => number(major) && number(minor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_a_plugin_and_of_a_crate() {
        for name in ["a", "pods-per-node", "x2"] {
            assert_eq!(plugin_name(name).as_deref(), Ok(name));
        }
        for name in [
            "",
            "-a",
            "a-",
            "2x",
            "A",
            "a_b",
            "a.b",
            "ä",
            "../a",
            "test",
            "match",
            "pilothouse-sdk",
            &"a".repeat(64),
        ] {
            assert!(plugin_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_custom_kind_has_three_parts() {
        let kind = CustomKind::parse("example.org/v1alpha1/CronTab").unwrap();
        assert_eq!((&*kind.group, &*kind.version, &*kind.kind), ("example.org", "v1alpha1", "CronTab"));
        for text in [
            "",
            "v1/Pod",
            "apps/v1/Foo",
            "Example.org/v1/Foo",
            "example.org/1/Foo",
            "example.org/v01/Foo",
            "example.org/v1gamma1/Foo",
            "example.org/v1/foo",
            "example.org/v1/Fo o",
            "example.org/v1/Foo/x",
            "a.b/v1alpha/F",
        ] {
            let error = CustomKind::parse(text).unwrap_err();
            assert!(error.contains("GROUP/VERSION/KIND"), "{text:?}: {error}");
        }
        for kind in ["Context", "Plugin", "FooSpec", "Resource", "World"] {
            let error = CustomKind::parse(&format!("example.org/v1/{kind}")).unwrap_err();
            assert!(error.contains(&format!("as My{kind}")), "{error}");
        }
    }
}
