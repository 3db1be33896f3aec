//! Objects with which nothing is wrong, to be broken: of each kind, and of each way in which a kind can be put together.

mod devices;
mod objects;
mod policies;
mod previews;

use devices::devices;
use objects::{core, network, others, services, storage};
use policies::policies;
use previews::{certificates, previews, wrong_certificates};
use serde_json::{Value, json};

/// An object, and the path of the collection that it is made in.
pub(super) struct Skeleton {
    pub(super) path: &'static str,
    pub(super) object: Value,
}

macro_rules! in_group {
    ($group:literal, $rest:literal) => {
        concat!("/apis/", $group, "/", $rest)
    };
}
use in_group;

/// The spec of a Pod with much in it.
const RICH_POD: &str = r#"{
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
        "nodeSelector": {"disk": "ssd"}, "serviceAccountName": "builder", "priorityClassName": "", "hostname": "a-host",
        "subdomain": "a-domain", "activeDeadlineSeconds": null,
        "imagePullSecrets": [{"name": "registry"}],
        "securityContext": {
            "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000, "supplementalGroups": [3000],
            "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
            "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]
        },
        "tolerations": [
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 60},
            {"operator": "Exists"}
        ],
        "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["a.example"]}],
        "readinessGates": [{"conditionType": "example.com/ready"}],
        "dnsConfig": {"nameservers": ["10.0.0.10"], "searches": ["a.example"], "options": [{"name": "ndots", "value": "2"}]},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2,
            "nodeAffinityPolicy": "Honor", "labelSelector": {"matchLabels": {"app": "a"}}
        }],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a-node"]}]
                }]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
                ]
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{
                    "topologyKey": "zone", "namespaces": ["default"],
                    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]}
                }],
                "preferredDuringSchedulingIgnoredDuringExecution": [{
                    "weight": 10, "podAffinityTerm": {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
                }]
            }
        },
        "volumes": [
            {"name": "config", "configMap": {"name": "settings", "defaultMode": 420, "items": [{"key": "k", "path": "a/b", "mode": 256}]}},
            {"name": "secret", "secret": {"secretName": "hidden", "items": [{"key": "k", "path": "p"}]}},
            {"name": "empty", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "host", "hostPath": {"path": "/var/log", "type": "Directory"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "down", "downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"}}
            ]}},
            {"name": "all", "projected": {"defaultMode": 292, "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600, "audience": "a"}},
                {"configMap": {"name": "settings", "items": [{"key": "a", "path": "one"}]}},
                {"secret": {"name": "hidden", "items": [{"key": "a", "path": "two"}]}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}
            ]}},
            {"name": "own", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}
            }}}},
            {"name": "net", "nfs": {"server": "nfs.example", "path": "/exports"}},
            {"name": "driver", "csi": {"driver": "csi.example", "nodePublishSecretRef": {"name": "hidden"}}},
            {"name": "image", "image": {"reference": "example/data:1", "pullPolicy": "IfNotPresent"}},
            {"name": "iscsi", "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 1}}
        ],
        "initContainers": [
            {"name": "first", "image": "example/init:1", "command": ["true"],
             "volumeMounts": [{"name": "empty", "mountPath": "/work"}]},
            {"name": "side", "image": "example/side:1", "restartPolicy": "Always",
             "readinessProbe": {"tcpSocket": {"port": 9000}}}
        ],
        "containers": [
            {
                "name": "main", "image": "example/main:1", "imagePullPolicy": "IfNotPresent", "workingDir": "/work",
                "terminationMessagePolicy": "File",
                "ports": [
                    {"name": "http", "containerPort": 8080, "protocol": "TCP"},
                    {"name": "dns", "containerPort": 53, "hostPort": 1053, "protocol": "UDP", "hostIP": "10.0.0.1"}
                ],
                "env": [
                    {"name": "A", "value": "a"},
                    {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}},
                    {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "c"}}},
                    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "s"}}},
                    {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}
                ],
                "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "hidden"}}],
                "resources": {
                    "limits": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "2"},
                    "requests": {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "1Gi", "example.com/gpu": "2"}
                },
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/config", "readOnly": true, "subPath": "a"},
                    {"name": "secret", "mountPath": "/etc/secret", "mountPropagation": "None", "readOnly": true,
                     "recursiveReadOnly": "IfPossible"},
                    {"name": "empty", "mountPath": "/tmp", "subPathExpr": "$(A)"}
                ],
                "volumeDevices": [{"name": "claim", "devicePath": "/dev/a"}],
                "livenessProbe": {
                    "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP", "httpHeaders": [{"name": "X-A", "value": "b"}]},
                    "initialDelaySeconds": 3, "periodSeconds": 5, "timeoutSeconds": 2, "failureThreshold": 3,
                    "successThreshold": 1, "terminationGracePeriodSeconds": 10
                },
                "readinessProbe": {"exec": {"command": ["true"]}, "successThreshold": 2},
                "startupProbe": {"grpc": {"port": 9090}},
                "lifecycle": {
                    "preStop": {"sleep": {"seconds": 5}}, "postStart": {"exec": {"command": ["true"]}}
                },
                "securityContext": {
                    "runAsUser": 1001, "allowPrivilegeEscalation": false, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
                    "seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/a.json"},
                    "appArmorProfile": {"type": "RuntimeDefault"}
                }
            },
            {"name": "other", "image": "example/other:1"}
        ]
    }"#;

/// [`RICH_POD`]; `more` replaces fields.
fn pod_spec(more: &Value) -> Value {
    let mut spec = serde_json::from_str(RICH_POD).expect("JSON");
    replace(&mut spec, more);
    spec
}

fn replace(object: &mut Value, more: &Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
}

/// A template of Pods with few things in it.
fn small_template(policy: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "a"}, "annotations": {"a": "b"}},
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": "main", "image": "example/main:1", "ports": [{"containerPort": 80}]}],
        },
    })
}

fn template(more: &Value) -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": pod_spec(more)})
}

fn of(path: &'static str, api_version: &str, kind: &str, name: &str, more: &Value) -> Skeleton {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "labels": {"app": "a"}, "annotations": {"example.com/note": "b"}},
    });
    replace(&mut object, more);
    Skeleton { path, object }
}

/// All skeletons.
pub(super) fn all() -> Vec<Skeleton> {
    let mut all = pods();
    all.extend(workloads());
    all.extend(batch());
    all.extend(services());
    all.extend(network());
    all.extend(storage());
    all.extend(core());
    all.extend(others());
    all.extend(policies());
    all.extend(devices());
    all.extend(certificates());
    all.extend(previews());
    all
}

/// Objects with which something is wrong already.
pub(super) fn wrong() -> Vec<Skeleton> {
    wrong_certificates()
}

/// Skeletons that are made and then updated: of kinds that keep much of what they were made with.
pub(super) fn updated() -> Vec<Skeleton> {
    let path = concat!("/api/v1/namespaces/default", "/pods");
    let containers = json!([{"name": "a", "image": "b"}]);
    let terms = json!([
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}, {"key": "b", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a-node"]}]},
    ]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let mut mirror = of(
        path,
        "v1",
        "Pod",
        "mirror",
        &json!({"spec": {"containers": containers, "nodeName": "a-node", "nodeSelector": {"a": "b"}}}),
    );
    mirror.object["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "a".into();
    let mut all = vec![
        mirror,
        of(
            path,
            "v1",
            "Pod",
            "gated",
            &json!({"spec": {
                "containers": containers, "schedulingGates": [{"name": "example.com/a"}, {"name": "b"}],
                "nodeSelector": {"a": "b", "c": "d"}, "activeDeadlineSeconds": 100, "terminationGracePeriodSeconds": 30,
                "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
                "affinity": {
                    "nodeAffinity": {required: {"nodeSelectorTerms": terms}},
                    "podAntiAffinity": {required: [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}]},
                },
            }}),
        ),
    ];
    all.extend(policies());
    all.extend(devices());
    all.extend(certificates());
    all.extend(previews());
    all
}

fn pods() -> Vec<Skeleton> {
    let path = concat!("/api/v1/namespaces/default", "/pods");
    let plain = json!({"containers": [{"name": "a", "image": "b"}]});
    let on_host = json!({
        "hostNetwork": true, "containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 80, "hostPort": 80}]}],
        "initContainers": [], "topologySpreadConstraints": null, "securityContext": {"runAsNonRoot": true},
    });
    let windows = json!({
        "os": {"name": "windows"}, "containers": [{"name": "a", "image": "b", "securityContext": {
            "windowsOptions": {"runAsUserName": "DOMAIN\\user", "gmsaCredentialSpecName": "a.b"}}}],
    });
    let linux = json!({"os": {"name": "linux"}, "hostUsers": false, "containers": [
        {"name": "a", "image": "b", "restartPolicy": "Never", "restartPolicyRules": [
            {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]},
    ]});
    vec![
        of(path, "v1", "Pod", "rich", &json!({"spec": pod_spec(&json!({}))})),
        of(path, "v1", "Pod", "plain", &json!({"spec": plain})),
        of(path, "v1", "Pod", "host", &json!({"spec": pod_spec(&on_host)})),
        of(path, "v1", "Pod", "windows", &json!({"spec": windows})),
        of(path, "v1", "Pod", "linux", &json!({"spec": linux})),
        of(
            concat!("/api/v1/namespaces/default", "/podtemplates"),
            "v1",
            "PodTemplate",
            "template",
            &json!({"template": small_template("Always")}),
        ),
    ]
}

fn workloads() -> Vec<Skeleton> {
    let selector = json!({"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]});
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}});
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
    });
    let sets = in_group!("apps/v1/namespaces", "default/deployments");
    vec![
        of(
            sets,
            "apps/v1",
            "Deployment",
            "rich",
            &json!({"spec": {
                "replicas": 2, "selector": selector, "template": template(&json!({})), "strategy": rolling, "minReadySeconds": 5,
                "revisionHistoryLimit": 3, "progressDeadlineSeconds": 60,
            }}),
        ),
        of(
            sets,
            "apps/v1",
            "Deployment",
            "plain",
            &json!({"spec": {
                "selector": selector, "template": small_template("Always"), "strategy": {"type": "Recreate"},
            }}),
        ),
        of(
            in_group!("apps/v1/namespaces", "default/replicasets"),
            "apps/v1",
            "ReplicaSet",
            "set",
            &json!({"spec": {
                "replicas": 1, "minReadySeconds": 1, "selector": selector, "template": small_template("Always"),
            }}),
        ),
        of(
            in_group!("apps/v1/namespaces", "default/daemonsets"),
            "apps/v1",
            "DaemonSet",
            "daemon",
            &json!({"spec": {
                "selector": selector, "template": small_template("Always"), "minReadySeconds": 1, "revisionHistoryLimit": 2,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0}},
            }}),
        ),
        of(
            in_group!("apps/v1/namespaces", "default/statefulsets"),
            "apps/v1",
            "StatefulSet",
            "stateful",
            &json!({"spec": {
                "replicas": 3, "serviceName": "a-service", "podManagementPolicy": "Parallel", "selector": selector,
                "template": small_template("Always"), "volumeClaimTemplates": [claim], "minReadySeconds": 1,
                "revisionHistoryLimit": 2, "ordinals": {"start": 1},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
            }}),
        ),
        of(
            concat!("/api/v1/namespaces/default", "/replicationcontrollers"),
            "v1",
            "ReplicationController",
            "controller",
            &json!({"spec": {"replicas": 1, "minReadySeconds": 1, "selector": {"app": "a"}, "template": small_template("Always")}}),
        ),
        of(
            in_group!("apps/v1/namespaces", "default/controllerrevisions"),
            "apps/v1",
            "ControllerRevision",
            "revision",
            &json!({"revision": 3, "data": {"a": 1}}),
        ),
    ]
}

fn batch() -> Vec<Skeleton> {
    let jobs = in_group!("batch/v1/namespaces", "default/jobs");
    let job = json!({
        "parallelism": 2, "completions": 4, "activeDeadlineSeconds": 100, "backoffLimit": 3, "ttlSecondsAfterFinished": 10,
        "template": small_template("Never"), "podReplacementPolicy": "Failed", "managedBy": "example.com/controller",
        "podFailurePolicy": {"rules": [
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [1, 42]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]},
    });
    let mut indexed = job.clone();
    replace(
        &mut indexed,
        &json!({
            "completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 2,
            "successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]},
        }),
    );
    vec![
        of(jobs, "batch/v1", "Job", "rich", &json!({"spec": job})),
        of(jobs, "batch/v1", "Job", "indexed", &json!({"spec": indexed})),
        of(
            jobs,
            "batch/v1",
            "Job",
            "manual",
            &json!({"spec": {
                "manualSelector": true, "selector": {"matchLabels": {"app": "a"}}, "template": small_template("OnFailure"),
            }}),
        ),
        of(
            in_group!("batch/v1/namespaces", "default/cronjobs"),
            "batch/v1",
            "CronJob",
            "cron",
            &json!({"spec": {
                "schedule": "*/5 0 * 1-3 mon", "timeZone": "Europe/Berlin", "startingDeadlineSeconds": 10, "concurrencyPolicy": "Forbid",
                "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1, "suspend": true,
                "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"backoffLimit": 2, "template": small_template("OnFailure")}},
            }}),
        ),
    ]
}
