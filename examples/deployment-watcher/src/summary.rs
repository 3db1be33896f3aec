//! [`Summary`]: the fields of a Deployment that the log shows, and how two of them differ.

use std::fmt;

use pilothouse_sdk::prelude::*;

/// Name and value of each field that is set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary(Vec<(&'static str, Option<String>)>);

impl Summary {
    pub(crate) fn of(deployment: &Object<'_>) -> Result<Self, Error> {
        let images: Option<Vec<String>> = deployment.get("/spec/template/spec/containers/[*]/image")?;
        Ok(Self(vec![
            ("replicas", deployment.get_json("/spec/replicas")?),
            ("ready", deployment.get_json("/status/readyReplicas")?),
            ("image", images.map(|images| images.join("+"))),
            ("deletionTimestamp", deployment.deletion_timestamp()),
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

/// `replicas 3, ready 2, …`, without what is not set.
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

/// `web 2/3`: the name, how many replicas are ready and how many are wanted.
pub(crate) fn in_short(deployment: &Object<'_>) -> Result<String, Error> {
    let ready = deployment.get_int("/status/readyReplicas")?.unwrap_or_default();
    let wanted = deployment.get_int("/spec/replicas")?.unwrap_or_default();
    Ok(format!("{} {ready}/{wanted}", deployment.name()))
}

fn or_none(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(replicas: &str, ready: Option<&str>) -> Summary {
        Summary(vec![("replicas", Some(replicas.to_owned())), ("ready", ready.map(str::to_owned))])
    }

    #[test]
    fn only_what_changed_is_shown() {
        assert_eq!(summary("5", Some("2")).since(&summary("3", Some("2"))), "replicas 3 → 5");
        assert_eq!(summary("3", Some("1")).since(&summary("3", None)), "ready none → 1");
        assert_eq!(summary("3", None).since(&summary("3", None)), "something else");
    }

    #[test]
    fn what_is_not_set_is_left_out() {
        assert_eq!(summary("3", None).to_string(), "replicas 3");
        assert_eq!(summary("3", Some("2")).to_string(), "replicas 3, ready 2");
    }
}
