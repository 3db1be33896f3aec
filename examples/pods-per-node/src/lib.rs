//! Keeps one ConfigMap per node, `pods-on-NODE`, that says how many pods are on it: `total`, and one entry per pod
//! phase.
//!
//! What is reconciled is a node. Pods lead to it by `spec.nodeName`, the ConfigMaps by an annotation, so a change
//! of any of the three makes the host call `reconcile` with the node's key. Everything is read from the host's
//! cache, and nothing is written while the ConfigMap is right.

mod name;

use std::collections::BTreeMap;

use pilothouse_sdk::prelude::*;

const NODE: Kind = Kind::core("v1", "Node");
const POD: Kind = Kind::core("v1", "Pod");
const CONFIG_MAP: Kind = Kind::core("v1", "ConfigMap");

/// Index of the pods by the node they are on.
const BY_NODE: &str = "by-node";

/// Marks the ConfigMaps of this controller, so that it need not watch all the others.
const OWN: (&str, &str) = ("app.kubernetes.io/managed-by", "pods-per-node");

/// Names the node of a ConfigMap. An annotation, since names of nodes may be too long for a label.
const NODE_ANNOTATION: &str = "pods-per-node.pilothouse.dev/node";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Settings {
    /// Where the ConfigMaps are written.
    namespace: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { namespace: "default".to_owned() }
    }
}

struct PodsPerNode {
    settings: Settings,
}

#[pilothouse_sdk::reconciler]
impl Reconciler for PodsPerNode {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        let Settings { namespace } = config.parse()?;
        let (label, value) = OWN;
        let annotation = format!("/metadata/annotations/{}", NODE_ANNOTATION.replace('/', "~1"));
        Ok(Descriptor::new("pods-per-node")
            .watch(Watch::new(NODE))
            .watch(Watch::new(POD).map(Map::field("/spec/nodeName")))
            .watch(
                Watch::new(CONFIG_MAP)
                    .namespaces([&namespace])
                    .label_selector(format!("{label}={value}"))
                    .map(Map::field(annotation)),
            )
            .index(Index::by_path(POD, BY_NODE, "/spec/nodeName"))
            .max_concurrent_reconciles(4)
            .permission(Permission::new("", ["nodes", "pods"]))
            .permission(
                Permission::new("", ["configmaps"])
                    .verbs(["get", "list", "watch", "create", "update", "delete"])
                    .namespaces([&namespace]),
            ))
    }

    fn new(config: &Config) -> Result<Self, String> {
        Ok(Self { settings: config.parse()? })
    }

    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
        let node = &request.key.name;
        let key = Key::namespaced(&self.settings.namespace, name::of_config_map(node));
        // Without our marks it counts as absent: never deleted, but replaced if the node exists.
        let present = ctx.cache().get(&CONFIG_MAP, &key)?.filter(|map| is_own(map, node));

        if ctx.cache().get(&NODE, &request.key)?.is_none() {
            if let Some(map) = present {
                delete(ctx, &key, map.uid())?;
            }
            return Ok(Outcome::Done);
        }
        let wanted = count(ctx, node)?;
        let is_right = match present {
            Some(map) => map.get("/data")?.as_ref() == Some(&wanted),
            None => false,
        };
        if !is_right {
            write(ctx, &key, node, &wanted)?;
        }
        Ok(Outcome::Done)
    }
}

/// Whether a ConfigMap bears the marks that this controller gives to the one of a node.
fn is_own(map: &Object<'_>, node: &str) -> bool {
    let (label, value) = OWN;
    map.label(label).as_deref() == Some(value) && map.annotation(NODE_ANNOTATION).as_deref() == Some(node)
}

/// The data of a node's ConfigMap. Every pod that the API server has counts, finished ones under their phase.
fn count(ctx: &Context, node: &str) -> Result<BTreeMap<String, String>, Failure> {
    let mut phases: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = 0;
    for pod in ctx.cache().by_index(&POD, BY_NODE, node)? {
        total += 1;
        let phase = pod?.get_string("/status/phase")?.unwrap_or_else(|| "Unknown".to_owned());
        *phases.entry(phase).or_default() += 1;
    }
    phases.insert("total".to_owned(), total);
    Ok(phases.into_iter().map(|(entry, pods)| (entry, pods.to_string())).collect())
}

/// Replaces the ConfigMap or creates it. It is not applied: that would leave entries which someone else put there.
fn write(ctx: &Context, key: &Key, node: &str, data: &BTreeMap<String, String>) -> Result<(), Failure> {
    let (label, value) = OWN;
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": key.namespace,
            "name": key.name,
            "labels": {label: value},
            "annotations": {NODE_ANNOTATION: node},
        },
        "data": data,
    });
    let options = WriteOptions::default();
    let client = ctx.client();
    let written = match client.update(&CONFIG_MAP, &map, &options) {
        Err(error) if error.is_not_found() => client.create(&CONFIG_MAP, &map, &options),
        result => result,
    };
    match written {
        Ok(_) => {
            info!("wrote {key}", node = node, total = data["total"]);
            Ok(())
        }
        // A ConfigMap that does not exist yet can only be missing its namespace. It may still come: try again.
        Err(error) if error.is_not_found() => Err(Failure::transient(format!(
            "{key} cannot be created, its namespace seems to be missing: {error}"
        ))),
        Err(error) => Err(Failure::from(error).while_doing(format!("writing {key}"))),
    }
}

/// Deletes the ConfigMap of a node that is gone, unless it was replaced in the meantime.
fn delete(ctx: &Context, key: &Key, uid: String) -> Result<(), Failure> {
    match ctx.client().delete(&CONFIG_MAP, key, &DeleteOptions::uid(uid)) {
        Ok(_) => {
            info!("deleted {key}: its node is gone");
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(Failure::from(error).while_doing(format!("deleting {key}"))),
    }
}
