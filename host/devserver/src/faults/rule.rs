//! [`FaultRule`]: one fault and what it hits, as written in JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

/// How long a rule may be as JSON: the search for its wrong field takes the square of the number of its fields.
const MAX_BYTES: usize = 8192;

/// The API's verbs, and the methods that stand for them on paths that name no objects.
const VERBS: [&str; 12] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "post",
    "put",
    "head",
    "options",
];

impl FaultRule {
    /// Reads a rule that was written by hand; the error names the field that is wrong.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        let bytes = value.to_string().len();
        if bytes > MAX_BYTES {
            return Err(format!("a rule of {bytes} bytes; {MAX_BYTES} are allowed"));
        }
        let rule = Self::deserialize(value).map_err(|error| match field(&parse::<Self>, value) {
            Some(outer @ "fault") => named(outer, field(&parse::<Fault>, &value[outer]), &error),
            Some(outer @ "when") => named(outer, field(&parse::<When>, &value[outer]), &error),
            Some(outer) => named(outer, None, &error),
            None => error.to_string(),
        })?;
        if let Some(verb) = rule.verbs.iter().find(|verb| !VERBS.contains(&verb.as_str())) {
            return Err(format!("verbs: {verb:?} is no verb; there are {}", VERBS.join(", ")));
        }
        if let Some(share) = rule.when.probability.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(format!("when.probability: {share} is not from 0 to 1"));
        }
        // Serde lets those pass that have no fields.
        let known = serde_json::to_value(&rule.fault).unwrap_or_default();
        let given = value["fault"].as_object().into_iter().flatten();
        if let Some((name, _)) = given.into_iter().find(|(name, v)| !v.is_null() && known.get(name).is_none())
        {
            return Err(format!("fault.{name}: a fault of this type has no such field"));
        }
        match rule.fault {
            Fault::Status { code, .. } if !(400..600).contains(&code) => {
                Err(format!("fault.code: {code} is no code of an error, from 400 to 599"))
            }
            _ => Ok(rule),
        }
    }
}

fn parse<T: for<'de> Deserialize<'de>>(value: &Value) -> Result<(), String> {
    T::deserialize(value).map(drop).map_err(|e| e.to_string())
}

/// The field of an object because of which it cannot be read: without it, it could be, or only it would be missing.
fn field<'a>(parse: &dyn Fn(&Value) -> Result<(), String>, value: &'a Value) -> Option<&'a str> {
    let fields = value.as_object()?;
    let without = |name: &str| {
        let rest: Map<String, Value> =
            fields.iter().filter(|(k, _)| *k != name).map(|(k, v)| (k.clone(), v.clone())).collect();
        parse(&rest.into())
    };
    let only_missing = |name: &&String| without(name).is_err_and(|e| e == format!("missing field `{name}`"));
    let culprit =
        fields.keys().find(|name| without(name).is_ok()).or_else(|| fields.keys().find(only_missing));
    culprit.map(String::as_str)
}

fn named(outer: &str, inner: Option<&str>, error: &serde_json::Error) -> String {
    let text = error.to_string();
    match (inner, text.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'))) {
        (_, Some(missing)) => format!("{outer}.{missing}: it is missing"),
        (Some(inner), None) => format!("{outer}.{inner}: {text}"),
        (None, None) => format!("{outer}: {text}"),
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
    /// The changes of a watch come later.
    Lag {
        /// By so many milliseconds.
        milliseconds: u64,
    },
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
