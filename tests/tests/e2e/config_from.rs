//! `spec.configFrom`: what Secrets, ConfigMaps and files hold reaches the guest, a change of them makes a new generation
//! without a restart, what cannot be used leaves the one that works in place, and no value is ever told by the host.
//!
//! The guest `configured` logs length and hash of each value it has, so that a value in the log would be the host's doing.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, guests};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    a_plugin_waits_for_its_secret_and_follows_it,
    entries_are_merged_in_their_order_and_each_is_followed,
    a_change_that_cannot_be_used_keeps_the_generation_and_is_told_without_values,
);

pilothouse_tests::on_the_real_server!(a_host_without_rights_says_which_and_a_role_for_the_one_name_is_enough,);

const SOON: Duration = Duration::from_secs(60);

/// In every value that must not be told.
const MARK: &str = "xyzzy";
/// The same within any base64: at each of the three places at which it may begin.
const ENCODED: [&str; 3] = ["eHl6enk", "h5enp5", "4eXp6e"];

/// A host with one plugin, on a namespace of its own with one ConfigMap to be reconciled.
struct Stage {
    host: Host,
    cluster: Cluster,
    name: &'static str,
}

impl Stage {
    fn set(server: Server, name: &'static str) -> Result<Self> {
        let plane = ControlPlane::shared(server)?;
        Self::with(plane, name, plane.kubeconfig().to_owned())
    }

    fn with(plane: &ControlPlane, name: &'static str, kubeconfig: PathBuf) -> Result<Self> {
        let cluster = Cluster::of(plane)?;
        cluster.namespace(name)?;
        cluster.config_map(name, "trigger")?;
        // All that it can say.
        let mut options = HostOptions::new(kubeconfig);
        options.env = vec![("RUST_LOG".to_owned(), "info,pilothouse=trace".to_owned())];
        Ok(Self { host: Host::start(options)?, cluster, name })
    }

    fn manifest(&self, config_from: Value) -> Manifest {
        let config = json!({"namespace": self.name, "password": "of-the-manifest"});
        Manifest::new(self.name)
            .config(config)
            .reads(&["configmaps"], self.name)
            .with("configFrom", config_from)
    }

    fn install(&self, config_from: Value) -> Result<()> {
        let manifest = self.manifest(config_from).to_string();
        self.host.install(self.name, &guests::wasm("configured")?, Some(&manifest))
    }

    fn reference(&self, name: &str) -> Value {
        json!({"namespace": self.name, "name": name})
    }

    /// Makes a Secret or a ConfigMap. What stands in a Secret is not encoded yet.
    fn create(&self, kind: &str, name: &str, data: Value) -> Result<()> {
        let field = if kind == "Secret" { "stringData" } else { "data" };
        let object = json!({
            "apiVersion": "v1", "kind": kind, "metadata": self.reference(name), field: data,
        });
        self.cluster.create(&object).map(drop)
    }

    fn change(&self, kind: &str, name: &str, data: Value) -> Result<()> {
        let field = if kind == "Secret" { "stringData" } else { "data" };
        self.cluster.merge(&format!("v1/{kind}"), self.name, name, &json!({field: data})).map(drop)
    }

    /// Waits until the plugin says what is wrong, and not with which values, on a generation.
    fn wait_error(&self, generation: u64, words: &[&str]) -> Result<plugins::Status> {
        let error = |status: &plugins::Status| status.last_error.clone().unwrap_or_default();
        let status =
            plugins::wait_until(&self.host, self.name, &format!("said to have {words:?}"), |status| {
                status.generation == generation && words.iter().all(|words| error(status).contains(words))
            })?;
        ensure!(!error(&status).contains(MARK), "{status:?}");
        Ok(status)
    }

    fn wait_running(&self, generation: u64) -> Result<plugins::Status> {
        plugins::wait_until(&self.host, self.name, &format!("on generation {generation}"), |status| {
            status.generation == generation && status.state == "running" && status.last_error.is_none()
        })
    }

    /// Waits until a generation has told that a key of its configuration has a value.
    fn wait_configured(&self, generation: u64, key: &str, value: &str) -> Result<()> {
        let (length, hash) = (value.len().to_string(), hash(value));
        let wanted = |line: &loglines::Line| {
            line.generation == Some(generation)
                && (line.field("name"), line.field("length"), line.field("hash")) == (key, &length, &hash)
        };
        let what = format!("{} of generation {generation} to have another {key}", self.name);
        self.host
            .wait_for(&what, SOON, || loglines::said(&self.host, self.name, "configured").iter().any(wanted))
    }

    /// Nothing that the host shows has a value, as it is or encoded.
    fn nothing_told(&self) -> Result<()> {
        let host = &self.host;
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
    let stage = Stage::set(server, "followed")?;
    stage.install(json!([{"secretRef": stage.reference("es")}]))?;
    let absent =
        ["followed.yaml", "spec.configFrom[0].secretRef", "Secret followed/es does not exist; create it"];
    ensure!(stage.wait_error(0, &absent)?.state == "loading");

    stage.create("Secret", "es", json!({"password": value(1)}))?;
    let digest = stage.wait_running(1)?.digest;
    stage.wait_configured(1, "password", &value(1))?;
    stage.change("Secret", "es", json!({"password": value(2)}))?;
    stage.wait_configured(2, "password", &value(2))?;
    ensure!(stage.wait_running(2)?.digest == digest, "another component");
    stage.change("Secret", "es", json!({"password": value(3)}))?;
    stage.wait_configured(3, "password", &value(3))?;

    stage.cluster.delete("v1/Secret", stage.name, "es")?;
    ensure!(stage.wait_error(3, &absent)?.state == "running");
    let calls = plugins::status(&stage.host, stage.name)?.calls;
    stage.cluster.change(stage.name, "trigger", "again")?;
    plugins::wait_until(&stage.host, stage.name, "called again", |status| status.calls > calls)?;
    // As it was: nothing to load.
    stage.create("Secret", "es", json!({"password": value(3)}))?;
    stage.wait_running(3)?;
    stage.change("Secret", "es", json!({"password": value(4)}))?;
    stage.wait_configured(4, "password", &value(4))?;

    // A manifest that does not name it any more is not followed by generations when it changes.
    stage.host.install_manifest(stage.name, &stage.manifest(json!([])).to_string())?;
    stage.wait_configured(5, "password", "of-the-manifest")?;
    stage.change("Secret", "es", json!({"password": value(5)}))?;
    stage.host.install_manifest(
        stage.name,
        &stage.manifest(json!([{"secretRef": stage.reference("es")}])).to_string(),
    )?;
    stage.wait_configured(6, "password", &value(5))?;
    stage.nothing_told()
}

fn entries_are_merged_in_their_order_and_each_is_followed(server: Server) -> Result<()> {
    let stage = Stage::set(server, "merged")?;
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
    stage.create("ConfigMap", "es", json!({"user": value(4), "index": value(5), "es.json": document}))?;
    stage.install(json!([
        {"file": file}, {"configMapRef": stage.reference("es")},
        {"secretRef": {"namespace": stage.name, "name": "more", "optional": true}},
    ]))?;
    let has = |generation: u64, values: [(&str, u32); 4]| {
        values
            .into_iter()
            .try_for_each(|(key, number)| stage.wait_configured(generation, key, &value(number)))
    };
    has(1, [("user", 4), ("password", 2), ("index", 5), ("endpoint", 3)])?;
    stage.change("ConfigMap", "es", json!({"user": value(6)}))?;
    has(2, [("user", 6), ("password", 2), ("index", 5), ("endpoint", 3)])?;
    swap(2, &format!("password: {}\n", value(7)))?;
    has(3, [("user", 6), ("password", 7), ("index", 5), ("endpoint", 3)])?;
    stage.create(
        "Secret",
        "more",
        json!({"index": value(8), "es.yaml": format!("password: {}", value(9))}),
    )?;
    has(4, [("user", 6), ("password", 9), ("index", 8), ("endpoint", 3)])?;
    stage.cluster.delete("v1/Secret", stage.name, "more")?;
    has(5, [("user", 6), ("password", 7), ("index", 5), ("endpoint", 3)])?;
    stage.wait_running(5)?;
    stage.nothing_told()
}

fn a_change_that_cannot_be_used_keeps_the_generation_and_is_told_without_values(
    server: Server,
) -> Result<()> {
    let stage = Stage::set(server, "unusable")?;
    let file = stage.host.dir().join("es.yaml");
    stage.create("Secret", "es", json!({"user": value(2)}))?;
    stage.install(json!([{"file": file}, {"secretRef": stage.reference("es")}]))?;
    // A file that is not there is a mistake, an object that is not there may come.
    let status =
        stage.wait_error(0, &["spec.configFrom[0].file", "es.yaml: it cannot be read: No such file"])?;
    ensure!(status.state == "failed", "{status:?}");
    fs::write(&file, format!("password: {}\n", value(1)))?;
    stage.wait_configured(1, "password", &value(1))?;

    fs::write(&file, format!("password: {}\n  oh: [{}\n", value(3), value(4)))?;
    stage.wait_error(
        1,
        &["spec.configFrom[0].file", "es.yaml", "does not hold one JSON or YAML object (line"],
    )?;
    fs::write(&file, format!("password: {}\n", value(5)))?;
    stage.wait_configured(2, "password", &value(5))?;
    stage.wait_running(2)?;

    // `ff` is no UTF-8.
    let binary = json!({"data": {"cert": "/w=="}});
    stage.cluster.merge("v1/Secret", stage.name, "es", &binary)?;
    stage.wait_error(2, &["Secret unusable/es, key \"cert\": it is not UTF-8 text"])?;
    stage.cluster.merge("v1/Secret", stage.name, "es", &json!({"data": {"cert": null}}))?;
    stage.wait_running(2)?;

    // The guest itself refuses it, and quotes it.
    stage.change("Secret", "es", json!({"refuse": "yes", "user": value(6)}))?;
    stage.wait_error(
        2,
        &["describe refused its configuration", "\"password\": \"[hidden]\"", "\"user\": \"[hidden]\""],
    )?;
    stage.cluster.merge("v1/Secret", stage.name, "es", &json!({"data": {"refuse": null}}))?;
    // A number is used up by the one that was refused.
    stage.wait_configured(4, "user", &value(6))?;
    stage.wait_running(4)?;

    // A load that has to wait gives way to the next.
    stage.change("Secret", "es", json!({"kind": "nowhere.dev/v1/Thing"}))?;
    stage.wait_error(4, &["cannot watch [hidden]: ", "trying again"])?;
    stage.cluster.merge("v1/Secret", stage.name, "es", &json!({"data": {"kind": null}}))?;
    stage.wait_configured(6, "user", &value(6))?;
    stage.wait_running(6)?;
    stage.nothing_told()
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
    let stage = Stage::with(plane, namespace, path)?;
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
    let verbs = ["get", "list", "watch"];
    allow("maps", json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}))?;
    stage.create("Secret", "es", json!({"password": value(1)}))?;
    stage.create("Secret", "other", json!({"password": value(2)}))?;
    stage.install(json!([{"secretRef": stage.reference("es")}]))?;
    let status = stage.wait_error(
        0,
        &[
            "Secret entitled/es: ",
            "User \"host\" cannot list resource \"secrets\"",
            "grant the host's identity the verbs get, list and watch on secrets of the name \"es\" in the namespace \"entitled\"",
        ],
    )?;
    ensure!(status.state == "loading", "{status:?}");
    let named = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["es"], "verbs": verbs});
    allow("one-secret", named)?;
    stage.wait_configured(1, "password", &value(1))?;
    stage.change("Secret", "es", json!({"password": value(3)}))?;
    stage.wait_configured(2, "password", &value(3))?;
    stage.nothing_told()
}
