//! The installation with Helm, on a real API server: installed, upgraded with other rights, rolled back and uninstalled; and
//! with the plugins in an image.
//! Without a server: what the chart refuses, and that `deploy/` is what the chart makes. At full length only, since Helm is
//! built for it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::paths::repository;
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_testkit::process::{self, Finished};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::go_program::HELM;
use pilothouse_tests::install::{NAME, NAMESPACE, Overlay, arguments, container, host_options, wait_probed};
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, full, helm, loglines, or_skip, rbac};
use serde_json::Value;

pilothouse_tests::on_the_real_server!(
    full: a_release_is_installed_upgraded_rolled_back_and_uninstalled,
    plugins_are_run_from_an_image_as_the_page_makes_it
);

/// An image of plugins. Nothing pulls it.
const IMAGE: &str =
    "registry.example/plugins@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// Where the plugin of a first installation works, and where that of the second does.
const WORK: [&str; 2] = ["install-before", "install-after"];

/// The command of docs/install.md, and further arguments.
fn install(plane: &ControlPlane, overlay: &Overlay, verb: &str, more: &[&str]) -> Result<Finished> {
    helm::release(Some(plane), overlay, verb, &[&helm::RBAC, more].concat())
}

/// The plugin works in another namespace from now on.
fn work_in(overlay: &Overlay, namespace: &str) -> Result<()> {
    let plugins = overlay.dir().join("plugins");
    fs::remove_dir_all(&plugins)?;
    plugins::put(&plugins, "noop", "noop", &Manifest::new("noop").reads(&["configmaps"], namespace))?;
    overlay.write_rbac(&[])
}

/// The namespaces with a Role of the release.
fn roles(plane: &ControlPlane) -> Result<Vec<String>> {
    let path = "{range .items[*]}{.metadata.namespace}{\"\\n\"}{end}";
    let listed = plane.kubectl(&[
        "get",
        "roles",
        "-A",
        "-l",
        "pilothouse.dev/rbac",
        "-o",
        &format!("jsonpath={path}"),
    ])?;
    Ok(listed.lines().map(str::to_owned).collect())
}

fn a_release_is_installed_upgraded_rolled_back_and_uninstalled() -> Result<()> {
    // With the controllers that make Pods: admission then judges them as they are made.
    let controllers = ["deployment", "replicaset"].map(str::to_owned).into();
    let plane = ControlPlane::start(Options { controllers, ..Options::on(Server::Real) })?;
    let cluster = Cluster::of(&plane)?;
    let overlay = Overlay::new()?;
    for namespace in [NAMESPACE, WORK[0], WORK[1]] {
        cluster.namespace(namespace)?;
    }
    plane.kubectl(&["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"])?;
    let done = |finished: Finished| {
        ensure!(finished.status.success(), "{finished:?}");
        anyhow::Ok(finished.stdout)
    };
    work_in(&overlay, WORK[0])?;
    let said = done(install(&plane, &overlay, "install", &[])?)?;
    ensure!(said.contains("kubectl rollout status deployment/pilothouse -n pilothouse"), "{said}");
    ensure!(roles(&plane)? == [WORK[0], NAMESPACE]);
    let pods = || -> Result<Vec<String>> {
        let pods = cluster.list("v1/Pod", NAMESPACE)?;
        Ok(pods
            .iter()
            .filter_map(|pod| pod["spec"]["containers"][0]["image"].as_str())
            .map(str::to_owned)
            .collect())
    };
    let image = |tag: &str| format!("registry.example/pilothouse:{tag}");
    poll::until("two Pods", SOON, || anyhow::Ok(pods()? == [image("0.1.0"), image("0.1.0")]))?;

    // A newer version with other plugins: the Role that nobody needs goes, and a Pod of the new version comes first.
    work_in(&overlay, WORK[1])?;
    done(install(&plane, &overlay, "upgrade", &["--set", "image.tag=0.2.0"])?)?;
    ensure!(roles(&plane)? == [WORK[1], NAMESPACE]);
    poll::until("a Pod of the new version beside two old ones", SOON, || {
        let mut images = pods()?;
        images.sort();
        anyhow::Ok(images == [image("0.1.0"), image("0.1.0"), image("0.2.0")])
    })?;
    done(helm::run(Some(&plane), &overlay, &["rollback", NAME, "1", "--namespace", NAMESPACE])?)?;
    ensure!(roles(&plane)? == [WORK[0], NAMESPACE]);

    done(helm::run(Some(&plane), &overlay, &["uninstall", NAME, "--namespace", NAMESPACE])?)?;
    ensure!(roles(&plane)?.is_empty());
    for kind in
        ["clusterroles", "clusterrolebindings", "rolebindings", "serviceaccounts", "deployments", "services"]
    {
        let left = plane.kubectl(&["get", kind, "-A", "-o", "name"])?;
        let ours = |line: &str| line.ends_with("/pilothouse") || line.ends_with("/pilothouse:pilothouse");
        ensure!(!left.lines().any(ours), "{kind}: {left}");
    }
    Ok(())
}

/// Writes the folder that a node mounts of the image which the `Dockerfile` of the page makes.
fn mount_image(overlay: &Overlay, at: &Path) -> Result<()> {
    let dockerfile = fs::read_to_string(overlay.dir().join("Dockerfile"))?;
    let instructions: Vec<&str> = dockerfile.lines().collect();
    // The instruction copies the content of the folder to the root.
    ensure!(instructions == ["FROM scratch", "COPY plugins/ /"], "{dockerfile}");
    fs::create_dir_all(at)?;
    for entry in fs::read_dir(overlay.dir().join("plugins"))? {
        let entry = entry?;
        let file = at.join(entry.file_name());
        fs::copy(entry.path(), &file)?;
        // An author's files are so by default. Those on a node belong to root.
        fs::set_permissions(file, fs::Permissions::from_mode(0o644))?;
    }
    fs::set_permissions(at, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn plugins_are_run_from_an_image_as_the_page_makes_it() -> Result<()> {
    let controllers = ["deployment", "replicaset"].map(str::to_owned).into();
    let plane = ControlPlane::start(Options { controllers, ..Options::on(Server::Real) })?;
    let cluster = Cluster::of(&plane)?;
    let overlay = Overlay::new()?;
    let dir = overlay.dir();
    overlay.write_rbac(&[])?;
    cluster.namespace(NAMESPACE)?;
    plane.kubectl(&["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"])?;

    // The values of the page, with an image in place of the ConfigMap.
    let values = fs::read_to_string(dir.join("values.yaml"))?;
    let changed =
        values.replace("configMap: {name: pilothouse-plugins}", &format!("image: {{reference: {IMAGE}}}"));
    ensure!(changed != values, "{values}");
    fs::write(dir.join("values.yaml"), changed)?;
    let installed = install(&plane, &overlay, "install", &[])?;
    ensure!(installed.status.success(), "{installed:?}");

    let deployment = cluster.get("apps/v1/Deployment", NAMESPACE, NAME)?.context("no Deployment")?;
    let has_image = |pod: &Value| {
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        volumes
            .filter(|volume| volume["name"] == "plugins")
            .any(|volume| volume["image"]["reference"] == IMAGE)
    };
    let template = &deployment["spec"]["template"];
    ensure!(has_image(template), "{}", template["spec"]["volumes"]);
    let args = arguments(&deployment)?;
    ensure!(!args.iter().any(|arg| arg == "--allow-writable-plugins"), "{args:?}");
    // Admission takes the Pods, and keeps the volume.
    poll::until("two Pods with the image", SOON, || {
        let pods = cluster.list("v1/Pod", NAMESPACE)?;
        anyhow::Ok(pods.len() == 2 && pods.iter().all(has_image))
    })?;

    let at = dir.join("host-0");
    mount_image(&overlay, &at.join("plugins"))?;
    rbac::kubeconfig(&plane, (NAMESPACE, NAME), &dir.join("kubeconfig"))?;
    let options = host_options(&deployment, "host-0", dir.join("kubeconfig"), at)?;
    let host = Host::start(options)?;
    wait_probed(&host, container(&deployment)?)?;
    host.wait_for("the plugin to run", SOON, || !loglines::events(&host, "plugin_running").is_empty())
}

/// What the chart says of an image beside the ConfigMap of the page.
const TWO_SOURCES: &str =
    "plugins.volume has configMap, image: a volume has one source; set the others to null";

#[test]
fn a_release_that_could_not_work_is_refused_with_a_remedy() -> Result<()> {
    full::only(|| or_skip(refused_releases))
}

fn refused_releases() -> Result<()> {
    let overlay = Overlay::new()?;
    overlay.write_rbac(&[])?;
    let cases: [(&[&str], &str); 9] = [
        (&["--set", "image.repository="], "image.repository is not set"),
        (&["--set", "plugins.volume=null"], "plugins.volume is not set"),
        (&["--set", "plugins.volume.image.reference=a"], TWO_SOURCES),
        // All namespaces have no form in `pilothouse rbac`.
        (&["--set", "plugins.fromCluster={*}"], "fromCluster"),
        (&["--set", "clusters.secret=clusters"], "clusters.names is empty"),
        (&["--set", "clusters.names={east}"], "clusters.secret is not set"),
        (&["--set", "serviceAccount=other"], "--service-account other > rbac.yaml"),
        (&["--set", "replica=3"], "additional properties 'replica' not allowed"),
        (&["--set", "lease=hosts"], "lease"),
    ];
    for (more, wanted) in cases {
        helm::refuses(&overlay, more, wanted)?;
    }
    // The remedy of two volume sources.
    let one = ["--set", "plugins.volume.image.reference=a", "--set", "plugins.volume.configMap=null"];
    let finished = helm::template(&overlay, &one)?;
    ensure!(finished.status.success() && finished.stdout.contains("reference: a\n"), "{finished:?}");
    ensure!(!finished.stdout.contains("name: pilothouse-plugins"), "{finished:?}");
    // Plugins of the cluster are a source as well: without a directory, nothing of it is left.
    let of_cluster = ["--set", "plugins.volume=null", "--set", "plugins.fromCluster={shop,tools}"];
    let finished = helm::template(&overlay, &of_cluster)?;
    ensure!(finished.status.success(), "{finished:?}");
    ensure!(finished.stdout.contains("- \"--plugins-from-cluster=shop,tools\"\n"), "{finished:?}");
    ensure!(
        !finished.stdout.contains("--plugins=") && !finished.stdout.contains("name: plugins"),
        "{finished:?}"
    );
    let finished = helm::release(None, &overlay, "template", &[])?;
    ensure!(finished.stderr.contains("add --set-file rbac=rbac.yaml"), "{finished:?}");
    // The roles of another namespace would give this release nothing.
    overlay.write_rbac(&["--namespace", "elsewhere"])?;
    helm::refuses(&overlay, &[], "rbac is for the account elsewhere/pilothouse")?;
    let finished = helm::run(None, &overlay, &["lint", helm::CHART])?;
    ensure!(finished.status.success(), "{finished:?}");
    Ok(())
}

#[test]
fn the_manifests_for_kustomize_are_what_the_chart_makes() -> Result<()> {
    full::only(|| or_skip(rendered_manifests))
}

fn rendered_manifests() -> Result<()> {
    let folder = tempfile::Builder::new().prefix("render-").tempdir()?;
    let deploy = repository().join("deploy");
    let mut command = Command::new("/bin/sh");
    command.arg(deploy.join("render.sh")).arg(folder.path()).env("HELM", HELM.built()?);
    let finished = process::run(&mut command, "", SOON)?;
    ensure!(finished.status.success(), "{finished:?}");
    for file in ["base/pilothouse.yaml", "monitoring/monitoring.yaml"] {
        let (kept, made) =
            (fs::read_to_string(deploy.join(file))?, fs::read_to_string(folder.path().join(file))?);
        ensure!(kept == made, "{file} is not what the chart makes: run deploy/render.sh");
    }
    let chart = fs::read_to_string(repository().join("charts/pilothouse/Chart.yaml"))?;
    let version = env!("CARGO_PKG_VERSION");
    for field in ["version", "appVersion"] {
        let found = chart.lines().find_map(|line| line.strip_prefix(&format!("{field}: ")[..]));
        ensure!(found.context(field)? == version, "{field} of the chart is not {version}");
    }
    Ok(())
}
