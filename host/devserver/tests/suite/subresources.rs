//! Parts of objects and what is done to them: scale, status, binding, eviction, tokens, finalize, reviews.

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Cluster, PODS, pod, version};
use crate::definitions::{BOATS, DEFINITIONS, boat, boats};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "b"}]}},
        },
    })
}

#[tokio::test]
async fn a_scale_is_read_and_written() {
    let cluster = Cluster::start().await;
    let made = cluster.post(DEPLOYMENTS, &deployment("a", 2)).await.ok();
    let path = format!("{DEPLOYMENTS}/a/scale");
    let scale = cluster.get(&path).await.ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(scale["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 2}), &json!({"replicas": 0, "selector": "app=a"}))
    );

    let mut more = scale.clone();
    more["spec"]["replicas"] = 5.into();
    let written = cluster.put(&path, &more).await.ok();
    assert_eq!(written["spec"]["replicas"], 5);
    assert!(version(&written) > version(&scale));
    let deployment = cluster.get(&format!("{DEPLOYMENTS}/a")).await.ok();
    assert_eq!(
        (&deployment["spec"]["replicas"], &deployment["metadata"]["generation"]),
        (&json!(5), &json!(2))
    );
    assert_eq!(version(&deployment), version(&written));

    assert_eq!(cluster.put(&path, &more).await.reason(), (409, "Conflict".to_owned()), "an old version");
    assert_eq!(cluster.merge(&path, &json!({"spec": {"replicas": 1}})).await.ok()["spec"]["replicas"], 1);
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let patched = cluster.send("PATCH", &path, &strategic, r#"{"spec":{"replicas":4}}"#).await.ok();
    assert_eq!(patched["spec"]["replicas"], 4);
    let json_patch = [("content-type", "application/json-patch+json")];
    let body = r#"[{"op":"replace","path":"/spec/replicas","value":3}]"#;
    assert_eq!(cluster.send("PATCH", &path, &json_patch, body).await.ok()["spec"]["replicas"], 3);

    let (code, _, message) = cluster.merge(&path, &json!({"spec": {"replicas": -1}})).await.failed();
    assert!(
        code == 422 && message.contains("spec.replicas") && message.contains("greater than or equal to 0"),
        "{message}"
    );
    assert_eq!(
        cluster.merge(&path, &json!({"spec": {"replicas": "many"}})).await.reason(),
        (422, "Invalid".to_owned())
    );
    let same = cluster.merge(&path, &json!({"spec": {"replicas": 3}})).await.ok();
    let deployment = cluster.get(&format!("{DEPLOYMENTS}/a")).await.ok();
    assert_eq!((&deployment["spec"]["replicas"], version(&deployment)), (&json!(3), version(&same)));
    assert_eq!(deployment["metadata"]["generation"], 5);
    assert_eq!(
        cluster.get(&format!("{DEPLOYMENTS}/missing/scale")).await.reason(),
        (404, "NotFound".to_owned())
    );
}

#[tokio::test]
async fn a_status_changes_nothing_else_and_nothing_else_changes_it() {
    let cluster = Cluster::start().await;
    cluster.post(DEFINITIONS, &boats()).await.ok();
    for (path, object) in [(DEPLOYMENTS, deployment("a", 2)), (BOATS, boat("a"))] {
        let mut object = object;
        object["status"] = json!({"observedGeneration": 7});
        let made = cluster.post(path, &object).await.ok();
        // A built-in object always has a status.
        assert!(made.get("status").is_none_or(|status| *status == json!({})), "{made}");
        let path = format!("{path}/a");
        let mut whole = made.clone();
        whole["status"] = json!({"observedGeneration": 8});
        whole["spec"]["paused"] = true.into();
        whole["metadata"]["labels"] = json!({"a": "b"});
        let status = cluster.put(&format!("{path}/status"), &whole).await.ok();
        assert_eq!(status["status"], json!({"observedGeneration": 8}));
        assert_eq!((&status["spec"], status["metadata"].get("labels")), (&made["spec"], None));
        assert_eq!(status["metadata"]["generation"], 1);
        assert_eq!(cluster.get(&format!("{path}/status")).await.ok(), status);

        whole["metadata"]["resourceVersion"] = status["metadata"]["resourceVersion"].clone();
        whole["status"] = json!({"observedGeneration": 9});
        let main = cluster.put(&path, &whole).await.ok();
        assert_eq!(
            (&main["status"]["observedGeneration"], &main["spec"]["paused"]),
            (&json!(8), &json!(true))
        );
        assert_eq!(main["metadata"]["generation"], 2);
        assert_eq!(
            cluster.put(&format!("{path}/status"), &status).await.reason(),
            (409, "Conflict".to_owned())
        );
        let gone = cluster.merge(&format!("{path}/status"), &json!({"status": null})).await.ok();
        assert!(gone.get("status").is_none_or(|status| *status == json!({})), "{gone}");
    }
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let cluster = Cluster::start().await;
    for name in ["a", "b"] {
        cluster.post(PODS, &pod(name, "")).await.ok();
    }
    let binding =
        |pod: &str, node: &str| json!({"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}});
    let path = format!("{PODS}/a/binding");
    let bound = cluster.post(&path, &binding("a", "one")).await;
    assert_eq!(bound.code, 201);
    assert_eq!(bound.ok()["status"], "Success");
    let pod = cluster.get(&format!("{PODS}/a")).await.ok();
    assert_eq!(pod["spec"]["nodeName"], "one");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    let (code, reason, message) = cluster.post(&path, &binding("a", "two")).await.failed();
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(message.contains("already assigned to node \"one\""), "{message}");
    assert_eq!(cluster.post(&path, &binding("b", "two")).await.reason(), (400, "BadRequest".to_owned()));
    let unnamed = cluster.post(&path, &json!({"target": {}})).await.failed();
    assert_eq!((unnamed.0, unnamed.2.as_str()), (500, "target.name: Required value"));
    // The same by a resource of its own.
    let bindings = "/api/v1/namespaces/default/bindings";
    assert_eq!(cluster.post(bindings, &binding("b", "two")).await.code, 201);
    assert_eq!(cluster.get(&format!("{PODS}/b")).await.ok()["spec"]["nodeName"], "two");
    assert_eq!(
        cluster.post(bindings, &binding("missing", "two")).await.reason(),
        (404, "NotFound".to_owned())
    );
    assert_eq!(cluster.get(bindings).await.reason(), (405, "MethodNotAllowed".to_owned()));
}

async fn running(cluster: &Cluster, name: &str) {
    cluster.post(PODS, &pod(name, "")).await.ok();
    cluster.merge(&format!("{PODS}/{name}/status"), &json!({"status": {"phase": "Running"}})).await.ok();
}

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}})
}

#[tokio::test]
async fn an_eviction_spends_the_budget_of_the_pod() {
    let cluster = Cluster::start().await;
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]});
    let budget = json!({"metadata": {"name": "few"}, "spec": {"minAvailable": 1, "selector": selector}});
    cluster.post(BUDGETS, &budget).await.ok();
    let allow = async |number: i64| {
        let status = json!({"status": {"disruptionsAllowed": number, "observedGeneration": 1}});
        cluster.merge(&format!("{BUDGETS}/few/status"), &status).await.ok();
    };
    for name in ["a", "b", "free"] {
        running(&cluster, name).await;
    }
    allow(0).await;
    let evict = async |name: &str, body: &Value| cluster.post(&format!("{PODS}/{name}/eviction"), body).await;

    let refused = evict("a", &eviction("a")).await;
    let status = refused.json();
    let (code, reason, message) = refused.failed();
    assert_eq!((code, reason.as_str()), (429, "TooManyRequests"));
    assert!(message.contains("disruption budget"), "{message}");
    assert_eq!(status["details"]["causes"][0]["reason"], "DisruptionBudget");
    assert!(status["details"]["causes"][0]["message"].as_str().unwrap().contains("few"), "{status}");
    assert_eq!(cluster.get(&format!("{PODS}/a")).await.code, 200);

    allow(1).await;
    // Options that cannot be read, or do not hold, cost nothing.
    let mut wrong = eviction("a");
    wrong["deleteOptions"] = json!({"gracePeriodSeconds": "soon"});
    assert_eq!(evict("a", &wrong).await.reason(), (400, "BadRequest".to_owned()));
    wrong["deleteOptions"] = json!({"preconditions": {"uid": "another"}});
    assert_eq!(evict("a", &wrong).await.reason(), (409, "Conflict".to_owned()));
    assert_eq!(cluster.get(&format!("{BUDGETS}/few")).await.ok()["status"]["disruptionsAllowed"], 1);
    let dry = cluster.post(&format!("{PODS}/a/eviction?dryRun=All"), &eviction("a")).await;
    assert_eq!(dry.code, 201);
    wrong["deleteOptions"] = json!({"dryRun": ["All"]});
    assert_eq!(evict("a", &wrong).await.code, 201);
    assert_eq!(cluster.get(&format!("{BUDGETS}/few")).await.ok()["status"]["disruptionsAllowed"], 1);

    assert_eq!(evict("a", &eviction("a")).await.code, 201);
    assert_eq!(cluster.get(&format!("{PODS}/a")).await.code, 404);
    assert_eq!(cluster.get(&format!("{BUDGETS}/few")).await.ok()["status"]["disruptionsAllowed"], 0);
    assert_eq!(evict("b", &eviction("b")).await.code, 429, "the budget is spent");
    let mut null = eviction("free");
    null["deleteOptions"] = Value::Null;
    assert_eq!(evict("free", &null).await.code, 201, "no budget counts it");
    assert_eq!(evict("free", &eviction("free")).await.reason(), (404, "NotFound".to_owned()));
    // A pod that does not run disrupts nothing.
    cluster.merge(&format!("{PODS}/b/status"), &json!({"status": {"phase": "Succeeded"}})).await.ok();
    assert_eq!(evict("b", &eviction("b")).await.code, 201);
}

#[tokio::test]
async fn a_budget_that_no_controller_counts_refuses_nothing() {
    let cluster = Cluster::start().await;
    let selector = json!({"matchLabels": {"app": "a"}});
    let budget = json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 1, "selector": selector}});
    cluster.post(BUDGETS, &budget).await.ok();
    running(&cluster, "a").await;
    assert_eq!(cluster.post(&format!("{PODS}/a/eviction"), &eviction("a")).await.code, 201);
}

#[tokio::test]
async fn two_budgets_for_one_pod_are_an_error() {
    let cluster = Cluster::start().await;
    for name in ["one", "two"] {
        let budget = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "a"}}}});
        cluster.post(BUDGETS, &budget).await.ok();
    }
    running(&cluster, "a").await;
    let (code, _, message) = cluster.post(&format!("{PODS}/a/eviction"), &eviction("a")).await.failed();
    assert!(code == 500 && message.contains("more than one PodDisruptionBudget"), "{message}");
}

#[tokio::test]
async fn a_service_account_gets_tokens() {
    let cluster = Cluster::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.post(accounts, &json!({"metadata": {"name": "robot"}})).await.ok();
    let path = format!("{accounts}/robot/token");
    let request = json!({"spec": {"audiences": ["api"], "expirationSeconds": 600}});
    let answer = cluster.post(&path, &request).await;
    assert_eq!(answer.code, 201);
    let token = answer.ok();
    assert_eq!(
        (&token["kind"], &token["apiVersion"]),
        (&json!("TokenRequest"), &json!("authentication.k8s.io/v1"))
    );
    assert_eq!(token["spec"]["audiences"], json!(["api"]));
    let text = token["status"]["token"].as_str().unwrap();
    assert!(!text.is_empty() && token["status"]["expirationTimestamp"].is_string(), "{token}");
    assert_ne!(cluster.post(&path, &request).await.ok()["status"]["token"], text);
    assert_eq!(
        cluster.post(&format!("{accounts}/missing/token"), &request).await.reason(),
        (404, "NotFound".to_owned())
    );
    assert_eq!(cluster.get(&path).await.reason(), (405, "MethodNotAllowed".to_owned()));
}

#[tokio::test]
async fn finalize_writes_the_finalizers_of_a_namespace() {
    let cluster = Cluster::start().await;
    let made = cluster.post("/api/v1/namespaces", &json!({"metadata": {"name": "yard"}})).await.ok();
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    let path = "/api/v1/namespaces/yard/finalize";
    let mut asked = made.clone();
    asked["spec"]["finalizers"] = json!(["kubernetes", "x.io/y"]);
    asked["metadata"]["labels"] = json!({"other": "label"});
    let written = cluster.put(path, &asked).await.ok();
    assert_eq!(written["spec"]["finalizers"], json!(["kubernetes", "x.io/y"]));
    assert_eq!(written["metadata"]["labels"], made["metadata"]["labels"]);
    let main = cluster.merge("/api/v1/namespaces/yard", &json!({"spec": {"finalizers": []}})).await.ok();
    assert_eq!(main["spec"], written["spec"], "its main path does not change them");
    assert_eq!(cluster.put(path, &asked).await.reason(), (409, "Conflict".to_owned()), "an old version");
}

#[tokio::test]
async fn reviews_say_who_asks_and_that_everything_is_allowed() {
    let cluster = Cluster::start().await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = cluster.post(path, &json!({})).await;
    assert_eq!(answer.code, 201);
    let review = answer.ok();
    assert_eq!(
        (&review["kind"], &review["apiVersion"]),
        (&json!("SelfSubjectReview"), &json!("authentication.k8s.io/v1"))
    );
    assert_eq!(review["status"]["userInfo"]["username"], "system:admin");
    let headers = [
        ("content-type", "application/json"),
        ("impersonate-user", "jane"),
        ("impersonate-group", "sailors"),
        ("impersonate-group", "captains"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-scopes", "a"),
        ("impersonate-extra-scopes", "b"),
    ];
    let info = cluster.send("POST", path, &headers, "{}").await.ok()["status"]["userInfo"].take();
    let expected = json!({"username": "jane", "uid": "7", "groups": ["sailors", "captains", "system:authenticated"], "extra": {"scopes": ["a", "b"]}});
    assert_eq!(info, expected);

    let attributes = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    for resource in ["selfsubjectaccessreviews", "subjectaccessreviews"] {
        let path = format!("/apis/authorization.k8s.io/v1/{resource}");
        let review = cluster.post(&path, &attributes).await.ok();
        assert_eq!((&review["status"]["allowed"], &review["spec"]), (&json!(true), &attributes["spec"]));
        assert_eq!(cluster.get(&path).await.reason(), (405, "MethodNotAllowed".to_owned()), "none is kept");
    }
    let local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    assert_eq!(cluster.post(local, &attributes).await.ok()["status"]["allowed"], true);
    let rules = cluster.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &json!({})).await.ok();
    assert_eq!(rules["status"]["resourceRules"][0]["verbs"], json!(["*"]));
    let token = cluster
        .post("/apis/authentication.k8s.io/v1/tokenreviews", &json!({"spec": {"token": "x"}}))
        .await
        .ok();
    assert_eq!(token["status"]["authenticated"], true);
    let other = cluster.post(path, &json!({"kind": "TokenReview"})).await;
    assert_eq!(other.reason(), (400, "BadRequest".to_owned()));
}

#[tokio::test]
async fn an_impersonated_user_has_the_groups_that_go_without_saying() {
    let cluster = Cluster::start().await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let user_info = async |headers: &[(&str, &str)]| {
        cluster.send("POST", path, headers, "{}").await.ok()["status"]["userInfo"].take()
    };
    for (user, given, expected) in [
        ("jane", &[][..], &["system:authenticated"][..]),
        ("jane", &["a"], &["a", "system:authenticated"]),
        ("jane", &["system:authenticated", "a"], &["system:authenticated", "a"]),
        ("jane", &["system:unauthenticated"], &["system:unauthenticated"]),
        ("system:anonymous", &[], &["system:unauthenticated"]),
        ("system:anonymous", &["a"], &["a", "system:unauthenticated"]),
        (
            "system:serviceaccount:yard:crane",
            &[],
            &["system:serviceaccounts", "system:serviceaccounts:yard", "system:authenticated"],
        ),
        ("system:serviceaccount:yard:crane", &["a"], &["a", "system:authenticated"]),
    ] {
        let mut headers = vec![("impersonate-user", user)];
        headers.extend(given.iter().map(|group| ("impersonate-group", *group)));
        assert_eq!(user_info(&headers).await["groups"], json!(expected), "{user} {given:?}");
    }
    assert_eq!(user_info(&[("impersonate-user", "")]).await["username"], "system:admin");
    let extra = [
        ("impersonate-user", "jane"),
        ("impersonate-extra-example.org%2fscopes", "a"),
        ("impersonate-extra-50%25", "b"),
        ("impersonate-extra-50%", "c"),
        ("impersonate-extra-%2f%zz", "d"),
    ];
    let expected = json!({"example.org/scopes": ["a"], "50%": ["b", "c"], "%2f%zz": ["d"]});
    let mut found = user_info(&extra).await["extra"].take();
    found["50%"].as_array_mut().unwrap().sort_by_key(ToString::to_string);
    assert_eq!(found, expected);
}

#[tokio::test]
async fn nothing_is_made_or_deleted_in_all_namespaces() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    for answer in [
        cluster.post("/api/v1/configmaps", &json!({"metadata": {"name": "b"}})).await,
        cluster.delete("/api/v1/configmaps", &Value::Null).await,
    ] {
        assert_eq!(answer.reason(), (405, "MethodNotAllowed".to_owned()));
    }
    assert_eq!(cluster.get("/api/v1/configmaps/a").await.reason(), (404, "NotFound".to_owned()));
    assert_eq!(
        cluster.get("/api/v1/namespaces/default/configmaps").await.ok()["items"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn parts_that_are_not_there() {
    let cluster = Cluster::start().await;
    cluster.post(PODS, &pod("a", "n")).await.ok();
    cluster.config_map("a").await;
    for part in ["log", "exec", "attach", "portforward", "proxy", "proxy/a/b"] {
        let (code, reason, message) = cluster.get(&format!("{PODS}/a/{part}")).await.failed();
        assert_eq!((code, reason.as_str()), (501, "NotImplemented"), "{part}");
        assert!(message.starts_with("pod \"a\": ") && message.contains("runs no containers; "), "{message}");
        assert!(message.ends_with("use a cluster, as `pilothouse dev --kubeconfig FILE` does"), "{message}");
    }
    for path in
        [format!("{PODS}/a/nothing"), format!("{CONFIG_MAPS}/a/status"), format!("{CONFIG_MAPS}/a/scale")]
    {
        assert_eq!(cluster.get(&path).await.reason(), (404, "NotFound".to_owned()), "{path}");
    }
    for (method, path) in [
        ("POST", format!("{PODS}/a/status")),
        ("DELETE", format!("{PODS}/a/status")),
        ("GET", format!("{PODS}/a/binding")),
        ("PUT", format!("{PODS}/a/log")),
        ("PATCH", "/api/v1/namespaces/default/finalize".to_owned()),
        ("POST", format!("{CONFIG_MAPS}/a")),
        ("PUT", CONFIG_MAPS.to_owned()),
        ("HEAD", CONFIG_MAPS.to_owned()),
    ] {
        let answer = cluster.send(method, &path, &[("content-type", "application/json")], "{}").await;
        assert_eq!(answer.code, 405, "{method} {path}");
        if method != "HEAD" {
            assert_eq!(answer.reason(), (405, "MethodNotAllowed".to_owned()), "{method} {path}");
        }
    }
}
