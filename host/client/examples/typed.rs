//! The typed client: a deployment is created, listed, watched, patched, scaled and deleted, in the namespace of the current
//! context.
//!
//! ```text
//! cargo run -p pilothouse-client --features typed --example typed
//! ```
#![allow(clippy::print_stdout, reason = "what an example is for")]

use k8s_openapi::api::apps::v1::Deployment;
use pilothouse_client::{
    Api, Client, ClientOptions, DeleteParams, ListParams, Patch, Result, WatchEvent, WatchParams, WriteParams,
};
use serde_json::json;

const NAME: &str = "example-typed";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = Client::new(ClientOptions::default()).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(&client);
    let written = WriteParams::default();

    let deployment = serde_json::from_value(json!({
        "metadata": {"name": NAME, "labels": {"app": NAME}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": NAME}},
            "template": {
                "metadata": {"labels": {"app": NAME}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]},
            },
        },
    }))
    .expect("this is a deployment");
    let created = deployments.create(&deployment, &written).await?;
    println!("created {}", created.metadata.name.as_deref().unwrap_or_default());

    let selector = format!("app={NAME}");
    let listed = deployments
        .list_all(&ListParams { label_selector: selector.clone(), ..ListParams::default() })
        .await?;
    println!("listed {}", listed.items.len());

    let watch = WatchParams {
        label_selector: selector.clone(),
        resource_version: Some(listed.meta.resource_version),
        timeout_seconds: Some(30),
        ..WatchParams::default()
    };
    let mut events = deployments.watch(&watch).await?;
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:1.28"}]}}}});
    deployments.patch(NAME, Patch::Strategic(image.to_string().as_bytes()), &written).await?;
    while let Some(event) = events.next().await {
        // Controllers of the cluster may change it as well.
        if let WatchEvent::Modified(changed) = event?
            && image_of(&changed) == Some("nginx:1.28")
        {
            println!("changed to {}", image_of(&changed).unwrap_or_default());
            break;
        }
    }

    let scaled = deployments.patch(NAME, Patch::Merge(br#"{"spec": {"replicas": 1}}"#), &written).await?;
    println!("scaled to {:?}", scaled.spec.and_then(|spec| spec.replicas));

    deployments.delete(NAME, &DeleteParams::default()).await?;
    println!("deleted; there: {}", deployments.get_opt(NAME).await?.is_some());
    Ok(())
}

fn image_of(deployment: &Deployment) -> Option<&str> {
    deployment.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.as_deref()
}
