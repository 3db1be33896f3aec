use serde_json::json;

use super::*;

fn defaulted(api_version: &str, kind: &str, object: Value) -> Value {
    let Value::Object(mut object) = object else { panic!("an object") };
    let id = Structs::get().of_kind(api_version, kind).unwrap();
    crate::typed::read(id, &mut object, crate::typed::Empties::Kept).unwrap();
    default(id, &mut object);
    crate::typed::read(id, &mut object, crate::typed::Empties::Dropped).unwrap();
    let once = Value::Object(object.clone());
    default(id, &mut object);
    crate::typed::read(id, &mut object, crate::typed::Empties::Dropped).unwrap();
    assert_eq!(Value::Object(object), once, "defaulting twice");
    once
}

#[test]
fn each_field_that_the_table_says_depends_on_others_has_a_rule() {
    let given: Vec<String> = rules()
        .flat_map(|rule| rule.gives)
        .map(|name| if name.starts_with("io.") { (*name).to_owned() } else { format!("io.k8s.api.{name}") })
        .collect();
    let table = Table::parse();
    let missing: Vec<_> = table.conditional.iter().filter(|name| !given.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let unknown: Vec<_> = given.iter().filter(|name| !table.conditional.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn each_struct_of_a_rule_or_a_fact_is_one_of_go() {
    let known: Vec<&str> = Structs::get().iter().map(|(_, one)| one.name).collect();
    for rule in rules() {
        assert!(known.contains(&rule.on), "{}", rule.on);
    }
    for name in Table::parse().types.keys() {
        assert!(known.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn a_deployment_is_complete() {
    let object = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    }}});
    assert_eq!(
        defaulted("apps/v1", "Deployment", object),
        json!({
            "metadata": {},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
                "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                    "containers": [{
                        "name": "c", "image": "nginx", "imagePullPolicy": "Always", "resources": {},
                        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    }],
                    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                    "schedulerName": "default-scheduler", "securityContext": {},
                }},
            },
            "status": {},
        })
    );
}

#[test]
fn a_job_has_completions_unless_it_is_a_work_queue() {
    let spec = |spec: Value| defaulted("batch/v1", "Job", json!({"spec": spec}))["spec"].clone();
    let plain = spec(json!({}));
    assert_eq!((&plain["completions"], &plain["parallelism"]), (&json!(1), &json!(1)));
    let queue = spec(json!({"parallelism": 3}));
    assert_eq!((queue.get("completions"), &queue["parallelism"]), (None, &json!(3)));
    let template = defaulted("batch/v1", "CronJob", json!({"spec": {"jobTemplate": {"spec": {}}}}));
    assert_eq!(
        template["spec"]["jobTemplate"]["spec"].get("completions"),
        None,
        "only a Job itself has them"
    );
}

#[test]
fn a_service_has_what_its_type_needs() {
    let spec = |spec: Value| defaulted("v1", "Service", json!({"spec": spec}))["spec"].clone();
    assert_eq!(
        spec(json!({"ports": [{"port": 80}]})),
        json!({"ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}], "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"})
    );
    assert_eq!(
        spec(json!({"type": "ExternalName", "externalName": "a.example"})),
        json!({"type": "ExternalName", "externalName": "a.example", "sessionAffinity": "None"})
    );
    let balanced = spec(json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"}));
    assert_eq!(balanced["allocateLoadBalancerNodePorts"], true);
    assert_eq!(balanced["externalTrafficPolicy"], "Cluster");
    assert_eq!(balanced["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10800}}));
}

#[test]
fn an_empty_value_is_absent_where_go_has_no_pointer() {
    let object = json!({"spec": {"containers": [{"name": "c", "livenessProbe": {"periodSeconds": 0}, "imagePullPolicy": ""}],
        "restartPolicy": "", "terminationGracePeriodSeconds": 0}});
    let pod = defaulted("v1", "Pod", object);
    assert_eq!(pod["spec"]["containers"][0]["livenessProbe"]["periodSeconds"], 10);
    assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(pod["spec"]["restartPolicy"], "Always");
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 0);
    let deployment = defaulted("apps/v1", "Deployment", json!({"spec": {"replicas": 0}}));
    assert_eq!(deployment["spec"]["replicas"], 0);
}
