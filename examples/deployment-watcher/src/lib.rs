//! Logs a line for each Deployment that comes, changes or goes, and lists one namespace from the cache.
//!
//! The handlers are told of events and keep nothing but whether this instance has listed yet; what the lines show of a
//! Deployment is in [`summary`].

mod summary;

use pilothouse_sdk::prelude::*;

use summary::Summary;

const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
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

    fn on_add(&mut self, ctx: &Context, event: &Added<'_>) -> Result<(), Failure> {
        let name = if event.is_initial { "found" } else { "added" };
        info!("{name} {}: {}", event.key, Summary::of(&event.object)?);
        // The cache is full before the first event comes: one list shows all that is about to be found.
        if !event.is_initial || !self.has_listed {
            self.list(ctx, &event.key)?;
        }
        Ok(())
    }

    fn on_update(&mut self, ctx: &Context, event: &Updated<'_>) -> Result<(), Failure> {
        let summary = Summary::of(&event.object)?;
        match &event.old {
            Some(old) => info!("updated {}: {}", event.key, summary.since(&Summary::of(old)?)),
            None => info!("updated {}: now {summary}", event.key),
        }
        self.list(ctx, &event.key)
    }

    fn on_delete(&mut self, ctx: &Context, event: &Deleted<'_>) -> Result<(), Failure> {
        let key = &event.key;
        match &event.object {
            Some(last) => info!("deleted {key}: last {}", Summary::of(last)?),
            None => info!("deleted {key}"),
        }
        self.list(ctx, key)
    }
}

impl DeploymentWatcher {
    /// Lists the namespace, at the first event and at each that concerns it.
    fn list(&mut self, ctx: &Context, changed: &Key) -> Result<(), Failure> {
        let Settings { list_namespace, label_selector } = &self.settings;
        if self.has_listed && changed.namespace != *list_namespace {
            return Ok(());
        }
        self.has_listed = true;
        let query = Query::all().namespace(list_namespace).label_selector(label_selector);
        let mut found = Vec::new();
        for deployment in ctx.cache().list(&DEPLOYMENT, &query)? {
            found.push(summary::in_short(&deployment?)?);
        }
        info!("{} in {list_namespace}: {}", found.len(), found.join(", "));
        Ok(())
    }
}
