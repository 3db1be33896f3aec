//! Commands that ask for something to run, to be measured, decided or waited for: what they say where nothing runs.

use anyhow::{Context as _, Result, ensure};
use pilothouse_testkit::documents;
use pilothouse_tests::ControlPlane;
use pilothouse_tests::controlplane::{Options, Server};

use super::{Step, run, with};

const MANIFESTS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: dock}
---
apiVersion: v1
kind: Node
metadata: {name: crane}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: dock}
spec: {containers: [{name: main, image: "example/web:1"}]}
---
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: asked}
spec:
  signerName: example.org/signer
  usages: [client auth]
  # A request for the name `pilothouse`.
  request: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIUE1IY0NBUUF3RlRFVE1CRUdBMVVFQXd3S2NHbHNiM1JvYjNWelpUQlpNQk1HQnlxR1NNNDlBZ0VHQ0NxRwpTTTQ5QXdFSEEwSUFCQ2FUcy8rM3ViNlRYS0Q0MUlXWUZCd1drRGhSVGRZaFNIRWc4T2RrcXNreHlzOW9VUEhUCkVOUzhxRjZvM0lkVjdBVW91UVFab0lmc2ZXajVsR1g0V1lHZ0FEQUtCZ2dxaGtqT1BRUURBZ05JQURCRkFpRUEKdE5ZNUlDOVl1eW9sdTRqSWNzenBpWTFjejduOHFKY0Ezcytubkgrb0ZPQUNJRzFGcmRKeTJYNjZHNFJmRWo5Twp5a2hzaDlRbjY0clc3a1VpaldINjVkZjcKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==
"#;

/// What is done, in this order.
pub(super) const STEPS: &[Step] = &[
    with("create -f -", MANIFESTS),
    run("-n dock logs missing"),
    run("-n dock exec missing -- ls"),
    run("-n dock attach missing"),
    run("-n dock port-forward missing 8080:80"),
    // It asks for the phase first.
    run("-n dock port-forward web 8080:80"),
    run("top pods"),
    run("top nodes"),
    run("-n dock wait pod web --for=jsonpath={.status.phase}=Pending --timeout=20s"),
    run("-n dock wait pod web --for=condition=Ready --timeout=1s"),
    run("-n dock wait pod web --for=delete --timeout=1s"),
    run("-n dock wait pod missing --for=condition=Ready --timeout=1s"),
    run("-n dock create deployment lift --image=example/lift:1"),
    run("-n dock scale deployment lift --replicas=3"),
    run("-n dock scale deployment missing --replicas=3"),
    run("-n dock scale deployment lift --replicas=1 --current-replicas=3"),
    run("-n dock rollout status deployment lift --timeout=1s"),
    run("-n dock rollout history deployment lift"),
    run("-n dock rollout pause deployment lift"),
    run("-n dock rollout pause deployment lift"),
    run("-n dock rollout restart deployment lift"),
    run("-n dock rollout resume deployment lift"),
    run("-n dock rollout restart deployment lift"),
    run("-n dock rollout undo deployment lift"),
    run("-n dock set image deployment lift lift=example/lift:2"),
    run("-n dock set env deployment lift A=b"),
    run("-n dock set resources deployment lift --limits=cpu=1"),
    run("-n dock autoscale deployment lift --max=3"),
    run("-n dock get hpa lift -o jsonpath={.spec.minReplicas}/{.spec.maxReplicas}"),
    run("-n dock expose deployment lift --port=80"),
    run("cordon crane"),
    run("get nodes"),
    run("drain crane"),
    run("uncordon crane"),
    run("taint node crane load=heavy:NoSchedule"),
    run("taint node crane load-"),
    run("-n dock debug web --image=example/debug:1 -c debugger"),
    run("-n dock get pod web -o jsonpath={.spec.ephemeralContainers[*].name}"),
    run("-n dock create token missing"),
    run("certificate approve asked"),
    run("get csr asked -o jsonpath={.status.conditions[*].type}"),
    run("certificate approve missing"),
    run("auth can-i create pods"),
    run("auth can-i delete nodes --all-namespaces"),
    run("get --raw /api/v1/namespaces/dock/pods/web -o name"),
    run("get --raw /api/v1/namespaces/dock/pods/missing/log"),
    run("get --raw /apis/metrics.k8s.io/v1beta1/pods"),
    run("-n dock delete pod web"),
];

/// On the development server, of a pod that runs by the commands of the page.
pub(super) fn commands_that_need_containers_say_what_to_do_instead(server: Server) -> Result<()> {
    let plane = ControlPlane::start(Options::on(server))?;
    let blocks = documents::blocks_in("docs/dev.md", "console")?;
    let block =
        blocks.iter().find(|block| block.contains("--subresource=status")).context("the page's commands")?;
    for command in block.replace("\\\n", " ").lines().filter_map(|line| line.strip_prefix("$ kubectl ")) {
        plane.kubectl_line(command, "")?;
    }
    for (command, instead) in [
        ("logs web", "plugins log to the output of `pilothouse dev`"),
        ("exec web -- ls", "run the program on this machine"),
        ("attach web", "run the program on this machine"),
        ("cp web:/etc/hosts hosts", "run the program on this machine"),
        ("port-forward web 0:80", "connect to a program on this machine"),
        ("get --raw /api/v1/namespaces/default/pods/web/proxy/", "connect to a program on this machine"),
    ] {
        let refused = plane.kubectl(&command.split(' ').collect::<Vec<_>>());
        let said = refused.map_or_else(|error| format!("{error:#}"), |output| format!("it works: {output}"));
        ensure!(said.contains(instead) && said.contains("pilothouse dev --kubeconfig"), "{command}: {said}");
    }
    Ok(())
}
