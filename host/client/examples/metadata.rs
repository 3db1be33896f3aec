//! The metadata client: labels of config maps are read, watched and patched without their data ever coming over, and the
//! config maps are deleted together. They are created through the dynamic client, since metadata alone is no object.
//!
//! ```text
//! cargo run -p pilothouse-client --features dynamic --example metadata
//! ```
#![allow(clippy::print_stdout, reason = "what an example is for")]

use pilothouse_client::{
    ApiResource, Client, ClientOptions, DeleteParams, ListParams, Patch, Result, WatchEvent, WatchParams,
    WriteParams,
};
use pilothouse_object::Gvk;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = Client::new(ClientOptions::default()).await?;
    let resource = ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true);
    let namespace = client.default_namespace();
    let config_maps = client.dynamic().resource(&resource).namespace(namespace);
    let metadata = client.metadata().resource(&resource).namespace(namespace);

    for number in 1..=3 {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": format!("example-metadata-{number}"), "labels": {"example": "metadata"}},
            "data": {"large": "x".repeat(10_000)},
        });
        config_maps.create(&object, &WriteParams::default()).await?;
    }

    let of = ListParams { label_selector: "example=metadata".to_owned(), ..ListParams::default() };
    let listed = metadata.list_all(&of).await?;
    let bare = listed.items.iter().filter(|item| item.get("/data").is_none()).count();
    let small = listed.items.iter().all(|item| item.bytes().len() < 10_000);
    println!("listed {}, {bare} of them without data; small: {small}", listed.items.len());
    let one = metadata.get("example-metadata-1", None).await?;
    println!("got {}, a {}", one.name(), one.kind());

    let watch = WatchParams {
        label_selector: of.label_selector.clone(),
        resource_version: Some(listed.meta.resource_version),
        timeout_seconds: Some(30),
        ..WatchParams::default()
    };
    let mut events = metadata.watch(&watch).await?;
    let patch = br#"{"metadata": {"labels": {"color": "blue"}}}"#;
    let patched = metadata.patch("example-metadata-2", Patch::Merge(patch), &WriteParams::default()).await?;
    println!("patched, color {}", patched.label("color").unwrap_or_default());
    if let Some(event) = events.next().await
        && let WatchEvent::Modified(changed) = event?
    {
        println!("changed {}, color {}", changed.name(), changed.label("color").unwrap_or_default());
    }

    metadata.delete_collection(&DeleteParams::default(), &of).await?;
    println!("deleted; {} are left", metadata.list_all(&of).await?.items.len());
    Ok(())
}
