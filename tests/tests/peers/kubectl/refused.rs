//! The commonest mistakes in manifests, and what kubectl shows of them: causes word by word and in their order.

use super::validated::words;
use super::{Step, run};

fn create(manifest: &str) -> Step {
    words("-n dock create -f -", manifest.to_owned())
}

/// A Deployment with this spec of its Pods, and more in its own.
fn deployment(pods: &str, more: &str) -> Step {
    create(&format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: wrong}}, spec: {{{more}
          template: {{metadata: {{labels: {{app: a}}}}, spec: {pods}}}}}}}"
    ))
}

/// What is done, in this order, in the namespace `dock`.
pub(super) fn steps() -> Vec<Step> {
    const SELECTOR: &str = "selector: {matchLabels: {app: a}},";
    let pods = |pods: &str| deployment(pods, SELECTOR);
    let container = |more: &str| pods(&format!("{{containers: [{{name: main, image: b, {more}}}]}}"));
    let of_deployment = |more: &str| deployment("{containers: [{name: a, image: b}]}", more);
    let object = |api_version: &str, kind: &str, rest: &str| {
        create(&format!("{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: wrong}}, {rest}}}"))
    };
    let service = |spec: &str| object("v1", "Service", &format!("spec: {spec}"));
    let job = |spec: &str| object("batch/v1", "Job", &format!("spec: {spec}"));
    let path = |path: &str| {
        object(
            "networking.k8s.io/v1",
            "Ingress",
            &format!("spec: {{rules: [{{http: {{paths: [{path}]}}}}]}}"),
        )
    };
    let scaler = |spec: &str| object("autoscaling/v2", "HorizontalPodAutoscaler", &format!("spec: {spec}"));
    let rbac = |kind: &str, rest: &str| object("rbac.authorization.k8s.io/v1", kind, rest);
    vec![
        pods("{containers: [{image: b}]}"),
        pods("{containers: [{name: A_b}]}"),
        pods("{containers: []}"),
        pods("{containers: [{name: a, image: b}, {name: a, image: c}]}"),
        container("ports: [{containerPort: 70000}, {containerPort: 80, name: much-too-long-name}]"),
        container("volumeMounts: [{name: data, mountPath: /data}]"),
        container("resources: {limits: {cpu: 1}, requests: {cpu: 2}}"),
        container("env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"),
        container("livenessProbe: {periodSeconds: 3}"),
        container("imagePullPolicy: Sometimes"),
        pods("{containers: [{name: a, image: b}], restartPolicy: Never}"),
        pods("{containers: [{name: a, image: b}], volumes: [{name: v, emptyDir: {}, hostPath: {path: /a}}]}"),
        of_deployment("selector: {matchLabels: {app: other}},"),
        of_deployment("selector: {matchLabels: {app: -bad-}},"),
        of_deployment(&format!("replicas: -1, {SELECTOR}")),
        of_deployment(&format!("{SELECTOR} strategy: {{type: Recreate, rollingUpdate: {{maxSurge: 1}}}},")),
        of_deployment(&format!(
            "{SELECTOR} strategy: {{rollingUpdate: {{maxSurge: 0, maxUnavailable: 0}}}},"
        )),
        create(
            "{apiVersion: v1, kind: Pod, metadata: {name: Wrong_Name, labels: {a: b c}}, spec: {containers: [{name: a, image: b}]}}",
        ),
        create(
            "{apiVersion: v1, kind: Pod, metadata: {name: wrong}, spec: {containers: [{name: a, image: ''}]}}",
        ),
        service("{selector: {a: b}}"),
        service("{ports: [{port: 80}, {port: 81}]}"),
        service("{ports: [{port: 70000}]}"),
        service("{type: Nothing, ports: [{port: 80}]}"),
        service("{type: ExternalName}"),
        service("{ports: [{port: 80, nodePort: 30000}]}"),
        job("{template: {spec: {containers: [{name: a, image: b}]}}}"),
        job(
            "{completionMode: Indexed, template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}",
        ),
        object(
            "batch/v1",
            "CronJob",
            "spec: {schedule: '61 * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}",
        ),
        path("{path: a, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}"),
        path("{path: /a, pathType: Wrong, backend: {service: {name: a, port: {}}}}"),
        path("{path: /a, pathType: Exact, backend: {}}"),
        scaler("{scaleTargetRef: {kind: Deployment, name: a, apiVersion: apps/v1}}"),
        scaler(
            "{maxReplicas: 1, minReplicas: 2, scaleTargetRef: {kind: Deployment, name: a, apiVersion: apps/v1}}",
        ),
        rbac("Role", "rules: [{apiGroups: [''], resources: [pods]}]"),
        rbac(
            "RoleBinding",
            "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Rule, name: a}, subjects: [{kind: User, name: ''}]",
        ),
        object("policy/v1", "PodDisruptionBudget", "spec: {minAvailable: 1, maxUnavailable: 1}"),
        object("v1", "Secret", "type: kubernetes.io/tls, stringData: {tls.crt: a}"),
        object("v1", "ConfigMap", "data: {'a/b': c}"),
        object("v1", "PersistentVolumeClaim", "spec: {accessModes: [Write]}"),
        object("v1", "ResourceQuota", "spec: {hard: {cows: 3}}"),
        // What is there already may not become wrong either.
        words("-n dock create deployment good --image=b", ""),
        words(r#"-n dock patch deployment good -p {"spec":{"replicas":-1}}"#, ""),
        words(r#"-n dock patch deployment good -p {"metadata":{"labels":{"a":"-b-"}}}"#, ""),
        words(
            r#"-n dock patch deployment good --type json -p [{"op":"remove","path":"/spec/template/spec/containers/0/image"}]"#,
            "",
        ),
        words("-n dock set image deployment/good b=", ""),
        words("-n dock scale deployment good --replicas=-2", ""),
        run("-n dock delete deployment good"),
    ]
}
