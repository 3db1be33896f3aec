//! `--plugins-from-cluster`: the namespaces whose Plugins (plugins.pilothouse.dev) a host runs; used by `run` and `rbac`.

use std::collections::BTreeSet;

/// The word for all namespaces.
const ALL: &str = "*";

/// One entry of the list: the name of a namespace, or `*`.
///
/// # Errors
/// When it is neither.
pub fn namespace(text: &str) -> Result<String, String> {
    let is_label = pilothouse_object::is_dns_subdomain(text) && text.len() <= 63 && !text.contains('.');
    match is_label || text == ALL {
        true => Ok(text.to_owned()),
        false => Err("it is not a namespace; write names separated by commas, or \"*\" for all".to_owned()),
    }
}

/// The namespaces of a list; none for all.
pub fn namespaces(list: Vec<String>) -> Option<BTreeSet<String>> {
    let names: BTreeSet<String> = list.into_iter().collect();
    (!names.contains(ALL)).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_names_or_stands_for_all() {
        let parsed = |list: &[&str]| {
            let list = list.iter().map(|text| namespace(text)).collect::<Result<Vec<_>, _>>();
            list.map(|list| namespaces(list).map(|names| names.into_iter().collect::<Vec<_>>().join(" ")))
        };
        assert_eq!(parsed(&["b", "a", "b"]), Ok(Some("a b".to_owned())));
        assert_eq!(parsed(&["*"]), Ok(None));
        assert_eq!(parsed(&["a", "*"]), Ok(None));
        for text in ["", "a.b", "A", "a/b", "**"] {
            assert!(parsed(&[text]).is_err(), "{text}");
        }
    }
}
