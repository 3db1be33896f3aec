//! The upstream sample-controller, unmodified, on both servers: it makes Deployments of its resource Foo, and what comes of it
//! is equal, object by object.
//!
//! The real server has the garbage collector of kube-controller-manager, the development server its own. Nobody makes pods:
//! the status of Deployments is written by the test.

use std::process::Command;

use anyhow::{Context as _, Result};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::process::Process;
use pilothouse_tests::{Cluster, ControlPlane, clientgo};

use super::managed::errors_of;
use super::objects::Objects;
use super::{await_equal, compare_errors, on_all};

pilothouse_tests::on_the_real_server!(the_sample_controller_does_the_same_on_both_servers);

const FOO: &str = "samplecontroller.k8s.io/v1alpha1/Foo";
const DEPLOYMENT: &str = "apps/v1/Deployment";

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: foos.samplecontroller.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, for a test"}
spec:
  group: samplecontroller.k8s.io
  scope: Namespaced
  names: {plural: foos, kind: Foo}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [deploymentName]
            properties:
              deploymentName: {type: string}
              replicas: {type: integer, minimum: 1, maximum: 10}
          status:
            type: object
            properties: {availableReplicas: {type: integer}}
"#;

/// A Foo that the controller can serve, and one whose Deployment belongs to somebody else.
const FOOS: &str = r#"
apiVersion: samplecontroller.k8s.io/v1alpha1
kind: Foo
metadata: {name: example}
spec: {deploymentName: example-foo, replicas: 1}
---
apiVersion: samplecontroller.k8s.io/v1alpha1
kind: Foo
metadata: {name: late}
spec: {deploymentName: taken, replicas: 1}
"#;

const AVAILABLE: &str = r#"patch deployment example-foo --subresource=status --type=merge -p '{"status":{"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1}}'"#;

type Condition = fn(&Objects) -> bool;

const STEPS: [(&str, &str, &str, Condition); 5] = [
    ("a Deployment with an owner, and one that is taken", "create -f -", FOOS, |found| {
        let owner = |deployment: &serde_json::Value| {
            let owner = &deployment["metadata"]["ownerReferences"][0];
            owner["kind"] == "Foo" && owner["name"] == "example" && owner["controller"] == true
        };
        found.of("Deployment", "example-foo").any(owner)
            && found.has_event("example", "Synced")
            && found.has_event("late", "ErrResourceExists")
    }),
    ("the status follows the Deployment's", AVAILABLE, "", |found| {
        found.of("Foo", "example").any(|found| found["status"]["availableReplicas"] == 1)
    }),
    ("a changed number of replicas is corrected", "scale deployment example-foo --replicas=3", "", |found| {
        let corrected = |deployment: &serde_json::Value| {
            deployment["spec"]["replicas"] == 1 && deployment["metadata"]["generation"] == 3
        };
        found.of("Deployment", "example-foo").any(corrected)
    }),
    (
        "the Deployment follows its Foo",
        r#"patch foo example --type=merge -p '{"spec":{"replicas":2}}'"#,
        "",
        |found| found.of("Deployment", "example-foo").any(|deployment| deployment["spec"]["replicas"] == 2),
    ),
    ("the Deployment goes with its Foo", "delete foo example --timeout=60s", "", |found| {
        found.count("Deployment", "example-foo") == 0 && found.count("Deployment", "taken") == 1
    }),
];

/// A server with a running sample-controller. The program is dropped before the server.
struct Sampled {
    name: &'static str,
    program: Process,
    cluster: Cluster,
    plane: ControlPlane,
}

impl Sampled {
    fn start(name: &'static str, options: Options, program: &std::path::Path) -> Result<Self> {
        let plane = ControlPlane::start(options)?;
        let wait = "wait crd foos.samplecontroller.k8s.io --for=condition=Established --timeout=60s";
        for command in ["create -f -", wait, "create deployment taken --image=nginx"] {
            plane.kubectl_line(command, DEFINITION)?;
        }
        let mut command = Command::new(program);
        let program = Process::spawn_watched(command.arg("-v=4").arg("-kubeconfig").arg(plane.kubeconfig()))?;
        Ok(Self { name, program, cluster: Cluster::of(&plane)?, plane })
    }
}

fn the_sample_controller_does_the_same_on_both_servers() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let program = dir.path().join("sample-controller");
    clientgo::build_sample_controller(&program)?;
    let controllers = vec!["garbage-collector-controller".to_owned()];
    let servers = [
        Sampled::start("the real server", Options { controllers, ..Options::on(Server::Real) }, &program)?,
        Sampled::start("the development server", Options::on(Server::Development), &program)?,
    ];
    let names = servers.each_ref().map(|server| server.name);
    for (what, command, manifest, until) in STEPS {
        on_all(&servers, |server| server.plane.kubectl_line(command, manifest).map(drop))?;
        let read =
            || servers.iter().map(|server| Objects::read(&server.cluster, &[FOO, DEPLOYMENT])).collect();
        await_equal(&names, read, until).with_context(|| what.to_owned()).with_context(|| {
            servers.each_ref().map(|server| server.program.output().tail(10)).join("\n---\n")
        })?;
    }
    compare_errors(&errors_of(&servers[0].program)?, &errors_of(&servers[1].program)?, servers[1].name)
}
