//! What the controllers look at. What they do is in the suite.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::store::Store;
use crate::verbs::{DeleteOptions, Propagation, Write};

fn write(core: &Core, namespace: &str, name: &str) -> Write {
    core.own_write("/configmaps", Some(namespace), name).unwrap()
}

fn create(core: &Core, namespace: &str, name: &str, owners: &[Value]) -> Arc<Stored> {
    let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
    core.create_object(&write(core, namespace, ""), object.as_object().unwrap().clone()).unwrap()
}

fn controllers(core: &Arc<Core>) -> Loop {
    Loop {
        core: core.clone(),
        set: ControllerSet::default(),
        queue: Queue::default(),
        parts: Parts::default(),
    }
}

fn reference(owner: &Stored) -> Value {
    let object = &owner.object;
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": object.name(), "uid": object.uid(), "blockOwnerDeletion": true})
}

/// Does all that is to be done.
fn run(controllers: &mut Loop, journal: &mut crate::store::Journal) {
    loop {
        let batch = journal.take();
        if !controllers.turn(&batch) && batch.entries.is_empty() && !batch.lost {
            return;
        }
    }
}

#[test]
fn a_deletion_looks_at_each_dependent_a_few_times() {
    const MANY: usize = 2000;
    for policy in [Propagation::Foreground, Propagation::Background, Propagation::Orphan] {
        let core = Core::new(Store::new(10), Duration::from_secs(60));
        let owner = create(&core, "default", "owner", &[]);
        for number in 0..MANY {
            create(&core, "default", &format!("dependent-{number}"), &[reference(&owner)]);
        }
        let mut journal = core.store.journal();
        let mut controllers = controllers(&core);
        run(&mut controllers, &mut journal);
        let options = DeleteOptions::of_policy(owner.object.uid(), policy);
        core.delete_object(&write(&core, "default", "owner"), &options).unwrap();
        run(&mut controllers, &mut journal);
        let left = core.store.under("/configmaps", "default/", 0);
        let owned = left.iter().filter(|stored| !stored.object.owner_references().is_empty()).count();
        let expected = if policy == Propagation::Orphan { MANY } else { 0 };
        assert_eq!((left.len(), owned), (expected, 0), "{policy:?}");
        let looks = controllers.parts.garbage.looks();
        assert!(looks <= 4 * MANY, "{policy:?}: {looks}");
    }
}

#[test]
fn of_many_owners_in_other_namespaces_some_are_searched_for_and_reported() {
    const MANY: usize = 100;
    let core = Core::new(Store::new(10), Duration::from_secs(60));
    for namespace in ["here", "elsewhere"] {
        let write = core.own_write("/namespaces", None, "").unwrap();
        let object = json!({"metadata": {"name": namespace}});
        core.create_object(&write, object.as_object().unwrap().clone()).unwrap();
    }
    let mut journal = core.store.journal();
    let mut controllers = controllers(&core);
    let owners: Vec<Value> = (0..MANY)
        .map(|number| reference(&create(&core, "elsewhere", &format!("owner-{number}"), &[])))
        .collect();
    create(&core, "here", "dependent", &owners);
    run(&mut controllers, &mut journal);
    assert!(core.store.get("/configmaps", "here/dependent").is_none());
    assert_eq!(core.store.count("/events"), garbage::MAX_REPORTED);
    let looks = controllers.parts.garbage.looks();
    assert!(looks <= garbage::MAX_REPORTED * MANY, "{looks}");
}

#[test]
fn an_owner_with_a_name_that_no_object_has_is_gone() {
    let core = Core::new(Store::new(10), Duration::from_secs(60));
    let mut journal = core.store.journal();
    let mut controllers = controllers(&core);
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "u"});
    create(&core, "default", "dependent", &[owner("a/b")]);
    run(&mut controllers, &mut journal);
    assert!(core.store.get("/configmaps", "default/dependent").is_none());
}
