//! What is special about kinds when they are written: what the generation counts, what no update may change, what the server
//! fills in. The real server was asked for each message here.

use serde_json::{Value, json};

use crate::client::{Cluster, PODS, pod};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn template() -> Value {
    json!({
        "metadata": {"labels": {"a": "b", "c": "d"}},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "x", "image": "img"}]},
    })
}

#[tokio::test]
async fn an_object_of_the_cluster_is_in_no_namespace() {
    let cluster = Cluster::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({"metadata": {"name": "a", "namespace": "chart"}, "rules": []});
    let made = cluster.post(roles, &role).await.ok();
    assert_eq!(made["metadata"]["namespace"], Value::Null);
    let updated = cluster.put(&format!("{roles}/a"), &role).await.ok();
    assert_eq!(updated["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(updated["metadata"]["namespace"], Value::Null);
}

#[tokio::test]
async fn the_generation_counts_what_the_kind_says() {
    let cluster = Cluster::start().await;
    let deployment = json!({
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template()},
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []});
    let (annotations, labels) =
        (json!({"metadata": {"annotations": {"x": "y"}}}), json!({"metadata": {"labels": {"x": "y"}}}));
    for (path, object, patch, generation) in [
        (DEPLOYMENTS, &deployment, &annotations, 2),
        (DEPLOYMENTS, &deployment, &labels, 1),
        (slices, &slice, &labels, 2),
        (slices, &slice, &annotations, 1),
    ] {
        cluster.post(path, object).await.ok();
        let path = format!("{path}/a");
        let patched = cluster.merge(&path, patch).await.ok();
        assert_eq!(patched["metadata"]["generation"], generation, "{path} {patch}");
        cluster.delete(&path, &Value::Null).await.ok();
    }
}

#[tokio::test]
async fn what_must_stay_is_named() {
    const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
    const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
    let cluster = Cluster::start().await;
    let selector = json!({"matchLabels": {"a": "b"}});
    let mut job_template = template();
    job_template["spec"]["restartPolicy"] = "Never".into();
    for (path, object) in [
        (DEPLOYMENTS, json!({"spec": {"selector": selector, "template": template()}})),
        (STATEFUL_SETS, json!({"spec": {"serviceName": "s", "selector": selector, "template": template()}})),
        (JOBS, json!({"spec": {"template": job_template}})),
        (CONFIG_MAPS, json!({"immutable": true, "data": {"a": "b"}})),
        (SECRETS, json!({"data": {"a": "YQ=="}})),
        (
            BINDINGS,
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}}),
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "o"});
        cluster.post(path, &object).await.ok();
    }
    for (path, patch, message) in [
        (
            DEPLOYMENTS,
            json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}}),
            r#"spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable"#,
        ),
        (
            STATEFUL_SETS,
            json!({"spec": {"serviceName": "t"}}),
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are \
             forbidden",
        ),
        (JOBS, json!({"spec": {"completions": 3}}), "spec.completions: Invalid value: 3: field is immutable"),
        (
            JOBS,
            json!({"spec": {"completionMode": "Indexed"}}),
            r#"spec.completionMode: Invalid value: "Indexed": field is immutable"#,
        ),
        (
            CONFIG_MAPS,
            json!({"data": {"a": "c"}}),
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        (
            CONFIG_MAPS,
            json!({"immutable": false}),
            "immutable: Forbidden: field is immutable when `immutable` is set",
        ),
        (SECRETS, json!({"type": "x"}), r#"type: Invalid value: "x": field is immutable"#),
        (
            BINDINGS,
            json!({"roleRef": {"name": "y"}}),
            r#"roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"y"}: cannot change roleRef"#,
        ),
    ] {
        let (code, _, told) = cluster.merge(&format!("{path}/o"), &patch).await.failed();
        assert_eq!(code, 422, "{told}");
        assert!(told.ends_with(message), "{told}\n{message}");
    }
    let free = json!({"spec": {"replicas": 4, "template": {"metadata": {"labels": {"e": "f"}}}}});
    cluster.merge(&format!("{STATEFUL_SETS}/o"), &free).await.ok();
}

#[tokio::test]
async fn a_job_finds_its_pods_by_its_uid() {
    let cluster = Cluster::start().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "y"}]}}});
    let made = cluster.post(jobs, &json!({"metadata": {"name": "a"}, "spec": spec})).await.ok();
    let uid = &made["metadata"]["uid"];
    let labels = json!({
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "a", "controller-uid": uid,
        "job-name": "a",
    });
    assert_eq!(made["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(made["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    // It is judged with the UID that was sent.
    let refused = cluster.merge(&format!("{jobs}/a"), &json!({"metadata": {"uid": "other"}})).await;
    let body: Value = serde_json::from_slice(&refused.body).unwrap();
    let causes = body["details"]["causes"].as_array().unwrap();
    let fields: Vec<_> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(refused.code, 422);
    assert!(fields.contains(&"metadata.uid"), "{fields:?}");
    assert!(fields.contains(&"spec.template.metadata.labels[controller-uid]"), "{fields:?}");
}

#[tokio::test]
async fn a_deletion_under_way_can_be_shortened_and_not_prolonged() {
    let cluster = Cluster::start().await;
    let mut object = pod("a", "n");
    object["metadata"]["annotations"] = json!({"pilothouse.dev/keep-terminating": "true"});
    cluster.post(PODS, &object).await.ok();
    let path = format!("{PODS}/a");
    let first = cluster.delete(&path, &json!({"gracePeriodSeconds": 600})).await.ok();
    for options in [Value::Null, json!({"gracePeriodSeconds": 700})] {
        let again = cluster.delete(&path, &options).await.ok();
        assert_eq!(again["metadata"], first["metadata"], "{options}");
    }
    let shorter = cluster.delete(&path, &json!({"gracePeriodSeconds": 300})).await.ok();
    let at = |object: &Value| {
        object["metadata"]["deletionTimestamp"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
    };
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 300);
    assert_eq!(at(&first).duration_since(at(&shorter)).as_secs(), 300, "from the first deletion");
    cluster.delete(&path, &json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(cluster.get(&path).await.code, 404);
}

#[tokio::test]
async fn an_address_is_named_by_itself() {
    let cluster = Cluster::start().await;
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    let spec = json!({"parentRef": {"resource": "services", "namespace": "a", "name": "b"}});
    cluster.post(addresses, &json!({"metadata": {"name": "2001:db8::1"}, "spec": spec})).await.ok();
    let long = json!({"metadata": {"name": "2001:db8:0::1"}, "spec": spec});
    assert_eq!(cluster.post(addresses, &long).await.failed().0, 422);
}
