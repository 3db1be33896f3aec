//! Server-side apply as its clients see it: the library's own typed client and kube-rs, each with the same sequence of two
//! managers on both servers; and random writers beside the real libraries.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_client::{Api, Client, DeleteParams, Error, Patch, PatchKind, RestClient, WriteParams};
use pilothouse_devserver::replay_applies;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::go_program::CONTROLPLANE;
use pilothouse_tests::{Cluster, ControlPlane, full, informers, kube_rs, process};
use serde_json::{Value, json};
use tokio::runtime::Builder;

pilothouse_tests::on_both_servers!(
    two_appliers_share_an_object,
    appliers_of_one_list_own_its_elements,
    an_applied_status_is_no_part_of_the_object,
);
pilothouse_tests::on_both_servers!(full: kube_rs_shares_an_object_between_two_appliers);
pilothouse_tests::on_the_real_server!(
    bodies_are_read_alike_by_both_servers,
    random_writers_are_as_with_the_real_libraries,
);

/// Cases of the gate, and those of a run at full length.
const SAMPLE: usize = 300;
const ALL: usize = 10_000;
/// How many differences are shown.
const SHOWN: usize = 5;

/// Runs a test with a client of a server, and a namespace of its own on it.
fn with_client(server: Server, namespace: &str, test: impl AsyncFnOnce(Client) -> Result<()>) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    Cluster::of(plane)?.namespace(namespace)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { test(informers::client(plane.kubeconfig()).await?).await })
}

/// The parameters of a manager.
fn manager(name: &str) -> WriteParams {
    WriteParams { field_manager: Some(name.to_owned()), ..WriteParams::default() }
}

/// The fields that a conflict names, each with the manager that owns it.
fn conflicts(error: &Error) -> Result<Vec<(String, String)>> {
    ensure!(error.is_conflict(), "no conflict: {error:?}");
    let status = error.status().context("no status")?;
    let details = status.details.as_ref().context("no details")?;
    for cause in &details.causes {
        ensure!(cause.reason == "FieldManagerConflict", "{cause:?}");
        ensure!(status.message.contains(&cause.field), "{:?} does not name {}", status.message, cause.field);
    }
    Ok(details.causes.iter().map(|cause| (cause.field.clone(), cause.message.clone())).collect())
}

/// The managers of an object: their names, operations and subresources. Calls of [`Api`] ask the server to leave them out.
async fn managers(rest: &RestClient, resource: &str, namespace: &str) -> Result<Vec<String>> {
    let answer = rest.get().namespace(namespace).resource(resource).name("a").send().await?;
    let object: Value = serde_json::from_slice(answer.body())?;
    let entries = object["metadata"]["managedFields"].as_array().context("no managed fields")?;
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or("-").to_owned();
    let described =
        |entry: &Value| ["manager", "operation", "subresource"].map(|field| text(entry, field)).join(" ");
    Ok(entries.iter().map(described).collect())
}

fn two_appliers_share_an_object(server: Server) -> Result<()> {
    let namespace = "applied";
    with_client(server, namespace, async |client| {
        let maps: Api<ConfigMap> = Api::namespaced(&client, namespace);
        let rest = client.rest("", "v1");
        let expect = async |expected: &[&str]| -> Result<()> {
            let managers = managers(&rest, "configmaps", namespace).await?;
            ensure!(managers == expected, "{managers:?}, not {expected:?}");
            Ok(())
        };
        let (one, two) = (manager("one"), manager("two"));
        let map = |data: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        let data = |map: &ConfigMap| json!(map.data);
        let version = |map: &ConfigMap| map.metadata.resource_version.clone().unwrap_or_default();

        let dry = WriteParams { dry_run: true, ..one.clone() };
        maps.apply("a", &map(&json!({"k": "1"})), false, &dry).await?;
        ensure!(maps.get_opt("a").await?.is_none(), "a dry run kept something");

        let first = maps.apply("a", &map(&json!({"k": "1", "l": "1"})), false, &one).await?;
        ensure!(data(&first) == json!({"k": "1", "l": "1"}), "{first:?}");
        expect(&["one Apply -"]).await?;

        let again = maps.apply("a", &map(&json!({"k": "1", "l": "1"})), false, &one).await?;
        ensure!(version(&again) == version(&first), "{again:?} is another version than {first:?}");

        let error = maps.apply("a", &map(&json!({"k": "2", "m": "2"})), false, &two).await.unwrap_err();
        let expected = [(".data.k".to_owned(), "conflict with \"one\"".to_owned())];
        ensure!(conflicts(&error)? == expected, "{error:?}");
        ensure!(version(&maps.get("a").await?) == version(&first), "a conflict changed something");

        let taken = maps.apply("a", &map(&json!({"k": "2", "m": "2"})), true, &two).await?;
        ensure!(data(&taken) == json!({"k": "2", "l": "1", "m": "2"}), "{taken:?}");
        expect(&["one Apply -", "two Apply -"]).await?;

        // What both want, both own.
        maps.apply("a", &map(&json!({"l": "1", "m": "2"})), false, &one).await?;
        let left = maps.apply("a", &map(&json!({"k": "2"})), false, &two).await?;
        ensure!(data(&left) == json!({"k": "2", "l": "1", "m": "2"}), "{left:?}");

        let given_up = maps.apply("a", &map(&json!({"l": "1"})), false, &one).await?;
        ensure!(data(&given_up) == json!({"k": "2", "l": "1"}), "{given_up:?}");

        // An update takes a field from its applier, who hears of it.
        let patch = br#"{"data": {"l": "3"}}"#;
        maps.patch("a", Patch::Merge(patch), &manager("three")).await?;
        let error = maps.apply("a", &map(&json!({"l": "1"})), false, &one).await.unwrap_err();
        let expected = [(".data.l".to_owned(), "conflict with \"three\" using v1".to_owned())];
        ensure!(conflicts(&error)? == expected, "{error:?}");
        // One who applies what is there shares it.
        let shared = maps.apply("a", &map(&json!({"l": "3"})), false, &one).await?;
        ensure!(data(&shared) == json!({"k": "2", "l": "3"}), "{shared:?}");
        expect(&["one Apply -", "two Apply -", "three Update -"]).await?;

        // A version that is named must be that of the object.
        let stale = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"l": "3"},
            "metadata": {"name": "a", "resourceVersion": version(&first)}});
        let error = maps.apply("a", &stale, true, &one).await.unwrap_err();
        ensure!(
            error.is_conflict()
                && error.status().is_some_and(|s| s.details.as_ref().is_none_or(|d| d.causes.is_empty())),
            "{error:?}"
        );
        let named = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {},
            "metadata": {"name": "new", "resourceVersion": version(&first)}});
        // The version of an object that is not there counts for nothing, its UID does.
        maps.apply("new", &named, true, &one).await?;
        maps.delete("new", &DeleteParams::default()).await?;
        let uid = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "uid": "u"}});
        let error = maps.apply("new", &uid, true, &one).await.unwrap_err();
        ensure!(error.is_conflict(), "{error:?}");
        Ok(())
    })
}

fn appliers_of_one_list_own_its_elements(server: Server) -> Result<()> {
    let namespace = "applied-lists";
    with_client(server, namespace, async |client| {
        let deployments: Api<Deployment> = Api::namespaced(&client, namespace);
        let rest = client.rest("apps", "v1");
        let expect = async |expected: &[&str]| -> Result<()> {
            let managers = managers(&rest, "deployments", namespace).await?;
            ensure!(managers == expected, "{managers:?}, not {expected:?}");
            Ok(())
        };
        let (one, two) = (manager("one"), manager("two"));
        let deployment = |containers: &Value| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}},
            }})
        };
        let containers = |deployment: &Deployment| {
            let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
            let containers = spec.map(|spec| &spec.containers[..]).unwrap_or_default();
            let described = containers.iter().map(|container| {
                let env = container.env.iter().flatten().map(|env| env.name.clone());
                (container.name.clone(), container.image.clone().unwrap_or_default(), env.collect::<Vec<_>>())
            });
            json!(described.collect::<Vec<_>>())
        };
        let base = json!([{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]);
        let first = deployments.apply("a", &deployment(&base), false, &one).await?;
        let generation = |deployment: &Deployment| deployment.metadata.generation;
        ensure!(generation(&first) == Some(1), "{first:?}");

        // The second applies a part only: an object of it alone would not be valid.
        let part = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
            "template": {"spec": {"containers": [
                {"name": "c", "env": [{"name": "B", "value": "2"}]}, {"name": "d", "image": "j"},
            ]}},
        }});
        let both = deployments.apply("a", &part, false, &two).await?;
        let expected = json!([["c", "i", ["A", "B"]], ["d", "j", []]]);
        ensure!(containers(&both) == expected, "{}", containers(&both));
        ensure!(generation(&both) == Some(2), "{both:?}");
        let again = deployments.apply("a", &part, false, &two).await?;
        ensure!(again.metadata.resource_version == both.metadata.resource_version, "{again:?}");

        let error = deployments
            .apply(
                "a",
                &deployment(&json!([{"name": "c", "image": "i"}, {"name": "d", "image": "k"}])),
                false,
                &one,
            )
            .await
            .unwrap_err();
        let field = ".spec.template.spec.containers[name=\"d\"].image".to_owned();
        ensure!(conflicts(&error)? == [(field, "conflict with \"two\"".to_owned())], "{error:?}");

        // Elements that their applier gives up are gone; the container stays, which the other has too.
        let none = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
        let left = deployments.apply("a", &none, false, &two).await?;
        ensure!(containers(&left) == json!([["c", "i", ["A"]]]), "{}", containers(&left));
        expect(&["one Apply -"]).await?;
        Ok(())
    })
}

fn an_applied_status_is_no_part_of_the_object(server: Server) -> Result<()> {
    let namespace = "applied-status";
    with_client(server, namespace, async |client| {
        let deployments: Api<Deployment> = Api::namespaced(&client, namespace);
        let rest = client.rest("apps", "v1");
        let expect = async |expected: &[&str]| -> Result<()> {
            let managers = managers(&rest, "deployments", namespace).await?;
            ensure!(managers == expected, "{managers:?}, not {expected:?}");
            Ok(())
        };
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }, "status": {"replicas": 7}});
        let first = deployments.apply("a", &object, false, &manager("one")).await?;
        let replicas =
            |deployment: &Deployment| deployment.status.as_ref().and_then(|status| status.replicas);
        ensure!(replicas(&first).unwrap_or(0) == 0, "{first:?}");

        let of_status = WriteParams { subresource: Some("status".to_owned()), ..manager("two") };
        let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"replicas": 9}, "status": {"replicas": 3, "observedGeneration": 1}});
        let written = deployments.apply("a", &status, false, &of_status).await?;
        ensure!(replicas(&written) == Some(3), "{written:?}");
        ensure!(written.spec.as_ref().and_then(|spec| spec.replicas) == Some(1), "{written:?}");
        expect(&["one Apply -", "two Apply status"]).await?;

        // Nothing there to apply a status to.
        let error = deployments.apply("b", &status, false, &of_status).await.unwrap_err();
        ensure!(error.status().is_some(), "{error:?}");
        let other = WriteParams { subresource: Some("status".to_owned()), ..manager("three") };
        let mut conflicting = status.clone();
        conflicting["status"] = json!({"replicas": 4});
        let error = deployments.apply("a", &conflicting, false, &other).await.unwrap_err();
        let expected =
            (".status.replicas".to_owned(), "conflict with \"two\" with subresource \"status\"".to_owned());
        ensure!(conflicts(&error)? == [expected], "{error:?}");
        Ok(())
    })
}

fn kube_rs_shares_an_object_between_two_appliers(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let namespace = "applied-by-kube-rs";
    Cluster::of(plane)?.namespace(namespace)?;
    let mut command = Command::new(kube_rs::program()?);
    command.arg("apply").arg(plane.kubeconfig()).arg(namespace);
    let finished = process::run(&mut command, "", SOON)?;
    let expected = "\
        created {\"k\":\"1\",\"l\":\"1\"}\n\
        again: the same version\n\
        conflict: FieldManagerConflict .data.k conflict with \"one\"\n\
        forced {\"k\":\"2\",\"l\":\"1\"}\n\
        given up {\"k\":\"2\"}\n\
        managers one Apply\n\
        managers two Apply\n";
    ensure!(
        finished.status.success() && finished.stdout == expected,
        "{}:\n{}{}",
        finished.status,
        finished.stdout,
        finished.stderr
    );
    Ok(())
}

/// What becomes of the bodies of apply requests on a server.
fn answers_to_bodies(server: Server, namespace: &str, bodies: &[String]) -> Result<Vec<String>> {
    let mut answers = Vec::new();
    with_client(server, namespace, async |client| {
        for (number, body) in bodies.iter().enumerate() {
            for validation in ["Strict", "Warn", "Ignore"] {
                let name = format!("a{number}{}", validation.to_lowercase());
                let request = client.rest("", "v1").patch(PatchKind::Apply).namespace(namespace);
                let request = request.resource("configmaps").name(&name).param("fieldManager", "one");
                let request = request.param("fieldValidation", validation);
                let answer =
                    request.body("application/apply-patch+yaml", body.replace("NAME", &name)).send().await;
                answers.push(match answer {
                    Ok(answer) => {
                        let object: Value = serde_json::from_slice(answer.body())?;
                        let warned = !answer.warnings().is_empty();
                        format!("{validation} {body:?}: {} {warned}", object["data"])
                    }
                    Err(error) => {
                        let status = error.status().context("no status")?;
                        format!("{validation} {body:?}: {} {}", status.code, status.reason)
                    }
                });
            }
        }
        Ok(())
    })?;
    Ok(answers)
}

fn bodies_are_read_alike_by_both_servers() -> Result<()> {
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n";
    let json = "\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"NAME\"}";
    let bodies = [
        format!("{head}data: {{k: v}}\n"),
        format!("{head}data:\n  k: v\n  k: w\n"),
        format!("{{{json}, \"data\": {{\"k\": \"v\", \"k\": \"w\"}}}}"),
        format!("{{{json}, \"dada\": {{}}}}"),
        format!("{head}dada: {{}}\n"),
        format!("{head}data: {{k: yes}}\n"),
        format!("{head}data: {{k: 1}}\n"),
        format!("{head}data: {{k: '1', l: \"2\", m: |\n  text\n}}\n"),
        format!("{head}data:\n  k: &a v\n  l: *a\n"),
        format!("{head}data: &a {{k: v}}\nbinaryData:\n  <<: *a\n"),
        format!("{head}data: {{k: null}}\n"),
        format!("{head}data:\n"),
        format!("---\n{head}data: {{k: v}}\n"),
        format!("{head}data: {{k: v}}\n---\n{head}"),
        format!("{head}data: {{k: v}}\n...\n"),
        "[]".to_owned(),
        "a".to_owned(),
        String::new(),
        "null".to_owned(),
        "{".to_owned(),
        "a: *b".to_owned(),
    ];
    let namespace = "applied-bodies";
    let real = answers_to_bodies(Server::Real, namespace, &bodies)?;
    let ours = answers_to_bodies(Server::Development, namespace, &bodies)?;
    let different = real.iter().zip(&ours).filter(|(real, ours)| real != ours);
    let differences: Vec<String> =
        different.map(|(real, ours)| format!("--- real\n{real}\n--- ours\n{ours}")).collect();
    ensure!(
        differences.is_empty(),
        "{} of {} answers differ:\n{}",
        differences.len(),
        real.len(),
        differences.join("\n")
    );
    Ok(())
}

fn random_writers_are_as_with_the_real_libraries() -> Result<()> {
    let (seed, cases) = (full::seed(2026)?, full::or_sample(ALL, SAMPLE));
    let mut oracle = Command::new(CONTROLPLANE.built()?)
        .args(["fieldmanager", "--seed", &seed.to_string(), "--cases", &cases.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(oracle.stdout.take().context("no output")?).lines();
    let (mut compared, mut writes, mut different, mut differences) = (0, 0, 0, String::new());
    for line in lines {
        let case: Value = serde_json::from_str(&line?)?;
        match replay_applies(&case) {
            Ok(count) => writes += count,
            Err(why) => {
                different += 1;
                if different <= SHOWN {
                    let (kind, schema) = (&case["kind"], &case["schema"]);
                    let _ = writeln!(differences, "case {compared} ({kind}): {why}\n  schema {schema}");
                }
            }
        }
        compared += 1;
    }
    ensure!(oracle.wait()?.success(), "the oracle failed");
    eprintln!("{compared} cases, {writes} writes");
    ensure!(compared == cases, "{compared} of {cases} cases were compared");
    ensure!(
        different == 0,
        "{different} of {cases} cases differ, with {}={seed}:\n{differences}",
        full::SEED
    );
    Ok(())
}
