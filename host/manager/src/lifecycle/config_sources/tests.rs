//! What entries hold and how they are merged; files on a disk; objects on the development server.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_client::{ApiResource, ClientOptions, DeleteParams, WriteParams};
use pilothouse_devserver::{DevServer, DevServerOptions, Fault, FaultRule, When};
use pilothouse_object::Gvk;
use serde_json::json;

use super::entry::keys;
use super::object::Kind;
use super::*;
use crate::testing::FakeRules;

const SECRET: &str = "hunter2-and-more";

fn map(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("{value} is no object") };
    map
}

fn merged(own: Value, from: Vec<Value>) -> Result<MergedConfig, Unusable> {
    MergedConfig::new(&map(own), from.into_iter().map(|holds| (Arc::new(map(holds)), false)).collect())
}

fn json_of(config: &MergedConfig) -> Value {
    serde_json::from_slice(config.json()).unwrap()
}

/// The `data` of a Secret.
fn secret_data<const N: usize>(data: [(&str, &[u8]); N]) -> Value {
    data.into_iter().map(|(key, value)| (key.to_owned(), Value::String(STANDARD.encode(value)))).collect()
}

fn of_secret<const N: usize>(data: [(&str, &[u8]); N]) -> Result<Value, String> {
    keys(Kind::Secret, json!({"data": secret_data(data)}).to_string().as_bytes()).map(Value::Object)
}

#[test]
fn later_entries_win_key_by_key_at_the_top_level() {
    let own = json!({"a": {"x": 1}, "b": 2});
    let config = merged(own, vec![json!({"a": {"y": 2}, "c": 3}), json!({"c": 4, "d": [5]})]).unwrap();
    assert_eq!(json_of(&config), json!({"a": {"y": 2}, "b": 2, "c": 4, "d": [5]}));
}

#[test]
fn each_key_of_a_secret_is_a_string_and_documents_are_merged() {
    let read = of_secret([
        ("a.json", br#"{"port": 1, "name": "document", "deep": {"on": true}}"#),
        ("b.yaml", b"port: 2\nuser: me\n"),
        ("c.yml", b"list: [1]\n"),
        ("name", b"key"),
        ("password", b" line\n"),
    ])
    .unwrap();
    // Documents in the order of their keys, and over them the keys that are one value each.
    let wanted = json!({
        "port": 2, "name": "key", "deep": {"on": true}, "user": "me", "list": [1], "password": " line\n",
    });
    assert_eq!(read, wanted);
    assert_eq!(keys(Kind::Secret, b"{}").unwrap(), Map::new());
}

#[test]
fn the_values_of_a_config_map_are_taken_as_they_are() {
    let read =
        keys(Kind::ConfigMap, br#"{"data": {"index": "ZXZlbnRz", "more.json": "{\"x\": 1}"}}"#).unwrap();
    assert_eq!(Value::Object(read), json!({"index": "ZXZlbnRz", "x": 1}));
}

#[test]
fn what_is_no_text_or_no_document_is_refused_by_its_key_and_not_quoted() {
    let binary = [SECRET.as_bytes(), b"\xff"].concat();
    let document = format!("password: {SECRET}\n  user: {SECRET}\n");
    let cases = [
        (of_secret([("good", b"x"), ("token", &binary)]), "key \"token\": it is not UTF-8 text"),
        (of_secret([("es.json", &binary)]), "key \"es.json\": it is not UTF-8 text"),
        (of_secret([("es.yaml", document.as_bytes())]), "key \"es.yaml\": it does not hold one JSON or YAML"),
        (of_secret([("es.yml", format!("- {SECRET}").as_bytes())]), "key \"es.yml\": it does not hold one"),
    ];
    for content in
        ["hunter2", "- hunter2", "a: b: hunter2", "a: \"hunter2", "hunter2: *hunter2", "\u{feff}{hunter2"]
    {
        let error = entry::document(content.as_bytes()).unwrap_err();
        assert!(error.starts_with("it does not hold one JSON or YAML object"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let raw = |text: Value| keys(Kind::Secret, text.to_string().as_bytes()).map(Value::Object);
    let map = |text: Value| keys(Kind::ConfigMap, text.to_string().as_bytes()).map(Value::Object);
    let more = [
        (raw(json!({"data": {"token": format!("{SECRET}!")}})), "key \"token\": it is not base64"),
        (raw(json!({"data": SECRET})), "its data is not of the API's form"),
        (map(json!({"binaryData": {"logo.json": SECRET}})), "key \"logo.json\": it is binary"),
    ];
    for (read, wanted) in cases.into_iter().chain(more) {
        let error = read.unwrap_err();
        assert!(error.starts_with(wanted), "{error:?} does not begin with {wanted:?}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_configuration_has_a_mebibyte_at_most() {
    let entry = |size: usize| json!({"filler": SECRET.repeat(size / SECRET.len())});
    assert!(merged(json!({}), vec![entry(MOST_BYTES / 2), entry(MOST_BYTES / 2)]).is_ok());
    let two = vec![entry(MOST_BYTES / 2), json!({"more": SECRET.repeat(MOST_BYTES / 2 / SECRET.len())})];
    let error = merged(json!({}), two).unwrap_err();
    assert!(!error.waits && error.message.contains("the maximum is 1048576"), "{error:?}");
    assert!(!error.message.contains(SECRET));
}

#[test]
fn a_configuration_is_neither_printed_nor_quoted() {
    let quotes = format!("{SECRET}\"with quotes\"");
    let from = json!({
        "password": SECRET, "deep": [{"token": quotes}], "pin": 123_456, "line": format!("{SECRET}-line\n"), "on": true,
        "short": "a",
    });
    let config = merged(json!({"endpoint": "http://localhost"}), vec![from]).unwrap();
    let debug = format!("{config:?} {:?}", Ok::<_, Unusable>(config.clone()));
    assert!(!debug.contains("hunter2") && !debug.contains("localhost"), "{debug}");

    let text = format!(
        "field `deep`: invalid type: string {quotes:?}, expected a map; {SECRET} {SECRET}-line integer `123456`; true, a, \
         http://localhost"
    );
    assert_eq!(
        config.hide(text),
        "field `deep`: invalid type: string \"[hidden]\", expected a map; [hidden] [hidden] integer `[hidden]`; true, a, \
         http://localhost"
    );
}

#[test]
fn members_are_secret_unless_a_config_map_has_the_last_word() {
    let from = |holds: Value, is_open| (Arc::new(map(holds)), is_open);
    let config = MergedConfig::new(
        &map(json!({"own": 1, "a": 1})),
        vec![
            from(json!({"a": 2, "b": 2, "c": 2}), false),
            from(json!({"b": 3, "d": 3}), true),
            from(json!({"d": 4}), false),
        ],
    );
    assert_eq!(*config.unwrap().secret_members(), ["a", "c", "d"]);
}

/// Sources whose entries are told by hand.
fn by_hand(entries: usize) -> (ConfigSources, mpsc::Sender<(usize, Read)>) {
    let (sender, reports) = mpsc::channel(16);
    let sources = ConfigSources {
        own: map(json!({"own": 1})),
        is_open: vec![false; entries],
        holds: vec![None; entries],
        reports,
        stale: false,
        told: None,
        _tasks: JoinSet::new(),
    };
    (sources, sender)
}

fn waiting(message: &str) -> Unusable {
    Unusable { message: message.to_owned(), waits: true }
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_told_once_and_what_is_the_same_not_at_all() {
    let (mut sources, sender) = by_hand(2);
    let send = async |index, holds: Value| sender.send((index, Ok(Arc::new(map(holds))))).await.unwrap();
    send(1, json!({"b": 1})).await;
    // One has not answered yet.
    assert!(tokio::time::timeout(LONGEST_BURST, sources.next()).await.is_err());
    send(0, json!({"a": 1})).await;
    let begin = Instant::now();
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "a": 1, "b": 1}));
    assert_eq!(begin.elapsed(), Duration::ZERO, "the first is wanted soon");

    send(0, json!({"a": 2})).await;
    send(1, json!({"b": 2})).await;
    send(1, json!({"b": 3})).await;
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "a": 2, "b": 3}));
    assert_eq!(begin.elapsed(), QUIET);

    send(1, json!({"b": 4})).await;
    send(1, json!({"b": 3})).await;
    assert!(tokio::time::timeout(LONGEST_BURST, sources.next()).await.is_err(), "nothing has changed");
}

#[tokio::test(start_paused = true)]
async fn a_burst_without_end_is_told_too() {
    let (mut sources, sender) = by_hand(1);
    sender.send((0, Ok(Arc::new(map(json!({"n": -1})))))).await.unwrap();
    sources.next().await.unwrap();
    let busy = tokio::spawn(async move {
        for n in 0.. {
            sender.send((0, Ok(Arc::new(map(json!({"n": n})))))).await.unwrap();
            tokio::time::sleep(QUIET / 2).await;
        }
    });
    let begin = Instant::now();
    sources.next().await.unwrap();
    assert_eq!(begin.elapsed(), LONGEST_BURST);
    busy.abort();
}

#[tokio::test(start_paused = true)]
async fn what_came_before_a_call_was_dropped_is_told_by_the_next() {
    let (mut sources, sender) = by_hand(1);
    sender.send((0, Ok(Arc::new(map(json!({"n": 1})))))).await.unwrap();
    sources.next().await.unwrap();
    sender.send((0, Ok(Arc::new(map(json!({"n": 2})))))).await.unwrap();
    assert!(tokio::time::timeout(QUIET / 2, sources.next()).await.is_err());
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "n": 2}));
}

#[tokio::test(start_paused = true)]
async fn an_error_is_told_before_the_rest_has_answered_and_once() {
    let (mut sources, sender) = by_hand(2);
    sender.send((1, Err(waiting("absent")))).await.unwrap();
    assert_eq!(sources.next().await.unwrap_err(), waiting("absent"));
    sender.send((1, Err(waiting("absent")))).await.unwrap();
    assert!(tokio::time::timeout(LONGEST_BURST, sources.next()).await.is_err());
    sender.send((0, Ok(Arc::default()))).await.unwrap();
    sender.send((1, Ok(Arc::default()))).await.unwrap();
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1}));
}

fn manifest(config_from: &Value) -> Manifest {
    let text = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "p"},
        "spec": {"config": {"own": 1}, "configFrom": config_from},
    });
    Manifest::parse(text.to_string().as_bytes()).unwrap()
}

async fn server() -> (DevServer, Client) {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let options = ClientOptions { server: Some(server.url()), ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    (server, client)
}

fn sources(client: &Client, config_from: &Value) -> ConfigSources {
    ConfigSources::new(&manifest(config_from), &shared(client))
}

fn shared(client: &Client) -> SharedSources {
    let reviews = AccessReviews::new(Arc::new(FakeRules::default()));
    SharedSources::new(client.clone(), Availability::new(), reviews, None)
}

async fn files(paths: &[&Path]) -> ConfigSources {
    let options = ClientOptions { server: Some("http://127.0.0.1:9".to_owned()), ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    sources(&client, &paths.iter().map(|path| json!({"file": path})).collect())
}

#[tokio::test]
async fn a_manifest_without_entries_has_one_configuration() {
    let mut sources = files(&[]).await;
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1}));
    assert!(tokio::time::timeout(Duration::from_millis(50), sources.next()).await.is_err());
    assert!(sources._tasks.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_mounted_secret_is_read_again_when_its_links_are_swapped() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("..data");
    for version in ["1", "2"] {
        fs::create_dir(dir.path().join(version)).unwrap();
        // The same size, and maybe the same time.
        fs::write(dir.path().join(version).join("es.json"), format!(r#"{{"n": {version}}}"#)).unwrap();
    }
    std::os::unix::fs::symlink("1", &link).unwrap();
    std::os::unix::fs::symlink("..data/es.json", dir.path().join("es.json")).unwrap();
    let mut sources = files(&[&dir.path().join("es.json")]).await;
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "n": 1}));
    std::os::unix::fs::symlink("2", dir.path().join("swap")).unwrap();
    fs::rename(dir.path().join("swap"), &link).unwrap();
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "n": 2}));
}

#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_used_are_named_and_not_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("es.yaml");
    let mut sources = files(&[&path]).await;
    let mut error = async |wanted: &str| {
        let error = sources.next().await.unwrap_err();
        let place = format!("spec.configFrom[0].file: {}: {wanted}", path.display());
        assert!(error.message.starts_with(&place) && !error.waits, "{error:?}");
        assert!(!error.message.contains("hunter2"), "{error:?}");
    };
    error("it cannot be read: No such file").await;
    fs::write(&path, format!("a: {SECRET}\n  b: [{SECRET}\n")).unwrap();
    error("it does not hold one JSON or YAML object (line ").await;
    fs::write(&path, format!("a: {}\n", SECRET.repeat(MOST_BYTES / SECRET.len()))).unwrap();
    error("it is larger than 1048576 bytes").await;
    let aliases = "*a, ".repeat(99);
    fs::write(&path, format!("a: &a {}\nb: [{aliases}]\n", SECRET.repeat(MOST_BYTES / SECRET.len() / 50)))
        .unwrap();
    error("it has more than 1048576 bytes as JSON").await;
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    error("it is not a regular file").await;
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "a: 1\n").unwrap();
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "a": 1}));
}

#[tokio::test(start_paused = true)]
async fn a_file_is_read_below_the_folder_of_the_host_whatever_links_lead_to() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret.yaml"), format!("a: {SECRET}\n")).unwrap();
    fs::create_dir(dir.path().join("1")).unwrap();
    fs::write(dir.path().join("1/es.yaml"), "a: 1\n").unwrap();
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
    // As in a mounted Secret.
    link(Path::new("1"), "..data");
    link(Path::new("..data/es.yaml"), "es.yaml");
    link(&outside.path().join("secret.yaml"), "file");
    link(outside.path(), "folder");
    let options = ClientOptions { server: Some("http://127.0.0.1:9".to_owned()), ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    let reviews = AccessReviews::new(Arc::new(FakeRules::default()));
    let under = Some(dir.path().to_owned());
    let shared = SharedSources::new(client, Availability::new(), reviews, under);
    let read = async |name: &str| {
        let manifest = manifest(&json!([{"file": dir.path().join(name)}]));
        ConfigSources::new(&manifest, &shared).next().await
    };
    assert_eq!(json_of(&read("es.yaml").await.unwrap()), json!({"own": 1, "a": 1}));
    for name in ["file", "folder/secret.yaml"] {
        let error = read(name).await.unwrap_err();
        assert!(error.message.contains("it leads out of"), "{name}: {error:?}");
    }
}

fn secrets() -> ApiResource {
    ApiResource::new(Gvk::new("", "v1", "Secret"), "secrets", true)
}

/// Creates or replaces the Secret `default/NAME`.
async fn put(client: &Client, name: &str, value: &str) {
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "default", "name": name},
        "data": secret_data([("value", value.as_bytes())]),
    });
    let (body, params) = (body.to_string(), WriteParams::default());
    let created = client.create(&secrets(), Some("default"), body.as_bytes(), &params).await;
    if created.is_err_and(|error| error.is_already_exists()) {
        let key = format!("default/{name}").parse().unwrap();
        client.update(&secrets(), &key, body.as_bytes(), &params).await.unwrap();
    }
}

async fn delete(client: &Client, name: &str) {
    let key = format!("default/{name}").parse().unwrap();
    client.delete(&secrets(), &key, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn an_object_is_waited_for_and_followed_and_others_are_not_looked_at() {
    let (_server, client) = server().await;
    put(&client, "other", "other").await;
    let from = json!([{"secretRef": {"namespace": "default", "name": "es"}}]);
    let mut sources = sources(&client, &from);
    let absent = "spec.configFrom[0].secretRef: Secret default/es does not exist; create it, or write `optional: true` there";
    assert_eq!(sources.next().await.unwrap_err(), waiting(absent));
    for value in ["one", "two"] {
        put(&client, "es", value).await;
        assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "value": value}));
    }
    delete(&client, "es").await;
    assert_eq!(sources.next().await.unwrap_err(), waiting(absent));
    put(&client, "es", "two").await;
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "value": "two"}));
}

#[tokio::test]
async fn an_object_that_the_service_account_may_not_get_is_not_read() {
    let (server, client) = server().await;
    put(&client, "es", SECRET).await;
    let rules = FakeRules::default();
    rules.deny(&["get secrets"]);
    let reviews = AccessReviews::new(Arc::new(rules.clone()));
    let shared = SharedSources::new(client.clone(), Availability::new(), reviews, None);
    let mut manifest = manifest(&json!([{"secretRef": {"namespace": "default", "name": "es"}}]));
    manifest.service_account =
        Some(pilothouse_plugin::NamespacedName { namespace: "ns".into(), name: "robot".into() });
    let refused = ConfigSources::new(&manifest, &shared).next().await.unwrap_err();
    let words = "spec.configFrom[0].secretRef: Secret default/es: ServiceAccount ns/robot may not get secrets \"es\" in namespace default: no rule; grant it, or leave the object out";
    assert_eq!(refused, waiting(words));
    assert!(!server.requests().iter().any(|request| request.resource == "secrets" && request.verb == "list"));
    // Another account's plugin is not concerned.
    rules.deny(&["ServiceAccount ns/robot"]);
    manifest.service_account.as_mut().unwrap().name = "other".into();
    let config = ConfigSources::new(&manifest, &shared).next().await.unwrap();
    assert_eq!(json_of(&config), json!({"own": 1, "value": SECRET}));
}

#[tokio::test]
async fn an_optional_object_may_be_absent() {
    let (_server, client) = server().await;
    let from = json!([{"secretRef": {"namespace": "default", "name": "es", "optional": true}}]);
    let mut sources = sources(&client, &from);
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1}));
    put(&client, "es", "there").await;
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "value": "there"}));
    delete(&client, "es").await;
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1}));
}

#[tokio::test]
async fn a_watch_that_breaks_is_made_up_for_and_a_server_that_fails_says_nothing_about_the_object() {
    let (server, client) = server().await;
    put(&client, "es", "one").await;
    let from = json!([{"secretRef": {"namespace": "default", "name": "es"}}]);
    let mut sources = sources(&client, &from);
    // The watch ends without a word at the first event; then the server fails for a while.
    server.faults().add(FaultRule::on("watch", "secrets", Fault::Tear { after: 0 }).when(When::first(1)));
    let failure = Fault::Status { code: 500, retry_after: None };
    server.faults().add(FaultRule::on("list", "secrets", failure).when(When { skip: 1, ..When::first(2) }));
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "value": "one"}));
    put(&client, "es", "two").await;
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "value": "two"}));
    let lists = server.requests().iter().filter(|r| (&*r.verb, &*r.resource) == ("list", "secrets")).count();
    assert_eq!(lists, 4, "two good ones and two that failed");
}

#[tokio::test]
async fn a_server_that_fails_at_first_is_waited_for_and_said_to() {
    let (server, client) = server().await;
    put(&client, "es", "one").await;
    let failure = Fault::Status { code: 500, retry_after: None };
    server.faults().add(FaultRule::on("list", "secrets", failure).when(When::first(1)));
    let from = json!([{"secretRef": {"namespace": "default", "name": "es"}}]);
    let mut sources = sources(&client, &from);
    let error = sources.next().await.unwrap_err();
    assert!(error.waits && error.message.ends_with("; retrying"), "{error:?}");
    assert!(error.message.starts_with("spec.configFrom[0].secretRef: Secret default/es: "), "{error:?}");
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "value": "one"}));
}

#[tokio::test]
async fn who_may_read_and_not_watch_is_told_to_miss_a_right() {
    let (server, client) = server().await;
    put(&client, "es", "one").await;
    let refusal = Fault::Status { code: 403, retry_after: None };
    server.faults().add(FaultRule::on("watch", "secrets", refusal).when(When::first(2)));
    let from = json!([{"secretRef": {"namespace": "default", "name": "es"}}]);
    let mut sources = sources(&client, &from);
    let error = sources.next().await.unwrap_err();
    let remedy =
        "grant the host's identity the verbs list and watch on secrets \"es\" in namespace \"default\"";
    assert!(error.waits && error.message.contains(remedy), "{error:?}");
    // The second refusal is no news.
    assert_eq!(json_of(&sources.next().await.unwrap()), json!({"own": 1, "value": "one"}));
}

#[tokio::test]
async fn an_object_that_many_plugins_name_has_one_watch() {
    let (server, client) = server().await;
    put(&client, "es", "one").await;
    let shared = shared(&client);
    let of = |optional: bool| {
        let from = json!([{"secretRef": {"namespace": "default", "name": "es", "optional": optional}}]);
        ConfigSources::new(&manifest(&from), &shared)
    };
    let mut plugins: Vec<ConfigSources> = (0..50).map(|n| of(n % 2 == 0)).collect();
    for value in ["one", "two"] {
        put(&client, "es", value).await;
        for plugin in &mut plugins {
            // Those that come late may miss a value that was replaced.
            while json_of(&plugin.next().await.unwrap()) != json!({"own": 1, "value": value}) {}
        }
    }
    delete(&client, "es").await;
    assert_eq!(json_of(&plugins[0].next().await.unwrap()), json!({"own": 1}));
    assert!(plugins[1].next().await.unwrap_err().message.contains("does not exist"));
    let requests = server.requests();
    let count = |verb| requests.iter().filter(|r| (&*r.verb, &*r.resource) == (verb, "secrets")).count();
    assert_eq!((count("list"), count("watch")), (1, 1));
    // The last one ends the watch, and the next one begins another.
    drop(plugins);
    put(&client, "es", "three").await;
    assert_eq!(json_of(&of(false).next().await.unwrap()), json!({"own": 1, "value": "three"}));
}

#[tokio::test(start_paused = true)]
async fn the_tasks_end_with_the_sources() {
    let options = ClientOptions { server: Some("http://127.0.0.1:9".to_owned()), ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| json!({"file": dir.path().join(name)}));
    let before = alive();
    let sources: Vec<_> = (0..10).map(|_| sources(&client, &paths.iter().cloned().collect())).collect();
    assert!(alive() >= before + 20, "{before} {}", alive());
    drop(sources);
    tokio::time::sleep(POLLS_LATER).await;
    assert_eq!(alive(), before);
}

#[tokio::test(start_paused = true)]
async fn the_files_of_all_plugins_are_polled_by_one_task() {
    let dir = tempfile::tempdir().unwrap();
    let options = ClientOptions { server: Some("http://127.0.0.1:9".to_owned()), ..ClientOptions::default() };
    let shared = shared(&Client::new(options).await.unwrap());
    let path = |n: usize| dir.path().join(format!("{n}.json"));
    let write = |n: usize, value: usize| fs::write(path(n), json!({"n": value}).to_string()).unwrap();
    (0..20).for_each(|n| write(n, n));
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let mut plugins: Vec<ConfigSources> =
        (0..20).map(|n| ConfigSources::new(&manifest(&json!([{"file": path(n)}])), &shared)).collect();
    for (n, plugin) in plugins.iter_mut().enumerate() {
        assert_eq!(json_of(&plugin.next().await.unwrap()), json!({"own": 1, "n": n}));
    }
    tokio::time::sleep(POLLS_LATER).await;
    // One that waits for each entry, and the poller.
    assert_eq!(alive(), before + 20 + 1);
    (0..20).for_each(|n| write(n, n + 100));
    for (n, plugin) in plugins.iter_mut().enumerate() {
        assert_eq!(json_of(&plugin.next().await.unwrap()), json!({"own": 1, "n": n + 100}));
    }
}

/// Long enough for every file to be looked at again.
const POLLS_LATER: Duration = Duration::from_secs(10);
