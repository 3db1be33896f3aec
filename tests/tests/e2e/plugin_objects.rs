//! Plugins of the cluster: a tenant's Plugin runs as its account, its status says what becomes of it, the plugin directory wins,
//! and a deleted Plugin ends. On the real server the host has the printed rights and no others, so has the tenant's account, and
//! kubectl shows the columns and the descriptions of the definition.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{Cluster, ControlPlane, Host, cli, guests, plugins, rbac};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(a_tenants_plugin_runs_and_its_status_says_what_becomes_of_it,);

/// Where the host has its account, and where the tenant works.
const HOST: &str = "objects-host";
const SHOP: &str = "objects-shop";
const KIND: &str = "pilothouse.dev/v1alpha1/Plugin";
/// The plugin on the host.
const NAME: &str = "objects-shop/counter";

/// The spec of the Plugin, with the component of a server and an account of this namespace.
fn spec(server: &str, digest: &str, account_of: &str) -> Value {
    json!({
        "source": {"url": format!("{server}/noop.wasm"), "digest": digest},
        "serviceAccount": {"namespace": account_of, "name": "robot"},
        "permissions": [
            {"groups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"], "namespaces": [SHOP]},
        ],
    })
}

/// Waits until the Plugin's conditions are these, as `True Reason`, and returns their messages.
fn wait_status(host: &Host, cluster: &Cluster, wanted: [&str; 3]) -> Result<String> {
    host.wait_for(&format!("the conditions {wanted:?}"), SOON, || {
        let plugin = cluster.get(KIND, SHOP, "counter")?.context("there is no Plugin")?;
        let status = &plugin["status"];
        let text =
            |at: usize, field: &str| status["conditions"][at][field].as_str().unwrap_or_default().to_owned();
        let found = [0, 1, 2].map(|at| format!("{} {}", text(at, "status"), text(at, "reason")));
        ensure!(
            found == wanted && status["observedGeneration"] == plugin["metadata"]["generation"],
            "{status}"
        );
        Ok(Some([0, 1, 2].map(|at| text(at, "message")).join("\n")))
    })
}

/// What `kubectl get plugins` shows: the head, and the line of the one Plugin. Cells are two blanks or more apart.
fn shown(plane: &ControlPlane, more: &[&str]) -> Result<(Vec<String>, Vec<String>)> {
    let text = plane.kubectl(&[&["get", "plugins", "-n", SHOP][..], more].concat())?;
    let mut lines = text.lines().map(|line| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect::<Vec<_>>()
    });
    Ok((lines.next().context("no head")?, lines.next().context("no Plugin")?))
}

/// The fields of a schema below a path of `kubectl explain`, with their descriptions.
fn fields(schema: &Value, path: &str, found: &mut BTreeMap<String, String>) {
    // Those of a list are those of its entries.
    let schema = if schema["items"].is_object() { &schema["items"] } else { schema };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        fields(field, &path, found);
        found.insert(path, field["description"].as_str().unwrap_or_default().to_owned());
    }
}

/// The fields of the definition of Plugins.
fn fields_of(definition: &Value) -> Result<BTreeMap<String, String>> {
    let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").context("no schema")?;
    let mut found = BTreeMap::new();
    fields(schema, "plugins", &mut found);
    Ok(found)
}

#[test]
fn every_field_of_a_plugin_has_a_description() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("objects-").tempdir()?;
    let printed = cli::run(dir.path(), &["crd", "--plugins"])?;
    let fields = fields_of(&serde_saphyr::from_str(&printed.stdout)?)?;
    // Those of a rule are there twice: at home, and in remote clusters.
    for path in ["plugins.spec.source.pullSecret", "plugins.spec.remoteClusters.permissions.names"] {
        ensure!(fields.contains_key(path), "no {path}: {fields:#?}");
    }
    let is_sentence = |text: &str| text.ends_with('.') && text.contains(' ');
    let bare: Vec<_> = fields.iter().filter(|(_, text)| !is_sentence(text)).collect();
    ensure!(bare.is_empty(), "not described: {bare:#?}");
    Ok(())
}

/// Checks that kubectl tells the description of each field.
fn check_explained(plane: &ControlPlane, definition: &Value) -> Result<()> {
    let fields = fields_of(definition)?;
    let mut by_parent: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, text) in &fields {
        let (parent, _) = path.rsplit_once('.').context("no parent")?;
        by_parent.entry(parent).or_default().push(text);
    }
    for (parent, texts) in by_parent {
        let args = ["explain", parent, "--api-version=pilothouse.dev/v1alpha1"];
        // The server publishes the schema some time after the kind.
        let said =
            poll::until(&format!("kubectl explain {parent}"), SOON, || plane.kubectl(&args).map(Some))?;
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in texts {
            ensure!(said.contains(text), "kubectl explain {parent} does not say {text:?}: {said}");
        }
    }
    Ok(())
}

/// A kubeconfig for the host: on the real server with a token of an account that has the rights of `pilothouse rbac`.
fn kubeconfig(server: Server, plane: &ControlPlane, dir: &Path) -> Result<PathBuf> {
    if server != Server::Real {
        return Ok(plane.kubeconfig().to_owned());
    }
    let of_host = ["--plugins-from-cluster", SHOP, "--no-leader-election", "--no-pod"];
    let path = rbac::grant(plane, dir, (HOST, "pilothouse"), &of_host)?;
    // What plugins of the namespace may watch.
    let watched = ["--verb=list,watch", "--resource=configmaps"];
    rbac::allow(plane, SHOP, "watched", (HOST, "pilothouse"), &watched)?;
    Ok(path)
}

fn a_tenants_plugin_runs_and_its_status_says_what_becomes_of_it(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = Cluster::of(plane)?;
    for namespace in [HOST, SHOP] {
        cluster.namespace(namespace)?;
    }
    let dir = tempfile::Builder::new().prefix("objects-").tempdir()?;
    let component = fs::read(guests::wasm("noop")?)?;
    let newer = plugins::marked(&guests::wasm("noop")?, "newer")?;
    let [first, second] = [component.clone(), newer.clone()].map(plugins::serve);
    let (first, second) = (first?, second?);
    let mut options = HostOptions::new(kubeconfig(server, plane, dir.path())?);
    options.dir = Some(dir.path().to_owned());
    let hosts = format!("{first},{second}");
    options.args = ["--plugins-from-cluster", SHOP, "--component-hosts", &hosts].map(str::to_owned).into();
    let host = Host::start(options)?;
    host.wait_for("the host to miss the kind", SOON, || {
        let answer = host.get("/readyz")?;
        ensure!(answer.body.contains("`pilothouse crd --plugins | kubectl apply -f -`"), "{}", answer.body);
        Ok(true)
    })?;
    let status = cli::pilothouse(&host, &["status", "--admin", host.admin()])?;
    ensure!(status.stdout.starts_with("not ready: the cluster has no kind Plugin"), "{status:?}");
    let lines = || {
        let lines = host.log().matching("\"plugins_unlisted\"");
        lines.iter().filter(|line| line.contains("has no kind Plugin")).count()
    };
    host.wait_for("a line about it", SOON, || lines() > 0)?;
    let printed = cli::pilothouse(&host, &["crd", "--plugins"])?;
    ensure!(printed.status.success(), "{printed:?}");
    let definition = serde_saphyr::from_str::<Value>(&printed.stdout)?;
    cluster.create(&definition)?;
    host.wait_for("the host to be ready", SOON, || host.get("/readyz").map(|answer| answer.status == 200))?;
    ensure!(lines() == 1, "retries are no news: {}", lines());

    let digest = plugins::digest(&component);
    // A key to reconcile.
    cluster.config_map(SHOP, "one")?;
    // A Plugin that acts as the account of another namespace.
    cluster.create(&json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
        "metadata": {"namespace": SHOP, "name": "counter"}, "spec": spec(&first, &digest, HOST),
    }))?;
    let messages = wait_status(&host, &cluster, ["False Refused", "False NotAccepted", "False Failed"])?;
    ensure!(messages.contains("namespace \"objects-host\" is not that of the Plugin"), "{messages}");
    let change = |spec: Value| cluster.merge(KIND, SHOP, "counter", &json!({"spec": spec}));
    change(json!({"serviceAccount": {"namespace": SHOP}}))?;

    // The development server has no rules of access.
    if server == Server::Real {
        let messages = wait_status(&host, &cluster, ["True Accepted", "False Waiting", "False Waiting"])?;
        let wanted = "ServiceAccount objects-shop/robot may not";
        ensure!(messages.contains(wanted), "{messages}");
        let (_, row) = shown(plane, &["-o", "wide"])?;
        ensure!(row.iter().any(|cell| cell.contains(wanted)), "{row:?}");
        let verbs = "--verb=get,list,watch";
        plane.kubectl(&["create", "role", "robot", verbs, "--resource=configmaps", "-n", SHOP])?;
        let robot = format!("--serviceaccount={SHOP}:robot");
        plane.kubectl(&["create", "rolebinding", "robot", "--role=robot", &robot, "-n", SHOP])?;
    }
    let runs = ["True Accepted", "True Loaded", "True Running"];
    wait_status(&host, &cluster, runs)?;
    let plugin = plugins::wait_until(&host, NAME, "called", |plugin| plugin.calls > 0)?;
    ensure!(plugin.digest == digest && plugin.state == "running", "{plugin:?}");
    let status = cli::pilothouse(&host, &["status", NAME, "--admin", host.admin()])?;
    ensure!(status.stdout.contains("objects-shop/robot"), "{status:?}");
    if server == Server::Real {
        let (head, row) = shown(plane, &[])?;
        ensure!(head == ["NAME", "READY", "REASON", "LOADED", "ACCOUNT", "AGE"], "{head:?}");
        ensure!(row.len() == 6 && row[..5] == ["counter", "True", "Running", "True", "robot"], "{row:?}");
        let (head, row) = shown(plane, &["-o", "wide"])?;
        ensure!(head.len() == 8 && head[6..] == ["MESSAGE", "DIGEST"], "{head:?}");
        ensure!(row.last() == Some(&digest), "{row:?}");
        check_explained(plane, &definition)?;
    }

    // Another component than the Plugin demands: what runs goes on.
    let other = format!("sha256:{:064}", 0);
    change(json!({"source": {"digest": other}}))?;
    let messages = wait_status(&host, &cluster, ["True Accepted", "False Waiting", "True Running"])?;
    ensure!(messages.contains(&format!("its digest is {digest}")), "{messages}");
    change(json!({"source": {"digest": digest}}))?;
    wait_status(&host, &cluster, runs)?;

    // A file of the plugin directory with the same name.
    let file = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
        "metadata": {"namespace": SHOP, "name": "counter"}, "spec": {"permissions": spec(&first, &digest, SHOP)["permissions"]},
    });
    host.install("counter", &guests::wasm("noop")?, Some(&file.to_string()))?;
    let in_directory = ["False InPluginDirectory", "False NotAccepted", "False NotAccepted"];
    wait_status(&host, &cluster, in_directory)?;
    let current = || -> Result<Value> {
        let detail: Value = serde_json::from_str(&host.get(&format!("/plugins/{NAME}"))?.ok()?)?;
        Ok(detail["current"].clone())
    };
    // On the real server the host itself may watch, and has no account to ask about.
    host.wait_for("the plugin of the file to run", SOON, || {
        current().map(|current| current.is_object() && current["serviceAccount"].is_null())
    })?;
    host.remove("counter")?;
    wait_status(&host, &cluster, runs)?;
    ensure!(current()?["serviceAccount"] == json!("objects-shop/robot"));

    // Another component, of another server.
    let url = format!("{second}/noop.wasm");
    change(json!({"source": {"url": url, "digest": plugins::digest(&newer)}}))?;
    wait_status(&host, &cluster, runs)?;
    ensure!(plugins::status(&host, NAME)?.digest == plugins::digest(&newer));

    cluster.delete(KIND, SHOP, "counter")?;
    host.wait_for("the plugin to end", SOON, || plugins::all(&host).map(|plugins| plugins.is_empty()))
}
