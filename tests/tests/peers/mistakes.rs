//! The commonest mistakes, and what a server says of them word by word: the only refusals whose words are those of a real server.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::sides::{Answer, Both, Request, Side, is_uid};

pilothouse_tests::on_the_real_server!(the_commonest_mistakes_are_refused_in_the_same_words);

const CORE: &str = "/api/v1/namespaces/harbour";
const APPS: &str = "/apis/apps/v1/namespaces/harbour";
const SHIPS: &str = "/apis/sea.example/v1/namespaces/harbour/ships";

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A request that is refused.
struct Mistake {
    what: &'static str,
    method: &'static str,
    /// With the query.
    path: String,
    content_type: &'static str,
    body: String,
}

fn send(what: &'static str, method: &'static str, path: String, body: impl ToString) -> Mistake {
    Mistake { what, method, path, content_type: "application/json", body: body.to_string() }
}

/// Asks for something in the namespace.
fn get(what: &'static str, path: &str) -> Mistake {
    Mistake { content_type: "", ..send(what, "GET", format!("{CORE}/{path}"), "") }
}

fn create(what: &'static str, path: &str, body: &Value) -> Mistake {
    send(what, "POST", format!("{CORE}/{path}"), body)
}

fn patch(what: &'static str, path: String, content_type: &'static str, body: impl ToString) -> Mistake {
    Mistake { content_type, ..send(what, "PATCH", path, body) }
}

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// A Deployment with these labels of its Pods and this container, which has a name and an image unless it says others.
fn deployment(name: &str, labels: &Value, container: &Value) -> Value {
    let mut whole = json!({"name": "main", "image": "a:1"});
    for (field, value) in container.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [whole]}},
    }})
}

fn service(name: &str, ports: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports}})
}

fn ship(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "sea.example/v1", "kind": "Ship", "metadata": {"name": name}, "spec": spec})
}

/// What is there before the mistakes are made.
async fn prepare(side: &Side) -> Result<()> {
    side.make_namespace("harbour").await?;
    side.make_namespace("sinking").await?;
    // Nobody ends it.
    side.write("DELETE", "/api/v1/namespaces/sinking", &[], &json!({})).await?;
    let spec = json!({"type": "object", "required": ["masts"], "properties": {
        "masts": {"type": "integer", "minimum": 1, "maximum": 5}, "rig": {"type": "string", "enum": ["sloop", "ketch"]},
    }});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.sea.example"},
        "spec": {
            "group": "sea.example", "scope": "Namespaced", "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec},
            }}}],
        },
    });
    side.define(&definition, SHIPS).await?;
    side.make(SHIPS, &ship("victory", &json!({"masts": 3}))).await?;
    side.make(&format!("{CORE}/configmaps"), &map("there", &json!({"a": "b"}))).await?;
    let good = deployment("web", &json!({"app": "a"}), &json!({}));
    side.make(&format!("{APPS}/deployments"), &good).await?;
    side.make(&format!("{CORE}/services"), &service("web", &json!([{"port": 80}]))).await?;
    side.make(&format!("{CORE}/secrets"), &json!({"metadata": {"name": "there"}})).await?;
    let applied = Mistake {
        ..patch(
            "",
            format!("{CORE}/configmaps/owned?fieldManager=one"),
            APPLY,
            map("owned", &json!({"a": "b"})),
        )
    };
    ensure!(make(side, &applied).await?.code == 201);
    Ok(())
}

fn mistakes() -> Vec<Mistake> {
    let labels = json!({"app": "a"});
    let deployments = format!("{APPS}/deployments");
    let container = |what, container: &Value| {
        send(what, "POST", deployments.clone(), deployment("wrong", &labels, container))
    };
    let configmap = |name: &str| format!("{CORE}/configmaps/{name}");
    let mut unknown = map("wrong", &json!({}));
    unknown["dta"] = json!({"a": "b"});
    let mut labelled = map("wrong", &json!({}));
    labelled["metadata"]["labels"] = json!({"a": "-b-"});
    let mut nameless = map("", &json!({}));
    nameless["metadata"] = json!({});
    let mut stale = map("there", &json!({}));
    stale["metadata"]["resourceVersion"] = "1".into();
    let mut elsewhere = map("wrong", &json!({}));
    elsewhere["metadata"]["namespace"] = "other".into();
    let mut reselected = deployment("web", &json!({"app": "b"}), &json!({}));
    reselected["spec"]["selector"]["matchLabels"]["app"] = "b".into();
    let mut words = deployment("wrong", &labels, &json!({}));
    words["spec"]["replicas"] = "three".into();
    let mut two = deployment("wrong", &labels, &json!({}));
    let containers = two["spec"]["template"]["spec"]["containers"].as_array_mut().expect("a list");
    containers.push(containers[0].clone());
    let service = |what, ports: &Value| create(what, "services", &service("wrong", ports));
    let ships = |what, spec: &Value| send(what, "POST", SHIPS.to_owned(), ship("wrong", spec));
    let preconditions = json!({"preconditions": {"uid": "another"}});
    vec![
        create("an unknown field", "configmaps?fieldValidation=Strict", &unknown),
        create("a name that is none", "configmaps", &map("Bad_Name", &json!({}))),
        create("no name", "configmaps", &nameless),
        create("a label that is none", "configmaps", &labelled),
        create("a key that is none", "configmaps", &map("wrong", &json!({"a/b": "c"}))),
        create("an object that is there", "configmaps", &map("there", &json!({}))),
        create("another namespace", "configmaps", &elsewhere),
        send(
            "a namespace that is not there",
            "POST",
            "/api/v1/namespaces/nowhere/configmaps".into(),
            map("wrong", &json!({})),
        ),
        send(
            "a namespace that ends",
            "POST",
            "/api/v1/namespaces/sinking/configmaps".into(),
            map("wrong", &json!({})),
        ),
        container("no name of a container", &json!({"name": ""})),
        container("no image", &json!({"image": ""})),
        container("a quantity that is none", &json!({"resources": {"limits": {"cpu": "much"}}})),
        container(
            "more asked for than allowed",
            &json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}),
        ),
        container("a port out of range", &json!({"ports": [{"containerPort": 70000}]})),
        container("a policy that is none", &json!({"imagePullPolicy": "Sometimes"})),
        container(
            "a mount without a volume",
            &json!({"volumeMounts": [{"name": "data", "mountPath": "/data"}]}),
        ),
        send("two containers of a name", "POST", deployments.clone(), two),
        send("a text for a number", "POST", deployments.clone(), words),
        send(
            "labels that are not selected",
            "POST",
            deployments.clone(),
            deployment("wrong", &json!({"app": "b"}), &json!({})),
        ),
        send("another selector", "PUT", format!("{APPS}/deployments/web"), reselected),
        patch("a negative count", format!("{APPS}/deployments/web"), MERGE, r#"{"spec": {"replicas": -1}}"#),
        service("two ports of a name", &json!([{"name": "a", "port": 80}, {"name": "a", "port": 81}])),
        patch(
            "another address",
            format!("{CORE}/services/web"),
            MERGE,
            r#"{"spec": {"clusterIP": "10.96.3.4", "clusterIPs": ["10.96.3.4"]}}"#,
        ),
        patch(
            "another type of a secret",
            format!("{CORE}/secrets/there"),
            MERGE,
            r#"{"type": "example.org/other"}"#,
        ),
        get("an object that is not there", "configmaps/missing"),
        send("an old version", "PUT", configmap("there"), stale),
        send("another name", "PUT", configmap("there"), map("other", &json!({}))),
        send(
            "an update without a version",
            "PUT",
            format!("{SHIPS}/victory"),
            ship("victory", &json!({"masts": 2})),
        ),
        send("another UID", "DELETE", configmap("there"), preconditions),
        patch(
            "a path that leads nowhere",
            configmap("there"),
            JSON_PATCH,
            r#"[{"op": "remove", "path": "/data/x"}]"#,
        ),
        patch(
            "a strategic patch of a custom resource",
            format!("{SHIPS}/victory"),
            "application/strategic-merge-patch+json",
            "{}",
        ),
        patch("an apply without a manager", configmap("owned"), APPLY, map("owned", &json!({"a": "c"}))),
        patch(
            "an apply of what is another's",
            configmap("owned?fieldManager=two"),
            APPLY,
            map("owned", &json!({"a": "c"})),
        ),
        ships("a field that is missing", &json!({})),
        ships("a number that is too large", &json!({"masts": 6})),
        ships("a value that is not listed", &json!({"masts": 1, "rig": "raft"})),
        ships("a type that is another", &json!({"masts": "many"})),
    ]
}

/// Mistakes of which a real server speaks in the words of its parsers; here they have others.
fn in_other_words() -> Vec<Mistake> {
    vec![
        create(
            "another kind",
            "configmaps",
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "wrong"}}),
        ),
        send("no JSON", "POST", format!("{CORE}/configmaps"), "{\"metadata\": "),
        get("a selector of labels that is none", "configmaps?labelSelector=a in b"),
        get("a field that selects nothing", "configmaps?fieldSelector=data.a=b"),
        get("a token that is none", "configmaps?limit=1&continue=abc"),
        patch("a patch that is no list", format!("{CORE}/configmaps/there"), JSON_PATCH, r#"{"op": "add"}"#),
        patch("a format that is no patch", format!("{CORE}/configmaps/there"), "application/json", "{}"),
    ]
}

async fn make(side: &Side, mistake: &Mistake) -> Result<Answer> {
    let (path, query) = mistake.path.split_once('?').unwrap_or((&mistake.path, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query: Vec<(&str, String)> = pairs.map(|(name, value)| (name, value.to_owned())).collect();
    let Mistake { method, content_type, body, .. } = mistake;
    side.send(Request { method, path, query: &query, content_type, body: body.clone() }).await
}

/// A refusal without UIDs, which each server makes itself.
fn said(answer: &Answer) -> String {
    let text = answer.body.to_string();
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = text.split_inclusive(|c| !of_word(c)).map(|piece| {
        let word = piece.trim_end_matches(|c| !of_word(c));
        if is_uid(word) { piece.replace(word, "UID") } else { piece.to_owned() }
    });
    words.collect()
}

fn the_commonest_mistakes_are_refused_in_the_same_words() -> Result<()> {
    let both = Both::start()?;
    let (in_words, others) = (mistakes(), in_other_words());
    let (real, development) = both.each(async |side| {
        prepare(side).await?;
        let mut answers = Vec::new();
        for mistake in in_words.iter().chain(&others) {
            answers.push(make(side, mistake).await?);
        }
        Ok(answers)
    })?;
    let mut differences = String::new();
    let asked = in_words.iter().map(|one| (one, true)).chain(others.iter().map(|one| (one, false)));
    for ((Mistake { what, .. }, of_words), (real, ours)) in asked.zip(real.iter().zip(&development)) {
        ensure!(real.object().is_none(), "{what}: the real server refuses nothing: {real:?}");
        let (one, other) = (said(real), said(ours));
        if real.verdict() != ours.verdict() || of_words && one != other {
            let _ = writeln!(differences, "\n{what}\n--- real\n{one}\n--- ours\n{other}");
        }
    }
    ensure!(differences.is_empty(), "{differences}");
    Ok(())
}
