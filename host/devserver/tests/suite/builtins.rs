//! Built-in kinds over HTTP: defaults, types, what the server allocates, sizes.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Cluster};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn deployment() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    }}})
}

#[tokio::test]
async fn a_write_without_the_defaults_changes_nothing() {
    let cluster = Cluster::start().await;
    let made = cluster.post(DEPLOYMENTS, &deployment()).await.ok();
    let container = &made["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (
            &container["imagePullPolicy"],
            &made["spec"]["strategy"]["rollingUpdate"]["maxSurge"],
            &made["status"]
        ),
        (&json!("IfNotPresent"), &json!("25%"), &json!({}))
    );
    let path = format!("{DEPLOYMENTS}/a");
    assert_eq!(cluster.put(&path, &deployment()).await.ok(), made);
    let removed = json!({"spec": {"strategy": null, "template": {"spec": {"dnsPolicy": null}}}});
    assert_eq!(cluster.merge(&path, &removed).await.ok(), made);
}

#[tokio::test]
async fn a_value_of_a_wrong_type_is_refused() {
    let cluster = Cluster::start().await;
    let mut object = deployment();
    object["spec"]["replicas"] = "x".into();
    let (code, reason, message) = cluster.post(DEPLOYMENTS, &object).await.failed();
    assert_eq!((code, reason.as_str()), (400, "BadRequest"));
    assert_eq!(
        message,
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field \
         DeploymentSpec.spec.replicas of type int32"
    );
    cluster.post(DEPLOYMENTS, &deployment()).await.ok();
    let patch = json!({"spec": {"paused": 1}});
    // What a patch makes is blamed on the patch.
    assert_eq!(cluster.merge(&format!("{DEPLOYMENTS}/a"), &patch).await.code, 422);
}

#[tokio::test]
async fn a_null_in_a_map_of_texts_is_an_empty_text() {
    let cluster = Cluster::start().await;
    let object = json!({"metadata": {"name": "a"}, "data": {"a": null, "b": "c"}});
    assert_eq!(cluster.post(CONFIG_MAPS, &object).await.ok()["data"], json!({"a": "", "b": "c"}));
}

#[tokio::test]
async fn services_get_addresses_and_ports_and_keep_them() {
    let cluster = Cluster::start().await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let made = cluster.post(SERVICES, &service).await.ok();
    let address = made["spec"]["clusterIP"].as_str().unwrap();
    assert!(address.starts_with("10."), "{address}");
    assert_eq!(made["spec"]["clusterIPs"], json!([address]));
    let port = made["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30_000..32_768).contains(&port), "{port}");
    assert_eq!(cluster.put(&format!("{SERVICES}/a"), &service).await.ok(), made);
    let inner = cluster.merge(&format!("{SERVICES}/a"), &json!({"spec": {"type": "ClusterIP"}})).await.ok();
    assert_eq!(inner["spec"]["ports"], json!([{"port": 80, "targetPort": 80, "protocol": "TCP"}]));
    assert_eq!(inner["spec"]["clusterIP"], address);
}

#[tokio::test]
async fn a_pod_is_complete() {
    let cluster = Cluster::start().await;
    let pod = json!({"metadata": {"name": "a"}, "spec": {"serviceAccountName": "x", "containers": [{"name": "c", "image": "i"}]}});
    let made = cluster.post(PODS, &pod).await.ok();
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!((&made["spec"]["priority"], &made["spec"]["serviceAccount"]), (&json!(0), &json!("x")));
    assert_eq!(made["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
    assert_eq!(cluster.put(&format!("{PODS}/a"), &pod).await.ok(), made);
}

#[tokio::test]
async fn an_object_of_very_many_parts_is_refused_before_each_gets_defaults() {
    let cluster = Cluster::start().await;
    for part in [json!({}), Value::Null] {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": vec![part; 60_000]}});
        let (code, _, message) = cluster.post(PODS, &pod).await.failed();
        assert_eq!(code, 400);
        assert!(message.ends_with("it has more than 50000 objects in it"), "{message}");
    }
}

#[tokio::test]
async fn objects_have_the_sizes_of_a_real_server() {
    let cluster = Cluster::start().await;
    let map = |bytes: usize| json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(bytes)}});
    let (code, _, message) = cluster.post(CONFIG_MAPS, &map((1 << 20) + 1)).await.failed();
    assert_eq!(
        (code, message.as_str()),
        (422, "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes")
    );
    cluster.post(CONFIG_MAPS, &map(1 << 20)).await.ok();
    let secret = json!({"metadata": {"name": "a"}, "stringData": {"k": "x".repeat((1 << 20) + 1)}});
    let (code, _, message) = cluster.post("/api/v1/namespaces/default/secrets", &secret).await.failed();
    assert_eq!(
        (code, message.as_str()),
        (422, "Secret \"a\" is invalid: data: Too long: may not be more than 1048576 bytes")
    );
    let env = json!([{"name": "A", "value": "x".repeat(1_600_000)}]);
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}});
    let status = cluster.post(PODS, &pod).await.json();
    assert_eq!(
        (&status["code"], &status["message"]),
        (&json!(500), &json!("etcdserver: request is too large"))
    );
}

/// Messages of a real server.
#[tokio::test]
async fn values_that_are_not_among_those_of_their_field_are_refused() {
    let cluster = Cluster::start().await;
    let set = |pointer: &str, value: Value| {
        let mut object = deployment();
        *object.pointer_mut(pointer).unwrap() = value;
        object
    };
    let pod = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    for (path, object, expected) in [
        (
            PODS,
            pod(json!({"restartPolicy": "X", "containers": [{"name": "c", "image": "i"}]})),
            r#"Pod "a" is invalid: spec.restartPolicy: Unsupported value: "X": supported values: "Always", "OnFailure", "Never""#,
        ),
        (
            PODS,
            pod(json!({"containers": [{"name": "c", "image": "i", "imagePullPolicy": "X"}]})),
            r#"Pod "a" is invalid: spec.containers[0].imagePullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never""#,
        ),
        (
            DEPLOYMENTS,
            set(
                "/spec/template/spec",
                json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}),
            ),
            r#"Deployment.apps "a" is invalid: spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
        ),
        (
            DEPLOYMENTS,
            set("/spec/selector/matchLabels/a", json!("c")),
            r#"Deployment.apps "a" is invalid: spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`"#,
        ),
        (
            SERVICES,
            pod(json!({"type": "X", "ports": [{"port": 80}]})),
            r#"Service "a" is invalid: spec.type: Unsupported value: "X": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort""#,
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            pod(json!({"accessModes": ["X"], "resources": {"requests": {"storage": "1Gi"}}})),
            r#"PersistentVolumeClaim "a" is invalid: spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod""#,
        ),
    ] {
        let (code, _, message) = cluster.post(path, &object).await.failed();
        assert_eq!((code, message.as_str()), (422, expected));
    }
}

#[tokio::test]
async fn every_port_of_nodes_is_given_once_and_again_when_its_service_has_gone() {
    let cluster = Cluster::start().await;
    let service = |name: &str| {
        let ports: Vec<Value> =
            (0..16).map(|number| json!({"name": format!("p{number}"), "port": 80 + number})).collect();
        json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}})
    };
    let ports_of = |service: &Value| -> Vec<u64> {
        let ports = service["spec"]["ports"].as_array().unwrap().iter();
        ports.filter_map(|port| port["nodePort"].as_u64()).collect()
    };
    // 173 Services of 16 ports each have all 2,768.
    let (mut ports, mut addresses) = (HashSet::new(), HashSet::new());
    for number in 0..173 {
        let made = cluster.post(SERVICES, &service(&format!("s{number}"))).await.ok();
        let given = ports_of(&made);
        assert_eq!(given.len(), 16);
        assert!(given.iter().all(|port| ports.insert(*port)), "{given:?}");
        assert!(addresses.insert(made["spec"]["clusterIP"].as_str().unwrap().to_owned()));
    }
    let late = cluster.post(SERVICES, &service("late")).await.ok();
    assert_eq!(ports_of(&late), [0; 0]);
    cluster.delete(&format!("{SERVICES}/late"), &Value::Null).await.ok();
    let last = cluster.get(&format!("{SERVICES}/s172")).await.ok();
    cluster.delete(&format!("{SERVICES}/s172"), &Value::Null).await.ok();
    let made = cluster.post(SERVICES, &service("next")).await.ok();
    let sorted = |service: &Value| ports_of(service).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&made), sorted(&last));
}
