//! [`Managers`]: who owns which fields of an object, as `metadata.managedFields` tells it.
//!
//! Invariants: entries are in the order in which a server writes them, and no two have the same [`Identity`]. An entry keeps
//! the `apiVersion` that its fields were written in.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use super::fields_v1;
use super::set::Set;
use crate::api::{Timestamp, go_json};

/// Why managed fields cannot be read.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum ManagersError {
    #[error("managedFields must be a list of objects")]
    NoList,
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    NoApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {} in managed fields entry {}", super::value::quoted(.0), .1)]
    FieldsType(String, usize),
    #[error("{0} of managed fields entry {1} must be a string")]
    NoText(&'static str, usize),
    #[error("the time of managed fields entry {0} cannot be read")]
    Time(usize),
    #[error("the fields of managed fields entry {1} cannot be read: {0}")]
    Fields(&'static str, usize),
}

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What tells entries apart: an applier has one entry, whatever version it applies in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) manager: Arc<str>,
    pub(super) operation: Operation,
    /// Empty for appliers.
    pub(super) api_version: Arc<str>,
    pub(super) subresource: Arc<str>,
}

impl Identity {
    pub(super) fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        // A writer without a name.
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self {
            manager: manager.into(),
            operation,
            api_version: api_version.into(),
            subresource: subresource.into(),
        }
    }

    /// The text that a server has for it: managers are sorted by it in messages, and where they have the same age.
    pub(super) fn text(&self) -> String {
        let mut text = Vec::new();
        let members = [
            ("manager", &*self.manager),
            ("operation", self.operation.name()),
            ("apiVersion", &*self.api_version),
            ("subresource", &*self.subresource),
        ];
        write_members(&mut text, members.iter().filter(|(_, member)| !member.is_empty()).copied());
        text.push(b'}');
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// `{"name":"value",…`, without the end.
fn write_members<'a>(out: &mut Vec<u8>, members: impl Iterator<Item = (&'a str, &'a str)>) {
    for (index, (name, member)) in members.enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        out.extend_from_slice(format!("\"{name}\":").as_bytes());
        go_json::write_value(out, &Value::from(member));
    }
}

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) identity: Identity,
    pub(super) api_version: Arc<str>,
    pub(super) time: Option<Timestamp>,
    pub(super) fields: Set,
}

impl Entry {
    pub(super) fn seconds(&self) -> i64 {
        self.time.map_or(0, |time| time.0.as_second())
    }

    fn order(&self, other: &Self) -> Ordering {
        let key = |entry: &Self| (entry.identity.operation, entry.seconds());
        let texts = |entry: &Self| {
            [entry.identity.manager.clone(), entry.api_version.clone(), entry.identity.subresource.clone()]
        };
        key(self).cmp(&key(other)).then_with(|| texts(self).cmp(&texts(other)))
    }
}

/// The managers of an object's fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Managers(Vec<Entry>);

impl Managers {
    /// Reads `metadata.managedFields`; `null` is none.
    ///
    /// # Errors
    /// What is malformed. A server then takes the list as if it had not been sent.
    pub(crate) fn parse(list: &Value) -> Result<Self, ManagersError> {
        let entries = match list {
            Value::Null => return Ok(Self::default()),
            Value::Array(entries) => entries,
            _ => return Err(ManagersError::NoList),
        };
        // The last of those with the same identity counts.
        let mut by_identity = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            let entry = read(entry.as_object().ok_or(ManagersError::NoList)?, index)?;
            by_identity.insert(entry.identity.clone(), entry);
        }
        Ok(Self::of(by_identity.into_values().collect()))
    }

    /// What a write says about managers with the `metadata.managedFields` that it sends: `None` if nothing that counts, no
    /// managers (an empty list, or one empty entry) if the object's managers are to be forgotten.
    pub(crate) fn sent(list: &Value) -> Option<Self> {
        let is_reset = match list {
            Value::Array(entries) => match &entries[..] {
                [] => true,
                [Value::Object(one)] => one.values().all(|value| value.is_null() || *value == ""),
                _ => false,
            },
            _ => false,
        };
        if is_reset {
            return Some(Self::default());
        }
        Self::parse(list).ok().filter(|managers| !managers.is_empty())
    }

    /// From entries of different identities, in any order.
    pub(super) fn of(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(Entry::order);
        Self(entries)
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends `metadata.managedFields` as JSON, in the order and the form of a server.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, entry) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let time = entry.time.map(Timestamp::seconds).unwrap_or_default();
            let members = [
                ("manager", &*entry.identity.manager),
                ("operation", entry.identity.operation.name()),
                ("apiVersion", &*entry.api_version),
                ("time", &time),
                ("fieldsType", "FieldsV1"),
            ];
            write_members(out, members.iter().filter(|(_, member)| !member.is_empty()).copied());
            out.extend_from_slice(b",\"fieldsV1\":");
            fields_v1::write(&entry.fields, out);
            if !entry.identity.subresource.is_empty() {
                out.extend_from_slice(b",\"subresource\":");
                go_json::write_value(out, &Value::from(&*entry.identity.subresource));
            }
            out.push(b'}');
        }
        out.push(b']');
    }

    /// `metadata.managedFields` as a value.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn render(&self) -> Value {
        let mut text = Vec::new();
        self.write(&mut text);
        // It was written just now.
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

fn read(entry: &Map<String, Value>, index: usize) -> Result<Entry, ManagersError> {
    let text = |field: &'static str| match entry.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(ManagersError::NoText(field, index)),
    };
    let operation = match text("operation")? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err(ManagersError::Operation),
    };
    let api_version = text("apiVersion")?;
    if api_version.is_empty() {
        return Err(ManagersError::NoApiVersion);
    }
    match text("fieldsType")? {
        "FieldsV1" => {}
        "" => return Err(ManagersError::NoFieldsType(index)),
        other => return Err(ManagersError::FieldsType(other.to_owned(), index)),
    }
    let time = match text("time")? {
        "" => None,
        time => Some(Timestamp(time.parse().map_err(|_| ManagersError::Time(index))?)),
    };
    let fields = match entry.get("fieldsV1") {
        None | Some(Value::Null) => Set::default(),
        Some(fields) => fields_v1::read(fields).map_err(|why| ManagersError::Fields(why.0, index))?,
    };
    let mut identity = Identity::new("", operation, api_version, text("subresource")?);
    identity.manager = text("manager")?.into();
    Ok(Entry { identity, api_version: api_version.into(), time, fields })
}

/// The name of the manager of a write: what it gives as `fieldManager`, or what stands before the first `/` of its user
/// agent.
pub(crate) fn manager_name(field_manager: &str, user_agent: &str) -> String {
    /// As a server bounds the names of managers, in bytes.
    const LIMIT: usize = 128;
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let program = user_agent.split('/').next().unwrap_or_default();
    let is_printed = |letter: &char| *letter == ' ' || !(letter.is_control() || letter.is_whitespace());
    let mut name = String::new();
    for letter in program.chars().filter(is_printed) {
        if name.len() + letter.len_utf8() > LIMIT {
            break;
        }
        name.push(letter);
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::apply::tests::any_value;

    fn entry(manager: &str, operation: &str, time: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    }

    #[test]
    fn entries_are_sorted_by_operation_time_and_name() {
        let (early, late) = ("2024-01-01T00:00:00Z", "2024-01-01T02:00:00+01:00");
        let fields = || json!({"f:a": {}});
        let list = json!([
            entry("b", "Update", early, fields()),
            entry("z", "Apply", late, fields()),
            entry("a", "Update", early, fields()),
            entry("a", "Apply", late, fields()),
            entry("y", "Apply", early, fields()),
        ]);
        let rendered = Managers::parse(&list).unwrap().render();
        let order: Vec<_> =
            rendered.as_array().unwrap().iter().map(|e| (&e["operation"], &e["manager"])).collect();
        let expected = [("Apply", "y"), ("Apply", "a"), ("Apply", "z"), ("Update", "a"), ("Update", "b")];
        assert_eq!(order, expected.map(|(o, m)| (json!(o), json!(m))).each_ref().map(|(o, m)| (o, m)));
        assert_eq!(rendered[1]["time"], "2024-01-01T01:00:00Z");
        assert_eq!(Managers::parse(&rendered).unwrap().render(), rendered);
    }

    #[test]
    fn an_entry_is_written_as_by_a_server() {
        let mut list = json!([entry("m<", "Update", "2024-01-01T00:00:00Z", json!({"f:a": {}}))]);
        list[0]["subresource"] = "status".into();
        let mut text = Vec::new();
        Managers::parse(&list).unwrap().write(&mut text);
        let expected = concat!(
            r#"[{"manager":"m\u003c","operation":"Update","apiVersion":"v1","time":"2024-01-01T00:00:00Z","#,
            r#""fieldsType":"FieldsV1","fieldsV1":{"f:a":{}},"subresource":"status"}]"#
        );
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn what_is_malformed_is_refused_and_does_not_count_when_sent() {
        let valid = entry("a", "Update", "2024-01-01T00:00:00Z", json!({}));
        let with = |field: &str, value: Value| {
            let mut entry = valid.clone();
            entry[field] = value;
            json!([entry])
        };
        for (list, why) in [
            (json!({}), ManagersError::NoList),
            (json!([1]), ManagersError::NoList),
            (with("operation", json!("Delete")), ManagersError::Operation),
            (with("apiVersion", json!(null)), ManagersError::NoApiVersion),
            (with("fieldsType", json!("")), ManagersError::NoFieldsType(0)),
            (with("fieldsType", json!("V2")), ManagersError::FieldsType("V2".to_owned(), 0)),
            (with("manager", json!(1)), ManagersError::NoText("manager", 0)),
            (with("time", json!("now")), ManagersError::Time(0)),
            (
                with("fieldsV1", json!({"a": {}})),
                ManagersError::Fields("a name in a set of fields needs a kind and a colon", 0),
            ),
        ] {
            assert_eq!(Managers::parse(&list), Err(why), "{list}");
            assert_eq!(Managers::sent(&list), None, "{list}");
        }
    }

    #[test]
    fn an_empty_list_and_an_empty_entry_forget_the_managers() {
        assert_eq!(Managers::sent(&json!([])), Some(Managers::default()));
        assert_eq!(Managers::sent(&json!([{}])), Some(Managers::default()));
        assert_eq!(Managers::sent(&json!([{}, {}])), None);
        assert_eq!(Managers::sent(&json!(null)), None);
        let list = json!([entry("a", "Update", "2024-01-01T00:00:00Z", json!({"f:a": {}}))]);
        assert_eq!(Managers::sent(&list), Managers::parse(&list).ok());
    }

    #[test]
    fn the_last_of_two_entries_of_one_identity_counts() {
        let list = json!([
            entry("a", "Apply", "2024-01-01T00:00:00Z", json!({"f:a": {}})),
            entry("a", "Apply", "2025-01-01T00:00:00Z", json!({"f:b": {}})),
        ]);
        assert_eq!(Managers::parse(&list).unwrap().render(), json!([list[1]]));
    }

    #[test]
    fn a_write_is_named_by_its_field_manager_or_its_program() {
        assert_eq!(manager_name("me", "kubectl/v1.36"), "me");
        assert_eq!(manager_name("", "kubectl/v1.36 (linux)"), "kubectl");
        assert_eq!(manager_name("", "a\u{7}b c"), "ab c");
        assert_eq!(manager_name("", &"ä".repeat(100)).len(), 128);
        assert_eq!(manager_name("", ""), "");
    }

    proptest! {
        #[test]
        fn any_list_is_read_or_refused(mut value in any_value(), time in any::<Option<String>>(), fields in any_value()) {
            let _ = (Managers::parse(&value), Managers::sent(&value));
            value = json!([{"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": time, "fieldsV1": fields}]);
            if let Ok(managers) = Managers::parse(&value) {
                prop_assert_eq!(Managers::parse(&managers.render()), Ok(managers));
            }
        }
    }
}
