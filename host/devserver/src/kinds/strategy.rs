//! [`Strategy`]: how a resource differs from others in what is done when it is written.
//!
//! The word is that of the real server's registry. Everything about a kind that its schema and its discovery do not say
//! stands in one entry here; the verbs ask the strategy and never for a name.

use super::immutable::{self, Fixed, fixed, fixed_as, fixed_text};
use super::{daemon_sets, pod_updates, prepare};
use crate::api::{ApiError, Cause, JsonMap, NameRule, Timestamp};

/// Fills in what a new object lacks, and takes out what is not a client's to say.
type PrepareCreate = fn(&mut JsonMap) -> Result<(), ApiError>;
/// The same for every state of an object that is to be stored; gives what is wrong with it.
type Prepare = fn(&mut JsonMap, Timestamp) -> Vec<Cause>;
/// Fills in what follows from the state before.
type PrepareUpdate = fn(&JsonMap, &mut JsonMap) -> Result<(), ApiError>;
/// What is wrong with the step from one state of an object to another.
type CheckUpdate = fn(&JsonMap, &JsonMap) -> Vec<Cause>;

/// How the objects of a resource are written and deleted.
#[derive(Debug)]
pub(crate) struct Strategy {
    /// Which names are valid.
    pub(crate) names: NameRule,
    /// What `metadata.generation` counts.
    pub(crate) generation: Generation,
    /// A new object may come with its status.
    pub(crate) creates_with_status: bool,
    /// A PUT must say from which version it was made.
    pub(crate) needs_version: bool,
    /// A PUT makes an object that is not there.
    pub(crate) creates_on_update: bool,
    /// An apply to the status makes an object that is not there.
    pub(crate) status_creates: bool,
    /// The answer to a deletion is the object itself, not a `Status`.
    pub(crate) answers_deleted: bool,
    /// Objects that cannot be deleted.
    pub(crate) kept: &'static [&'static str],
    /// Fields that only a subresource may change.
    pub(crate) reset: &'static [&'static str],
    /// Fields that a write of the status may not change.
    pub(crate) status_reset: &'static [&'static str],
    /// Fields that no update may change.
    pub(crate) fixed: &'static [Fixed],
    /// What an update may not change that is not just a field.
    pub(crate) check_update: CheckUpdate,
    /// Seconds for which an object stays when its deletion names none; `None` for kinds that go at once.
    pub(crate) grace: Option<fn(&JsonMap) -> i64>,
    /// What an object contains, and takes with it.
    pub(crate) content: Content,
    /// What becomes of dependents when a deletion does not say.
    pub(crate) dependents: Dependents,
    /// A deletion that does not say so is warned that dependents stay.
    pub(crate) warns_of_orphans: bool,
    /// What a POST does.
    pub(crate) creation: Creation,
    /// Addresses and ports are allocated for it.
    pub(crate) allocates: bool,
    /// Labels that objects select with are a plain map, not a `LabelSelector`.
    pub(crate) selects_by_map: bool,
    pub(crate) prepare_create: PrepareCreate,
    /// Also before a write of the status.
    pub(crate) prepare_update: PrepareUpdate,
    pub(crate) prepare: Prepare,
}

/// Which changes are counted in `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// There is none.
    None,
    /// Those of everything but metadata and status.
    Spec,
    /// Those of annotations too: they are handed on.
    SpecAndAnnotations,
    /// Those of labels too.
    SpecAndLabels,
    /// None: it stays 1.
    First,
    /// As `Spec`, but a new object has none.
    Later,
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
    Review(Review),
    /// It gives a pod to a node.
    Binding,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Review {
    /// Who the client is.
    SelfSubject,
    /// Whose a token is.
    Token,
    /// Whether somebody may do something.
    Access,
    /// What the client may do.
    Rules,
}

const BUILTIN: Strategy = Strategy {
    names: NameRule::Subdomain,
    generation: Generation::None,
    creates_with_status: false,
    needs_version: false,
    creates_on_update: false,
    status_creates: false,
    answers_deleted: false,
    kept: &[],
    reset: &[],
    status_reset: &["spec"],
    fixed: &[],
    check_update: |_, _| Vec::new(),
    grace: None,
    content: Content::None,
    dependents: Dependents::Deleted,
    warns_of_orphans: false,
    creation: Creation::Object,
    allocates: false,
    selects_by_map: false,
    prepare_create: |_| Ok(()),
    prepare_update: |_, _| Ok(()),
    prepare: |_, _| Vec::new(),
};

const CUSTOM: Strategy = Strategy {
    generation: Generation::Spec,
    needs_version: true,
    status_reset: &["metadata", "spec"],
    ..BUILTIN
};
/// Status is all that a write of the status changes.
const STATUS_ALONE: Strategy = Strategy { status_reset: &["metadata", "spec"], ..BUILTIN };
const VERSIONED: Strategy = Strategy { needs_version: true, ..BUILTIN };
const fn review(what: Review) -> Strategy {
    Strategy { creation: Creation::Review(what), ..BUILTIN }
}
const COUNTED: Strategy = Strategy { generation: Generation::Spec, ..BUILTIN };
const RBAC: Strategy = Strategy { names: NameRule::Segment, creates_on_update: true, ..BUILTIN };
const CREATED_ON_UPDATE: Strategy = Strategy { creates_on_update: true, ..BUILTIN };
const ANSWERED: Strategy = Strategy { answers_deleted: true, ..BUILTIN };
const EVENT: Strategy = Strategy {
    names: NameRule::Segment,
    creates_on_update: true,
    dependents: Dependents::Ignored,
    ..BUILTIN
};

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
            generation: Generation::Spec,
            creates_with_status: true,
            status_reset: &["spec", "metadata.ownerReferences", "metadata.deletionTimestamp"],
            grace: Some(prepare::grace),
            prepare_create: prepare::new_pod,
            prepare_update: prepare::pod_status,
            prepare: prepare::pod,
            check_update: pod_updates::pod,
            ..ANSWERED
        },
    ),
    ("", "bindings", Strategy { creation: Creation::Binding, ..BUILTIN }),
    (
        "",
        "services",
        Strategy {
            names: NameRule::Label,
            creates_on_update: true,
            status_creates: true,
            allocates: true,
            check_update: immutable::service,
            ..ANSWERED
        },
    ),
    (
        "",
        "replicationcontrollers",
        Strategy { dependents: Dependents::Orphaned, selects_by_map: true, ..COUNTED },
    ),
    (
        "",
        "secrets",
        Strategy { fixed: &[fixed_text("type")], check_update: immutable::configuration, ..BUILTIN },
    ),
    ("", "configmaps", Strategy { check_update: immutable::configuration, ..BUILTIN }),
    ("", "nodes", Strategy { creates_with_status: true, ..BUILTIN }),
    ("", "serviceaccounts", ANSWERED),
    (
        "",
        "persistentvolumes",
        Strategy { prepare_create: prepare::new_volume, prepare_update: prepare::volume_status, ..ANSWERED },
    ),
    (
        "",
        "persistentvolumeclaims",
        Strategy {
            prepare_create: prepare::new_claim,
            prepare: prepare::claim,
            fixed: &[fixed_as("spec.volumeMode", "volumeMode")],
            check_update: immutable::claim,
            ..ANSWERED
        },
    ),
    ("", "podtemplates", Strategy { generation: Generation::Spec, ..ANSWERED }),
    ("", "resourcequotas", ANSWERED),
    ("", "limitranges", CREATED_ON_UPDATE),
    ("", "endpoints", CREATED_ON_UPDATE),
    ("", "events", EVENT),
    ("events.k8s.io", "events", Strategy { check_update: immutable::event, ..EVENT }),
    (
        "apps",
        "deployments",
        Strategy {
            generation: Generation::SpecAndAnnotations,
            status_reset: &["spec", "metadata.labels"],
            fixed: &[fixed("spec.selector")],
            ..COUNTED
        },
    ),
    ("apps", "replicasets", Strategy { fixed: &[fixed("spec.selector")], ..COUNTED }),
    (
        "apps",
        "statefulsets",
        Strategy { names: NameRule::Label, check_update: immutable::stateful_set, ..COUNTED },
    ),
    (
        "apps",
        "daemonsets",
        Strategy {
            fixed: &[fixed("spec.selector")],
            prepare_create: daemon_sets::create,
            prepare_update: daemon_sets::update,
            ..COUNTED
        },
    ),
    ("apps", "controllerrevisions", Strategy { fixed: &[fixed("data")], ..BUILTIN }),
    (
        "batch",
        "jobs",
        Strategy {
            dependents: Dependents::Orphaned,
            warns_of_orphans: true,
            fixed: &[
                fixed("spec.completionMode"),
                fixed("spec.podFailurePolicy"),
                fixed("spec.backoffLimitPerIndex"),
                fixed("spec.managedBy"),
                fixed("spec.successPolicy"),
            ],
            prepare_create: prepare::new_job,
            prepare: prepare::job,
            check_update: immutable::job,
            ..COUNTED
        },
    ),
    ("batch", "cronjobs", Strategy { ..COUNTED }),
    ("policy", "poddisruptionbudgets", Strategy { needs_version: true, ..COUNTED }),
    ("networking.k8s.io", "ingresses", COUNTED),
    ("networking.k8s.io", "networkpolicies", COUNTED),
    ("networking.k8s.io", "ipaddresses", Strategy { names: NameRule::Address, ..BUILTIN }),
    ("networking.k8s.io", "ingressclasses", COUNTED),
    ("scheduling.k8s.io", "priorityclasses", Strategy { generation: Generation::First, ..BUILTIN }),
    (
        "discovery.k8s.io",
        "endpointslices",
        Strategy { generation: Generation::SpecAndLabels, fixed: &[fixed_text("addressType")], ..BUILTIN },
    ),
    ("node.k8s.io", "runtimeclasses", Strategy { needs_version: true, creates_on_update: true, ..BUILTIN }),
    ("resource.k8s.io", "resourceslices", Strategy { answers_deleted: true, ..COUNTED }),
    ("resource.k8s.io", "deviceclasses", Strategy { answers_deleted: true, ..COUNTED }),
    ("resource.k8s.io", "resourceclaims", Strategy { answers_deleted: true, ..STATUS_ALONE }),
    ("resource.k8s.io", "resourceclaimtemplates", ANSWERED),
    (
        "storage.k8s.io",
        "volumeattachments",
        Strategy { needs_version: true, answers_deleted: true, ..STATUS_ALONE },
    ),
    ("storage.k8s.io", "csinodes", Strategy { needs_version: true, ..ANSWERED }),
    ("storage.k8s.io", "csistoragecapacities", VERSIONED),
    ("storage.k8s.io", "volumeattributesclasses", ANSWERED),
    (
        "storage.k8s.io",
        "csidrivers",
        Strategy { generation: Generation::Later, needs_version: true, ..ANSWERED },
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        Strategy { needs_version: true, generation: Generation::Spec, status_creates: true, ..STATUS_ALONE },
    ),
    ("admissionregistration.k8s.io", "", Strategy { needs_version: true, ..COUNTED }),
    ("flowcontrol.apiserver.k8s.io", "", Strategy { generation: Generation::Spec, ..STATUS_ALONE }),
    ("networking.k8s.io", "servicecidrs", STATUS_ALONE),
    ("storage.k8s.io", "storageclasses", ANSWERED),
    ("coordination.k8s.io", "leases", Strategy { needs_version: true, creates_on_update: true, ..BUILTIN }),
    ("rbac.authorization.k8s.io", "rolebindings", Strategy { check_update: immutable::role_binding, ..RBAC }),
    (
        "rbac.authorization.k8s.io",
        "clusterrolebindings",
        Strategy { check_update: immutable::role_binding, ..RBAC },
    ),
    ("rbac.authorization.k8s.io", "", RBAC),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        Strategy { names: NameRule::Segment, reset: &["spec"], ..BUILTIN },
    ),
    ("authentication.k8s.io", "selfsubjectreviews", review(Review::SelfSubject)),
    ("authentication.k8s.io", "tokenreviews", review(Review::Token)),
    ("authorization.k8s.io", "selfsubjectrulesreviews", review(Review::Rules)),
    ("authorization.k8s.io", "", review(Review::Access)),
    (
        "apiextensions.k8s.io",
        "",
        Strategy {
            generation: Generation::Spec,
            needs_version: true,
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

    /// What an update changes that it may not.
    pub(crate) fn changed(&self, old: &JsonMap, new: &JsonMap) -> Vec<Cause> {
        let mut causes = immutable::changed(self.fixed, old, new);
        causes.extend((self.check_update)(old, new));
        causes
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
