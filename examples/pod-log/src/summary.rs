//! [`Summary`]: the fields of a pod that the log shows, and how two of them differ.

use std::fmt;

use pilothouse_sdk::prelude::*;

/// Name and value of each field that is set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary(Vec<(&'static str, Option<String>)>);

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

impl Summary {
    pub(crate) fn of(pod: &Object<'_>) -> Result<Self, Error> {
        Ok(Self(vec![
            ("phase", pod.get_string("/status/phase")?),
            ("node", pod.get_string("/spec/nodeName")?),
            ("ready", ready(pod)?),
            ("labels", labels(&pod.labels())),
            ("deletionTimestamp", pod.deletion_timestamp()),
        ]))
    }

    /// What is different from an older summary.
    pub(crate) fn since(&self, old: &Self) -> String {
        let changes: Vec<String> = old
            .0
            .iter()
            .zip(&self.0)
            .filter(|(old, new)| old != new)
            .map(|((name, old), (_, new))| format!("{name} {} → {}", or_none(old), or_none(new)))
            .collect();
        if changes.is_empty() { "something else".to_owned() } else { changes.join(", ") }
    }
}

/// `phase Running, node worker-1, …`, without what is not set.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, value) in &self.0 {
            if let Some(value) = value {
                write!(f, "{separator}{name} {value}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

fn ready(pod: &Object<'_>) -> Result<Option<String>, Error> {
    let conditions: Vec<Condition> = pod.get("/status/conditions")?.unwrap_or_default();
    let ready = conditions.into_iter().find(|condition| condition.r#type == "Ready");
    Ok(ready.map(|condition| condition.status))
}

fn labels(labels: &[(String, String)]) -> Option<String> {
    if labels.is_empty() {
        return None;
    }
    Some(labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(","))
}

fn or_none(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(phase: &str, node: Option<&str>) -> Summary {
        Summary(vec![("phase", Some(phase.to_owned())), ("node", node.map(str::to_owned))])
    }

    #[test]
    fn only_what_changed_is_shown() {
        let pending = summary("Pending", None);
        assert_eq!(summary("Running", Some("a")).since(&pending), "phase Pending → Running, node none → a");
        assert_eq!(summary("Pending", Some("a")).since(&pending), "node none → a");
        assert_eq!(pending.since(&summary("Pending", None)), "something else");
    }

    #[test]
    fn what_is_not_set_is_left_out() {
        assert_eq!(summary("Pending", None).to_string(), "phase Pending");
        assert_eq!(summary("Running", Some("a")).to_string(), "phase Running, node a");
    }

    #[test]
    fn labels_read_like_a_selector() {
        assert_eq!(labels(&[]), None);
        let some = [("app".to_owned(), "web".to_owned()), ("tier".to_owned(), "front".to_owned())];
        assert_eq!(labels(&some).as_deref(), Some("app=web,tier=front"));
    }
}
