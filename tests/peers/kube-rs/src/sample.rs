//! A Foo becomes a Deployment: what `examples/sample-controller` does, with kube-rs. Its lines are counted in
//! `docs/benchmarks.md`, and `tests/tests/peers/sample_controllers.rs` sees it do the same.
//!
//! `kube-rs-peer sample KUBECONFIG` runs it; `kube-rs-peer sample --crd` prints its definition.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::{finalizer, watcher};
use kube::{Api, Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// nginx Pods in a Deployment.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "samplecontroller.example.com", version = "v1alpha1", kind = "Foo", namespaced)]
#[kube(status = "FooStatus")]
#[serde(rename_all = "camelCase")]
struct FooSpec {
    /// The name of the Deployment.
    #[schemars(length(min = 1, max = 253))]
    deployment_name: String,
    /// The number of Pods.
    #[schemars(range(min = 1, max = 10))]
    #[serde(default = "one")]
    replicas: i32,
}

fn one() -> i32 {
    1
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct FooStatus {
    available_replicas: i32,
    conditions: Vec<Condition>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<Error>>),
    #[error("Deployment {0} exists and is not controlled by this Foo")]
    Taken(String),
}

struct Data {
    client: Client,
    recorder: Recorder,
}

impl Data {
    async fn event(&self, foo: &Foo, type_: EventType, reason: &str, note: String) -> Result<(), Error> {
        let (reason, action) = (reason.to_owned(), "Sync".to_owned());
        let event = Event { type_, reason, note: Some(note), action, secondary: None };
        Ok(self.recorder.publish(&event, &foo.object_ref(&())).await?)
    }
}

pub async fn run(args: &[String]) -> anyhow::Result<()> {
    let [argument] = args else { anyhow::bail!("name a kubeconfig, or --crd") };
    if argument == "--crd" {
        println!("{}", serde_json::to_string(&Foo::crd())?);
        return Ok(());
    }
    let client = crate::client(argument).await?;
    let (foos, deployments) = (Api::<Foo>::all(client.clone()), Api::<Deployment>::all(client.clone()));
    let recorder = Recorder::new(client.clone(), "sample-controller".into());
    Controller::new(foos, watcher::Config::default())
        .owns(deployments, watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, on_error, Arc::new(Data { client, recorder }))
        .for_each(|_| ready(()))
        .await;
    Ok(())
}

fn on_error(_foo: Arc<Foo>, error: &Error, _data: Arc<Data>) -> Action {
    eprintln!("{error}");
    Action::requeue(Duration::from_secs(1))
}

async fn reconcile(foo: Arc<Foo>, data: Arc<Data>) -> Result<Action, Error> {
    let namespace = foo.namespace().unwrap_or_default();
    let foos = Api::<Foo>::namespaced(data.client.clone(), &namespace);
    let deployments = Api::<Deployment>::namespaced(data.client.clone(), &namespace);
    let result = finalizer::finalizer(&foos, "samplecontroller.example.com/deployment", foo, |event| async {
        match event {
            finalizer::Event::Apply(foo) => sync(&foo, &foos, &deployments, &data).await,
            finalizer::Event::Cleanup(foo) => clean_up(&foo, &deployments).await,
        }
    });
    result.await.map_err(|error| Box::new(error).into())
}

/// The Foo goes after its Deployment.
async fn clean_up(foo: &Foo, deployments: &Api<Deployment>) -> Result<Action, Error> {
    let name = &foo.spec.deployment_name;
    if let Some(found) = deployments.get_opt(name).await?
        && is_controlled(&found, foo)
    {
        let this = Preconditions { uid: found.uid(), ..Preconditions::default() };
        deployments.delete(name, &DeleteParams::default().preconditions(this)).await?;
    }
    Ok(Action::await_change())
}

fn is_controlled(deployment: &Deployment, foo: &Foo) -> bool {
    let owners = deployment.owner_references();
    owners.iter().any(|owner| owner.controller == Some(true) && Some(&owner.uid) == foo.meta().uid.as_ref())
}

async fn sync(
    foo: &Foo,
    foos: &Api<Foo>,
    deployments: &Api<Deployment>,
    data: &Data,
) -> Result<Action, Error> {
    let FooSpec { deployment_name: name, replicas } = &foo.spec;
    let found = deployments.get_opt(name).await?;
    if found.as_ref().is_some_and(|found| !is_controlled(found, foo)) {
        let error = Error::Taken(name.clone());
        data.event(foo, EventType::Warning, "ErrResourceExists", error.to_string()).await?;
        return Err(error);
    }
    let labels = json!({"app": "nginx", "controller": foo.name_any()});
    let pod = json!({"containers": [{"name": "nginx", "image": "nginx:latest"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let wanted = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "ownerReferences": [foo.controller_owner_ref(&())]},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    });
    let params = PatchParams::apply("sample-controller").force();
    let applied = deployments.patch(name, &params, &Patch::Apply(wanted)).await?;
    let is_written = found.and_then(|found| found.resource_version()) != applied.resource_version();

    let before = foo.status.clone().unwrap_or_default();
    let available = applied.status.and_then(|status| status.available_replicas).unwrap_or(0);
    let status = if available >= *replicas { "True" } else { "False" };
    let same = before.conditions.iter().find(|old| old.type_ == "Ready" && old.status == status);
    let ready = Condition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: "Replicas".to_owned(),
        message: "the available replicas were counted".to_owned(),
        observed_generation: foo.meta().generation,
        last_transition_time: same
            .map_or_else(|| Time(Timestamp::now()), |old| old.last_transition_time.clone()),
    };
    let after = FooStatus { available_replicas: available, conditions: vec![ready] };
    if after != before {
        let patch = Patch::Merge(json!({"status": after}));
        foos.patch_status(&foo.name_any(), &PatchParams::default(), &patch).await?;
    }
    if after != before || is_written {
        data.event(foo, EventType::Normal, "Synced", "the Deployment is as this Foo says".to_owned()).await?;
    }
    Ok(Action::await_change())
}
