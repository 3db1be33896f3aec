//! The dynamic client: an object of a kind that is named on the command line is created, listed, watched, patched and deleted,
//! in the namespace of the current context.
//!
//! ```text
//! cargo run -p pilothouse-client --features dynamic --example dynamic            a config map
//! cargo run -p pilothouse-client --features dynamic --example dynamic -- secrets, or another kind that needs only a name
//! ```
#![allow(clippy::print_stdout, reason = "what an example is for")]

use std::error::Error;

use pilothouse_client::{
    Client, ClientOptions, DeleteParams, ListParams, PartialResource, Patch, WatchEvent, WatchParams,
    WriteParams,
};
use serde_json::json;

const NAME: &str = "example-dynamic";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let wanted = std::env::args().nth(1).unwrap_or_else(|| "configmaps".to_owned());
    let client = Client::new(ClientOptions::default()).await?;
    let resource = client.rest_mapper().resource_for(&PartialResource::any(&wanted)).await?;
    println!("{wanted} are {} of {}", resource.plural, resource.gvk.api_version());
    let mut objects = client.dynamic().resource(&resource);
    if resource.namespaced {
        objects = objects.namespace(client.default_namespace());
    }

    let object = json!({
        "apiVersion": resource.gvk.api_version(),
        "kind": resource.gvk.kind,
        "metadata": {"name": NAME, "labels": {"example": "dynamic"}},
    });
    let created = objects.create(&object, &WriteParams::default()).await?;
    println!("created {}", created.name());

    let selector = "example=dynamic".to_owned();
    let listed =
        objects.list_all(&ListParams { label_selector: selector.clone(), ..ListParams::default() }).await?;
    println!("listed {}", listed.items.len());

    let watch = WatchParams {
        label_selector: selector,
        resource_version: Some(listed.meta.resource_version),
        timeout_seconds: Some(30),
        ..WatchParams::default()
    };
    let mut events = objects.watch(&watch).await?;
    let patch = br#"{"metadata": {"annotations": {"example": "patched"}}}"#;
    objects.patch(NAME, Patch::Merge(patch), &WriteParams::default()).await?;
    if let Some(event) = events.next().await
        && let WatchEvent::Modified(changed) = event?
    {
        println!("changed: example is {}", changed.annotation("example").unwrap_or_default());
    }

    objects.delete(NAME, &DeleteParams::default()).await?;
    if let Some(event) = events.next().await
        && let WatchEvent::Deleted(gone) = event?
    {
        println!("deleted {}", gone.name());
    }
    Ok(())
}
