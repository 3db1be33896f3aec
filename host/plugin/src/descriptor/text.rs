//! The JSON of a descriptor as serde parses it, before validation. Unknown fields are errors everywhere. Only [`super`]
//! uses it.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Delivery;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head {
    pub(super) api_version: String,
}

/// The lists have raw elements: each element is parsed separately, so that an error names it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Document<'a> {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    pub(super) name: String,
    #[serde(borrow, default)]
    pub(super) watches: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) indexes: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) schedules: Vec<&'a RawValue>,
    pub(super) max_concurrent_reconciles: Option<u32>,
    pub(super) max_batch: Option<u32>,
    pub(super) linger: Option<String>,
    #[serde(borrow)]
    pub(super) rate_limiter: Option<&'a RawValue>,
    pub(super) resync: Option<String>,
    #[serde(borrow, default)]
    pub(super) permissions: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) outgoing_hosts: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) projections: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WatchText {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) namespaces: Option<Vec<String>>,
    pub(super) label_selector: Option<String>,
    pub(super) field_selector: Option<String>,
    #[serde(default)]
    pub(super) predicates: Vec<PredicateText>,
    pub(super) map: Option<MapsText>,
    pub(super) delivery: Option<Delivery>,
}

// Variants without fields are struct variants, because serde ignores unknown fields of a unit variant.
#[derive(Deserialize)]
#[serde(tag = "type", deny_unknown_fields, rename_all = "camelCase")]
pub(super) enum PredicateText {
    GenerationChanged {},
    ResourceVersionChanged {},
    LabelsChanged {},
    AnnotationsChanged {},
    FieldChanged {
        path: String,
    },
    Field {
        path: String,
        #[serde(default, deserialize_with = "with_null")]
        equals: Option<serde_json::Value>,
        exists: Option<bool>,
    },
    On {
        events: Vec<EventKindText>,
    },
    All {
        of: Vec<PredicateText>,
    },
    Any {
        of: Vec<PredicateText>,
    },
    Not {
        of: Box<PredicateText>,
    },
}

impl PredicateText {
    /// It and those within it, down to so many levels.
    pub(super) fn count(&self, levels: usize) -> usize {
        let Some(levels) = levels.checked_sub(1) else { return 0 };
        1 + match self {
            Self::All { of } | Self::Any { of } => of.iter().map(|text| text.count(levels)).sum(),
            Self::Not { of } => of.count(levels),
            _ => 0,
        }
    }
}

/// A field that may be null, apart from one that is not there.
fn with_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(from).map(Some)
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) enum EventKindText {
    Add,
    Update,
    Delete,
}

/// One map, or several.
pub(super) enum MapsText {
    One(MapText),
    Many(Vec<MapText>),
}

// By hand: an untagged enum would hide what is wrong with a map.
impl<'de> Deserialize<'de> for MapsText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        let is_list = value.is_array();
        let parsed = if is_list {
            Vec::deserialize(value).map(Self::Many)
        } else {
            MapText::deserialize(value).map(Self::One)
        };
        parsed.map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", deny_unknown_fields, rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum MapText {
    #[serde(rename = "self")]
    Itself {},
    Owner {
        #[serde(default)]
        group: String,
        kind: String,
        #[serde(default)]
        controller_only: bool,
    },
    Label {
        name: String,
        #[serde(default)]
        same_namespace: bool,
    },
    Annotation {
        name: String,
        #[serde(default)]
        same_namespace: bool,
    },
    Field {
        path: String,
        #[serde(default)]
        same_namespace: bool,
    },
    AllKeys {
        #[serde(default)]
        group: String,
        version: String,
        kind: String,
    },
    Handler {},
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct IndexText {
    #[serde(default)]
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) path: Option<String>,
    pub(super) label: Option<String>,
    pub(super) annotation: Option<String>,
    #[serde(default)]
    pub(super) owner: bool,
    #[serde(rename = "where")]
    pub(super) only_where: Option<String>,
    pub(super) split: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProjectionText {
    #[serde(default)]
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) fields: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScheduleText {
    pub(super) every: String,
    pub(super) key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RateLimiterText {
    pub(super) base_delay: Option<String>,
    pub(super) max_delay: Option<String>,
    pub(super) qps: Option<f64>,
    pub(super) burst: Option<u32>,
}

/// The name of an element in errors: `watches[1] (apps/v1/Deployment)`.
#[derive(Deserialize)]
pub(super) struct KindOnly {
    #[serde(default)]
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}
