//! The RESTClient: requests put together part by part. Lists the pods of kube-system, and creates, watches, patches and deletes
//! a config map in the namespace of the current context.
//!
//! ```text
//! cargo run -p pilothouse-client --features rest,typed --example rest
//! ```
#![allow(clippy::print_stdout, reason = "what an example is for")]

use k8s_openapi::List;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use pilothouse_client::{Client, ClientOptions, PatchKind, RestRequest, Result};
use serde_json::{Value, json};

const NAME: &str = "example-rest";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = Client::new(ClientOptions::default()).await?;
    let core = client.rest("", "v1");

    let pods = core.get().namespace("kube-system").resource("pods").param("limit", "500").send().await?;
    let pods: List<Pod> = pods.json()?;
    println!("{} pods in kube-system", pods.items.len());
    for pod in pods.items {
        println!("  {}", pod.metadata.name.unwrap_or_default());
    }

    let config_maps =
        |request: RestRequest| request.namespace(client.default_namespace()).resource("configmaps");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"color": "red"}});
    let created: ConfigMap =
        config_maps(core.post()).param("fieldManager", "example").json(&body).send().await?.json()?;
    println!("created {}", created.metadata.name.unwrap_or_default());

    let version = created.metadata.resource_version.unwrap_or_default();
    let watch = config_maps(core.get())
        .param("fieldSelector", &format!("metadata.name={NAME}"))
        .param("watch", "true")
        .param("resourceVersion", &version)
        .param("timeoutSeconds", "30");
    let mut events = watch.stream().await?;
    config_maps(core.patch(PatchKind::Merge))
        .name(NAME)
        .json(&json!({"data": {"color": "blue"}}))
        .send()
        .await?;
    let mut line = Vec::new();
    while let Some(piece) = events.next().await {
        line.extend_from_slice(&piece?);
        if line.ends_with(b"\n") {
            break;
        }
    }
    let event: Value = serde_json::from_slice(&line).expect("a watch sends JSON");
    println!("{} to {}", event["type"], event["object"]["data"]["color"]);

    config_maps(core.delete()).name(NAME).send().await?;
    let gone = config_maps(core.get()).name(NAME).send_any().await?;
    println!("deleted: {}", gone.status());
    Ok(())
}
