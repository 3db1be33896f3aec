//! Which file is read, as kubectl chooses; how several become one, compared with kubectl itself; service accounts.

mod merge;

use std::ffi::OsString;
use std::path::PathBuf;

use super::file::Kubeconfig;
use super::file::without_values;
use super::*;
use crate::proxy::ProxyVariables;

fn environment(kubeconfig: impl Into<OsString>, home: Option<PathBuf>, pod: bool) -> Environment {
    Environment {
        kubeconfig: kubeconfig.into(),
        home,
        service: pod.then(|| ("10.96.0.1".to_owned(), "443".to_owned())),
        proxies: ProxyVariables::default(),
    }
}

fn write(dir: &Path, name: &str, context: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!("{{apiVersion: v1, kind: Config, current-context: {context}}}");
    std::fs::write(&path, text).unwrap();
    path
}

fn current(named: Option<&Path>, environment: &Environment) -> Option<String> {
    find(named, environment).unwrap().and_then(|(_, kubeconfig)| kubeconfig.current_context)
}

#[test]
fn the_named_file_goes_before_the_variable_before_the_home_before_the_pod() {
    let dir = tempfile::tempdir().unwrap();
    let named = write(dir.path(), "named", "named");
    let listed = write(dir.path(), "listed", "listed");
    write(dir.path(), ".kube/config", "home");
    let mut environment = environment(listed, Some(dir.path().to_owned()), true);
    assert_eq!(current(Some(&named), &environment).as_deref(), Some("named"));
    assert_eq!(current(None, &environment).as_deref(), Some("listed"));
    environment.kubeconfig = OsString::new();
    assert_eq!(current(None, &environment).as_deref(), Some("home"));
    environment.home = Some(dir.path().join("nobody"));
    assert_eq!(current(None, &environment), None);
}

#[test]
fn files_of_the_variable_are_merged_and_may_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let paths =
        [dir.path().join("missing"), write(dir.path(), "a", "first"), write(dir.path(), "b", "second")];
    let environment = environment(std::env::join_paths(paths).unwrap(), None, false);
    assert_eq!(current(None, &environment).as_deref(), Some("first"));
}

#[test]
fn nothing_to_read_outside_of_a_pod_names_what_was_looked_for() {
    let environment = environment("/nowhere/a:/nowhere/b", None, false);
    let message = find(None, &environment).err().unwrap().to_string();
    assert!(message.contains("/nowhere/a, /nowhere/b") && message.contains("--kubeconfig"), "{message}");
}

#[test]
fn files_are_utf_8_with_or_without_a_byte_order_mark() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let text = "current-context: wide";
    std::fs::write(&path, [b"\xef\xbb\xbf", text.as_bytes()].concat()).unwrap();
    assert_eq!(current(Some(&path), &environment("", None, false)).as_deref(), Some("wide"));
    std::fs::write(&path, b"\xc3\x28").unwrap();
    let message = find(Some(&path), &environment("", None, false)).err().unwrap().to_string();
    assert!(message.contains("not text") && message.contains("UTF-8"), "{message}");
}

#[test]
fn what_is_there_twice_or_of_another_kind_is_refused() {
    let refused = |text: &str| Kubeconfig::parse(Path::new("/f"), text).err().unwrap().to_string();
    let message = refused("users: [{name: a, user: {token: s3cret}}, {name: a}]");
    assert!(message.contains("/f: users holds two") && message.contains("\"a\""), "{message}");
    assert!(refused("kind: Secret").contains("expected kind: Config"));
    assert!(refused("apiVersion: v2").contains("expected apiVersion: v1"));
}

#[test]
fn a_service_account_is_a_cluster_and_a_user_whose_files_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let account = |host: &str, port: &str| in_cluster(dir.path(), host, port);
    let message = account("10.96.0.1", "443").err().unwrap().to_string();
    assert!(message.contains("ca.crt") && message.contains("automountServiceAccountToken"), "{message}");
    for (name, text) in [("ca.crt", "ca"), ("token", "token"), ("namespace", "mine\n")] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let chosen = account("10.96.0.1", "443").unwrap();
    let path = |name: &str| Some(dir.path().join(name).to_str().unwrap().to_owned());
    assert_eq!(chosen.cluster.server.as_deref(), Some("https://10.96.0.1:443"));
    assert_eq!(chosen.cluster.certificate_authority, path("ca.crt"));
    assert_eq!(chosen.user.token_file, path("token"));
    assert_eq!(chosen.namespace.as_deref(), Some("mine"));
    let wide = account("fd00::1", "6443").unwrap();
    assert_eq!(wide.cluster.server.as_deref(), Some("https://[fd00::1]:6443"));
    assert!(account("a", "").err().unwrap().to_string().contains("KUBERNETES_SERVICE_PORT"));
    assert!(account("", "1").err().unwrap().to_string().contains("KUBERNETES_SERVICE_HOST"));
}

#[test]
fn addresses_must_be_whole() {
    for (server, why) in [
        ("10.0.0.1:6443", "not an address"),
        ("host:6443", "does not begin with"),
        ("ftp://host", "does not begin with"),
        ("https://user:word@host", "user name"),
        ("https://host/?a=b", "query"),
        ("", "not an address"),
    ] {
        let message = parse_server(server, "server").unwrap_err().to_string();
        assert!(message.contains("https://HOST:PORT"), "{message}");
        if why != "not an address" {
            assert!(message.contains(why), "{server}: {message}");
        }
        assert!(!message.contains("word"), "{message}");
    }
    assert!(parse_server("https://[::1]:6443/k8s/clusters/c-1", "server").is_ok());
}

#[test]
fn a_context_without_a_kubeconfig_is_an_error_and_not_the_cluster_of_the_pod() {
    let options =
        |context: &str| ClientOptions { context: Some(context.to_owned()), ..ClientOptions::default() };
    let error = |context| match chosen(&options(context), &environment("", None, true)) {
        Err(error) => error.to_string(),
        Ok(chosen) => chosen.source,
    };
    assert!(error("east").starts_with("no context \"east\": there is no kubeconfig"), "{}", error("east"));
    // As without one: the pod is asked for, whose files this test has not.
    assert!(!error("").contains("no context"), "{}", error(""));
}

#[test]
fn messages_of_the_parser_are_kept_without_values() {
    assert_eq!(
        without_values("invalid type: string \"s3cret\", expected a map\n 1 | token: s3cret"),
        "invalid type, expected a map"
    );
    for (message, kept) in [
        ("unsupported tag `!s3cret`", "unsupported tag"),
        ("duplicate mapping key: s3cret, set another", "duplicate mapping key"),
        ("invalid value: string \"a\\\"`[s3cret\", expected a map", "invalid value, expected a map"),
        ("invalid type: string \"x, expected s3cret\"", "invalid type"),
        ("duplicate mapping key: a, expected s3cret", "duplicate mapping key"),
        ("unexpected end of input", "unexpected end of input"),
    ] {
        assert_eq!(without_values(message), kept);
    }
}

#[tokio::test]
async fn a_plugin_is_told_the_proxy_of_the_cluster_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let credential =
        r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}"#;
    let info = dir.path().join("info");
    for (proxy, told) in [("", None), ("proxy-url: 'http://cluster:1',", Some("http://cluster:1"))] {
        let text = format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {{{proxy} server: 'https://k8s', insecure-skip-tls-verify: true}}}}]\n\
             users: [{{name: a, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, \
             interactiveMode: Never, provideClusterInfo: true, \
             args: [-c, 'echo \"$KUBERNETES_EXEC_INFO\" > \"$1\"; echo \"$2\"', sh, '{}', '{credential}']}}}}}}]",
            info.display()
        );
        std::fs::write(&path, text).unwrap();
        let (source, kubeconfig) = find(Some(&path), &environment("", None, false)).unwrap().unwrap();
        let chosen = choose(&source, kubeconfig, None).unwrap();
        let variables =
            ProxyVariables { https: "http://me:s3cret@environment:1".to_owned(), ..Default::default() };
        let loaded = prepare::prepare(chosen, &variables, None).await.unwrap();
        assert!(loaded.proxy.is_some());
        let info: serde_json::Value = serde_json::from_slice(&std::fs::read(&info).unwrap()).unwrap();
        let cluster = &info["spec"]["cluster"];
        assert_eq!((cluster["server"].as_str(), cluster["proxy-url"].as_str()), (Some("https://k8s"), told));
    }
}
