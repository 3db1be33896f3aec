//! kube-rs' `Patch::Apply`: two managers share a ConfigMap. Prints what became of each request, a line each.
//!
//! `kube-rs-peer apply KUBECONFIG NAMESPACE`

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Error, ResourceExt};
use serde_json::{Value, json};

pub async fn run(args: &[String]) -> anyhow::Result<()> {
    let [kubeconfig, namespace] = args else { bail!("apply KUBECONFIG NAMESPACE") };
    let maps: Api<ConfigMap> = Api::namespaced(crate::client(kubeconfig).await?, namespace);
    let apply = async |manager: &str, force: bool, data: Value| {
        let params = PatchParams { force, ..PatchParams::apply(manager) };
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        maps.patch("a", &params, &Patch::Apply(map)).await
    };
    let data = |map: &ConfigMap| json!(map.data);

    let first = apply("one", false, json!({"k": "1", "l": "1"})).await?;
    println!("created {}", data(&first));

    let again = apply("one", false, json!({"k": "1", "l": "1"})).await?;
    ensure!(again.resource_version() == first.resource_version(), "{again:?}");
    println!("again: the same version");

    let status = match apply("two", false, json!({"k": "2"})).await {
        Err(Error::Api(status)) => status,
        other => bail!("no conflict: {other:?}"),
    };
    ensure!(status.is_conflict(), "{status:?}");
    for cause in status.details.context("no details")?.causes {
        println!("conflict: {} {} {}", cause.reason, cause.field, cause.message);
    }

    println!("forced {}", data(&apply("two", true, json!({"k": "2"})).await?));

    let given_up = apply("one", false, json!({})).await?;
    println!("given up {}", data(&given_up));
    for entry in given_up.managed_fields() {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        println!("managers {} {}", text(&entry.manager), text(&entry.operation));
    }
    Ok(())
}
