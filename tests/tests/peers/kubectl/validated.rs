//! What kubectl asks the OpenAPI documents for: validation, apply, diff, replace, edit and explain, of built-in kinds and of
//! a custom resource. Its own namespace keeps these commands apart from the others.

use std::borrow::Cow;

use super::{Compare, Step, run};

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example}
spec:
  group: stable.example
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        description: A table of times
        properties:
          spec:
            type: object
            description: What is wanted
            required: [cronSpec]
            properties:
              cronSpec: {type: string, description: The times}
              image: {type: string, default: plain}
              replicas: {type: integer, format: int32}
              mode: {type: string, enum: [Once, Always]}
              port: {x-kubernetes-int-or-string: true}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              tags:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [k]
                items:
                  type: object
                  required: [k]
                  properties: {k: {type: string, description: The key}, v: {type: string}}
          status: {type: object, properties: {done: {type: boolean}}}
"#;

/// What is explained with all its fields.
const EXPLAINED: &[&str] = &[
    "pods",
    "pods.spec.containers",
    "pods.spec.containers.ports",
    "pods.spec.volumes",
    "pods.metadata.ownerReferences",
    "deployments",
    "deployments.spec.strategy",
    "deployments.spec.strategy.type",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "services",
    "services.spec.ports.targetPort",
    "configmaps",
    "configmaps.data",
    "secrets",
    "serviceaccounts",
    "persistentvolumes",
    "persistentvolumeclaims",
    "nodes.status.capacity",
    "namespaces",
    "jobs",
    "cronjobs",
    "ingresses",
    "networkpolicies",
    "roles",
    "rolebindings",
    "leases",
    "events",
    "endpointslices",
    "storageclasses",
    "poddisruptionbudgets",
    "customresourcedefinitions",
    "validatingwebhookconfigurations",
    "horizontalpodautoscalers",
    "events --api-version=events.k8s.io/v1",
];

const MAIN: &str = r#"{name: main, image: "example/shop:1", env: [{name: A, value: a}]}"#;
const BOTH: &str = r#"{name: main, image: "example/shop:2", env: [{name: B, value: b}]},
                      {name: side, image: "example/side:1"}"#;

/// A ConfigMap with these data, which is not what kubectl's own validation would look at: `more` are other fields.
fn configmap(name: &str, data: &str, more: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {data}{more}}}")
}

fn deployment(replicas: u32, containers: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: shop}}, spec: {{replicas: {replicas},
          selector: {{matchLabels: {{app: shop}}}},
          template: {{metadata: {{labels: {{app: shop}}}}, spec: {{containers: [{containers}]}}}}}}}}"
    )
}

fn crontab(name: &str, spec: &str) -> String {
    format!("{{apiVersion: stable.example/v1, kind: CronTab, metadata: {{name: {name}}}, spec: {spec}}}")
}

fn list(objects: &[String]) -> String {
    format!("{{apiVersion: v1, kind: List, items: [{}]}}", objects.join(", "))
}

fn command(args: impl Into<Cow<'static, str>>, stdin: impl Into<Cow<'static, str>>) -> Step {
    Step { args: args.into(), stdin: stdin.into(), editor: "", compare: Compare::Output }
}

fn diff(stdin: String) -> Step {
    Step { compare: Compare::Changes, ..command("-n dock diff -f -", stdin) }
}

fn edit(args: &'static str, editor: &'static str) -> Step {
    Step { editor, ..command(args, "") }
}

/// What is done, in this order.
pub(super) fn steps() -> Vec<Step> {
    let mut steps = vec![run("create namespace dock")];
    steps.extend(validation());
    steps.extend(apply());
    steps.extend(replace_and_edit());
    steps.extend(generators());
    steps.extend(
        EXPLAINED.iter().map(|what| Step {
            compare: Compare::Fields,
            ..command(format!("explain --recursive {what}"), "")
        }),
    );
    for what in ["nothing", "pods.nothing", "pods.spec.containers.nothing", "pods --api-version=v9"] {
        steps.push(command(format!("explain {what}"), ""));
    }
    steps.extend(custom_resource());
    steps
}

/// Unknown fields and kinds, and how they are refused, told of or ignored.
fn validation() -> Vec<Step> {
    let unknown = |name: &str| configmap(name, "{a: b}", ", dta: {c: d}");
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: wrong}, spec: {nodename: a, containers: [{name: main, iamge: b}]}}";
    let twice =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"twice"},"data":{"a":"1","a":"2"}}"#;
    vec![
        command("-n dock create -f -", unknown("strict")),
        command("-n dock create --validate=strict -f -", unknown("strict")),
        command("-n dock create --validate=warn -f -", unknown("warned")),
        command("-n dock create --validate=ignore -f -", unknown("ignored")),
        command("-n dock create --validate=false -f -", unknown("false")),
        command("-n dock create -f -", pod),
        command("-n dock create --validate=warn -f -", twice),
        command("-n dock create -f -", "{apiVersion: v1, kind: Nothing, metadata: {name: x}}"),
        command(
            "-n dock create -f -",
            "{apiVersion: nothing.example/v1, kind: ConfigMap, metadata: {name: x}}",
        ),
        command("-n dock create -f -", "{kind: ConfigMap, metadata: {name: x}}"),
        command("-n dock create -f -", "{apiVersion: v1, kind: ConfigMap}"),
        command("-n dock create --dry-run=server -f -", configmap("dry", "{a: b}", "")),
        command("-n dock create --dry-run=client -f -", configmap("dry", "{a: b}", "")),
        command("-n dock create --dry-run=server -f -", unknown("dry")),
        command("-n dock create -o name -f -", configmap("named", "{a: b}", "")),
        command("-n dock create -o jsonpath={.data} -f -", configmap("pathed", "{a: b}", "")),
        command(
            "-n dock create -f -",
            list(&[configmap("one", "{a: b}", ""), configmap("two", "{a: b}", "")]),
        ),
        // Not with an unknown field in it: kubectl itself validates lists, by OpenAPI v2, which is empty on the development
        // server; there the server refuses the object.
        run("-n dock get configmaps -o name"),
        run("-n dock delete configmap one two warned ignored false"),
    ]
}

fn apply() -> Vec<Step> {
    let apply = |stdin: String| command("-n dock apply -f -", stdin);
    let colours = |data: &str| configmap("colours", data, "");
    let containers = "-n dock get deployment shop -o jsonpath={.spec.replicas}{.spec.template.spec.containers[*].name}\
                      {.spec.template.spec.containers[*].env}";
    let wrong = deployment(3, &MAIN.replace("env:", "enf:"));
    vec![
        apply(deployment(2, MAIN)),
        apply(deployment(2, MAIN)),
        diff(deployment(2, MAIN)),
        command("-n dock apply --dry-run=server -f -", deployment(3, BOTH)),
        command("-n dock apply --dry-run=client -f -", deployment(3, BOTH)),
        run(containers),
        apply(deployment(3, BOTH)),
        run(containers),
        apply(deployment(3, MAIN)),
        run(containers),
        apply(wrong.clone()),
        command("-n dock apply --validate=warn -f -", wrong),
        command("-n dock apply view-last-applied deployment shop -o json", ""),
        apply(colours("{a: red, b: blue}")),
        apply(colours("{a: red, c: green}")),
        run("-n dock get configmap colours -o jsonpath={.data}"),
        diff(colours("{a: red, c: pink}")),
        diff(colours("{a: red, c: green}")),
        diff(configmap("new", "{a: b}", "")),
        command("-n dock apply --overwrite=false -f -", colours("{a: black}")),
        run("-n dock get configmap colours -o jsonpath={.data}"),
        apply(list(&[configmap("one", "{a: b}", ""), configmap("two", "{a: b}", "")])),
        apply(list(&[configmap("one", "{a: c}", ""), configmap("two", "{a: b}", "")])),
        apply(format!("{}\n---\n{}\n", configmap("one", "{a: d}", ""), configmap("three", "{a: b}", ""))),
        command("-n dock apply set-last-applied --create-annotation -f -", configmap("named", "{a: b}", "")),
        apply(configmap("named", "{z: b}", "")),
        run("-n dock get configmap named -o jsonpath={.data}"),
        command("-n dock apply --force -f -", configmap("named", "{y: b}", "")),
        run("-n dock delete configmap one two three"),
    ]
}

fn replace_and_edit() -> Vec<Step> {
    let colours = |data: &str| configmap("colours", data, "");
    vec![
        command("-n dock replace -f -", colours("{only: one}")),
        command("-n dock replace -f -", configmap("colours", "{only: one}", ", dta: {}")),
        command("-n dock replace -f -", configmap("missing", "{only: one}", "")),
        command("-n dock replace --dry-run=server -f -", colours("{only: two}")),
        command("-n dock replace --force -f -", colours("{only: three}")),
        run("-n dock get configmap colours -o jsonpath={.data}"),
        edit("-n dock edit configmap colours", "sed -i s/three/four/"),
        run("-n dock get configmap colours -o jsonpath={.data}"),
        edit("-n dock edit configmap colours", "sed -i s/nothing/four/"),
        edit("-n dock edit deployment shop", "sed -i 's/replicas: 3/replicas: 7/'"),
        run("-n dock get deployment shop -o jsonpath={.spec.replicas}"),
        edit("-n dock edit deployment shop -o name", "sed -i s/example.shop:1/example:7/"),
        run("-n dock get deployment shop -o jsonpath={.spec.template.spec.containers[0].image}"),
        edit("-n dock edit configmap colours", "sed -i s/name:.colours/name:.other/"),
        edit("-n dock edit configmap missing", "true"),
    ]
}

/// Commands that make the object they send, all of them validated.
fn generators() -> Vec<Step> {
    [
        "set image deployment/shop main=example/shop:9",
        "set env deployment/shop X=y",
        "set env deployment/shop --list",
        "set resources deployment/shop --limits=cpu=200m,memory=64Mi",
        "get deployment shop -o jsonpath={.spec.template.spec.containers[0].resources}",
        "set serviceaccount deployment/shop robot",
        "set selector service/missing a=b",
        "rollout pause deployment/shop",
        "rollout resume deployment/shop",
        "rollout restart deployment/shop",
        "expose deployment shop --port=80 --target-port=8080 --cluster-ip=None",
        "get service shop -o jsonpath={.spec.selector}{.spec.ports[*].targetPort}",
        "autoscale deployment shop --min=2 --max=5 --cpu=50%",
        "get hpa -o name",
        "run quick --image=example/quick:1 --restart=Never",
        "run quick --image=example/quick:1 --dry-run=server",
        "get pod quick -o jsonpath={.spec.containers[0].image}",
        "create secret generic pass --from-literal=a=b",
        "create secret generic pass --from-literal=a=b",
        "create job once --image=example/job:1",
        "create cronjob often --image=example/job:1 --schedule=@hourly",
        "create ingress front --rule=example.com/=shop:80",
        "get ingress front -o jsonpath={.spec.rules[0].http.paths[0].pathType}",
        "create quota small --hard=pods=3",
        "create poddisruptionbudget shop --selector=app=shop --min-available=1",
        "create priorityclass high --value=10",
        "create clusterrole dock-reader --verb=get --resource=pods",
        "create clusterrolebinding dock-reader --clusterrole=dock-reader --user=jane",
        "delete deployment,service,hpa,job,cronjob,ingress,quota,pdb --all",
    ]
    .into_iter()
    .map(|args| command(format!("-n dock {args}"), ""))
    .collect()
}

fn custom_resource() -> Vec<Step> {
    let create = |spec: &str| command("-n dock create -f -", crontab("a", spec));
    let apply = |spec: &str| command("-n dock apply -f -", crontab("b", spec));
    let shown = "-n dock get crontab b -o jsonpath={.spec}";
    let mut steps = vec![
        command("create -f -", DEFINITION),
        run("wait --for condition=established crd/crontabs.stable.example --timeout=20s"),
        create(r#"{cronSpec: "* *", relpicas: 2}"#),
        create("{cronSpec: 7}"),
        create("{image: x}"),
        create(r#"{cronSpec: "* *", mode: Never}"#),
        create(r#"{cronSpec: "* *", replicas: 2}"#),
        command("-n dock create --validate=warn -f -", crontab("w", "{cronSpec: x, relpicas: 2}")),
        apply(r#"{cronSpec: "* *", tags: [{k: a, v: "1"}]}"#),
        apply(r#"{cronSpec: "* *", tags: [{k: b, v: "1"}]}"#),
        run(shown),
        apply(r#"{cronSpec: "* *", tgas: []}"#),
        diff(crontab("b", r#"{cronSpec: "* *", tags: [{k: c, v: "1"}]}"#)),
        command("-n dock replace -f -", crontab("b", r#"{cronSpec: "1 *"}"#)),
        edit("-n dock edit crontab b", "sed -i s/plain/fancy/"),
        run(shown),
        command(r#"-n dock patch crontab b --type merge -p {"spec":{"unknown":1}}"#, ""),
        command(r#"-n dock patch crontab b -p {"spec":{"unknown":1}}"#, ""),
    ];
    let explained = [
        "crontabs.spec",
        "ct.spec.tags",
        "ct.spec.cronSpec",
        "ct.spec.mode",
        "ct.spec.port",
        "ct.spec.template --recursive",
        "crontabs --recursive",
        "ct.nothing",
    ];
    steps.extend(explained.map(|what| command(format!("explain {what}"), "")));
    steps.push(command("-n dock delete crontabs --all", ""));
    steps.push(command("delete crd crontabs.stable.example", ""));
    steps
}
