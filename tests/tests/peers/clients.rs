//! The clients of the library on both servers: the examples as a user runs them, and what examples do not show.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use pilothouse_client::{Api, Client, DeleteParams, ListParams, Patch, WriteParams};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::{Cluster, ControlPlane, examples, informers, process};
use serde_json::{Value, json};
use tokio::runtime::Builder;

pilothouse_tests::on_both_servers!(
    the_examples_do_what_they_say,
    typed_objects_go_there_and_come_back,
    a_collection_is_deleted_by_its_selector_and_no_more,
    an_old_version_is_a_conflict_and_a_double_is_told,
    a_pod_is_evicted,
);

/// Runs a test with a client of a server, and a namespace of its own on it.
fn with_client(server: Server, namespace: &str, test: impl AsyncFnOnce(Client) -> Result<()>) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    Cluster::of(plane)?.namespace(namespace)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { test(informers::client(plane.kubeconfig()).await?).await })
}

fn config_map(name: &str, data: &Value) -> Result<ConfigMap> {
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "data": data}))?)
}

fn the_examples_do_what_they_say(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    with_client(server, "examples", async |client| {
        let pod = json!({"metadata": {"name": "dns"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let pods: Api<Pod> = Api::namespaced(&client, "kube-system");
        pods.create(&serde_json::from_value(pod)?, &WriteParams::default()).await?;
        Ok(())
    })?;
    let expected = [
        (
            "typed",
            "created example-typed\nlisted 1\nchanged to nginx:1.28\nscaled to Some(1)\ndeleted; there: false\n",
        ),
        (
            "dynamic",
            "configmaps are configmaps of v1\ncreated example-dynamic\nlisted 1\nchanged: example is patched\n\
             deleted example-dynamic\n",
        ),
        (
            "metadata",
            "listed 3, 3 of them without data; small: true\ngot example-metadata-1, a PartialObjectMetadata\n\
             patched, color blue\nchanged example-metadata-2, color blue\ndeleted; 0 are left\n",
        ),
        (
            "rest",
            "1 pods in kube-system\n  dns\ncreated example-rest\n\"MODIFIED\" to \"blue\"\ndeleted: 404 Not Found\n",
        ),
    ];
    for (name, output) in expected {
        let mut command = Command::new(examples::client(name)?);
        let finished = process::run(command.env("KUBECONFIG", plane.kubeconfig()), "", SOON)?;
        ensure!(
            finished.status.success() && finished.stdout == output,
            "{name} ({}):\n{}{}",
            finished.status,
            finished.stdout,
            finished.stderr
        );
    }
    Ok(())
}

fn typed_objects_go_there_and_come_back(server: Server) -> Result<()> {
    with_client(server, "typed", async |client| {
        let maps: Api<ConfigMap> = Api::namespaced(&client, "typed");
        let write = WriteParams::default();

        let dry = WriteParams { dry_run: true, ..write.clone() };
        maps.create(&config_map("dry", &json!({}))?, &dry).await?;
        ensure!(maps.get_opt("dry").await?.is_none(), "a dry run kept something");

        let mut map = maps.create(&config_map("a", &json!({"k": "1"}))?, &write).await?;
        map.data.get_or_insert_default().insert("l".to_owned(), "2".to_owned());
        let map = maps.update("a", &map, &write).await?;
        ensure!(map.data.as_ref().is_some_and(|data| data.len() == 2), "{map:?}");
        let patched =
            maps.patch("a", Patch::Json(br#"[{"op": "remove", "path": "/data/k"}]"#), &write).await?;
        ensure!(patched.data.as_ref().is_some_and(|data| !data.contains_key("k")), "{patched:?}");

        // A kind that is in no namespace, and one that is never kept.
        let namespace = Api::<Namespace>::all(&client).get("typed").await?;
        ensure!(namespace.metadata.name.as_deref() == Some("typed"));
        if matches!(server, Server::Real) {
            let attributes = json!({"verb": "create", "resource": "pods", "namespace": "typed"});
            let review = serde_json::from_value(json!({"spec": {"resourceAttributes": attributes}}))?;
            let answer = Api::<SelfSubjectAccessReview>::all(&client).create(&review, &write).await?;
            ensure!(answer.status.is_some_and(|status| status.allowed), "the administrator may do all");

            let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "robot"}}))?;
            let accounts: Api<ServiceAccount> = Api::namespaced(&client, "typed");
            accounts.create(&account, &write).await?;
            let request = json!({"spec": {"expirationSeconds": 600}});
            let made: TokenRequest = accounts.create_subresource("robot", "token", &request, &write).await?;
            let token = made.status.and_then(|status| status.token).context("no token")?;
            ensure!(token.split('.').count() == 3, "this is no token");
        }
        Ok(())
    })
}

fn a_collection_is_deleted_by_its_selector_and_no_more(server: Server) -> Result<()> {
    with_client(server, "collections", async |client| {
        let maps: Api<ConfigMap> = Api::namespaced(&client, "collections");
        for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
            let map = json!({"metadata": {"name": name, "labels": {"color": color}}});
            maps.create(&serde_json::from_value(map)?, &WriteParams::default()).await?;
        }
        let red = ListParams { label_selector: "color=red".to_owned(), ..ListParams::default() };
        let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
        let left = async || -> Result<Vec<String>> {
            let of = ListParams { label_selector: "color".to_owned(), ..ListParams::default() };
            let list = maps.list_all(&of).await?;
            Ok(list.items.into_iter().filter_map(|map| map.metadata.name).collect())
        };
        maps.delete_collection(&dry, &red).await?;
        ensure!(left().await? == ["a", "b", "c"], "a dry run deleted something");
        maps.delete_collection(&DeleteParams::default(), &red).await?;
        ensure!(left().await? == ["b"], "{:?}", left().await?);
        Ok(())
    })
}

fn an_old_version_is_a_conflict_and_a_double_is_told(server: Server) -> Result<()> {
    with_client(server, "conflicts", async |client| {
        let maps: Api<ConfigMap> = Api::namespaced(&client, "conflicts");
        let write = WriteParams::default();
        let old = maps.create(&config_map("a", &json!({"k": "1"}))?, &write).await?;
        let double = maps.create(&config_map("a", &json!({}))?, &write).await.unwrap_err();
        ensure!(double.is_already_exists(), "{double:?}");
        maps.patch("a", Patch::Merge(br#"{"data": {"k": "2"}}"#), &write).await?;
        let conflict = maps.update("a", &old, &write).await.unwrap_err();
        ensure!(conflict.is_conflict(), "{conflict:?}");
        ensure!(maps.get("none").await.unwrap_err().is_not_found());
        Ok(())
    })
}

fn a_pod_is_evicted(server: Server) -> Result<()> {
    with_client(server, "evictions", async |client| {
        let pods: Api<Pod> = Api::namespaced(&client, "evictions");
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pods.create(&serde_json::from_value(pod)?, &WriteParams::default()).await?;
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        client.evict(&"evictions/p".parse()?, &now).await?;
        ensure!(pods.get_opt("p").await?.is_none(), "it is still there");
        Ok(())
    })
}
