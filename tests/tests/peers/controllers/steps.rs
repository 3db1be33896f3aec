//! What users do, and what has come of it before the servers are compared.

use serde_json::Value;

use super::objects::Objects;

/// Commands of kubectl, and their effect.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) commands: &'static [&'static str],
    /// Standard input of the commands.
    pub(super) manifest: &'static str,
    /// Whether the effect is there. It is compared whole.
    pub(super) until: fn(&Objects) -> bool,
    /// It takes minutes and runs at full length only.
    pub(super) is_slow: bool,
}

const fn step(name: &'static str, commands: &'static [&'static str], until: fn(&Objects) -> bool) -> Step {
    Step { name, commands, manifest: "", until, is_slow: false }
}

const NODE: &str = "{apiVersion: v1, kind: Node, metadata: {name: n1}}";

const MANIFESTS: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: set}
spec:
  serviceName: set
  replicas: 2
  selector: {matchLabels: {app: set}}
  template: {metadata: {labels: {app: set}}, spec: {containers: [{name: main, image: img}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemon}
spec:
  selector: {matchLabels: {app: daemon}}
  template: {metadata: {labels: {app: daemon}}, spec: {containers: [{name: main, image: img}]}}
"#;

const JOBS: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: three}
spec:
  completions: 3
  parallelism: 3
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: img}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: passing}
spec:
  ttlSecondsAfterFinished: 1
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: img}]}}
"#;

const CRON_JOBS: &str = r#"
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick-forbid}
spec:
  schedule: "* * * * *"
  concurrencyPolicy: Forbid
  jobTemplate: {spec: {template: {metadata: {labels: {held: ""}}, spec: {restartPolicy: Never, containers: [{name: main, image: img}]}}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick-replace}
spec:
  schedule: "* * * * *"
  concurrencyPolicy: Replace
  jobTemplate: {spec: {template: {metadata: {labels: {held: ""}}, spec: {restartPolicy: Never, containers: [{name: main, image: img}]}}}}
"#;

pub(super) const STEPS: &[Step] = &[
    Step {
        manifest: NODE,
        ..step("a node; a namespace has its service account and certificate", &["create -f -"], |found| {
            found.count("ServiceAccount", "default") == 1 && found.count("ConfigMap", "kube-root-ca.crt") == 1
        })
    },
    step(
        "a Deployment, a Service, a budget, a quota and an autoscaler",
        &[
            "create quota all --hard=pods=50,configmaps=20",
            "create deployment web --image=nginx --replicas=2",
            "expose deployment web --port=80",
            "create poddisruptionbudget web --selector=app=web --min-available=1",
            "autoscale deployment web --name=web --min=1 --max=5 --cpu=80%",
            "rollout status deployment web --timeout=60s",
        ],
        |found| {
            found.count("Pod", "web") == 2
                && all(found, "EndpointSlice", "web", |slice| {
                    slice["endpoints"].as_array().is_some_and(|e| e.len() == 2)
                })
                && all(found, "PodDisruptionBudget", "web", |budget| {
                    budget["status"]["disruptionsAllowed"] == 1
                })
                && all(found, "ResourceQuota", "all", |quota| quota["status"]["used"]["pods"] == "2")
                && found.has_event("web", "FailedGetResourceMetric")
        },
    ),
    Step {
        manifest: MANIFESTS,
        ..step(
            "a StatefulSet and a DaemonSet",
            &[
                "apply -f -",
                "rollout status statefulset set --timeout=60s",
                "rollout status daemonset daemon --timeout=60s",
            ],
            |found| found.count("Pod", "set") == 2 && found.count("Pod", "daemon") == 1,
        )
    },
    step(
        "a Job, and one of a CronJob",
        &[
            "create job once --image=busybox -- true",
            "create cronjob yearly --image=busybox --schedule=@yearly -- true",
            "create job manual --from=cronjob/yearly",
            "wait job once manual --for=condition=Complete --timeout=60s",
        ],
        |found| found.count("Pod", "once") == 1 && found.count("Pod", "manual") == 1,
    ),
    Step {
        manifest: JOBS,
        ..step(
            "a Job with three pods, and one that is deleted after its end",
            &["create -f -", "wait job three --for=condition=Complete --timeout=60s"],
            |found| {
                found.count("Pod", "three") == 3
                    && found.count("Job", "passing") + found.count("Pod", "passing") == 0
            },
        )
    },
    step(
        "a rollout",
        &["set image deployment web nginx=nginx:2", "rollout status deployment web --timeout=60s"],
        |found| found.count("ReplicaSet", "web") == 2 && found.count("Pod", "web") == 2,
    ),
    step(
        "a pause of a rollout",
        &[
            "rollout pause deployment web",
            "set image deployment web nginx=nginx:3",
            "scale deployment web --replicas=3",
        ],
        |found| found.count("ReplicaSet", "web") == 2 && found.count("Pod", "web") == 3,
    ),
    step(
        "its end",
        &["rollout resume deployment web", "rollout status deployment web --timeout=60s"],
        |found| found.count("ReplicaSet", "web") == 3 && found.count("Pod", "web") == 3,
    ),
    step(
        "a rollback",
        &[
            "rollout undo deployment web",
            "rollout status deployment web --timeout=60s",
            "scale deployment web --replicas=1",
        ],
        |found| found.count("Pod", "web") == 1,
    ),
    step(
        "a rollout of a StatefulSet",
        &["set image statefulset set main=img:2", "rollout status statefulset set --timeout=60s"],
        |found| found.count("ControllerRevision", "set") == 2,
    ),
    Step {
        is_slow: true,
        ..step(
            "a CronJob from kubectl's shortest command",
            &["create cronjob tick --image=busybox --schedule '*/1 * * * *' -- true"],
            |found| {
                found.has_event("tick", "SawCompletedJob")
                    && found.of("Pod", "tick").any(|pod| pod["status"]["phase"] == "Succeeded")
            },
        )
    },
    Step {
        is_slow: true,
        manifest: CRON_JOBS,
        ..step("CronJobs whose jobs do not end", &["create -f -"], |found| {
            found.has_event("tick-forbid", "JobAlreadyActive")
                && found.count("Job", "tick-forbid") == 1
                && found.has_event("tick-replace", "SuccessfulDelete")
                && found.count("Job", "tick-replace") == 1
        })
    },
    Step {
        is_slow: true,
        ..step("their deletion", &["delete cronjob --all --cascade=foreground --timeout=60s"], |found| {
            found.count("Job", "tick") + found.count("Pod", "tick") == 0
        })
    },
    step(
        "a deletion in the foreground",
        &["delete deployment web --cascade=foreground --timeout=60s"],
        |found| found.count("ReplicaSet", "web") + found.count("Pod", "web") == 0,
    ),
    step("a deletion in the background", &["delete job once --cascade=background --timeout=60s"], |found| {
        found.count("Pod", "once") == 0
    }),
    step(
        "a deletion that leaves orphans",
        &["delete statefulset set --cascade=orphan --timeout=60s"],
        |found| {
            found.count("Pod", "set") == 2
                && found.count("StatefulSet", "set") == 0
                && all(found, "Pod", "set", is_orphan)
        },
    ),
    step(
        "a namespace with a Deployment",
        &[
            "create namespace yard",
            "create deployment inside --image=nginx -n yard",
            "wait deployment inside -n yard --for=condition=Available --timeout=60s",
            "delete namespace yard --timeout=60s",
        ],
        |found| found.count("Namespace", "yard") == 0,
    ),
];

fn all(found: &Objects, kind: &str, stem: &str, holds: fn(&Value) -> bool) -> bool {
    found.count(kind, stem) > 0 && found.of(kind, stem).all(holds)
}

fn is_orphan(object: &Value) -> bool {
    object["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty)
}
