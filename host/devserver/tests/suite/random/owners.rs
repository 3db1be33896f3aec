//! Any owners and finalizers, in any deletion: the controllers come to an end.

use std::time::Duration;

use pilothouse_devserver::DevServerOptions;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{Tried, check_answer};
use crate::client::{CONFIG_MAPS, config_map};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Debug, Clone)]
enum OwnerStep {
    Own { owner: usize, dependent: usize, blocks: bool, kind: &'static str, with_uid: bool },
    Finalize { name: usize, finalizers: Vec<&'static str> },
    Delete { name: usize, policy: &'static str },
    Create { name: usize },
}

fn step() -> impl Strategy<Value = OwnerStep> {
    let name = || 0..NAMES.len();
    let kind = select(&["ConfigMap", "ConfigMap", "ConfigMap", "Namespace", "Pod", "Nothing"][..]);
    let finalizers = select(&["foregroundDeletion", "orphan", "x.io/wait"][..]);
    prop_oneof![
        4 => (name(), name(), any::<bool>(), kind, prop::bool::weighted(0.8)).prop_map(
            |(owner, dependent, blocks, kind, with_uid)| OwnerStep::Own { owner, dependent, blocks, kind, with_uid }
        ),
        1 => (name(), prop::collection::vec(finalizers, 0..3))
            .prop_map(|(name, finalizers)| OwnerStep::Finalize { name, finalizers }),
        2 => (name(), select(&["Foreground", "Background", "Orphan"][..]))
            .prop_map(|(name, policy)| OwnerStep::Delete { name, policy }),
        1 => name().prop_map(|name| OwnerStep::Create { name }),
    ]
}

#[test]
fn any_owners_and_deletions_come_to_an_end() {
    let tried = Tried::with("random-owners", DevServerOptions::default());
    tried.run(&prop::collection::vec(step(), 1..16), async |cluster, steps| {
        for name in NAMES {
            cluster.post(CONFIG_MAPS, &config_map(name)).await;
        }
        for step in steps {
            let path = |name: usize| format!("{CONFIG_MAPS}/{}", NAMES[name]);
            let answer = match step {
                OwnerStep::Own { owner, dependent, blocks, kind, with_uid } => {
                    let uid = match with_uid {
                        true => cluster.get(&path(owner)).await.json()["metadata"]["uid"].clone(),
                        false => json!("none"),
                    };
                    let mut owners =
                        cluster.get(&path(dependent)).await.json()["metadata"]["ownerReferences"].clone();
                    let reference = json!({"apiVersion": "v1", "kind": kind, "name": NAMES[owner], "uid": uid,
                        "blockOwnerDeletion": blocks});
                    match &mut owners {
                        Value::Array(owners) => owners.push(reference),
                        other => *other = json!([reference]),
                    }
                    cluster.merge(&path(dependent), &json!({"metadata": {"ownerReferences": owners}})).await
                }
                OwnerStep::Finalize { name, finalizers } => {
                    cluster.merge(&path(name), &json!({"metadata": {"finalizers": finalizers}})).await
                }
                OwnerStep::Delete { name, policy } => {
                    cluster.delete(&path(name), &json!({"propagationPolicy": policy})).await
                }
                OwnerStep::Create { name } => cluster.post(CONFIG_MAPS, &config_map(NAMES[name])).await,
            };
            check_answer(&answer, &|_| false)?;
        }
        // The clock of the test is that of the machine: this is a hang and no measure.
        let settled = tokio::time::timeout(Duration::from_secs(60), cluster.server.settled()).await;
        prop_assert!(settled.is_ok(), "the controllers do not come to an end");
        for name in NAMES {
            let patch = json!({"metadata": {"finalizers": [], "ownerReferences": []}});
            cluster.merge(&format!("{CONFIG_MAPS}/{name}"), &patch).await;
            cluster.delete(&format!("{CONFIG_MAPS}/{name}"), &Value::Null).await;
        }
        cluster.server.settled().await;
        prop_assert_eq!(&cluster.get(CONFIG_MAPS).await.ok()["items"], &json!([]));
        Ok(())
    });
}
