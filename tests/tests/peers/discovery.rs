//! Discovery on both servers, with kubectl as the oracle: what there is, what it is called, what comes and goes and what
//! is down; and files in kubectl's cache that either of the two has written.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use pilothouse_client::{CachedDiscovery, DiscoveryClient, GroupVersion, MappingError, RestMapper};
use pilothouse_devserver::{Fault, FaultRule};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::process::{self, Finished};
use pilothouse_tests::{ControlPlane, Signal, examples, informers, poll};
use tokio::runtime::Runtime;

pilothouse_tests::on_both_servers!(
    every_resource_is_listed_as_kubectl_lists_it,
    names_mean_what_they_mean_to_kubectl,
    what_comes_is_found_and_what_goes_is_not,
    kubectl_and_we_read_each_others_files,
    a_group_whose_server_is_down_is_named,
);

const SHIPS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.sea.example}
spec:
  group: sea.example
  scope: Namespaced
  names: {plural: ships, kind: Ship, shortNames: [sp, vessel], categories: [all, fleet]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {status: {}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"#;

const NOBODY: &str = r#"
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.down.example}
spec:
  group: down.example
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {namespace: default, name: nobody}
"#;

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

fn discovery(runtime: &Runtime, plane: &ControlPlane) -> Result<DiscoveryClient> {
    Ok(runtime.block_on(informers::client(plane.kubeconfig()))?.discovery())
}

fn mapper(runtime: &Runtime, plane: &ControlPlane) -> Result<RestMapper> {
    Ok(RestMapper::new(CachedDiscovery::in_memory(discovery(runtime, plane)?)))
}

fn add_ships(plane: &ControlPlane) -> Result<()> {
    plane.kubectl_with(&["create", "-f", "-"], SHIPS)?;
    plane.kubectl(&["wait", "--for=condition=Established", "crd/ships.sea.example", "--timeout=30s"])?;
    Ok(())
}

/// `kubectl api-resources -o wide`, with a cache folder of its own.
fn theirs(plane: &ControlPlane, cache: &Path, cached: bool) -> Result<Finished> {
    let cached = format!("--cached={cached}");
    let mut command = plane.kubectl_command(&["api-resources", "-o", "wide", &cached])?;
    process::run(command.env("KUBECACHEDIR", cache), "", SOON)
}

/// The example of the client library, which is to print the same.
fn ours(plane: &ControlPlane, cache: &Path, cached: bool) -> Result<Finished> {
    let mut command = Command::new(examples::client("discovery")?);
    if cached {
        command.arg("--cached");
    }
    process::run(command.env("KUBECONFIG", plane.kubeconfig()).env("KUBECACHEDIR", cache), "", SOON)
}

fn same(ours: &Finished, theirs: &Finished) -> Result<()> {
    ensure!(
        ours.stdout == theirs.stdout && ours.status.success() == theirs.status.success(),
        "ours ({}):\n{}{}\nkubectl's ({}):\n{}{}",
        ours.status,
        ours.stdout,
        ours.stderr,
        theirs.status,
        theirs.stdout,
        theirs.stderr
    );
    Ok(())
}

fn every_resource_is_listed_as_kubectl_lists_it(server: Server) -> Result<()> {
    let plane = ControlPlane::start(Options::on(server))?;
    let cache = tempfile::tempdir()?;
    let list = || -> Result<String> {
        let (ours, theirs) = (ours(&plane, cache.path(), false)?, theirs(&plane, cache.path(), false)?);
        same(&ours, &theirs)?;
        ensure!(ours.status.success() && ours.stderr.is_empty(), "{}", ours.stderr);
        Ok(ours.stdout)
    };
    // Both ask, but at different times, and what a server has just been started with may still come.
    let before = poll::until("both to list the same", SOON, || list().map(Some))?;
    ensure!(before.lines().count() > 40 && !before.contains("ships"), "{before}");
    add_ships(&plane)?;
    let after = poll::until("the ships to be listed", SOON, || match list() {
        Ok(after) if after.contains("ships") => Ok(Some(after)),
        Ok(_) => Ok(None),
        Err(error) => Err(format!("{error:#}")),
    })?;
    let line = after.lines().find(|line| line.starts_with("ships ")).context("no line of ships")?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    ensure!(
        fields[1..5] == ["sp,vessel", "sea.example/v1", "true", "Ship"] && fields[6] == "all,fleet",
        "{line}"
    );
    // A document per group version says the same.
    let runtime = runtime()?;
    let discovery = discovery(&runtime, &plane)?;
    poll::until("both forms to say the same", SOON, || forms_agree(&runtime, &discovery))
}

fn forms_agree(runtime: &Runtime, discovery: &DiscoveryClient) -> Result<bool> {
    let (new, old) = runtime.block_on(async {
        let new = discovery.groups_and_resources().await?;
        anyhow::Ok((new, discovery.clone().legacy().groups_and_resources().await?))
    })?;
    ensure!(new.groups == old.groups && new.failed.is_empty() && old.failed.is_empty());
    ensure!(new.resources.len() == old.resources.len());
    for (new, old) in new.resources.iter().zip(&old.resources) {
        ensure!(new.group_version == old.group_version);
        ensure!(new.resources.len() == old.resources.len(), "{}", new.group_version);
        for (new, old) in new.resources.iter().zip(old.resources.iter()) {
            let mut old = old.clone();
            old.storage_version_hash.clear();
            ensure!(*new == old, "{new:?}\n{old:?}");
        }
    }
    Ok(true)
}

fn names_mean_what_they_mean_to_kubectl(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let runtime = runtime()?;
    let mapper = mapper(&runtime, plane)?;
    let names = [
        "po",
        "pod",
        "pods",
        "Pod",
        "deploy",
        "deployments.apps",
        "deployments.v1.apps",
        "Deployment.v1.apps",
        "ev",
        "events",
        "events.events.k8s.io",
        "hpa",
        "ing",
        "ingresses.networking",
        "crd",
        "pdb",
        "sc",
        "cs",
        "netpol",
        "rs",
        "sts",
        "no",
        "ns",
        "svc",
        "leases.coordination.k8s.io",
        "role.rbac.authorization.k8s.io",
        "roles.rbac",
    ];
    for name in names {
        let found = runtime.block_on(mapper.resolve(name))?;
        // What kubectl takes a name for shows in the path that it asks.
        let mut command = plane.kubectl_command(&["get", name, "-v=6", "--ignore-not-found"])?;
        let asked = process::run(&mut command, "", SOON)?.stderr;
        let (group, version) = (&found.gvk.group, &found.gvk.version);
        let place =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let path = match found.namespaced {
            true => format!("{place}/namespaces/default/{}?", found.plural),
            false => format!("{place}/{}?", found.plural),
        };
        ensure!(asked.contains(&path), "{name}: not {path} in\n{asked}");
    }
    // kubectl forgets the version of a short name.
    ensure!(runtime.block_on(mapper.resolve("hpa.v2.autoscaling"))?.gvk.version == "v2");
    for name in ["nothing", "pods.apps", "deployments.v9.apps"] {
        ensure!(runtime.block_on(mapper.resolve(name)).is_err_and(|error| error.is_no_match()), "{name}");
        ensure!(plane.kubectl(&["get", name]).is_err(), "{name}");
    }
    let mut all: Vec<String> =
        runtime
            .block_on(mapper.expand_category("all"))?
            .iter()
            .map(|r| {
                if r.gvk.group.is_empty() {
                    r.plural.clone()
                } else {
                    format!("{}.{}", r.plural, r.gvk.group)
                }
            })
            .collect();
    let theirs = plane.kubectl(&["api-resources", "--categories=all", "-o", "name"])?;
    let mut theirs: Vec<&str> = theirs.lines().collect();
    all.sort();
    theirs.sort_unstable();
    ensure!(all == theirs, "{all:?}\n{theirs:?}");
    Ok(())
}

fn what_comes_is_found_and_what_goes_is_not(server: Server) -> Result<()> {
    let plane = ControlPlane::start(Options::on(server))?;
    let runtime = runtime()?;
    let mapper = mapper(&runtime, &plane)?;
    let resolve = |name| runtime.block_on(mapper.resolve(name));
    resolve("pods")?;
    ensure!(resolve("sp").is_err_and(|error| error.is_no_match()));
    ensure!(runtime.block_on(mapper.mapping("sea.example", "Ship", &[])).is_err_and(|e| e.is_no_match()));
    add_ships(&plane)?;
    // Nobody tells the mapper: it asks again by itself.
    let ships = poll::until("the ships to be found", SOON, || match resolve("sp") {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_no_match() => Ok(None),
        Err(error) => Err(error.to_string()),
    })?;
    ensure!((ships.plural.as_str(), ships.gvk.version.as_str()) == ("ships", "v1"));
    ensure!(resolve("ships.v1beta1.sea.example")?.gvk.version == "v1beta1");
    ensure!(runtime.block_on(mapper.mappings("sea.example", "Ship"))?.len() == 2);
    plane.kubectl(&["delete", "crd/ships.sea.example"])?;
    resolve("ships")?;
    poll::until("the ships to be gone", SOON, || {
        mapper.reset();
        match resolve("ships") {
            Err(error) if error.is_no_match() => Ok(true),
            other => Err(format!("{other:?}")),
        }
    })
}

fn kubectl_and_we_read_each_others_files(server: Server) -> Result<()> {
    let plane = ControlPlane::start(Options::on(server))?;
    add_ships(&plane)?;
    let (of_kubectl, of_us) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let written = poll::until("both to list the ships", SOON, || -> Result<_, String> {
        let all = || -> Result<_> {
            let live = theirs(&plane, of_kubectl.path(), false)?;
            std::fs::remove_dir_all(of_us.path())?;
            same(&ours(&plane, of_us.path(), true)?, &live)?;
            Ok(live)
        };
        let live = all().map_err(|error| format!("{error:#}"))?;
        Ok(live.stdout.contains("ships").then_some(live))
    })?;
    let names = |cache: &Path| {
        let mut names = Vec::new();
        let mut folders = vec![cache.join("discovery")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() { folders.push(path) } else { names.push(path) }
            }
        }
        let mut names: Vec<String> =
            names.iter().filter_map(|n| Some(n.strip_prefix(cache).ok()?.display().to_string())).collect();
        names.sort();
        names
    };
    ensure!(names(of_kubectl.path()) == names(of_us.path()), "{:?}", names(of_us.path()));
    for name in names(of_us.path()) {
        let read = |cache: &Path| -> Result<serde_json::Value> {
            Ok(serde_json::from_slice(&std::fs::read(cache.join(&name))?)?)
        };
        let (ours, theirs) = (read(of_us.path())?, read(of_kubectl.path())?);
        ensure!(ours == theirs, "{name}:\n{ours:#}\n{theirs:#}");
    }
    // Processes of both kinds at once, on a folder that is empty at first and then full.
    let shared = tempfile::tempdir()?;
    for _ in 0..2 {
        std::thread::scope(|scope| {
            let (plane, cache) = (&plane, shared.path());
            let ours = (0..4).map(|_| scope.spawn(move || ours(plane, cache, true)));
            let theirs = (0..2).map(|_| scope.spawn(move || theirs(plane, cache, false)));
            for process in ours.chain(theirs).collect::<Vec<_>>() {
                let finished = process.join().map_err(|_| anyhow!("a thread panicked"))??;
                same(&finished, &written)?;
            }
            anyhow::Ok(())
        })?;
    }
    // From here on there are only files.
    plane.stop_apiserver(Signal::KILL)?;
    let runtime = runtime()?;
    ensure!(runtime.block_on(discovery(&runtime, &plane)?.groups()).is_err());
    same(&ours(&plane, of_kubectl.path(), true)?, &written)?;
    same(&theirs(&plane, of_us.path(), true)?, &written).context("kubectl on our files")?;
    same(&ours(&plane, of_us.path(), true)?, &written).context("our own files")
}

fn a_group_whose_server_is_down_is_named(server: Server) -> Result<()> {
    let plane = ControlPlane::start(Options::on(server))?;
    let runtime = runtime()?;
    let discovery = discovery(&runtime, &plane)?;
    let place = match server {
        Server::Real => {
            plane.kubectl_with(&["create", "-f", "-"], NOBODY)?;
            GroupVersion::new("down.example", "v1")
        }
        // It has no servers behind it, so one of its own documents fails.
        Server::Development => {
            let fault = Fault::Status { code: 503, retry_after: None };
            let rule = FaultRule { path: Some("/apis/autoscaling/v2".to_owned()), ..FaultRule::new(fault) };
            plane.development().context("the development server")?.faults().add(rule);
            GroupVersion::new("autoscaling", "v2")
        }
    };
    let forms = match server {
        Server::Real => vec![discovery.clone(), discovery.legacy()],
        Server::Development => vec![discovery.legacy()],
    };
    for live in forms {
        let mapper = RestMapper::new(CachedDiscovery::in_memory(live.clone()));
        poll::until("the group to be named", SOON, || {
            let all = runtime.block_on(live.groups_and_resources()).map_err(|error| error.to_string())?;
            let failed: Vec<_> = all.failed.iter().map(|failed| failed.group_version.clone()).collect();
            let there = all.iter().any(|resource| resource.plural == "deployments");
            Ok::<_, String>(failed == [place.clone()] && there)
        })?;
        runtime.block_on(async {
            ensure!(mapper.resolve("deploy").await?.gvk.kind == "Deployment");
            ensure!(mapper.resolve("po").await?.gvk.kind == "Pod");
            let error = mapper.mapping(&place.group, "Anything", &[&place.version]).await.unwrap_err();
            let MappingError::Unavailable { failed, .. } = &error else { bail!("{error:?}") };
            ensure!(failed.group_version == place && failed.error.status().is_some_and(|s| s.code == 503));
            let error = mapper.resolve("nothing").await.unwrap_err();
            ensure!(error.to_string().contains(&format!("could not be asked: {place}")), "{error}");
            Ok(())
        })?;
    }
    if server == Server::Real {
        let cache = tempfile::tempdir()?;
        let (ours, theirs) = (ours(&plane, cache.path(), false)?, theirs(&plane, cache.path(), false)?);
        // kubectl says nothing of what is missing.
        ensure!(ours.stdout == theirs.stdout, "{}\n{}", ours.stdout, theirs.stdout);
        ensure!(!ours.status.success() && ours.stderr.contains("down.example/v1"), "{}", ours.stderr);
        // From the files, ours still know what is missing.
        let first = self::ours(&plane, cache.path(), true)?;
        ensure!(first.stderr.contains("down.example") && first.stdout == ours.stdout, "{}", first.stderr);
    }
    Ok(())
}
