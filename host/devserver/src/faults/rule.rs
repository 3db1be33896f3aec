//! [`FaultRule`]: one fault and what it hits, as written in JSON.

use serde::{Deserialize, Serialize};

/// One fault, the calls it hits and when.
///
/// ```json
/// {"verbs": ["watch"], "resources": ["pods"], "when": {"skip": 2, "times": 1}, "fault": {"type": "gone", "after": 5}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultRule {
    /// The API's verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; empty is any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// `pods`, `deployments.apps`, `pods/status`, in every version; empty is any, and any path that names no objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Only calls on this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only calls on an object of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only paths that begin so: the way to hit discovery, as in `/apis`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Only calls of this user, the impersonated one where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When it happens; always if absent.
    #[serde(default, skip_serializing_if = "When::is_always")]
    pub when: When,
    /// What happens.
    pub fault: Fault,
}

impl FaultRule {
    /// A rule that hits every call.
    pub fn new(fault: Fault) -> Self {
        Self {
            verbs: Vec::new(),
            resources: Vec::new(),
            namespace: None,
            name: None,
            path: None,
            user: None,
            when: When::default(),
            fault,
        }
    }

    /// The rule for one verb of one resource.
    pub fn on(verb: &str, resource: &str, fault: Fault) -> Self {
        Self { verbs: vec![verb.to_owned()], resources: vec![resource.to_owned()], ..Self::new(fault) }
    }

    /// The rule at these times.
    #[must_use]
    pub fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }
}

/// When a rule's fault happens; all that is said must hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct When {
    /// So many of the calls it fits pass unharmed first.
    #[serde(default)]
    pub skip: u64,
    /// It happens at most so many times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// It happens for so many milliseconds after the rule was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_milliseconds: Option<u64>,
    /// It happens to this share of calls, from 0 to 1, at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Where the random numbers begin; the same seed hits the same calls of a sequence.
    #[serde(default)]
    pub seed: u64,
}

impl When {
    fn is_always(&self) -> bool {
        *self == Self::default()
    }

    /// The nth call, from 1, and no other.
    pub fn nth(n: u64) -> Self {
        Self { skip: n.saturating_sub(1), times: Some(1), ..Self::default() }
    }

    /// The first so many calls.
    pub fn first(times: u64) -> Self {
        Self { times: Some(times), ..Self::default() }
    }
}

/// What happens to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Fault {
    /// The answer comes later.
    Delay {
        /// By so many milliseconds.
        milliseconds: u64,
    },
    /// An error, with the `Status` that a real server sends with that code: 403, 429, 500, 503, 504 or any other from 400.
    Status {
        /// The HTTP status code.
        code: u16,
        /// `Retry-After` in seconds, also in the details.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    },
    /// The connection is reset before an answer.
    Reset,
    /// The connection is reset in the middle: of a line of a watch, or of the body of another answer.
    Tear {
        /// Behind so many whole lines of a watch.
        #[serde(default)]
        after: u64,
    },
    /// Nothing more comes on the connection, in neither direction, and it is not closed.
    HalfOpen,
    /// A watch on which nothing ever comes: no events, no bookmarks.
    Silent,
    /// 410: at once, or on a watch as an `ERROR` line.
    Gone {
        /// Behind so many lines of a watch; absent is an HTTP error at open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// 504 with the cause that says that the resource version is not reached yet.
    TooLargeVersion,
    /// A watch that is asked for initial events never says that they are complete.
    NoInitialEventsEnd,
    /// Each event of a watch comes twice.
    Duplicate,
    /// Of each two events of a watch the later comes first.
    OutOfOrder,
    /// Reads and lists answer with an old state, as a cache that lags.
    Stale {
        /// By so many revisions.
        by: u64,
    },
    /// The body ends in the middle, and is called complete.
    Truncate,
    /// The answer calls itself of another type, for example `text/html`.
    ContentType {
        /// The type.
        value: String,
    },
}
