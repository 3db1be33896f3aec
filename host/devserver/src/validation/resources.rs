//! Names and quantities of resources (`cpu`, `memory`, `example.com/gpu`), and what containers ask of them.

use std::collections::HashSet;

use super::node::{NEGATIVE, Node};
use crate::api::syntax;
use crate::quantity::Amount;
use crate::schema::Causes;

const HUGE_PAGES: &str = "hugepages-";
const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// What a quota can be of, beside pages.
const QUOTA: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
/// Of which there are no parts.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

fn is_quota_huge_pages(name: &str) -> bool {
    is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

fn is_quota(name: &str) -> bool {
    QUOTA.contains(&name) || is_quota_huge_pages(name)
}

/// Whether it is Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && syntax::qualified_name(&format!("requests.{name}")).is_empty()
}

fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// The name of a resource; whether there is nothing wrong with it.
fn resource_name(at: &Node<'_, '_>, name: &str, causes: &mut Causes) -> bool {
    let faults = syntax::qualified_name(name);
    if !faults.is_empty() {
        at.faults_of(causes, name, faults);
        return false;
    }
    let is_standard = is_quota(name) || name == "storage";
    if !name.contains('/') && !is_standard {
        at.invalid_as(causes, &name.into(), "must be a standard resource type or fully qualified");
        return false;
    }
    true
}

pub(super) fn container_resource_name(at: &Node<'_, '_>, name: &str, causes: &mut Causes) {
    resource_name(at, name, causes);
    if name.split('/').count() == 1 {
        if !CONTAINER.contains(&name) && !is_huge_pages(name) {
            at.invalid_as(causes, &name.into(), "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        at.invalid_as(causes, &name.into(), "doesn't follow extended resource name standard");
    }
}

fn pod_resource_name(at: &Node<'_, '_>, name: &str, causes: &mut Causes) {
    if resource_name(at, name, causes) && !matches!(name, "cpu" | "memory") && !is_huge_pages(name) {
        at.not_supported_as(causes, &crate::schema::shown(&name.into()), &["cpu", "hugepages-", "memory"]);
    }
}

/// The amount of a quantity.
pub(super) fn amount(quantity: &Node<'_, '_>) -> Amount {
    Amount::of(quantity.text())
}

pub(super) fn non_negative_quantity(quantity: &Node<'_, '_>, causes: &mut Causes) {
    if amount(quantity) < Amount::ZERO {
        quantity.invalid(causes, NEGATIVE);
    }
}

/// Whether a quantity is more than nothing; if not, that is a cause.
pub(super) fn positive_quantity(quantity: &Node<'_, '_>, causes: &mut Causes) -> bool {
    let is_positive = amount(quantity) > Amount::ZERO;
    if !is_positive {
        quantity.invalid(causes, "must be greater than zero");
    }
    is_positive
}

/// How much of a resource there may be.
pub(super) fn quantity_of(name: &str, quantity: &Node<'_, '_>, causes: &mut Causes) {
    non_negative_quantity(quantity, causes);
    if (COUNTED.contains(&name) || is_extended(name)) && !amount(quantity).is_whole() {
        quantity.invalid(causes, "must be an integer");
    }
}

fn huge_pages(name: &str, quantity: &Node<'_, '_>, causes: &mut Causes) {
    let size = name.strip_prefix(HUGE_PAGES).filter(|size| crate::quantity::read(size).is_ok());
    let fits = size.is_some_and(|size| amount(quantity).is_multiple_of(Amount::of(size)));
    if !fits {
        quantity.invalid(causes, &format!("{} is not positive integer multiple of {name}", quantity.text()));
    }
}

/// Whose resources they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResourcesOf {
    Container,
    Pod,
}

/// `limits`, `requests` and `claims`; `known` are the names of the Pod's claims.
pub(super) fn requirements(
    of: ResourcesOf,
    resources: &Node<'_, '_>,
    known: &HashSet<&str>,
    causes: &mut Causes,
) {
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    requirement_lists(of, resources, &limits, &requests, causes);
    claims(&resources.field("claims"), known, causes);
}

/// What each container of a Pod costs beside.
pub(super) fn overhead(overhead: &Node<'_, '_>, quantities: &Node<'_, '_>, causes: &mut Causes) {
    let limits = quantities.named("limits");
    requirement_lists(ResourcesOf::Container, overhead, &limits, &overhead.field("requests"), causes);
}

fn requirement_lists(
    of: ResourcesOf,
    resources: &Node<'_, '_>,
    limits: &Node<'_, '_>,
    requests: &Node<'_, '_>,
    causes: &mut Causes,
) {
    let check_name = match of {
        ResourcesOf::Container => container_resource_name,
        ResourcesOf::Pod => pod_resource_name,
    };
    let (mut has_basic, mut has_pages) = (false, false);
    let mut check = |name: &str, quantity: &Node<'_, '_>, causes: &mut Causes| {
        has_pages |= is_huge_pages(name);
        has_basic |= matches!(name, "cpu" | "memory");
        check_name(quantity, name, causes);
        quantity_of(name, quantity, causes);
    };
    for (name, quantity) in limits.entries() {
        check(name, &quantity, causes);
        if is_huge_pages(name) {
            huge_pages(name, &quantity, causes);
        }
    }
    for (name, quantity) in requests.entries() {
        check(name, &quantity, causes);
        let limit = limits.key(name);
        if !limit.is_set() {
            if !may_be_overcommitted(name) {
                limits.required(causes, "Limit must be set for non overcommitable resources");
            }
        } else if amount(&quantity) != amount(&limit) && !may_be_overcommitted(name) {
            let why = format!("must be equal to {name} limit of {}", limit.text());
            requests.invalid_as(causes, quantity.value(), &why);
        } else if amount(&quantity) > amount(&limit) {
            let why = format!("must be less than or equal to {name} limit of {}", limit.text());
            requests.invalid_as(causes, quantity.value(), &why);
        }
        if is_huge_pages(name) {
            huge_pages(name, &quantity, causes);
        }
    }
    if has_pages && !has_basic {
        resources.forbidden(causes, "HugePages require cpu or memory");
    }
}

/// Names of claims that a container uses.
fn claims(claims: &Node<'_, '_>, known: &HashSet<&str>, causes: &mut Causes) {
    let mut whole = HashSet::new();
    let mut requests = HashSet::new();
    let mut with_requests: HashSet<&str> = HashSet::new();
    for claim in claims.each() {
        let name = claim.field("name").text();
        if name.is_empty() {
            claim.required(causes, "");
            continue;
        }
        let quoted = crate::schema::shown(&name.into());
        let request = claim.field("request");
        if whole.contains(name) {
            claim.duplicate_as(causes, &quoted, "");
        } else if request.text().is_empty() {
            if with_requests.contains(name) {
                claim.duplicate_as(causes, &quoted, "");
            }
            whole.insert(name);
        } else {
            request.faults(causes, syntax::dns_label(request.text()));
            if !requests.insert((name, request.text())) {
                let key = format!("{name}/{}", request.text());
                claim.duplicate_as(causes, &crate::schema::shown(&key.into()), "");
            }
            with_requests.insert(name);
        }
        if !known.contains(name) && !causes.is_full() {
            let mut names: Vec<&str> = known.iter().copied().collect();
            names.sort_unstable();
            let list = if names.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", names.join(", "))
            };
            let why = format!("must be one of the names in pod.spec.resourceClaims{list}");
            claim.not_found_as(causes, &quoted, &why);
        }
    }
}
