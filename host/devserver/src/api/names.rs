//! Which names the objects of a resource may have.

use super::syntax::{self, Faults};
use crate::validation::canonical_fault;

/// Which names a resource takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Labels joined by dots, 253 characters at most (most resources).
    Subdomain,
    /// One label of 63 characters at most (namespaces, services).
    Label,
    /// Anything that can stand in a path (roles and their bindings).
    Segment,
    /// An IP address in its shortest form.
    Address,
}

/// What is wrong with a name.
pub(crate) fn check_name(name: &str, rule: NameRule) -> Vec<String> {
    let check: fn(&str) -> Faults = match rule {
        NameRule::Subdomain => syntax::dns_subdomain,
        NameRule::Label => syntax::dns_label,
        NameRule::Segment => syntax::path_segment,
        NameRule::Address => return canonical_fault(name).into_iter().collect(),
    };
    check(name).into_iter().map(str::to_owned).collect()
}

/// What is wrong with the beginning of a name that the server completes: it may end with a dash.
pub(crate) fn check_base(base: &str, rule: NameRule) -> Vec<String> {
    check_name(&syntax::without_dash(base), rule)
}
