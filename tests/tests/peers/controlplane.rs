//! Proves the harness: the control plane is a real one, and the API server can be killed, paused and made to forget.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::go_program::CONTROLPLANE;
use pilothouse_tests::{ControlPlane, Proxy, Signal, poll};

pilothouse_tests::on_the_real_server!(
    the_shared_control_plane_has_what_a_cluster_has,
    both_kubeconfigs_are_of_an_admin,
    an_impersonated_service_account_without_rights_is_refused,
    a_client_can_be_made,
    a_killed_api_server_comes_back_on_its_port_with_its_data,
    a_paused_api_server_accepts_but_does_not_answer,
    without_a_watch_cache_a_compaction_makes_old_versions_gone,
    with_a_watch_cache_old_versions_are_gone_after_a_restart,
    a_proxy_fits_between,
    controllers_run_on_demand,
    nothing_is_left_behind,
);

/// The resource version of a ConfigMap of the namespace `default`.
fn version(plane: &ControlPlane, name: &str) -> Result<String> {
    plane.kubectl(&["get", "configmap", name, "-o", "jsonpath={.metadata.resourceVersion}"])
}

fn create(plane: &ControlPlane, name: &str) -> Result<String> {
    plane.kubectl(&["create", "configmap", name, "--from-literal=key=value"])?;
    version(plane, name)
}

/// The frames of a watch on ConfigMaps from a version, which the server ends after a second.
fn watch(plane: &ControlPlane, version: &str) -> Result<Vec<serde_json::Value>> {
    let path = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&resourceVersion=";
    let frames = plane.kubectl(&["get", "--raw", &format!("{path}{version}")])?;
    frames.lines().map(|line| serde_json::from_str(line).context("a frame")).collect()
}

fn the_shared_control_plane_has_what_a_cluster_has() -> Result<()> {
    let plane = ControlPlane::shared(Server::Real)?;
    let version: serde_json::Value = serde_json::from_str(&plane.kubectl(&["version", "-o", "json"])?)?;
    let wanted = CONTROLPLANE.version_of("k8s.io/kubernetes")?;
    for side in ["clientVersion", "serverVersion"] {
        assert_eq!(version[side]["gitVersion"], wanted, "{version}");
    }
    plane.kubectl(&["get", "namespace", "default", "kube-system"])?;

    // Pods need no service account where nobody makes any.
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lonely"},
        "spec": {"containers": [{"name": "a", "image": "none"}]}}"#;
    assert_eq!(plane.kubectl_with(&["create", "-f", "-"], pod)?.trim(), "pod/lonely created");
    Ok(())
}

fn both_kubeconfigs_are_of_an_admin() -> Result<()> {
    let plane = ControlPlane::shared(Server::Real)?;
    for (kubeconfig, user) in [(plane.kubeconfig(), "admin"), (plane.kubeconfig_token(), "admin-by-token")] {
        let path = kubeconfig.to_str().context("path")?;
        let whoami =
            ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}"];
        let answer = plane.kubectl(&[&["--kubeconfig", path], whoami.as_slice()].concat())?;
        assert_eq!(answer, format!(r#"{user} ["system:masters","system:authenticated"]"#));
    }
    Ok(())
}

fn an_impersonated_service_account_without_rights_is_refused() -> Result<()> {
    let plane = ControlPlane::shared(Server::Real)?;
    let account = "--as=system:serviceaccount:default:nobody";
    let error =
        plane.kubectl(&["get", "--raw", "/api/v1/namespaces/default/configmaps", account]).unwrap_err();
    let said = format!("{error:#}");
    assert!(said.contains("Forbidden") && said.contains("system:serviceaccount:default:nobody"), "{said}");

    // The rights are what it lacked.
    let granted = ["rolebinding", "nobody", "--clusterrole=cluster-admin", "--serviceaccount=default:nobody"];
    plane.kubectl(&[&["create"], granted.as_slice()].concat())?;
    poll::until("the grant to count", SOON, || plane.kubectl(&["get", "configmaps", account]).map(|_| true))
}

fn a_client_can_be_made() -> Result<()> {
    let plane = ControlPlane::shared(Server::Real)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let version = runtime.block_on(async { anyhow::Ok(plane.client().await?.server_version().await?) })?;
    assert_eq!(version.git_version, CONTROLPLANE.version_of("k8s.io/kubernetes")?);
    Ok(())
}

fn a_killed_api_server_comes_back_on_its_port_with_its_data() -> Result<()> {
    let plane = ControlPlane::start(Options::default())?;
    let before = plane.status()?;
    let version_before = create(&plane, "survivor")?;

    let restarted = Instant::now();
    let after = plane.restart_apiserver(Signal::KILL)?;
    eprintln!("restart by SIGKILL: {:?}", restarted.elapsed());
    assert_ne!(after.apiserver_pid, before.apiserver_pid);
    assert_eq!(after.pid, before.pid);
    assert_eq!(version(&plane, "survivor")?, version_before);

    let restarted = Instant::now();
    plane.restart_apiserver(Signal::TERM)?;
    eprintln!("restart by SIGTERM: {:?}", restarted.elapsed());
    assert_eq!(version(&plane, "survivor")?, version_before);

    let stopped = plane.stop_apiserver(Signal::KILL)?;
    assert!(!stopped.apiserver_running);
    let error = std::net::TcpStream::connect(plane.address()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    let error = plane.stop_apiserver(Signal::KILL).unwrap_err();
    assert!(format!("{error:#}").contains("409"), "{error:#}");
    assert!(plane.start_apiserver()?.apiserver_running);
    Ok(())
}

fn a_paused_api_server_accepts_but_does_not_answer() -> Result<()> {
    let plane = ControlPlane::start(Options::default())?;
    assert!(plane.pause_apiserver()?.apiserver_paused);
    let error = plane.kubectl(&["get", "--raw", "/readyz", "--request-timeout=500ms"]).unwrap_err();
    assert!(format!("{error:#}").contains("imeout"), "{error:#}");
    assert!(!plane.resume_apiserver()?.apiserver_paused);
    assert_eq!(plane.kubectl(&["get", "--raw", "/readyz"])?, "ok");

    // One that is paused can be stopped, in good order too.
    plane.pause_apiserver()?;
    assert!(!plane.stop_apiserver(Signal::TERM)?.apiserver_running);
    Ok(())
}

fn without_a_watch_cache_a_compaction_makes_old_versions_gone() -> Result<()> {
    let plane = ControlPlane::start(Options { watch_cache: false, ..Options::default() })?;
    let old = create(&plane, "first")?;
    create(&plane, "second")?;
    assert_eq!(watch(&plane, &old)?[0]["type"], "ADDED");

    let revision = plane.compact()?;
    assert_eq!(revision, plane.status()?.revision);
    let frames = watch(&plane, &old)?;
    assert_eq!(
        (&frames[0]["type"], &frames[0]["object"]["code"]),
        (&"ERROR".into(), &410.into()),
        "{frames:?}"
    );
    Ok(())
}

fn with_a_watch_cache_old_versions_are_gone_after_a_restart() -> Result<()> {
    let plane = ControlPlane::start(Options { min_request_timeout: Some(2), ..Options::default() })?;
    let old = create(&plane, "first")?;
    create(&plane, "second")?;
    plane.compact()?;
    assert_eq!(watch(&plane, &old)?[0]["type"], "ADDED", "the cache remembers");

    plane.restart_apiserver(Signal::KILL)?;
    // The fresh cache may be filled only after the API server is ready.
    poll::until("410", SOON, || watch(&plane, &old).map(|frames| frames[0]["object"]["code"] == 410))
}

fn a_proxy_fits_between() -> Result<()> {
    let plane = ControlPlane::shared(Server::Real)?;
    let proxy = Proxy::start(plane.address())?;
    let kubeconfig = plane.kubeconfig_via(&proxy)?;
    let path = kubeconfig.to_str().context("path")?;
    plane.kubectl(&["--kubeconfig", path, "get", "namespaces"])?;
    let seen = proxy.seen();
    assert!(seen.connections > 0 && seen.bytes_down > 1000, "{seen:?}");
    Ok(())
}

fn controllers_run_on_demand() -> Result<()> {
    let controllers = ["serviceaccount", "root-ca-cert-publisher", "deployment", "replicaset", "namespace"];
    let controllers = controllers.map(str::to_owned).to_vec();
    let plane = ControlPlane::start(Options { controllers, ..Options::default() })?;
    assert_ne!(plane.status()?.controllers_pid, 0);
    plane.kubectl(&["create", "deployment", "web", "--image=none", "--replicas=2"])?;
    poll::until("the deployment's pods", SOON, || {
        let pods = plane.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"])?;
        anyhow::Ok(pods.lines().count() == 2)
    })
}

fn nothing_is_left_behind() -> Result<()> {
    let plane = ControlPlane::start(Options::default())?;
    let (status, dir) = (plane.status()?, plane.dir().to_owned());
    let stopping = Instant::now();
    drop(plane);
    eprintln!("end of a control plane: {:?}", stopping.elapsed());
    assert!(!dir.exists());
    for pid in [status.pid, status.apiserver_pid] {
        assert!(!running(pid), "{pid}");
    }

    // Also when it has no chance to see to it.
    let plane = ControlPlane::start(Options::default())?;
    let status = plane.status()?;
    let killed = Command::new("kill").args(["-9", &status.pid.to_string()]).status()?;
    assert!(killed.success());
    poll::until("the API server to die with its parent", SOON, || !running(status.apiserver_pid))?;
    std::fs::remove_dir_all(plane.dir())?;
    Ok(())
}

/// Whether a process exists and is no zombie: orphans are reaped by whoever is process 1.
fn running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}
