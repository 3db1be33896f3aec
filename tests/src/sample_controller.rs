//! The sample controller, whoever runs it: makes a Deployment of each Foo of the group `samplecontroller.example.com`, with an
//! owner, a finalizer, a condition and Events. Nobody makes Pods: the status of Deployments is written here.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{Cluster, ControlPlane};

const FOO: &str = "samplecontroller.example.com/v1alpha1/Foo";
const DEPLOYMENT: &str = "apps/v1/Deployment";

/// Waits until something that is described holds.
pub type Wait<'a> = &'a dyn Fn(&str, &dyn Fn() -> Result<bool>) -> Result<()>;

/// Creates the definition of Foos.
///
/// # Errors
/// When the server refuses it, or does not serve it within a minute.
pub fn define(plane: &ControlPlane, definition: &str) -> Result<()> {
    plane.kubectl_with(&["create", "-f", "-"], definition)?;
    let name = "foos.samplecontroller.example.com";
    plane.kubectl(&["wait", "crd", name, "--for=condition=Established", "--timeout=60s"]).map(drop)
}

/// Creates, changes and deletes Foos in a namespace, and sees what a running controller makes of them.
///
/// # Errors
/// When the definition lacks its schema, or the controller does not do what it should.
pub fn check(cluster: &Cluster, namespace: &str, wait: Wait<'_>) -> Result<()> {
    let taken = json!({
        "replicas": 1, "selector": {"matchLabels": {"app": "taken"}},
        "template": {
            "metadata": {"labels": {"app": "taken"}},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        },
    });
    let metadata = json!({"namespace": namespace, "name": "taken"});
    let taken = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": taken});
    cluster.create(&taken)?;
    let make = |name: &str, spec: Value| {
        cluster.create(&json!({
            "apiVersion": "samplecontroller.example.com/v1alpha1", "kind": "Foo",
            "metadata": {"namespace": namespace, "name": name}, "spec": spec,
        }))
    };
    ensure!(
        make("many", json!({"deploymentName": "web", "replicas": 11})).is_err(),
        "the schema is not applied"
    );
    ensure!(make("unnamed", json!({})).is_err(), "the schema is not applied");
    let example = make("example", json!({"deploymentName": "web"}))?;
    ensure!(example["spec"]["replicas"] == 1, "the default of the schema: {example}");
    make("late", json!({"deploymentName": "taken", "replicas": 3}))?;

    let deployment =
        |name: &str| Ok::<_, anyhow::Error>(cluster.get(DEPLOYMENT, namespace, name)?.unwrap_or_default());
    let has = |pointer: &'static str, value: Value| {
        move |object: &Value| object.pointer(pointer).is_some_and(|found| *found == value)
    };
    wait("the Deployment", &|| {
        let owned = has("/metadata/ownerReferences/0/name", json!("example"));
        Ok(owned(&deployment("web")?) && cluster.has_event(namespace, "example", "Synced")?)
    })?;
    wait("word of the name that is taken", &|| cluster.has_event(namespace, "late", "ErrResourceExists"))?;
    let untouched = deployment("taken")?;
    ensure!(untouched["spec"]["replicas"] == 1 && untouched["metadata"].get("ownerReferences").is_none());

    let status = json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
    cluster.merge_status(DEPLOYMENT, namespace, "web", &status)?;
    wait("the status of the Foo", &|| {
        let found = cluster.get(FOO, namespace, "example")?.unwrap_or_default();
        let is_ready = has("/status/conditions/0/status", json!("True"));
        Ok(found["status"]["availableReplicas"] == 1 && is_ready(&found))
    })?;
    cluster.merge(DEPLOYMENT, namespace, "web", &json!({"spec": {"replicas": 5}}))?;
    wait("the number to be corrected", &|| {
        let found = deployment("web")?;
        Ok(found["spec"]["replicas"] == 1 && found["metadata"]["generation"] == 3)
    })?;
    cluster.merge(FOO, namespace, "example", &json!({"spec": {"replicas": 2}}))?;
    wait("the Deployment to follow", &|| Ok(deployment("web")?["spec"]["replicas"] == 2))?;

    // Nobody collects garbage on the real server: the controller itself deletes the Deployment.
    cluster.delete(FOO, namespace, "example")?;
    wait("the end of the Foo", &|| Ok(cluster.get(FOO, namespace, "example")?.is_none()))?;
    ensure!(cluster.get(DEPLOYMENT, namespace, "web")?.is_none(), "the Deployment goes first");
    cluster.delete(FOO, namespace, "late")?;
    wait("the end of the other Foo", &|| Ok(cluster.get(FOO, namespace, "late")?.is_none()))?;
    ensure!(cluster.get(DEPLOYMENT, namespace, "taken")?.is_some(), "it belongs to somebody else");
    Ok(())
}
