//! Logs a line for each Deployment that comes, changes or goes, and lists one namespace from the cache.
//!
//! The handlers are told of events and keep nothing but whether this instance has listed yet; what the lines show of a
//! Deployment is in [`summary`].

mod summary;

use pilothouse_sdk::prelude::*;

use summary::Summary;

const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment");

#[derive(Deserialize)]
#[serde(crate = "pilothouse_sdk::serde", rename_all = "camelCase", deny_unknown_fields, default)]
struct Settings {
    /// The namespace that is listed.
    list_namespace: String,
    /// Only Deployments with these labels are listed, as `app=web,tier!=test`.
    label_selector: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { list_namespace: "default".to_owned(), label_selector: String::new() }
    }
}

struct DeploymentWatcher {
    settings: Settings,
    has_listed: bool,
}

#[pilothouse_sdk::event_handler]
impl EventHandler for DeploymentWatcher {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        config.parse::<Settings>()?;
        Ok(Descriptor::new("deployment-watcher")
            .watch(Watch::new(DEPLOYMENT))
            .permission(Permission::new("apps", ["deployments"])))
    }

    fn new(config: &Config) -> Result<Self, String> {
        Ok(Self { settings: config.parse()?, has_listed: false })
    }

    fn on_add(&mut self, deployment: &Object, initial: bool) {
        let event = if initial { "found" } else { "added" };
        info!("{event} {}: {}", deployment.key(), Summary::of(deployment));
        // The cache is full before the first event comes: one list shows all that is about to be found.
        if !initial || !self.has_listed {
            self.list(&deployment.key());
        }
    }

    fn on_update(&mut self, old: Option<&Object>, new: &Object) {
        let summary = Summary::of(new);
        match old {
            Some(old) => info!("updated {}: {}", new.key(), summary.since(&Summary::of(old))),
            None => info!("updated {}: now {summary}", new.key()),
        }
        self.list(&new.key());
    }

    fn on_delete(&mut self, deleted: &Deleted<'_>) {
        let key = &deleted.key;
        match deleted.object {
            Some(last) => info!("deleted {key}: last {}", Summary::of(last)),
            None => info!("deleted {key}"),
        }
        self.list(key);
    }
}

impl DeploymentWatcher {
    /// Lists the namespace, at the first event and at each that concerns it.
    fn list(&mut self, changed: &Key) {
        let Settings { list_namespace, label_selector } = &self.settings;
        if self.has_listed && changed.namespace.as_ref() != Some(list_namespace) {
            return;
        }
        self.has_listed = true;
        let query = Query::all().namespace(list_namespace).label_selector(label_selector);
        match cache::list(&DEPLOYMENT, &query) {
            Ok(deployments) => {
                let mut found: Vec<String> = deployments.map(|one| summary::in_short(&one)).collect();
                found.sort_unstable();
                info!("{} in {list_namespace}: {}", found.len(), found.join(", "));
            }
            Err(error) => error!("{list_namespace} cannot be listed: {error}"),
        }
    }
}
