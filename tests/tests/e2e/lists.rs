//! Lists of many pages on both servers: what is listed shows one version, also when the pages are forgotten half way.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use pilothouse_client::{ApiResource, Error, ListParams, Listed};
use pilothouse_object::Gvk;
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::{Cluster, ControlPlane, informers};
use tokio::runtime::Builder;

pilothouse_tests::on_both_servers!(a_list_whose_pages_are_forgotten_shows_one_version);

const NAMESPACE: &str = "pages";
const OBJECTS: usize = 12;
const PAGE: u32 = 5;

/// Deletes the first object, makes another, and has the server forget all versions before.
fn rearrange(plane: &ControlPlane, cluster: &Cluster) -> Result<()> {
    cluster.delete("v1/ConfigMap", NAMESPACE, "map-00")?;
    cluster.config_map(NAMESPACE, "map-99")?;
    plane.compact().map(drop)
}

fn a_list_whose_pages_are_forgotten_shows_one_version(server: Server) -> Result<()> {
    // With a watch cache a real server serves a page's version from there for a while.
    let apiserver_flags = vec!["--watch-cache-sizes=configmaps#0".to_owned()];
    let plane = ControlPlane::start(Options { apiserver_flags, ..Options::on(server) })?;
    let cluster = Cluster::of(&plane)?;
    cluster.namespace(NAMESPACE)?;
    let mut after = BTreeSet::from(["map-99".to_owned()]);
    for n in 0..OBJECTS {
        let name = format!("map-{n:02}");
        cluster.config_map(NAMESPACE, &name)?;
        after.insert(name);
    }
    after.remove("map-00");

    let maps = ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true);
    // Not the certificate authority's bundle, which a real server puts into each namespace.
    let params = ListParams {
        limit: PAGE,
        field_selector: "metadata.name!=kube-root-ca.crt".to_owned(),
        ..ListParams::default()
    };
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (mut names, mut restarts, mut rearranged) = (BTreeSet::new(), 0, false);
    let summary = runtime.block_on(async {
        let client = informers::client(plane.kubeconfig()).await?;
        let mut take = |listed| {
            match listed {
                Listed::Item(object) => {
                    names.insert(object.name().to_owned());
                }
                Listed::Restarted => {
                    names.clear();
                    restarts += 1;
                }
            }
            // Behind the first page, before the second is asked for.
            if names.len() == PAGE as usize && !std::mem::replace(&mut rearranged, true) {
                let done = std::thread::scope(|scope| scope.spawn(|| rearrange(&plane, &cluster)).join());
                return match done {
                    Ok(Ok(())) => Ok(()),
                    other => Err(Error::Request(format!("rearranging: {other:?}"))),
                };
            }
            Ok(())
        };
        anyhow::Ok(client.list_each(&maps, Some(NAMESPACE), &params, &mut take).await?)
    })?;
    ensure!(rearranged && summary.paginated && restarts == 1, "{restarts} restarts, {summary:?}");
    ensure!(names == after, "{names:?}, not {after:?}");
    Ok(())
}
