//! Copies ConfigMaps to the namespaces that a selector names, and keeps the copies equal.
//!
//! What is reconciled is a source: its own changes queue it, those of its copies too, and a change of the namespaces
//! queues all sources. A source that is gone is reconciled as well, so no finalizer is needed: its copies name it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_sdk::prelude::*;

/// Label of sources and copies, which has one of two values.
const ROLE: &str = "replicator.pilothouse.dev/role";
const SOURCE: &str = "source";
const COPY: &str = "copy";

/// Annotation of a source: the label selector of the namespaces that get a copy.
const NAMESPACES: &str = "replicator.pilothouse.dev/namespaces";

/// Annotation of a copy: the key of its source. Not a label, since a key is too long for one.
const COPY_OF: &str = "replicator.pilothouse.dev/copy-of";

/// Index of the copies by the key of their source.
const BY_SOURCE: &str = "by-source";

/// How long a name that is taken is left alone.
const TAKEN: Duration = Duration::from_secs(300);

const CONFIG_MAP: Kind = Kind::core("v1", "ConfigMap");
const NAMESPACE: Kind = Kind::core("v1", "Namespace");

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Settings {
    /// Where sources may be; everywhere if it is empty.
    source_namespaces: Vec<String>,
}

#[derive(Resource, Serialize, Deserialize, Default, Clone)]
#[resource(version = "v1")]
#[serde(rename_all = "camelCase", default)]
struct ConfigMap {
    metadata: Metadata,
    data: BTreeMap<String, String>,
    binary_data: BTreeMap<String, String>,
}

struct Replicator {
    settings: Settings,
}

#[pilothouse_sdk::controller]
impl Controller for Replicator {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        let settings: Settings = config.parse()?;
        let copy_of = format!("/metadata/annotations/{}", COPY_OF.replace('/', "~1"));
        let sources = Watch::of::<ConfigMap>().namespaces(settings.source_namespaces);
        Ok(Descriptor::new("configmap-replicator")
            .watch(sources.name("sources").label_selector(format!("{ROLE}={SOURCE}")))
            .watch(
                Watch::of::<ConfigMap>()
                    .name("copies")
                    .label_selector(format!("{ROLE}={COPY}"))
                    .map(Map::field(&copy_of)),
            )
            .watch(Watch::new(NAMESPACE).predicate(Predicate::LabelsChanged).map(Map::handler()))
            .index(Index::by_path(CONFIG_MAP, BY_SOURCE, copy_of))
            .projection(Projection::new(NAMESPACE, [""; 0]))
            .writes::<ConfigMap>([Verb::Create, Verb::Update, Verb::Delete])
            .permission(Permission::new("", ["namespaces"]).namespaces([""; 0]))
            .records_events())
    }

    fn new(config: &Config) -> Result<Self, String> {
        Ok(Self { settings: config.parse()? })
    }

    fn on_add(&mut self, ctx: &Context, _event: &Added<'_>) -> Result<(), Failure> {
        queue_sources(ctx)
    }

    fn on_update(&mut self, ctx: &Context, _event: &Updated<'_>) -> Result<(), Failure> {
        queue_sources(ctx)
    }

    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
        let source = ctx.get::<ConfigMap>(&request.key)?;
        // The cache has all ConfigMaps, and copies name any: what a source is is decided here.
        let source = source.filter(|map| self.is_source(map));
        let mut wanted = match &source {
            Some(source) => targets(ctx, source)?,
            None => BTreeSet::new(),
        };
        for copy in ctx.by_index::<ConfigMap>(BY_SOURCE, &request.key.to_string())? {
            let copy = copy?;
            match &source {
                Some(source) if wanted.remove(&copy.key()) => make_equal(ctx, source, copy)?,
                _ => delete(ctx, &copy)?,
            }
        }
        let mut outcome = Outcome::Done;
        for (source, key) in source.iter().flat_map(|source| wanted.iter().map(move |key| (source, key))) {
            outcome = outcome.sooner(create(ctx, source, key)?);
        }
        Ok(outcome)
    }
}

impl Replicator {
    fn is_source(&self, map: &ConfigMap) -> bool {
        let namespaces = &self.settings.source_namespaces;
        map.metadata.label(ROLE) == Some(SOURCE)
            && (namespaces.is_empty() || namespaces.contains(&map.metadata.namespace))
    }
}

/// A namespace came, or has other labels: each source may be wanted there, or no longer.
fn queue_sources(ctx: &Context) -> Result<(), Failure> {
    let query = Query::all().label_selector(format!("{ROLE}={SOURCE}"));
    let sources: Vec<Key> = ctx.cache().keys(&CONFIG_MAP, &query)?.collect();
    Ok(ctx.queue().add_many(&sources, 0)?)
}

/// The keys of the copies that a source should have.
fn targets(ctx: &Context, source: &ConfigMap) -> Result<BTreeSet<Key>, Failure> {
    let Some(selector) = source.metadata.annotation(NAMESPACES).filter(|selector| !selector.is_empty())
    else {
        ctx.warning(source, "NoSelector", format_args!("the annotation {NAMESPACES} is missing or empty"));
        return Ok(BTreeSet::new());
    };
    let query = Query::all().label_selector(selector);
    let namespaces = match ctx.cache().list(&NAMESPACE, &query) {
        Ok(namespaces) => namespaces,
        Err(refusal) if refusal.is_invalid() => {
            ctx.warning(source, "InvalidSelector", format_args!("the annotation {NAMESPACES}: {refusal}"));
            // The copies stay as they are until the selector can be read.
            return Err(refusal.into());
        }
        Err(refusal) => return Err(refusal.into()),
    };
    let mut keys = BTreeSet::new();
    for namespace in namespaces {
        let namespace = namespace?;
        // Nothing can be created in one that is going.
        if namespace.name() != source.metadata.namespace
            && !namespace.exists("/metadata/deletionTimestamp")?
        {
            keys.insert(Key::namespaced(namespace.name(), &source.metadata.name));
        }
    }
    Ok(keys)
}

/// Creates a copy. A ConfigMap of somebody else that has its name is left alone.
fn create(ctx: &Context, source: &ConfigMap, key: &Key) -> Result<Outcome, Failure> {
    let metadata =
        Metadata::new(key).with_label(ROLE, COPY).with_annotation(COPY_OF, source.key().to_string());
    match ctx.api::<ConfigMap>().create(&ConfigMap { metadata, ..source.clone() }) {
        Ok(_) => {
            info!("copied", source = source.key(), copy = key);
            Ok(Outcome::Done)
        }
        Err(error) if error.is_already_exists() => {
            let note = format!("namespace {} has a ConfigMap of this name that is no copy", key.namespace);
            ctx.warning(source, "NameTaken", note);
            Ok(Outcome::requeue_after(TAKEN))
        }
        // The namespace goes at this moment.
        Err(error) if error.is_not_found() => Ok(Outcome::Done),
        Err(error) => Err(Failure::from(error).while_doing(format!("creating {key}"))),
    }
}

/// Gives a copy the data of its source. Replaces all of it, since entries that somebody added must go.
fn make_equal(ctx: &Context, source: &ConfigMap, copy: ConfigMap) -> Result<(), Failure> {
    if copy.data == source.data && copy.binary_data == source.binary_data {
        return Ok(());
    }
    let key = copy.key();
    ctx.api::<ConfigMap>().update(&ConfigMap { metadata: copy.metadata, ..source.clone() })?;
    info!("updated", source = source.key(), copy = key);
    Ok(())
}

fn delete(ctx: &Context, copy: &ConfigMap) -> Result<(), Failure> {
    if ctx.api::<ConfigMap>().delete_opt(&copy.key(), &DeleteOptions::uid(&copy.metadata.uid))? {
        info!("deleted", copy = copy.key());
    }
    Ok(())
}
