//! Objects from files: which files, in which order, what is made of them, and what errors say.

use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_devserver::{Seeded, StartError};
use serde_json::json;
use tempfile::TempDir;

use crate::client::{CONFIG_MAPS, Cluster, PODS, version};
use crate::definitions::{BOATS, boats};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: one}\n";

#[tokio::test]
async fn a_folder_of_files_documents_and_lists() {
    let cluster = Cluster::start().await;
    let documents =
        format!("# first\n---\n{MAP}---\n---\n{}...\n", MAP.replace("name: a", "name: b, namespace: yard"));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "yard"}},
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "d"}]},
            "status": {"phase": "Running"},
        },
    ]});
    let folder = folder(&[
        ("1.yaml", &documents),
        ("2.json", &list.to_string()),
        ("3.yml", &MAP.replace("name: a", "name: c")),
        ("empty.yaml", ""),
        ("notes.txt", "not: [an object"),
    ]);
    fs::create_dir(folder.path().join("deeper.yaml")).unwrap();
    let seeded = cluster.server.seed(folder.path()).unwrap();
    assert_eq!(seeded, Seeded { created: 5, updated: 0 });
    let names = |list: &serde_json::Value| {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&cluster.get(CONFIG_MAPS).await.ok()), ["a", "c"]);
    assert_eq!(names(&cluster.get("/api/v1/namespaces/yard/configmaps").await.ok()), ["b"]);
    assert_eq!(cluster.get(&format!("{PODS}/p")).await.ok()["status"]["phase"], "Running");
}

#[tokio::test]
async fn definitions_may_stand_behind_their_objects() {
    let cluster = Cluster::start().await;
    let boat = json!({
        "apiVersion": "yard.test/v1", "kind": "Boat", "metadata": {"name": "a", "namespace": "yard"},
        "spec": {"crew": 2}, "status": {"crew": 1},
    });
    let folder = folder(&[
        ("1-boat.json", &boat.to_string()),
        ("2-namespace.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: yard}}"),
        ("3-definition.json", &boats().to_string()),
    ]);
    assert_eq!(cluster.server.seed(folder.path()).unwrap().created, 3);
    let made = cluster.get(&format!("{}/a", BOATS.replace("default", "yard"))).await.ok();
    assert_eq!((&made["spec"], &made["status"]), (&json!({"crew": 2}), &json!({"crew": 1})));
}

#[tokio::test]
async fn a_second_time_brings_objects_up_to_date() {
    let cluster = Cluster::start().await;
    let folder = folder(&[("a.yaml", MAP), ("definition.json", &boats().to_string())]);
    let file = folder.path().join("a.yaml");
    cluster.server.seed(folder.path()).unwrap();
    let before = cluster.server.revision();
    assert_eq!(cluster.server.seed(folder.path()).unwrap(), Seeded { created: 0, updated: 2 });
    assert_eq!(cluster.server.revision(), before, "nothing has changed");
    cluster.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"other": "kept"}})).await.ok();
    fs::write(&file, MAP.replace("one", "two")).unwrap();
    let made = cluster.get(&format!("{CONFIG_MAPS}/a")).await.ok();
    assert_eq!(cluster.server.seed(&file).unwrap(), Seeded { created: 0, updated: 1 });
    let updated = cluster.get(&format!("{CONFIG_MAPS}/a")).await.ok();
    assert_eq!(updated["data"], json!({"key": "two", "other": "kept"}));
    assert_eq!(updated["metadata"]["uid"], made["metadata"]["uid"]);
    assert!(version(&updated) > version(&made));
    // A field that is in the file no more goes; those of others stay.
    fs::write(&file, MAP.replace("key: one", "")).unwrap();
    cluster.server.seed(&file).unwrap();
    let updated = cluster.get(&format!("{CONFIG_MAPS}/a")).await.ok();
    assert_eq!(updated["data"], json!({"other": "kept"}));
}

#[tokio::test]
async fn an_error_names_the_file_the_document_and_the_reason() {
    let cluster = Cluster::start().await;
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n---\n";
    let missing = "apiVersion: yard.test/v1\nkind: Boat\nmetadata: {name: a}\n";
    let elsewhere = MAP.replace("name: a", "name: a, namespace: nowhere");
    for (text, document, reason) in [
        (format!("{good}a: [1\n"), 2, "not YAML"),
        (format!("{good}{missing}"), 2, "yard.test/v1 Boat is not served"),
        (format!("{good}{}", MAP.replace("name: a", "name: A_b")), 2, "metadata.name"),
        (format!("{good}---\n{elsewhere}"), 3, "nowhere"),
        (format!("{good}just text\n"), 2, "no apiVersion or no kind"),
        ("kind: ConfigMap\n".to_owned(), 1, "no apiVersion or no kind"),
        ("apiVersion: v1\nkind: List\nitems: [{kind: Boat}]\n".to_owned(), 1, "no apiVersion or no kind"),
        ("apiVersion: v1\nkind: List\nitems: {a: b}\n".to_owned(), 1, "items"),
        ("apiVersion: v1\nkind: ConfigMap\n".to_owned(), 1, "name"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: [1]}\n".to_owned(),
            1,
            "metadata.labels",
        ),
    ] {
        let folder = folder(&[("objects.yaml", &text)]);
        let file = folder.path().join("objects.yaml");
        let error = cluster.server.seed(folder.path()).unwrap_err();
        let told = error.to_string();
        // Two documents stand behind a mark each, at the end of the good one.
        let line = [1, 5, 6][document - 1];
        let start = format!("{}, document {document} (line {line}): ", file.display());
        assert!(told.starts_with(&start), "{text}: {told}");
        assert!(told.contains(reason), "{reason}: {told}");
        assert!(matches!(error, StartError::Object { path, .. } if path == file));
    }
    let names = cluster.get(CONFIG_MAPS).await.ok();
    assert_eq!(names["items"].as_array().unwrap().len(), 1, "those before it stay");
    assert_eq!(names["items"][0]["metadata"]["name"], "good");
}

#[tokio::test]
async fn what_cannot_be_read_is_named() {
    let cluster = Cluster::start().await;
    let missing = PathBuf::from("/nowhere/at/all.yaml");
    let error = cluster.server.seed(&missing).unwrap_err();
    assert!(matches!(&error, StartError::Read { path, .. } if *path == missing), "{error}");
    assert!(error.to_string().contains("/nowhere/at/all.yaml"), "{error}");
    let folder = folder(&[]);
    let binary = folder.path().join("binary.yaml");
    fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    let error = cluster.server.seed(folder.path()).unwrap_err();
    assert!(error.to_string().contains("binary.yaml"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(cluster.server.seed(Path::new(empty.path())).unwrap(), Seeded::default());
}
