//! Generated lists of kubeconfig files, merged here and by kubectl.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use super::super::file::{Cluster, Context, Kubeconfig, User, set};
use super::{environment, find};

/// kubectl takes tens of milliseconds for each; `PROPTEST_CASES` asks for more.
const CASES: u32 = 30;

/// Fields that a generated entry may have, each with the texts that it may hold.
type Fields = &'static [(&'static str, &'static [&'static str])];

/// `ABSOLUTE` becomes a folder.
const PATHS: &[&str] = &["pki/a.pem", "b.pem", "./c.pem", "ABSOLUTE/d.pem", ""];
const CONTEXT: Fields = &[("cluster", &["a", "b", ""]), ("user", &["a", "b"]), ("namespace", &["n", ""])];
const CLUSTER: Fields = &[
    ("server", &["https://one", "https://two:6443/path", ""]),
    ("certificate-authority", PATHS),
    ("certificate-authority-data", &["Y2E="]),
    ("tls-server-name", &["name", ""]),
    ("proxy-url", &["http://proxy:3128"]),
];
const USER: Fields = &[
    ("client-certificate", PATHS),
    ("client-certificate-data", &["Y2VydA=="]),
    ("client-key", PATHS),
    ("client-key-data", &["a2V5"]),
    ("token", &["t", ""]),
    ("tokenFile", PATHS),
    ("username", &["u"]),
    ("password", &["p"]),
    ("as", &["boss"]),
];
const COMMANDS: &[&str] = &["aws", "./login", "bin/login", "/usr/bin/login"];

/// Some of the fields, each with one of its texts.
fn fields(of: Fields) -> impl Strategy<Value = Value> {
    let each: Vec<_> =
        of.iter().map(|(_, texts)| proptest::option::of(proptest::sample::select(*texts))).collect();
    each.prop_map(move |texts| {
        let mut out = Map::new();
        for ((name, _), text) in of.iter().zip(texts) {
            if let Some(text) = text {
                out.insert((*name).to_owned(), text.into());
            }
        }
        out.into()
    })
}

/// A section: absent, `null`, or up to three entries of different names; an entry may be without content.
fn section(inner: &'static str, of: BoxedStrategy<Value>) -> BoxedStrategy<Option<Value>> {
    let content = prop_oneof![1 => Just(Value::Null), 9 => of];
    let entries =
        proptest::collection::btree_map(proptest::sample::select(vec!["a", "b", "c"]), content, 0..=3);
    let entries = entries.prop_map(move |entries| {
        let entry = |(name, content)| match content {
            Value::Null => json!({"name": name}),
            content => json!({"name": name, inner: content}),
        };
        Value::from(entries.into_iter().map(entry).collect::<Vec<_>>())
    });
    prop_oneof![1 => Just(None), 1 => Just(Some(Value::Null)), 8 => entries.prop_map(Some)].boxed()
}

fn users() -> BoxedStrategy<Value> {
    let exec = proptest::option::of(proptest::sample::select(COMMANDS));
    let user = (fields(USER), exec).prop_map(|(mut user, command)| {
        if let Some(command) = command {
            user["exec"] = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": command, "interactiveMode": "Never"});
        }
        data_or_file(user, &["client-certificate", "client-key"])
    });
    user.boxed()
}

/// A file: missing, empty, or with some of the sections.
fn file() -> impl Strategy<Value = Option<String>> {
    let clusters = (fields(CLUSTER), any::<Option<bool>>()).prop_map(|(mut cluster, insecure)| {
        if let Some(insecure) = insecure {
            cluster["insecure-skip-tls-verify"] = insecure.into();
        }
        data_or_file(cluster, &["certificate-authority"])
    });
    let current = proptest::option::of(proptest::sample::select(vec!["a", "b", "c", ""]));
    let sections = (
        current,
        section("context", fields(CONTEXT).boxed()),
        section("cluster", clusters.boxed()),
        section("user", users()),
    );
    let whole = sections.prop_map(|(current, contexts, clusters, users)| {
        let mut file = json!({"apiVersion": "v1", "kind": "Config"});
        let parts = [
            ("current-context", current.map(Value::from)),
            ("contexts", contexts),
            ("clusters", clusters),
            ("users", users),
        ];
        for (name, part) in parts {
            if let Some(part) = part {
                file[name] = part;
            }
        }
        Some(file.to_string())
    });
    prop_oneof![1 => Just(None), 1 => Just(Some(String::new())), 8 => whole]
}

/// kubectl refuses to flatten what is there as data and as a file.
fn data_or_file(mut entry: Value, fields: &[&str]) -> Value {
    for field in fields {
        let data = format!("{field}-data");
        if entry.get(field).is_some_and(|path| *path != json!("")) {
            entry.as_object_mut().unwrap().remove(&data);
        }
    }
    entry
}

/// What kubectl makes of them: name to fields for each section, with the content of files.
fn of_kubectl(list: &std::ffi::OsStr) -> Value {
    let output = Command::new("kubectl")
        .args(["config", "view", "--raw", "--minify=false", "--flatten", "-o", "json"])
        .env("KUBECONFIG", list)
        .output()
        .expect("kubectl is needed to compare with");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let view: Value = serde_json::from_slice(&output.stdout).unwrap();
    let section = |name: &str, inner: &str| {
        let mut out = Map::new();
        for entry in view[name].as_array().into_iter().flatten() {
            let mut content = entry[inner].as_object().cloned().unwrap_or_default();
            // It fills in what is not in the file.
            if let Some(exec) = content.get("exec") {
                content.insert("exec".to_owned(), short(exec["command"].as_str().unwrap()).into());
            }
            if let Some(file) = content.get("tokenFile") {
                content.insert("tokenFile".to_owned(), short(file.as_str().unwrap()).into());
            }
            // It leaves out the other fields that are empty, and `false`.
            content.retain(|_, value| *value != json!("") && *value != json!(false));
            out.insert(entry["name"].as_str().unwrap().to_owned(), content.into());
        }
        Value::from(out)
    };
    let current = view["current-context"].as_str().unwrap_or_default();
    json!({
        "current": current,
        "contexts": section("contexts", "context"),
        "clusters": section("clusters", "cluster"),
        "users": section("users", "user"),
    })
}

/// The same view of what is made here.
fn of_ours(kubeconfig: &Kubeconfig) -> Value {
    fn view<T>(entries: &BTreeMap<String, T>, fields: impl Fn(&T) -> Vec<(&str, Option<String>)>) -> Value {
        let content = |entry: &T| {
            let set = fields(entry).into_iter().filter_map(|(name, text)| {
                Some((name.to_owned(), text.filter(|text| !text.is_empty())?.into()))
            });
            Value::from(set.collect::<Map<_, _>>())
        };
        entries.iter().map(|(name, entry)| (name.clone(), content(entry))).collect::<Map<_, _>>().into()
    }
    let contexts = view(&kubeconfig.contexts, |c: &Context| {
        vec![("cluster", c.cluster.clone()), ("user", c.user.clone()), ("namespace", c.namespace.clone())]
    });
    let mut clusters = view(&kubeconfig.clusters, |c: &Cluster| {
        vec![
            ("server", c.server.clone()),
            ("certificate-authority-data", data(&c.certificate_authority, &c.certificate_authority_data)),
            ("tls-server-name", c.tls_server_name.clone()),
            ("proxy-url", c.proxy_url.clone()),
        ]
    });
    for (name, cluster) in &kubeconfig.clusters {
        if cluster.insecure_skip_tls_verify == Some(true) {
            clusters[name]["insecure-skip-tls-verify"] = true.into();
        }
    }
    let users = view(&kubeconfig.users, |u: &User| {
        vec![
            ("client-certificate-data", data(&u.client_certificate, &u.client_certificate_data)),
            ("client-key-data", data(&u.client_key, &u.client_key_data)),
            ("token", u.token.clone()),
            ("tokenFile", u.token_file.as_deref().map(short)),
            ("username", u.username.clone()),
            ("password", u.password.clone()),
            ("as", u.impersonate.clone()),
            ("exec", u.exec.as_ref().and_then(|exec| set(exec.command.as_ref()).map(short))),
        ]
    });
    let current = kubeconfig.current_context.as_deref().unwrap_or_default();
    json!({"current": current, "contexts": contexts, "clusters": clusters, "users": users})
}

/// The base64 of a certificate, wherever it stands.
fn data(file: &Option<String>, data: &Option<String>) -> Option<String> {
    match set(file.as_ref()) {
        Some(path) => Some(BASE64_STANDARD.encode(std::fs::read(path).unwrap())),
        None => data.clone(),
    }
}

/// kubectl shows these paths as they are in the file.
fn short(path: &str) -> String {
    let relative = path.split_once("/folder").and_then(|(_, rest)| rest.split_once('/'));
    relative.map_or(path, |(_, relative)| relative).trim_start_matches("./").to_owned()
}

#[test]
fn files_are_merged_as_kubectl_does() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let files = proptest::collection::vec(file(), 1..=4);
    runner
        .run(&files, |files| {
            let dir = tempfile::tempdir().unwrap();
            let paths: Vec<_> =
                (0..files.len()).map(|n| dir.path().join(format!("folder{n}/config"))).collect();
            for (path, text) in paths.iter().zip(&files) {
                if let Some(text) = text {
                    let folder = path.parent().unwrap();
                    std::fs::create_dir_all(folder.join("pki")).unwrap();
                    for name in ["pki/a.pem", "b.pem", "c.pem"] {
                        let file = folder.join(name);
                        std::fs::write(&file, file.to_str().unwrap()).unwrap();
                    }
                    std::fs::write(path, text.replace("ABSOLUTE", dir.path().to_str().unwrap())).unwrap();
                }
            }
            std::fs::write(dir.path().join("d.pem"), "of all").unwrap();
            let list = std::env::join_paths(&paths).unwrap();
            let ours = find(None, &environment(&list, None, true)).unwrap();
            let ours = ours.map_or_else(Kubeconfig::default, |(_, kubeconfig)| kubeconfig);
            prop_assert_eq!(of_ours(&ours), of_kubectl(&list));
            Ok(())
        })
        .unwrap();
}

#[test]
fn both_refuse_two_entries_of_one_name_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    std::fs::write(&path, "apiVersion: v1\nkind: Config\nclusters: [{name: a}, {name: a}]\n").unwrap();
    assert!(Kubeconfig::parse(Path::new(&path), &std::fs::read_to_string(&path).unwrap()).is_err());
    let kubectl = Command::new("kubectl").args(["config", "view"]).env("KUBECONFIG", &path).output().unwrap();
    assert!(!kubectl.status.success());
}
