//! [`Strategy`]: how a resource differs from others in what is done when it is written.
//!
//! The word is that of the real server's registry. Everything about a kind that its schema and its discovery do not say
//! stands in one entry here; the verbs ask the strategy and never for a name.

use super::prepare;
use crate::api::{ApiError, Cause, JsonMap, NameRule, Timestamp};

/// Fills in what a new object lacks, and takes out what is not a client's to say.
type PrepareCreate = fn(&mut JsonMap) -> Result<(), ApiError>;
/// The same for every state of an object that is to be stored; gives what is wrong with it.
type Prepare = fn(&mut JsonMap, Timestamp) -> Vec<Cause>;

/// How the objects of a resource are written and deleted.
#[derive(Debug)]
pub(crate) struct Strategy {
    /// Which names are valid.
    pub(crate) names: NameRule,
    /// Changes of the spec are counted in `metadata.generation`.
    pub(crate) keeps_generation: bool,
    /// A new object may come with its status.
    pub(crate) creates_with_status: bool,
    /// A PUT must say from which version it was made.
    pub(crate) needs_version: bool,
    /// A PUT makes an object that is not there.
    pub(crate) creates_on_update: bool,
    /// The answer to a deletion is the object itself, not a `Status`.
    pub(crate) answers_deleted: bool,
    /// Objects that cannot be deleted.
    pub(crate) kept: &'static [&'static str],
    /// Fields that only a subresource may change.
    pub(crate) reset: &'static [&'static str],
    /// Seconds for which an object stays when its deletion names none; `None` for kinds that go at once.
    pub(crate) grace: Option<fn(&JsonMap) -> i64>,
    /// What an object contains, and takes with it.
    pub(crate) content: Content,
    /// What becomes of dependents when a deletion does not say.
    pub(crate) dependents: Dependents,
    /// What a POST does.
    pub(crate) creation: Creation,
    /// Labels that objects select with are a plain map, not a `LabelSelector`.
    pub(crate) selects_by_map: bool,
    pub(crate) prepare_create: PrepareCreate,
    pub(crate) prepare: Prepare,
}

/// What the objects of a resource contain: it is deleted with them, and they stay until it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    None,
    /// What lives in a namespace.
    Namespaced,
    /// The objects of a custom resource.
    Defined,
}

/// What becomes of the dependents of an object whose deletion does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// They are deleted after it.
    Deleted,
    /// They stay, without an owner.
    Orphaned,
    /// Deletions do not look at them.
    Ignored,
}

/// What a POST to a resource does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Creation {
    /// It makes an object.
    Object,
    /// It asks something, and nothing is kept.
    Review,
    /// It gives a pod to a node.
    Binding,
}

const BUILTIN: Strategy = Strategy {
    names: NameRule::Subdomain,
    keeps_generation: false,
    creates_with_status: false,
    needs_version: false,
    creates_on_update: false,
    answers_deleted: false,
    kept: &[],
    reset: &[],
    grace: None,
    content: Content::None,
    dependents: Dependents::Deleted,
    creation: Creation::Object,
    selects_by_map: false,
    prepare_create: |_| Ok(()),
    prepare: |_, _| Vec::new(),
};

const CUSTOM: Strategy = Strategy { keeps_generation: true, needs_version: true, ..BUILTIN };
const REVIEW: Strategy = Strategy { creation: Creation::Review, ..BUILTIN };
const COUNTED: Strategy = Strategy { keeps_generation: true, ..BUILTIN };
const RBAC: Strategy = Strategy { names: NameRule::Segment, creates_on_update: true, ..BUILTIN };
const CREATED_ON_UPDATE: Strategy = Strategy { creates_on_update: true, ..BUILTIN };
const ANSWERED: Strategy = Strategy { answers_deleted: true, ..BUILTIN };
const EVENT: Strategy = Strategy {
    names: NameRule::Segment,
    creates_on_update: true,
    dependents: Dependents::Ignored,
    ..BUILTIN
};
const REPLICAS: Strategy = Strategy { prepare: prepare::replicas, ..COUNTED };

/// Groups whose resources are all alike, and resources that differ from those of their group; the first that fits counts.
/// An empty name stands for every resource of the group.
static STRATEGIES: &[(&str, &str, Strategy)] = &[
    (
        "",
        "namespaces",
        Strategy {
            names: NameRule::Label,
            kept: &["default", "kube-system", "kube-public"],
            reset: &["spec"],
            content: Content::Namespaced,
            prepare_create: prepare::namespace,
            ..ANSWERED
        },
    ),
    (
        "",
        "pods",
        Strategy {
            keeps_generation: true,
            grace: Some(prepare::grace),
            prepare_create: prepare::pending,
            prepare: prepare::pod,
            ..ANSWERED
        },
    ),
    ("", "bindings", Strategy { creation: Creation::Binding, ..BUILTIN }),
    (
        "",
        "services",
        Strategy { names: NameRule::Label, creates_on_update: true, prepare: prepare::service, ..ANSWERED },
    ),
    (
        "",
        "replicationcontrollers",
        Strategy {
            answers_deleted: true,
            dependents: Dependents::Orphaned,
            selects_by_map: true,
            ..REPLICAS
        },
    ),
    ("", "secrets", Strategy { prepare: prepare::secret, ..BUILTIN }),
    ("", "nodes", Strategy { creates_with_status: true, ..BUILTIN }),
    ("", "serviceaccounts", ANSWERED),
    ("", "persistentvolumes", Strategy { prepare_create: prepare::pending, ..ANSWERED }),
    ("", "persistentvolumeclaims", Strategy { prepare_create: prepare::pending, ..ANSWERED }),
    ("", "podtemplates", Strategy { keeps_generation: true, creates_on_update: true, ..ANSWERED }),
    ("", "resourcequotas", Strategy { creates_on_update: true, ..ANSWERED }),
    ("", "limitranges", CREATED_ON_UPDATE),
    ("", "endpoints", CREATED_ON_UPDATE),
    ("", "events", EVENT),
    ("events.k8s.io", "events", EVENT),
    ("apps", "deployments", REPLICAS),
    ("apps", "replicasets", REPLICAS),
    ("apps", "statefulsets", REPLICAS),
    ("apps", "daemonsets", COUNTED),
    ("batch", "jobs", Strategy { dependents: Dependents::Orphaned, prepare: prepare::job, ..COUNTED }),
    ("batch", "cronjobs", Strategy { prepare: prepare::cron_job, ..COUNTED }),
    ("policy", "poddisruptionbudgets", Strategy { needs_version: true, ..COUNTED }),
    ("networking.k8s.io", "ingresses", COUNTED),
    ("networking.k8s.io", "networkpolicies", COUNTED),
    ("scheduling.k8s.io", "priorityclasses", COUNTED),
    ("discovery.k8s.io", "endpointslices", COUNTED),
    ("admissionregistration.k8s.io", "", COUNTED),
    ("flowcontrol.apiserver.k8s.io", "", COUNTED),
    ("storage.k8s.io", "storageclasses", ANSWERED),
    ("coordination.k8s.io", "leases", Strategy { needs_version: true, creates_on_update: true, ..BUILTIN }),
    ("rbac.authorization.k8s.io", "", RBAC),
    ("certificates.k8s.io", "", Strategy { names: NameRule::Segment, ..BUILTIN }),
    ("authentication.k8s.io", "", REVIEW),
    ("authorization.k8s.io", "", REVIEW),
    (
        "apiextensions.k8s.io",
        "",
        Strategy {
            keeps_generation: true,
            content: Content::Defined,
            prepare: prepare::definition,
            ..ANSWERED
        },
    ),
];

impl Strategy {
    /// Of a custom resource.
    pub(crate) fn custom() -> &'static Self {
        const { &CUSTOM }
    }

    /// Of a built-in resource.
    pub(crate) fn builtin(group: &str, name: &str) -> &'static Self {
        let fits = |(of_group, of_name, _): &&(&str, &str, Self)| {
            *of_group == group && (of_name.is_empty() || *of_name == name)
        };
        STRATEGIES.iter().find(fits).map_or(const { &BUILTIN }, |(_, _, strategy)| strategy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Registry;

    #[test]
    fn every_entry_is_of_a_resource_that_is_served() {
        let served = Registry::new().now();
        for (group, name, _) in STRATEGIES {
            let fits = |group: &str, name: &str| {
                served.all().any(|r| r.group == group && (name.is_empty() || r.name == name))
            };
            assert!(fits(group, name), "{group}/{name}");
        }
    }
}
