//! Clusters of a host and the runs of plugins in them: their names.
//!
//! A plugin runs once in each cluster that its manifest names. The run in the home cluster, which the host itself works in, has
//! the name of the plugin; a run elsewhere is called `PLUGIN@CLUSTER`. Invariant: names of plugins and of clusters are DNS labels
//! (a plugin's may have a namespace before it), so the name of a run has one `@` at most.

use serde_json::Value;
use serde_saphyr::Spanned;

use crate::manifest::{DNS_LABEL, ManifestError, is_dns_label, refused};

/// The name of the home cluster.
pub const HOME_CLUSTER: &str = "home";

/// Replaced by the name of the cluster in strings of the configuration.
const PLACEHOLDER: &str = "$(cluster)";

/// Clusters that a list of a manifest may name: each costs a run, or a client, whether the host has it or not.
const MOST_CLUSTERS: usize = 256;

/// The name of the run of a plugin in a cluster.
#[must_use]
pub fn run_name(plugin: &str, cluster: &str) -> String {
    if cluster == HOME_CLUSTER { plugin.to_owned() } else { format!("{plugin}@{cluster}") }
}

/// The plugin of a run, and its cluster; none at home.
#[must_use]
pub fn split_run(run: &str) -> (&str, Option<&str>) {
    run.split_once('@').map_or((run, None), |(plugin, cluster)| (plugin, Some(cluster)))
}

/// Checks the name of a cluster.
///
/// # Errors
/// The reason and the remedy, when it is not a DNS label.
pub fn check_cluster_name(name: &str) -> Result<(), String> {
    if is_dns_label(name) { Ok(()) } else { Err(format!("{name:?} is not a DNS label; {DNS_LABEL}")) }
}

/// Checks `spec.clusters`.
pub(crate) fn check(names: Vec<Spanned<String>>) -> Result<Vec<String>, ManifestError> {
    check_names(
        "spec.clusters",
        names.iter().enumerate().map(|(at, name)| (format!("spec.clusters[{at}]"), name)),
    )?;
    Ok(names.into_iter().map(|name| name.value).collect())
}

/// Checks the names of clusters in a list of the manifest, each with its field.
pub(crate) fn check_names<'a>(
    list: &str,
    names: impl Iterator<Item = (String, &'a Spanned<String>)>,
) -> Result<(), ManifestError> {
    let names: Vec<_> = names.collect();
    for (index, (field, name)) in names.iter().enumerate() {
        let text = &name.value;
        if index >= MOST_CLUSTERS {
            let reason = format!("there are {} names, and there may be {MOST_CLUSTERS}", names.len());
            return Err(refused(name, list, reason, "write a second manifest for the others"));
        }
        if !is_dns_label(text) {
            return Err(refused(name, field, format!("{text:?} is not a DNS label"), DNS_LABEL));
        }
        if names[..index].iter().any(|(_, before)| before.value == *text) {
            return Err(refused(name, field, format!("{text:?} is there twice"), "name it once"));
        }
    }
    Ok(())
}

/// Puts the name of the cluster in the place of `$(cluster)`, in all strings of a value that are not keys.
pub(crate) fn fill_in(value: &mut Value, cluster: &str) {
    match value {
        Value::String(text) if text.contains(PLACEHOLDER) => *text = text.replace(PLACEHOLDER, cluster),
        Value::Array(entries) => entries.iter_mut().for_each(|entry| fill_in(entry, cluster)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill_in(field, cluster)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_at_home_has_the_name_of_the_plugin_and_one_elsewhere_names_the_cluster() {
        for (plugin, cluster, run) in
            [("p", "home", "p"), ("p", "east", "p@east"), ("a/p", "east", "a/p@east")]
        {
            assert_eq!(run_name(plugin, cluster), run);
            assert_eq!(split_run(run), (plugin, Some(cluster).filter(|cluster| *cluster != HOME_CLUSTER)));
        }
    }

    #[test]
    fn the_name_takes_the_place_of_the_placeholder_in_values_alone() {
        let mut config =
            json!({"$(cluster)": ["$(cluster)", {"url": "https://$(cluster).example/$(cluster)"}], "n": 1});
        fill_in(&mut config, "east");
        assert_eq!(config, json!({"$(cluster)": ["east", {"url": "https://east.example/east"}], "n": 1}));
    }
}
