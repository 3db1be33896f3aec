use serde_json::{Value, json};

use super::*;

fn go(api_version: &str, kind: &str, object: Value) -> Result<Value, String> {
    let Value::Object(mut object) = object else { panic!("an object") };
    let id = Structs::get().of_kind(api_version, kind).unwrap();
    read(id, &mut object, Empties::Dropped).map(|()| object.into())
}

#[test]
fn empty_fields_are_left_out_or_always_there_as_in_go() {
    let object = json!({"metadata": {"name": "a", "labels": {}}, "spec": {"replicas": 0, "paused": false, "minReadySeconds": 0, "template": null}});
    let expected = json!({
        "metadata": {"name": "a"},
        "spec": {"replicas": 0, "selector": null, "template": {"metadata": {}, "spec": {"containers": null}}, "strategy": {}},
        "status": {},
    });
    assert_eq!(go("apps/v1", "Deployment", object), Ok(expected));
}

#[test]
fn null_is_the_empty_value_of_its_place() {
    assert_eq!(
        go("v1", "ConfigMap", json!({"data": {"a": null, "b": "c"}, "binaryData": null})),
        Ok(json!({"metadata": {}, "data": {"a": "", "b": "c"}}))
    );
    assert_eq!(
        go("v1", "Pod", json!({"spec": {"containers": [null], "nodeSelector": null}})).unwrap()["spec"],
        json!({"containers": [{"name": "", "resources": {}}]})
    );
}

#[test]
fn quantities_times_and_bytes_are_canonical() {
    let claim = json!({"metadata": {"creationTimestamp": "2026-01-02T01:00:00.5+01:00"}, "spec": {"resources": {"requests": {"a": "1000m", "b": 1, "c": "1024Mi"}}}});
    let claim = go("v1", "PersistentVolumeClaim", claim).unwrap();
    assert_eq!(claim["spec"]["resources"]["requests"], json!({"a": "1", "b": "1", "c": "1Gi"}));
    assert_eq!(claim["metadata"]["creationTimestamp"], "2026-01-02T00:00:00Z");
    assert_eq!(go("v1", "Secret", json!({"data": {"a": "YQ\n=="}})).unwrap()["data"], json!({"a": "YQ=="}));
}

#[test]
fn a_value_of_a_wrong_type_is_refused_in_gos_words() {
    for (api_version, kind, object, expected) in [
        (
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": "x"}}),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1",
            "Deployment",
            json!({"spec": []}),
            "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
        ),
        (
            "v1",
            "Pod",
            json!({"spec": {"containers": [{"imagePullPolicy": 1}]}}),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.imagePullPolicy of type v1.PullPolicy",
        ),
        (
            "v1",
            "Pod",
            json!({"spec": {"containers": {}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "v1",
            "ConfigMap",
            json!({"data": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        ("v1", "Secret", json!({"data": {"a": "%"}}), "illegal base64 data at input byte 0"),
        (
            "v1",
            "Pod",
            json!({"metadata": {"creationTimestamp": "x"}}),
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x""#,
        ),
        (
            "coordination.k8s.io/v1",
            "Lease",
            json!({"spec": {"renewTime": "2026-01-01T00:00:00.5Z"}}),
            r#"parsing time "2026-01-01T00:00:00.5Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "2026-01-01T00:00:00.5Z""#,
        ),
        (
            "v1",
            "Pod",
            json!({"spec": {"overhead": {"cpu": "much"}}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "v1",
            "Service",
            json!({"spec": {"ports": [{"targetPort": true}]}}),
            "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
    ] {
        assert_eq!(go(api_version, kind, object), Err(expected.to_owned()));
    }
}

proptest::proptest! {
    #[test]
    fn times_never_panic(text in "[0-9TZ:.,+-]{0,40}|.{0,20}") {
        let _ = time::read(&text, time::Precision::Seconds);
        let _ = time::read(&text, time::Precision::Micros);
    }

    #[test]
    fn a_time_that_was_written_is_read_again(year in 1_i16..9999, second in 0_i64..31_536_000) {
        let time = jiff::civil::date(year, 1, 1).at(0, 0, 1, 0).checked_add(jiff::SignedDuration::from_secs(second)).unwrap();
        let text = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        proptest::prop_assert_eq!(time::read(&text, time::Precision::Seconds), Ok(Some(text)));
    }
}
