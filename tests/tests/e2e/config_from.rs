//! `spec.configFrom`: what Secrets, ConfigMaps and files hold reaches the guest, a change of them makes a new generation
//! without a restart, what cannot be used leaves the one that works in place, and no value is ever told by the host.
//!
//! The guest `configured` logs length and hash of each value it has, so that a value in the log would be the host's doing.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{ControlPlane, Stage, guests};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    a_plugin_waits_for_its_secret_and_follows_it,
    entries_are_merged_in_their_order_and_each_is_followed,
    a_change_that_cannot_be_used_keeps_the_generation_and_is_told_without_values,
);

pilothouse_tests::on_the_real_server!(a_host_without_rights_says_which_and_a_role_for_the_one_name_is_enough,);

/// In every value that must not be told.
const MARK: &str = "xyzzy";
/// The same within any base64: at each of the three places at which it may begin.
const ENCODED: [&str; 3] = ["eHl6enk", "h5enp5", "4eXp6e"];

/// A stage with one ConfigMap to be reconciled and a host that logs all that it can. The plugin is called as the namespace.
fn stage(plane: &ControlPlane, name: &'static str, kubeconfig: PathBuf) -> Result<Stage> {
    let mut options = HostOptions::new(kubeconfig);
    options.env = vec![("RUST_LOG".to_owned(), "info,pilothouse=trace".to_owned())];
    let stage = Stage::with(plane, name, options)?;
    stage.cluster.config_map(name, "trigger")?;
    Ok(stage)
}

fn shared(server: Server, name: &'static str) -> Result<Stage> {
    let plane = ControlPlane::shared(server)?;
    stage(plane, name, plane.kubeconfig().to_owned())
}

fn manifest(stage: &Stage, config_from: Value) -> Manifest {
    let config = json!({"namespace": stage.namespace, "password": "of-the-manifest"});
    Manifest::new(stage.namespace)
        .config(config)
        .reads(&["configmaps"], stage.namespace)
        .with("configFrom", config_from)
}

fn install(stage: &Stage, config_from: Value) -> Result<()> {
    let manifest = manifest(stage, config_from).to_string();
    stage.host.install(stage.namespace, &guests::wasm("configured")?, Some(&manifest))
}

fn reference(stage: &Stage, name: &str) -> Value {
    json!({"namespace": stage.namespace, "name": name})
}

/// Makes a Secret or a ConfigMap. What stands in a Secret is not encoded yet.
fn create(stage: &Stage, kind: &str, name: &str, data: Value) -> Result<()> {
    let field = if kind == "Secret" { "stringData" } else { "data" };
    let object = json!({
        "apiVersion": "v1", "kind": kind, "metadata": reference(stage, name), field: data,
    });
    stage.cluster.create(&object).map(drop)
}

fn change(stage: &Stage, kind: &str, name: &str, data: Value) -> Result<()> {
    let field = if kind == "Secret" { "stringData" } else { "data" };
    stage.cluster.merge(&format!("v1/{kind}"), stage.namespace, name, &json!({field: data})).map(drop)
}

/// Waits until the plugin says what is wrong, and not with which values, on a generation.
fn wait_error(stage: &Stage, generation: u64, words: &[&str]) -> Result<plugins::Status> {
    let error = |status: &plugins::Status| status.last_error.clone().unwrap_or_default();
    let status =
        plugins::wait_until(&stage.host, stage.namespace, &format!("said to have {words:?}"), |status| {
            status.generation == generation && words.iter().all(|words| error(status).contains(words))
        })?;
    ensure!(!error(&status).contains(MARK), "{status:?}");
    Ok(status)
}

fn wait_running(stage: &Stage, generation: u64) -> Result<plugins::Status> {
    plugins::wait_until(&stage.host, stage.namespace, &format!("on generation {generation}"), |status| {
        status.generation == generation && status.state == "running" && status.last_error.is_none()
    })
}

/// Waits until a generation has told that a key of its configuration has a value.
fn wait_configured(stage: &Stage, generation: u64, key: &str, value: &str) -> Result<()> {
    let (length, hash) = (value.len().to_string(), hash(value));
    let wanted = |line: &loglines::Line| {
        line.generation == Some(generation)
            && (line.field("name"), line.field("length"), line.field("hash")) == (key, &length, &hash)
    };
    let what = format!("{} of generation {generation} to have another {key}", stage.namespace);
    stage.host.wait_for(&what, SOON, || {
        loglines::said(&stage.host, stage.namespace, "configured").iter().any(wanted)
    })
}

/// Nothing that the host shows has a value, as it is or encoded.
fn nothing_told(stage: &Stage) -> Result<()> {
    let host = &stage.host;
    let shown = ["/plugins", "/metrics"].map(|path| host.get(path)?.ok());
    for needle in ENCODED.into_iter().chain([MARK]) {
        let lines = host.log().matching(needle);
        ensure!(lines.is_empty(), "the log has {needle}: {lines:#?}");
        for shown in &shown {
            let shown = shown.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
            ensure!(!shown.contains(needle), "{needle} is shown: {shown}");
        }
    }
    Ok(())
}

/// FNV-1a, as the guest has it.
fn hash(text: &str) -> String {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}

fn value(number: u32) -> String {
    format!("{MARK}-{number}-{MARK}")
}

fn a_plugin_waits_for_its_secret_and_follows_it(server: Server) -> Result<()> {
    let stage = shared(server, "followed")?;
    install(&stage, json!([{"secretRef": reference(&stage, "es")}]))?;
    let absent =
        ["followed.yaml", "spec.configFrom[0].secretRef", "Secret followed/es does not exist; create it"];
    ensure!(wait_error(&stage, 0, &absent)?.state == "waiting");

    create(&stage, "Secret", "es", json!({"password": value(1)}))?;
    let digest = wait_running(&stage, 1)?.digest;
    wait_configured(&stage, 1, "password", &value(1))?;
    change(&stage, "Secret", "es", json!({"password": value(2)}))?;
    wait_configured(&stage, 2, "password", &value(2))?;
    ensure!(wait_running(&stage, 2)?.digest == digest, "another component");
    change(&stage, "Secret", "es", json!({"password": value(3)}))?;
    wait_configured(&stage, 3, "password", &value(3))?;

    stage.cluster.delete("v1/Secret", stage.namespace, "es")?;
    ensure!(wait_error(&stage, 3, &absent)?.state == "running");
    let calls = plugins::status(&stage.host, stage.namespace)?.calls;
    stage.cluster.change(stage.namespace, "trigger", "again")?;
    plugins::wait_until(&stage.host, stage.namespace, "called again", |status| status.calls > calls)?;
    // As it was: nothing to load.
    create(&stage, "Secret", "es", json!({"password": value(3)}))?;
    wait_running(&stage, 3)?;
    change(&stage, "Secret", "es", json!({"password": value(4)}))?;
    wait_configured(&stage, 4, "password", &value(4))?;

    // A manifest that does not name it any more is not followed by generations when it changes.
    stage.host.install_manifest(stage.namespace, &manifest(&stage, json!([])).to_string())?;
    wait_configured(&stage, 5, "password", "of-the-manifest")?;
    change(&stage, "Secret", "es", json!({"password": value(5)}))?;
    stage.host.install_manifest(
        stage.namespace,
        &manifest(&stage, json!([{"secretRef": reference(&stage, "es")}])).to_string(),
    )?;
    wait_configured(&stage, 6, "password", &value(5))?;
    nothing_told(&stage)
}

fn entries_are_merged_in_their_order_and_each_is_followed(server: Server) -> Result<()> {
    let stage = shared(server, "merged")?;
    let file = stage.host.dir().join("es.yaml");
    // A mounted Secret: the path leads over a link that is swapped.
    let swap = |number: u32, content: &str| -> Result<()> {
        let version = stage.host.dir().join(format!("v{number}"));
        fs::write(&version, content)?;
        let link = stage.host.dir().join("link");
        std::os::unix::fs::symlink(&version, &link)?;
        Ok(fs::rename(&link, &file)?)
    };
    swap(1, &format!("user: {}\npassword: {}\n", value(1), value(2)))?;
    let document = format!("{{\"endpoint\": \"{}\"}}", value(3));
    create(&stage, "ConfigMap", "es", json!({"user": value(4), "index": value(5), "es.json": document}))?;
    install(
        &stage,
        json!([
            {"file": file}, {"configMapRef": reference(&stage, "es")},
            {"secretRef": {"namespace": stage.namespace, "name": "more", "optional": true}},
        ]),
    )?;
    let has = |generation: u64, values: [(&str, u32); 4]| {
        values
            .into_iter()
            .try_for_each(|(key, number)| wait_configured(&stage, generation, key, &value(number)))
    };
    has(1, [("user", 4), ("password", 2), ("index", 5), ("endpoint", 3)])?;
    change(&stage, "ConfigMap", "es", json!({"user": value(6)}))?;
    has(2, [("user", 6), ("password", 2), ("index", 5), ("endpoint", 3)])?;
    swap(2, &format!("password: {}\n", value(7)))?;
    has(3, [("user", 6), ("password", 7), ("index", 5), ("endpoint", 3)])?;
    create(
        &stage,
        "Secret",
        "more",
        json!({"index": value(8), "es.yaml": format!("password: {}", value(9))}),
    )?;
    has(4, [("user", 6), ("password", 9), ("index", 8), ("endpoint", 3)])?;
    stage.cluster.delete("v1/Secret", stage.namespace, "more")?;
    has(5, [("user", 6), ("password", 7), ("index", 5), ("endpoint", 3)])?;
    wait_running(&stage, 5)?;
    nothing_told(&stage)
}

fn a_change_that_cannot_be_used_keeps_the_generation_and_is_told_without_values(
    server: Server,
) -> Result<()> {
    let stage = shared(server, "unusable")?;
    let file = stage.host.dir().join("es.yaml");
    create(&stage, "Secret", "es", json!({"user": value(2)}))?;
    install(&stage, json!([{"file": file}, {"secretRef": reference(&stage, "es")}]))?;
    // A file that is not there is a mistake, an object that is not there may come.
    let status =
        wait_error(&stage, 0, &["spec.configFrom[0].file", "es.yaml: it cannot be read: No such file"])?;
    ensure!(status.state == "failed", "{status:?}");
    fs::write(&file, format!("password: {}\n", value(1)))?;
    wait_configured(&stage, 1, "password", &value(1))?;

    fs::write(&file, format!("password: {}\n  oh: [{}\n", value(3), value(4)))?;
    wait_error(
        &stage,
        1,
        &["spec.configFrom[0].file", "es.yaml", "does not hold one JSON or YAML object (line"],
    )?;
    fs::write(&file, format!("password: {}\n", value(5)))?;
    wait_configured(&stage, 2, "password", &value(5))?;
    wait_running(&stage, 2)?;

    // `ff` is no UTF-8.
    let binary = json!({"data": {"cert": "/w=="}});
    stage.cluster.merge("v1/Secret", stage.namespace, "es", &binary)?;
    wait_error(&stage, 2, &["Secret unusable/es, key \"cert\": it is not UTF-8 text"])?;
    stage.cluster.merge("v1/Secret", stage.namespace, "es", &json!({"data": {"cert": null}}))?;
    wait_running(&stage, 2)?;

    // The guest itself refuses it, and quotes it.
    change(&stage, "Secret", "es", json!({"refuse": "yes", "user": value(6)}))?;
    wait_error(
        &stage,
        2,
        &["describe refused its configuration", "\"password\": \"[hidden]\"", "\"user\": \"[hidden]\""],
    )?;
    stage.cluster.merge("v1/Secret", stage.namespace, "es", &json!({"data": {"refuse": null}}))?;
    // A number is used up by the one that was refused.
    wait_configured(&stage, 4, "user", &value(6))?;
    wait_running(&stage, 4)?;

    // A load that has to wait gives way to the next.
    change(&stage, "Secret", "es", json!({"kind": "nowhere.dev/v1/Thing"}))?;
    wait_error(&stage, 4, &["cannot watch [hidden]: ", "CustomResourceDefinition"])?;
    stage.cluster.merge("v1/Secret", stage.namespace, "es", &json!({"data": {"kind": null}}))?;
    wait_configured(&stage, 6, "user", &value(6))?;
    wait_running(&stage, 6)?;
    nothing_told(&stage)
}

/// On the real server alone: the development server has no rules of access.
fn a_host_without_rights_says_which_and_a_role_for_the_one_name_is_enough() -> Result<()> {
    let plane = ControlPlane::shared(Server::Real)?;
    let namespace = "entitled";
    // The host is a user of no rights, as whom the admin acts.
    let kubeconfig: Value =
        serde_json::from_str(&plane.kubectl(&["config", "view", "--raw", "--output", "json"])?)?;
    let mut kubeconfig = kubeconfig;
    let user = kubeconfig.pointer_mut("/users/0/user").and_then(Value::as_object_mut).context("no user")?;
    user.insert("as".to_owned(), json!("host"));
    let path = plane.dir().join("kubeconfig-of-host");
    fs::write(&path, kubeconfig.to_string())?;
    let stage = stage(plane, namespace, path)?;
    let allow = |name: &str, rule: Value| -> Result<()> {
        let api = "rbac.authorization.k8s.io";
        let metadata = json!({"namespace": namespace, "name": name});
        let role =
            json!({"apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": metadata, "rules": [rule]});
        stage.cluster.create(&role)?;
        stage.cluster.create(&json!({
            "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": api, "kind": "User", "name": "host"}],
        }))?;
        Ok(())
    };
    let verbs = ["list", "watch"];
    allow("maps", json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}))?;
    create(&stage, "Secret", "es", json!({"password": value(1)}))?;
    create(&stage, "Secret", "other", json!({"password": value(2)}))?;
    install(&stage, json!([{"secretRef": reference(&stage, "es")}]))?;
    let status = wait_error(
        &stage,
        0,
        &[
            "Secret entitled/es: ",
            "User \"host\" cannot list resource \"secrets\"",
            "grant the host's identity the verbs list and watch on secrets \"es\" in namespace \"entitled\"",
        ],
    )?;
    ensure!(status.state == "waiting", "{status:?}");
    let named = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["es"], "verbs": verbs});
    allow("one-secret", named)?;
    wait_configured(&stage, 1, "password", &value(1))?;
    change(&stage, "Secret", "es", json!({"password": value(3)}))?;
    wait_configured(&stage, 2, "password", &value(3))?;
    nothing_told(&stage)
}
