//! Objects by hand and from manifests: what kubectl makes, shows, changes and deletes.

use super::{Step, run, with};

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web, tier: front}}
spec:
  nodeName: node-1
  containers:
  - {name: main, image: "example/web:1", ports: [{containerPort: 80}], env: [{name: A, value: a}]}
  - {name: side, image: "example/side:1"}
"#;

const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, labels: {app: shop}}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - {name: main, image: "example/shop:1", ports: [{containerPort: 80, name: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {clusterIP: None, selector: {app: shop}, ports: [{port: 80, targetPort: 8080, protocol: TCP}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: job, image: "example/job:1"}]}}}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {user: admin}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: "reader:all"}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: shop}}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: leader}
spec: {holderIdentity: me}
"#;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.sea.example}
spec:
  group: sea.example
  scope: Namespaced
  names: {plural: ships, kind: Ship, shortNames: [sp], categories: [fleet]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {status: {}, scale: {specReplicasPath: .spec.masts, statusReplicasPath: .status.masts}}
    additionalPrinterColumns:
    - {name: Masts, type: integer, jsonPath: .spec.masts}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Home, type: string, jsonPath: .spec.home, priority: 1}
"#;

const SHIP: &str = r#"
apiVersion: sea.example/v1
kind: Ship
metadata: {name: victory}
spec: {masts: 3, home: Portsmouth}
status: {conditions: [{type: Ready, status: "False"}]}
"#;

/// What is done, in this order. Namespaces are given with each command: `kubectl config` is not touched.
pub(super) const STEPS: &[Step] = &[
    run("create namespace yard"),
    run("create namespace yard"),
    run("create namespace Bad_Name"),
    run("get namespace yard"),
    run("get namespaces -o name"),
    // ConfigMaps, by hand.
    run("-n yard create configmap colours --from-literal=a=red --from-literal=b=blue"),
    run("-n yard get configmaps colours -o wide"),
    run("-n yard get configmap colours -o jsonpath={.data.a}"),
    run("-n yard get cm/colours -o jsonpath={.metadata.managedFields[*].nothing}"),
    run("-n yard describe configmap colours"),
    run("-n yard label configmap colours shade=dark"),
    run("-n yard label configmap colours shade=light"),
    run("-n yard label configmap colours shade=light --overwrite"),
    run("-n yard annotate configmap colours note=new"),
    run("-n yard get configmaps --show-labels"),
    run("-n yard get configmaps -L shade"),
    run("-n yard get configmaps -l shade=light,!other -o name"),
    run("-n yard get configmaps -l shade!=light -o name"),
    run("-n yard get configmaps --field-selector metadata.name=colours -o name"),
    run("-n yard get configmaps --field-selector data.a=red"),
    run("-n yard patch configmap colours --type merge -p {\"data\":{\"c\":\"green\",\"a\":null}}"),
    run(
        "-n yard patch configmap colours --type json -p [{\"op\":\"add\",\"path\":\"/data/d\",\"value\":\"pink\"}]",
    ),
    run("-n yard patch configmap colours --type json -p [{\"op\":\"remove\",\"path\":\"/data/c\"}]"),
    run(
        "-n yard patch configmap colours --type json -p [{\"op\":\"test\",\"path\":\"/data/d\",\"value\":\"x\"}]",
    ),
    run("-n yard patch configmap colours --type json -p [{\"op\":\"remove\",\"path\":\"/data/x\"}]"),
    run("-n yard patch configmap colours -p {\"data\":{\"e\":\"grey\"}}"),
    run("-n yard get configmap colours -o jsonpath={.data}"),
    run("-n yard label configmap colours bad/label/key=x"),
    run("-n yard label configmap colours good=-bad-"),
    with(
        "-n yard replace -f -",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: colours}, data: {only: one}}",
    ),
    run("-n yard get configmap colours -o jsonpath={.data}"),
    with(
        "-n yard replace -f -",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: missing}, data: {only: one}}",
    ),
    with(
        "-n yard replace -f -",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: colours, resourceVersion: \"1\"}}",
    ),
    run("-n yard create configmap ghost --from-literal=a=b --dry-run=server"),
    run("-n yard get configmaps -o name"),
    // Pods.
    with("-n yard create -f -", POD),
    with("-n yard create -f -", POD),
    run("-n yard get pods"),
    run("-n yard get pods -o wide"),
    run("-n yard get pods --field-selector spec.nodeName=node-1 -o name"),
    run("-n yard get pods --field-selector spec.nodeName!=node-1,status.phase=Pending -o name"),
    run("-n yard patch pod web --subresource=status -p \
         {\"status\":{\"phase\":\"Running\",\"podIP\":\"10.0.0.9\",\"podIPs\":[{\"ip\":\"10.0.0.9\"}],\"containerStatuses\":[{\"name\":\"main\",\"image\":\"x\",\"imageID\":\"\",\"ready\":true,\"restartCount\":2,\"state\":{\"running\":{}}},{\"name\":\"side\",\"image\":\"y\",\"imageID\":\"\",\"ready\":false,\"restartCount\":0,\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}}}]}}"),
    run("-n yard get pods -o wide"),
    run("-n yard get pods -A -o wide"),
    run("-n yard label pod web tier-"),
    run("-n yard patch pod web -p \
         {\"spec\":{\"containers\":[{\"name\":\"side\",\"image\":\"example/side:2\"}]}}"),
    run("-n yard get pod web -o jsonpath={.spec.containers[*].image}"),
    run("-n yard patch pod web -p \
         {\"spec\":{\"$setElementOrder/containers\":[{\"name\":\"main\"},{\"name\":\"side\"}],\"containers\":[{\"name\":\"main\",\"image\":\"example/web:2\"}]}}"),
    run("-n yard get pod web -o jsonpath={.spec.containers[*].image}"),
    run("-n yard delete pod web --now --wait=false"),
    run("-n yard delete pod web --force --grace-period=0"),
    run("-n yard get pod web"),
    // Workloads and others.
    with("-n yard create -f -", WORKLOADS),
    run("-n yard get deployment,service,cronjob,secret,role,pdb,lease"),
    run("-n yard get deployment,service,cronjob -o wide"),
    run("-n yard describe secret,role"),
    run("-n yard describe pdb shop"),
    run("describe namespace yard"),
    run("-n yard scale deployment shop --replicas=5"),
    run("-n yard scale deployment shop --replicas=1 --current-replicas=3"),
    run("-n yard get deployment shop -o jsonpath={.spec.replicas}/{.metadata.generation}"),
    run("-n yard patch deployment shop -p \
         {\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"extra\",\"image\":\"example/extra:1\"}]}}}}"),
    run("-n yard get deployment shop -o jsonpath={.spec.template.spec.containers[*].name}"),
    run("-n yard patch deployment shop -p \
         {\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"extra\",\"$patch\":\"delete\"}]}}}}"),
    run("-n yard get deployment shop -o jsonpath={.spec.template.spec.containers[*].name}"),
    run("-n yard patch deployment shop --subresource=status --type merge -p \
         {\"status\":{\"replicas\":5,\"readyReplicas\":4,\"updatedReplicas\":5,\"availableReplicas\":4}}"),
    run("-n yard get deployments"),
    run("-n yard get secret password -o jsonpath={.data.user}/{.type}"),
    run("-n yard create deployment quick --image=example/quick:1 --replicas=3"),
    run("-n yard get deployment quick"),
    run("-n yard create service clusterip plain --clusterip=None --tcp=80"),
    run("-n yard create serviceaccount robot"),
    run("-n yard create role looker --verb=get,list --resource=pods"),
    run("-n yard create rolebinding looker --role=looker --serviceaccount=yard:robot"),
    run("-n yard get rolebindings -o wide"),
    // Custom resources.
    with("create -f -", DEFINITION),
    run("wait --for condition=established crd/ships.sea.example --timeout=20s"),
    with("-n yard create -f -", SHIP),
    run("-n yard get ships"),
    run("-n yard get sp -o wide"),
    run("-n yard get fleet -o name"),
    run("-n yard get ship victory -o jsonpath={.status}"),
    run("-n yard patch ship victory --subresource=status --type merge -p \
         {\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}"),
    run("-n yard get ships"),
    run("-n yard scale ship victory --replicas=4"),
    run("-n yard get ship victory -o jsonpath={.spec.masts}/{.metadata.generation}"),
    run("-n yard patch ship victory -p {\"spec\":{\"masts\":1}}"),
    run("-n yard label ship victory flag=white"),
    run("-n yard delete ship victory"),
    run("delete crd ships.sea.example"),
    // What there is.
    run("api-resources --no-headers --verbs=list,get -o name --sort-by=name"),
    run("api-resources --no-headers --api-group=apps -o wide"),
    run("api-resources --no-headers --api-group=rbac.authorization.k8s.io -o name"),
    run("api-resources --no-headers --namespaced=false --api-group= "),
    run("get nothings"),
    run("-n yard get configmap missing"),
    run("-n yard get configmap missing --ignore-not-found"),
    run("-n nowhere get pods"),
    run("-n nowhere create configmap x"),
    // The end.
    with("-n yard apply -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}, data: {a: b}}"),
    with("-n yard apply -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}, data: {c: d}}"),
    run("-n yard get configmap applied -o jsonpath={.data}"),
    run("-n yard delete configmap colours"),
    run("-n yard delete deployment --all"),
    run("-n yard delete secret,service -l nothing=here"),
    run("auth can-i create pods -n yard"),
];
