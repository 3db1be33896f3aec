//! Logs a line for each pod that comes, changes or goes, and what changed.
//!
//! The handlers are told of events and keep nothing; what the lines show is in [`summary`].

mod summary;

use pilothouse_sdk::prelude::*;

use summary::Summary;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Settings {
    /// Only pods of these namespaces; all of them when empty.
    namespaces: Vec<String>,
    /// Only pods with these labels, as `app=web,tier!=test`.
    label_selector: String,
}

struct PodLog;

#[pilothouse_sdk::event_handler]
impl EventHandler for PodLog {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        let Settings { namespaces, label_selector } = config.parse()?;
        let mut pods = Watch::new(Kind::core("v1", "Pod")).namespaces(namespaces);
        if !label_selector.is_empty() {
            pods = pods.label_selector(label_selector);
        }
        Ok(Descriptor::new("pod-log").watch(pods).permission(Permission::new("", ["pods"])))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn on_add(&mut self, _ctx: &Context, event: &Added<'_>) -> Result<(), Failure> {
        let name = if event.is_initial { "found" } else { "added" };
        info!("{name} {}: {}", event.key, Summary::of(&event.object)?);
        Ok(())
    }

    fn on_update(&mut self, _ctx: &Context, event: &Updated<'_>) -> Result<(), Failure> {
        let summary = Summary::of(&event.object)?;
        match &event.old {
            Some(old) => info!("updated {}: {}", event.key, summary.since(&Summary::of(old)?)),
            None => info!("updated {}: now {summary}", event.key),
        }
        Ok(())
    }

    fn on_delete(&mut self, _ctx: &Context, event: &Deleted<'_>) -> Result<(), Failure> {
        let key = &event.key;
        match &event.object {
            Some(pod) if event.final_state_unknown => info!("deleted {key}: once {}", Summary::of(pod)?),
            Some(pod) => info!("deleted {key}: last {}", Summary::of(pod)?),
            None => info!("deleted {key}"),
        }
        Ok(())
    }
}
