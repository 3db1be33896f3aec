//! Which file is read, as kubectl chooses.

use super::*;

fn write(dir: &Path, name: &str, context: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!("{{apiVersion: v1, kind: Config, current-context: {context}}}");
    std::fs::write(&path, text).unwrap();
    path
}

fn chosen(named: Option<&Path>, environment: &Environment) -> Option<String> {
    find(named, environment).unwrap().and_then(|(_, kubeconfig)| kubeconfig.current_context)
}

#[test]
fn the_named_file_goes_before_the_variable_before_the_home_before_the_pod() {
    let dir = tempfile::tempdir().unwrap();
    let named = write(dir.path(), "named", "named");
    let listed = write(dir.path(), "listed", "listed");
    write(dir.path(), ".kube/config", "home");
    let mut environment =
        Environment { kubeconfig: listed.into(), home: Some(dir.path().to_owned()), pod: true };
    assert_eq!(chosen(Some(&named), &environment).as_deref(), Some("named"));
    assert_eq!(chosen(None, &environment).as_deref(), Some("listed"));
    environment.kubeconfig = OsString::new();
    assert_eq!(chosen(None, &environment).as_deref(), Some("home"));
    environment.home = Some(dir.path().join("nobody"));
    assert_eq!(chosen(None, &environment), None);
}

#[test]
fn files_of_the_variable_are_merged_and_may_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let paths =
        [dir.path().join("missing"), write(dir.path(), "a", "first"), write(dir.path(), "b", "second")];
    let kubeconfig = std::env::join_paths(paths).unwrap();
    let environment = Environment { kubeconfig, home: None, pod: false };
    assert_eq!(chosen(None, &environment).as_deref(), Some("first"));
}

#[test]
fn nothing_to_read_outside_of_a_pod_names_what_was_looked_for() {
    let environment = Environment { kubeconfig: "/nowhere/a:/nowhere/b".into(), home: None, pod: false };
    let message = find(None, &environment).unwrap_err().to_string();
    assert!(message.contains("/nowhere/a, /nowhere/b") && message.contains("--kubeconfig"), "{message}");
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
fn messages_of_the_parser_are_kept_without_values() {
    assert_eq!(
        without_values("invalid type: string \"s3cret\", expected a map\n 1 | token: s3cret"),
        "invalid type: string \"…\", expected a map"
    );
}
