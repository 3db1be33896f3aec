//! Reaches for an object by every way there is, and logs a line `snoop` for each with the host's reason and
//! message, or `ok`. With a target that the manifest does not grant, every line must say `forbidden`.

use pilothouse_sdk::prelude::*;

pub(crate) fn run(kind: &Kind, key: &Key) {
    let name = &key.name;
    let query = Query { namespace: key.namespace.clone(), ..Query::all() };
    cached("cache.get", cache::get(kind, key).map(drop));
    cached("cache.list", cache::list(kind, &query).map(drop));
    cached("cache.keys", cache::keys(kind, &query).map(drop));

    let mut metadata = json!({"name": name});
    if let Some(namespace) = &key.namespace {
        metadata["namespace"] = json!(namespace);
    }
    let body = json!({"apiVersion": kind.api_version(), "kind": kind.kind(), "metadata": metadata});
    let patch = json!({"metadata": {"labels": {"snooped": "yes"}}});
    let patches = json!([{"op": "add", "path": "/metadata/labels", "value": {"snooped": "yes"}}]);
    let pages = ListOptions { namespace: key.namespace.clone(), ..Default::default() };
    let write = WriteOptions::default();
    live("client.get", client::get(kind, key).map(drop));
    live("client.list", client::list(kind, &pages).collect::<Result<Vec<_>, _>>().map(drop));
    live("client.create", client::create(kind, &body, &write).map(drop));
    live("client.update", client::update(kind, &body, &write).map(drop));
    live("client.update-status", client::update_status(kind, &body, &write).map(drop));
    live("client.patch-merge", client::patch_merge(kind, key, &patch, &write).map(drop));
    live("client.patch-json", client::patch_json(kind, key, &patches, &write).map(drop));
    live("client.apply", client::apply(kind, key, &body, &ApplyOptions::force()).map(drop));
    live("client.delete", client::delete(kind, key, &DeleteOptions::default()));
}

fn cached(call: &str, result: Result<(), CacheError>) {
    match result {
        Ok(()) => info!("snoop", call = call, reason = "ok"),
        Err(error) => info!("snoop", call = call, reason = error.reason, message = error.message),
    }
}

fn live(call: &str, result: Result<(), ApiError>) {
    match result {
        Ok(()) => info!("snoop", call = call, reason = "ok"),
        Err(error) => {
            info!("snoop", call = call, reason = error.reason, code = error.code, message = error.message);
        }
    }
}
