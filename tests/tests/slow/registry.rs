//! Components in a real OCI registry: pulled, run by a host, with the printed rights alone on a real API server, and signed
//! with cosign. At full length only, since registry and cosign are built for it, and the host with the feature `oci`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::go_program::{COSIGN, REGISTRY};
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, marked};
use pilothouse_tests::process::{self, Finished};
use pilothouse_tests::rbac::{self, allow};
use pilothouse_tests::registry::RegistryProgram;
use pilothouse_tests::{Audit, Cluster, ControlPlane, Host, Signal, cli, full, guests, or_skip};
use serde_json::{Value, json};

/// Where the tenant works, on a server of each test's own.
const SHOP: &str = "shop";
const KIND: &str = "pilothouse.dev/v1alpha1/Plugin";
/// The plugin on the host.
const NAME: &str = "shop/noop";
/// Time limit of cosign.
const COSIGN_ENDS: Duration = Duration::from_secs(60);

/// `pilothouse ARGS` with the registry's address and login.
fn pilothouse(dir: &Path, registry: &RegistryProgram, args: &[&str]) -> Result<Finished> {
    let (plain, login) =
        (format!("http://{}", registry.address()), registry.docker_config().join("config.json"));
    let login = login.to_str().context("a path")?;
    cli::run(dir, &[args, &["--component-hosts", &plain, "--docker-config", login]].concat())
}

/// Pushes a file of the folder; `spec.source` of a Plugin that runs it.
fn push(dir: &Path, registry: &RegistryProgram, file: &str) -> Result<Value> {
    registry.push("team/noop", file.trim_end_matches(".wasm"), &fs::read(dir.join(file))?)
}

fn text<'a>(source: &'a Value, field: &str) -> Result<&'a str> {
    source[field].as_str().with_context(|| format!("{source} has no {field}"))
}

/// Starts a host that runs the Plugins of the tenant's namespace, which must exist, and puts the login of the registry there.
fn host(
    cluster: &Cluster,
    kubeconfig: &Path,
    dir: &Path,
    registry: &RegistryProgram,
    more: &[&str],
) -> Result<Host> {
    let mut options = HostOptions::new(kubeconfig);
    options.dir = Some(dir.to_owned());
    let plain = format!("http://{}", registry.address());
    let args = ["--plugins-from-cluster", SHOP, "--component-hosts", &plain];
    options.args = args.iter().chain(more).map(|arg| (*arg).to_owned()).collect();
    let host = Host::start(options)?;
    let printed = cli::pilothouse(&host, &["crd", "--plugins"])?;
    cluster.create(&serde_saphyr::from_str::<Value>(&printed.stdout)?)?;
    host.wait_for("the host to be ready", SOON, || host.get("/readyz").map(|answer| answer.status == 200))?;
    cluster.create(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": SHOP, "name": "login"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": BASE64_STANDARD.encode(registry.login().to_string())},
    }))?;
    Ok(host)
}

fn create(cluster: &Cluster, source: &Value) -> Result<Value> {
    cluster.create(&json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "metadata": {"namespace": SHOP, "name": "noop"},
        "spec": {
            "source": source,
            "serviceAccount": {"namespace": SHOP, "name": "robot"},
            "permissions": [
                {"groups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"], "namespaces": [SHOP]},
            ],
        },
    }))
}

#[test]
fn a_component_is_pulled_and_run_with_a_login() -> Result<()> {
    full::only(|| {
        or_skip(|| {
            REGISTRY.require()?;
            pulled_and_run()
        })
    })
}

fn pulled_and_run() -> Result<()> {
    let registry = RegistryProgram::start()?;
    let plane = ControlPlane::start(Options::on(Server::Development))?;
    let cluster = Cluster::of(&plane)?;
    let dir = tempfile::Builder::new().prefix("oci-").tempdir()?;
    let component = fs::read(guests::wasm("noop")?)?;
    fs::write(dir.path().join("noop.wasm"), &component)?;

    let source = push(dir.path(), &registry, "noop.wasm")?;
    let artifact = text(&source, "oci")?;
    let plain = format!("http://{}", registry.address());
    let pull = ["pull", artifact, "--out", "pulled.wasm", "--component-hosts", &plain];
    let refused = cli::run(dir.path(), &pull)?;
    ensure!(
        refused.stderr.contains("the registry asks for a login; name one in --docker-config"),
        "{refused:?}"
    );
    let pulled = pilothouse(dir.path(), &registry, &["pull", artifact, "--out", "pulled.wasm"])?;
    ensure!(pulled.status.success() && pulled.stdout.contains(text(&source, "digest")?), "{pulled:?}");
    ensure!(fs::read(dir.path().join("pulled.wasm"))? == component);

    cluster.namespace(SHOP)?;
    let host = host(&cluster, plane.kubeconfig(), dir.path(), &registry, &[])?;
    create(&cluster, &source)?;
    plugins::wait_until(&host, NAME, "without a login", |status| {
        let error = status.last_error.as_deref().unwrap_or_default();
        error.contains("the registry asks for a login; name one in spec.source.pullSecret")
    })?;
    cluster.merge(KIND, SHOP, "noop", &json!({"spec": {"source": {"pullSecret": "login"}}}))?;
    let running = plugins::wait_running(&host, NAME)?;
    ensure!(running.digest == text(&source, "digest")?, "{running:?}");
    cluster.delete(KIND, SHOP, "noop")
}

#[test]
fn a_host_with_the_printed_rights_pulls_with_the_login_of_a_tenant() -> Result<()> {
    full::only(|| {
        or_skip(|| {
            REGISTRY.require()?;
            Server::Real.require()?;
            pulled_with_the_printed_rights()
        })
    })
}

fn pulled_with_the_printed_rights() -> Result<()> {
    const ACCOUNT: (&str, &str) = ("oci-host", "pilothouse");
    let registry = RegistryProgram::start()?;
    let audit = Audit::start(Server::Real)?;
    let (plane, cluster) = (audit.plane(), Cluster::of(audit.plane())?);
    let dir = tempfile::Builder::new().prefix("oci-").tempdir()?;
    let dir = dir.path();
    for namespace in [ACCOUNT.0, SHOP] {
        cluster.namespace(namespace)?;
    }
    let of_host = ["--plugins-from-cluster", SHOP, "--no-leader-election", "--no-admin-tokens", "--no-pod"];
    let kubeconfig = rbac::grant(plane, dir, ACCOUNT, &of_host)?;
    plane.kubectl(&["create", "serviceaccount", "robot", "-n", SHOP])?;
    let login = ["--verb=get", "--resource=secrets", "--resource-name=login"];
    allow(plane, SHOP, "login", (SHOP, "robot"), &login)?;
    allow(plane, SHOP, "robot", (SHOP, "robot"), &["--verb=get,list,watch", "--resource=configmaps"])?;
    allow(plane, SHOP, "watched", ACCOUNT, &["--verb=list,watch", "--resource=configmaps"])?;
    fs::copy(guests::wasm("noop")?, dir.join("noop.wasm"))?;
    let mut source = push(dir, &registry, "noop.wasm")?;
    source["pullSecret"] = json!("login");
    let host = host(&cluster, &kubeconfig, dir, &registry, &[])?;
    create(&cluster, &source)?;
    plugins::wait_running(&host, NAME)?;
    host.signal(Signal::TERM)?;
    ensure!(host.wait_exit(SOON)?.success(), "{}", host.log().tail(20));
    // Nothing is recorded twice.
    rbac::check(&audit, ACCOUNT, &["patch events"]).map(drop)
}

#[test]
fn a_host_that_requires_signatures_runs_what_cosign_has_signed() -> Result<()> {
    full::only(|| {
        or_skip(|| {
            REGISTRY.require()?;
            COSIGN.require()?;
            signed()
        })
    })
}

/// Runs cosign in a folder with its key, with the registry's login and without services of others.
fn cosign(dir: &Path, registry: &RegistryProgram, args: &[&str]) -> Result<()> {
    let mut command = Command::new(COSIGN.built()?);
    command.current_dir(dir).args(args).env("HOME", dir);
    command.env("COSIGN_PASSWORD", "").env("DOCKER_CONFIG", registry.docker_config());
    let finished = process::run(&mut command, "", COSIGN_ENDS)?;
    ensure!(finished.status.success(), "{args:?}: {finished:?}");
    Ok(())
}

fn signed() -> Result<()> {
    let registry = RegistryProgram::start()?;
    let plane = ControlPlane::start(Options::on(Server::Development))?;
    let cluster = Cluster::of(&plane)?;
    let dir = tempfile::Builder::new().prefix("oci-").tempdir()?;
    let dir = dir.path();
    cosign(dir, &registry, &["generate-key-pair"])?;
    let sign = |source: &Value| {
        let artifact = text(source, "oci")?.trim_start_matches("oci://");
        let args =
            ["sign", "--key", "cosign.key", "--yes", "--use-signing-config=false", "--tlog-upload=false"];
        cosign(dir, &registry, &[&args[..], &[artifact]].concat())
    };
    let key = dir.join("cosign.pub");
    let key = key.to_str().context("a path")?;
    let absent = format!("oci://{}/team/none@sha256:{:064}", registry.address(), 0);
    let refused =
        pilothouse(dir, &registry, &["pull", &absent, "--out", "none.wasm", "--signature-key", key])?;
    ensure!(
        !refused.status.success() && refused.stderr.contains("answered 404 Not Found for the manifest"),
        "{refused:?}"
    );
    let require = ["--signatures", "require", "--signature-key", key];
    cluster.namespace(SHOP)?;
    let host = host(&cluster, plane.kubeconfig(), dir, &registry, &require)?;

    // The second one replaces the first one, whose signature is not its own.
    for file in ["one.wasm", "two.wasm"] {
        fs::write(dir.join(file), marked(&guests::wasm("noop")?, file)?)?;
        let mut source = push(dir, &registry, file)?;
        source["pullSecret"] = json!("login");
        match cluster.get(KIND, SHOP, "noop")? {
            None => create(&cluster, &source)?,
            Some(_) => cluster.merge(KIND, SHOP, "noop", &json!({"spec": {"source": source}}))?,
        };
        plugins::wait_until(&host, NAME, "without a signature", |status| {
            let error = status.last_error.as_deref().unwrap_or_default();
            error.contains("this host runs signed components alone") && error.contains("has no signature")
        })?;
        let artifact = text(&source, "oci")?;
        let pull = ["pull", artifact, "--out", "pulled.wasm", "--signature-key", key];
        let refused = pilothouse(dir, &registry, &pull)?;
        ensure!(!refused.status.success() && refused.stderr.contains("has no signature"), "{refused:?}");
        sign(&source)?;
        let digest = text(&source, "digest")?;
        plugins::wait_until(&host, NAME, "running, signed", |status| {
            status.state == "running" && status.digest == digest
        })?;
        let pulled = pilothouse(dir, &registry, &pull)?;
        ensure!(pulled.status.success(), "{pulled:?}");
    }
    cluster.delete(KIND, SHOP, "noop")
}
