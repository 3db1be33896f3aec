//! `pilothouse test`: cases that pass, that fail, and that cannot; what is said of each.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use pilothouse_testkit::paths::repository;
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::process::Finished;
use pilothouse_tests::{cli, guests};
use serde_json::json;

/// A folder with a component, its manifest `p.yaml`, and files of fixtures.
fn folder(guest: &str, manifest: &str, files: &[(&str, &str)]) -> Result<tempfile::TempDir> {
    let dir = tempfile::Builder::new().prefix("test-").tempdir()?;
    fs::copy(guests::wasm(guest)?, dir.path().join("p.wasm"))?;
    fs::write(dir.path().join("p.yaml"), manifest)?;
    for (name, content) in files {
        put(dir.path(), name, content)?;
    }
    Ok(dir)
}

fn put(dir: &Path, name: &str, content: &str) -> Result<()> {
    let path = dir.join("fixtures").join(name);
    fs::create_dir_all(path.parent().context("it has a folder")?)?;
    Ok(fs::write(path, content)?)
}

fn example(name: &str) -> Result<String> {
    let text = fs::read_to_string(repository().join(format!("examples/{name}/{name}.yaml")))?;
    Ok(text.replace(&format!("{}.wasm", name.replace('-', "_")), "p.wasm"))
}

/// pods-per-node with these fixtures.
fn pods_per_node(files: &[(&str, &str)]) -> Result<tempfile::TempDir> {
    folder("pods_per_node", &example("pods-per-node")?, files)
}

/// A probe that reads ConfigMaps, with these fixtures.
fn probe(config: serde_json::Value, files: &[(&str, &str)]) -> Result<tempfile::TempDir> {
    let manifest = Manifest::new("p").reads(&["configmaps"], "*").config(config).to_string();
    folder("probe", &manifest, files)
}

fn test(dir: &Path, args: &[&str]) -> Result<Finished> {
    cli::run(dir, &[&["test", "p.wasm"], args].concat())
}

/// The cases failed, and the output has these texts.
fn ensure_failed(tested: &Finished, wanted: &[&str]) -> Result<()> {
    ensure!(tested.status.code() == Some(1), "{tested:?}");
    for text in wanted {
        ensure!(tested.stdout.contains(text), "no {text:?} in\n{}\n{}", tested.stdout, tested.stderr);
    }
    Ok(())
}

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: worker-1}\n";
const COUNT: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: pods-on-worker-1}\ndata: {total: \"0\"}\n";
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n";
/// A case that must end before its time is over: that is longer than the test may take.
const PATIENT: &str = "apiVersion: pilothouse.dev/v1alpha1\nkind: TestCase\nspec: {timeout: 1h}\n";
/// A case that is known to come to nothing; what it does before takes less, also on a busy machine.
const HASTY: &str = "apiVersion: pilothouse.dev/v1alpha1\nkind: TestCase\nspec: {timeout: 5s}\n";

#[test]
fn the_cases_of_the_examples_pass() -> Result<()> {
    for name in ["configmap-replicator", "namespace-quota", "pods-per-node", "sample-controller"] {
        let dir = folder(&name.replace('-', "_"), &example(name)?, &[])?;
        let fixtures = repository().join("examples").join(name).join("fixtures");
        let cases = fs::read_dir(&fixtures)?.count();
        let fixtures = fixtures.to_str().context("it is UTF-8")?;
        let tested = test(dir.path(), &["--fixtures", fixtures, "--jobs", "2"])?;
        ensure!(tested.status.success() && tested.stderr.is_empty(), "{name}: {tested:?}");
        ensure!(tested.stdout.contains(&format!("\n{cases} passed, 0 failed (")), "{name}: {tested:?}");
    }
    Ok(())
}

#[test]
fn a_failed_assert_is_shown_with_its_place_and_the_differences() -> Result<()> {
    let wrong =
        format!("# a comment\n---\n{COUNT}---\n{}", COUNT.replace("total: \"0\"", "total: \"3\", a: b"));
    let event =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {app.kubernetes.io/managed-by: nobody}}\n";
    let dir = pods_per_node(&[
        ("b-differs/00-node.yaml", NODE),
        ("b-differs/00-assert.yaml", &wrong),
        ("b-differs/case.yaml", &HASTY.replace("timeout", "description: Counts & tells., timeout")),
        ("c-absent/00-assert.yaml", &COUNT.replace("worker-1", "worker-9")),
        ("c-absent/case.yaml", HASTY),
        ("d-nearest/00-node.yaml", NODE),
        ("d-nearest/00-assert.yaml", COUNT),
        ("d-nearest/01-assert.yaml", event),
        ("d-nearest/case.yaml", HASTY),
        ("a-passes/00-node.yaml", NODE),
        ("a-passes/00-assert.yaml", COUNT),
    ])?;
    let tested = test(dir.path(), &["--junit", "report.xml", "--jobs", "3"])?;
    ensure_failed(
        &tested,
        &[
            "ok    a-passes (",
            "\nFAIL  b-differs (",
            "\n  Counts & tells.\n",
            "\n  b-differs/00-assert.yaml, document 2 (line 8): ConfigMap pods-on-worker-1 differs (after 5s)\n    \
             data:\n  -   a: b\n  -   total: \"3\"\n  +   total: \"0\"\n",
            "c-absent/00-assert.yaml, document 1 (line 1): ConfigMap pods-on-worker-9 does not exist (after 5s)\n",
            "d-nearest/01-assert.yaml, document 1 (line 1): no ConfigMap is as expected; the nearest of ",
            "  -     app.kubernetes.io/managed-by: nobody\n  +     app.kubernetes.io/managed-by: pods-per-node\n",
            "  log:\n",
            "wrote default/pods-on-worker-1 node=worker-1 total=0\n",
            "\n1 passed, 3 failed (",
        ],
    )?;
    ensure!(tested.stderr == "error: 3 of 4 cases failed\n", "{tested:?}");
    let names: Vec<&str> = ["a-passes", "b-differs", "c-absent", "d-nearest"].to_vec();
    let places: Vec<Option<usize>> =
        names.iter().map(|name| tested.stdout.find(&format!("  {name} ("))).collect();
    ensure!(places.iter().all(Option::is_some) && places.is_sorted(), "not in order: {tested:?}");
    let report = fs::read_to_string(dir.path().join("report.xml"))?;
    for text in [
        "<testsuite name=\"pods-per-node\" tests=\"4\" failures=\"3\" ",
        "<testcase name=\"a-passes\" classname=\"pods-per-node\" ",
        "<failure message=\"b-differs/00-assert.yaml, document 2 (line 8): ",
        "total: &quot;3&quot;",
        "wrote default/pods-on-worker-1",
    ] {
        ensure!(report.contains(text), "no {text:?} in {report}");
    }
    Ok(())
}

#[test]
fn an_update_brings_asserts_to_what_the_server_has_and_leaves_the_rest() -> Result<()> {
    let wrong = COUNT.replace("data: {total: \"0\"}", "data:\n  total: \"3\" # of one node");
    // One that holds for several objects, and one without a name that a single object may be meant by.
    let several = "apiVersion: v1\nkind: Namespace\n";
    let single = "apiVersion: v1\nkind: Node\nspec: {unschedulable: true} # it is not\n";
    let asserts = format!("# four\n---\n{NODE}---\n{wrong}---\n{several}---\n{single}");
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  \
        metadata: {name: pods-on-worker-1}\n  data: {total: \"9\"}\n";
    let unclear = "apiVersion: v1\nkind: ConfigMap\ndata: {total: \"9\"}\n";
    let dir = pods_per_node(&[
        ("a-differs/00-node.yaml", NODE),
        ("a-differs/00-assert.yaml", &asserts),
        ("a-differs/00-errors.yaml", &COUNT.replace("worker-1", "worker-9")),
        ("a-differs/01-assert.yaml", COUNT),
        ("a-differs/case.yaml", HASTY),
        ("aa-list/00-node.yaml", NODE),
        ("aa-list/00-assert.yaml", list),
        ("aa-list/case.yaml", HASTY),
        ("b-absent/00-assert.yaml", &COUNT.replace("worker-1", "worker-9")),
        ("b-absent/case.yaml", HASTY),
        ("c-exists/00-node.yaml", NODE),
        ("c-exists/00-assert.yaml", &wrong),
        ("c-exists/00-errors.yaml", COUNT),
        ("c-exists/case.yaml", HASTY),
        ("d-several/00-node.yaml", &format!("{NODE}---\n{}", NODE.replace("worker-1", "worker-2"))),
        ("d-several/00-assert.yaml", &format!("{COUNT}---\n{}", COUNT.replace("worker-1", "worker-2"))),
        ("d-several/01-assert.yaml", unclear),
        ("d-several/case.yaml", HASTY),
    ])?;
    let read = |name: &str| fs::read_to_string(dir.path().join("fixtures").join(name));
    let tested = test(dir.path(), &["--update", "--jobs", "4"])?;
    ensure_failed(
        &tested,
        &[
            "\n  wrote fixtures/a-differs/00-assert.yaml\nFAIL  aa-list (",
            "fixtures/aa-list/00-assert.yaml: document 1 changed meanwhile or is an item of a List: ",
            "\nFAIL  b-absent (",
            "ConfigMap pods-on-worker-9 does not exist (after 5s)\n",
            "ConfigMap default/pods-on-worker-1 exists, and should not\n",
            "d-several/01-assert.yaml, document 1 (line 1): no ConfigMap is as expected",
            "\n1 passed, 4 failed (",
        ],
    )?;
    ensure!(tested.stdout.matches("wrote fixtures/").count() == 1, "{}", tested.stdout);
    let updated = asserts.replace("\"3\"", "\"0\"").replace("true}", "null}");
    ensure!(read("a-differs/00-assert.yaml")? == updated, "{tested:?}");
    for (name, content) in [
        ("aa-list/00-assert.yaml", list),
        ("c-exists/00-assert.yaml", &wrong),
        ("d-several/01-assert.yaml", unclear),
    ] {
        ensure!(read(name)? == content, "{name}: {tested:?}");
    }
    let again = test(dir.path(), &["--filter", "a-differs"])?;
    ensure!(again.status.success(), "{again:?}");
    Ok(())
}

#[test]
fn what_should_not_be_there_is_judged_when_the_plugin_is_at_rest() -> Result<()> {
    // At the first moment it is not there.
    let dir = pods_per_node(&[("00-node.yaml", NODE), ("00-errors.yaml", COUNT), ("case.yaml", PATIENT)])?;
    ensure_failed(
        &test(dir.path(), &[])?,
        &[
            "fixtures/00-errors.yaml, document 1 (line 1): ConfigMap default/pods-on-worker-1 exists, and should not\n",
        ],
    )?;
    // A plugin that calls itself again and again is never at rest.
    let config = json!({"mode": "requeue-after", "delay": "20ms"});
    let files = [("a/00-map.yaml", MAP), ("a/00-errors.yaml", COUNT), ("a/case.yaml", HASTY)];
    ensure_failed(
        &test(probe(config, &files)?.path(), &[])?,
        &["a/00-errors.yaml, document 1 (line 1): the plugin does not come to rest: ", " (after 5s)\n"],
    )?;
    // One that is to be called in an hour is.
    let config = json!({"mode": "requeue-after", "delay": "1h"});
    let rests = test(probe(config, &files)?.path(), &[])?;
    ensure!(rests.status.success(), "{rests:?}");
    Ok(())
}

#[test]
fn a_plugin_that_cannot_do_its_work_ends_the_case_at_once() -> Result<()> {
    let files = [("a/00-map.yaml", MAP), ("a/00-assert.yaml", COUNT), ("a/case.yaml", PATIENT)];
    // It traps.
    let trapped = test(probe(json!({"mode": "trap", "onlyPrefix": "one"}), &files)?.path(), &[])?;
    ensure_failed(&trapped, &["default/one: plugin fault: ", "the probe was told to panic at default/one"])?;
    // It does what its manifest does not grant.
    let denied = test(probe(json!({"mode": "write"}), &files)?.path(), &[])?;
    ensure_failed(&denied, &["denied: plugin p: ", "patch secrets"])?;
    // It may not watch what it watches.
    let manifest = Manifest::new("p").to_string();
    let blind = test(folder("probe", &manifest, &files)?.path(), &[])?;
    ensure_failed(&blind, &["plugin not loaded: ", "list configmaps"])?;
    // It does not take its configuration.
    let refusing = PATIENT.replace("1h", "1h, config: {mode: describe-error}");
    let files = [files[0], files[1], ("a/case.yaml", &*refusing)];
    let refused = test(probe(json!({}), &files)?.path(), &[])?;
    ensure_failed(&refused, &["plugin not loaded: ", "the probe was told to refuse"])?;
    // It is no component: no case begins.
    let dir = probe(json!({}), &files)?;
    fs::write(dir.path().join("p.wasm"), "no component")?;
    let tested = test(dir.path(), &[])?;
    ensure!(tested.status.code() == Some(1) && tested.stdout.is_empty(), "{tested:?}");
    ensure!(tested.stderr.contains("p.wasm: it is no component: "), "{tested:?}");
    // A reconcile that fails is no such end: it is told of when the time is over.
    let files = [("a/00-map.yaml", MAP), ("a/00-assert.yaml", COUNT), ("a/case.yaml", HASTY)];
    let failing = test(probe(json!({"mode": "fail", "onlyPrefix": "one"}), &files)?.path(), &[])?;
    ensure_failed(
        &failing,
        &["ConfigMap pods-on-worker-1 does not exist (after 5s)", "error of the plugin: ", "told to fail"],
    )
}

#[test]
fn many_objects_and_large_ones_are_dealt_with() -> Result<()> {
    let (mut nodes, mut counts) = (String::new(), String::new());
    for number in 0..1000 {
        let name = format!("worker-{number}");
        write!(nodes, "---\n{}", NODE.replace("worker-1", &name))?;
        write!(counts, "---\n{}", COUNT.replace("worker-1", &name))?;
    }
    let large = format!("{MAP}data: {{large: {}}}\n", "x".repeat(1_000_000));
    let dir = pods_per_node(&[
        ("many/00-nodes.yaml", &nodes),
        ("many/00-assert.yaml", &counts),
        ("many/01-delete.yaml", "apiVersion: v1\nkind: Node\nmetadata: {labels: null}\n"),
        (
            "many/01-errors.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {app.kubernetes.io/managed-by: pods-per-node}}\n",
        ),
        ("large/00-map.yaml", &large),
        ("large/00-assert.yaml", &large),
        ("large/01-assert.yaml", &large.replace("xxx}", "xxy}")),
        ("large/case.yaml", HASTY),
    ])?;
    let tested = test(dir.path(), &[])?;
    ensure_failed(&tested, &["ok    many (", "large/01-assert.yaml", "1 passed, 1 failed"])?;
    ensure!(tested.stdout.contains("… (") && tested.stdout.len() < 10_000, "{}", tested.stdout.len());
    Ok(())
}

#[test]
fn files_that_are_wrong_are_refused_before_anything_runs() -> Result<()> {
    let dir = pods_per_node(&[
        ("a/00-node.yaml", NODE),
        ("a/00-assert.yaml", "apiVersion: v1\n---\nkind: Pod\n"),
        ("a/notes.yaml", MAP),
        ("b/00-assert.yaml", COUNT),
        ("b/case.yaml", &HASTY.replace("timeout", "timout")),
    ])?;
    let tested = test(dir.path(), &[])?;
    ensure!(tested.status.code() == Some(1) && tested.stdout.is_empty(), "{tested:?}");
    for text in [
        "fixtures/a/00-assert.yaml, document 1 (line 1): kind: it is missing",
        "fixtures/a/00-assert.yaml, document 2 (line 3): apiVersion: it is missing",
        "fixtures/a/notes.yaml: the name of a step is NUMBER-NAME.yaml",
        "fixtures/b/case.yaml: ",
        "timout",
    ] {
        ensure!(tested.stderr.contains(text), "no {text:?} in {}", tested.stderr);
    }
    // What the manifest does not take, and what the command line names wrongly.
    let limits = HASTY.replace("timeout: 5s", "limits: {memory: lots}");
    let dir = pods_per_node(&[("a/00-assert.yaml", COUNT), ("a/case.yaml", &limits)])?;
    let bare = tempfile::tempdir()?;
    fs::copy(dir.path().join("p.wasm"), bare.path().join("p.wasm"))?;
    for (dir, args, wanted) in [
        (dir.path(), &[][..], "a/case.yaml: with its fields the manifest is refused: "),
        (dir.path(), &["--filter", "z"], "--filter: no name of a case contains \"z\": there are a"),
        (
            dir.path(),
            &["--fixtures", "nowhere"],
            "nowhere: no folder with fixtures; name one with --fixtures",
        ),
        (bare.path(), &[], "p.wasm has no manifest, so it may do nothing"),
    ] {
        let tested = test(dir, args)?;
        ensure!(tested.status.code() == Some(1) && tested.stderr.contains(wanted), "{args:?}: {tested:?}");
    }
    let jobs = test(dir.path(), &["--jobs", "0"])?;
    ensure!(jobs.status.code() == Some(2), "{jobs:?}");
    Ok(())
}

#[test]
fn steps_write_merge_and_delete_what_the_server_takes() -> Result<()> {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: boats.yard.test}\n\
        spec:\n  group: yard.test\n  names: {kind: Boat, plural: boats}\n  scope: Namespaced\n  versions:\n  - name: v1\n    \
        served: true\n    storage: true\n    subresources: {status: {}}\n    schema:\n      openAPIV3Schema:\n        \
        type: object\n        properties:\n          spec: {type: object, properties: {crew: {type: integer}}}\n          \
        status: {type: object, properties: {afloat: {type: boolean}}}\n";
    let boat = "apiVersion: yard.test/v1\nkind: Boat\nmetadata: {name: one, namespace: yard}\n";
    let dir = probe(
        json!({}),
        &[
            // A definition and a namespace come before what stands on them, whatever the order of the files.
            ("a/00-boat.yaml", &format!("{boat}spec: {{crew: 2}}\nstatus: {{afloat: true}}\n")),
            ("a/00-definition.yaml", definition),
            ("a/00-space.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: yard}\n"),
            ("a/00-assert.yaml", &format!("{boat}spec: {{crew: 2.0}}\nstatus: {{afloat: true}}\n")),
            ("a/01-again.yaml", &format!("{boat}spec: {{crew: null}}\n")),
            ("a/01-assert.yaml", &format!("{boat}spec: {{crew: null}}\nstatus: {{afloat: true}}\n")),
            ("a/02-delete.yaml", boat),
            ("a/02-errors.yaml", "apiVersion: yard.test/v1\nkind: Boat\n"),
            ("b/00-map.yaml", &format!("{MAP}dota: {{a: b}}\n")),
            ("c/00-delete.yaml", MAP),
            ("d/00-boat.yaml", boat),
        ],
    )?;
    ensure_failed(
        &test(dir.path(), &["--jobs", "2"])?,
        &[
            "ok    a (",
            "b/00-map.yaml, document 1 (line 1): ",
            "unknown field \"dota\"",
            "c/00-delete.yaml, document 1 (line 1): no such object: ConfigMap one is not there to be deleted\n",
            "d/00-boat.yaml, document 1 (line 1): the server does not serve Boat of yard.test/v1: ",
            "\n1 passed, 3 failed (",
        ],
    )
}
