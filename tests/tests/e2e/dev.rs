//! `pilothouse dev`: from sources to reconciles on the embedded API server, and back to nothing.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::dev::{self, Dev};
use pilothouse_tests::{Signal, poll};

/// A cold build of the SDK and its dependencies, beside other suites.
const BUILD: Duration = Duration::from_secs(600);

fn folder() -> Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("dev-").tempdir().context("making a folder")
}

fn edit(path: &Path, from: &str, to: &str) -> Result<()> {
    let text = fs::read_to_string(path)?;
    ensure!(text.contains(from), "{} has no {from:?}", path.display());
    Ok(fs::write(path, text.replace(from, to))?)
}

fn total(dev: &Dev, node: &str) -> Result<serde_json::Value> {
    Ok(dev.get(&format!("/api/v1/namespaces/default/configmaps/pods-on-{node}"))?["data"]["total"].clone())
}

/// Waits until nothing that came of a run is left.
fn wait_gone(dev: &Dev) -> Result<()> {
    let gone = || match dev.processes() {
        left if left.is_empty() => Ok(true),
        left => Err(left.join("; ")),
    };
    poll::until("all of its processes to end", SOON, gone)
}

#[test]
fn a_guest_is_built_run_reloaded_at_every_change_and_ended() -> Result<()> {
    let (dir, objects) = (folder()?, dev::example_objects());
    let dir = dir.path();
    dev::share_target(dir)?;
    let guest = dir.join("guests/pods-per-node");
    dev::copy_example("pods-per-node", &guest)?;
    let source = guest.join("src/lib.rs");
    let objects = objects.to_str().context("a path")?;
    let dev = Dev::start(dir, &["guests", "--objects", objects])?;

    // From sources to what the guest does.
    dev.wait_lines(1, "reconciled worker-1 in", BUILD)?;
    dev.wait_for("the count of pods", SOON, || total(&dev, "worker-1").map(|total| total == "4"))?;
    let first = dev.lines("").into_iter().next().unwrap_or_default();
    ensure!(first.contains("not a Kubernetes distribution"), "{first}");
    let export = format!("export KUBECONFIG={}/.pilothouse/kubeconfig", dir.canonicalize()?.display());
    ensure!(dev.lines(&export).len() == 1, "no line {export:?}");
    ensure!(fs::read_to_string(dir.join(".pilothouse/.gitignore"))? == "*\n");

    // A change of the source.
    let mark = "let node = &request.key.name;";
    edit(&source, mark, &format!("info!(\"second version sees {{}}\", request.key);\n{mark}"))?;
    dev.wait_lines(1, "reloaded: generation 2", BUILD)?;
    dev.wait_lines(1, "second version sees worker-1", SOON)?;

    // A change that does not compile: the compiler's words, and the version before goes on.
    edit(&source, "second version sees", "third version {missing} sees")?;
    dev.wait_lines(1, "build failed", BUILD)?;
    ensure!(!dev.lines("cannot find value `missing` in this scope").is_empty());
    ensure!(dev.lines("keeping the previous version").len() == 1);
    let before = dev.lines("second version sees worker-3").len();
    dev.request("DELETE", "/api/v1/namespaces/default/configmaps/pods-on-worker-3")?.ok()?;
    dev.wait_lines(before + 1, "second version sees worker-3", SOON)?;
    dev.wait_for("the ConfigMap to be back", SOON, || total(&dev, "worker-3").map(|total| total == "0"))?;
    ensure!(dev.lines("reloaded:").len() == 1);

    // It is mended.
    edit(&source, "third version {missing} sees", "third version sees")?;
    dev.wait_lines(1, "reloaded: generation 3", BUILD)?;
    dev.wait_lines(1, "third version sees worker-1", SOON)?;

    // A change of the manifest alone: nothing is built.
    let builds = dev.lines("building").len();
    edit(&guest.join("pods-per-node.yaml"), "spec:\n", "spec:\n  limits: { callTimeout: 5s }\n")?;
    dev.wait_lines(1, "reloaded: generation 4", SOON)?;
    ensure!(dev.lines("manifest installed").len() == 1 && dev.lines("building").len() == builds);
    // One that cannot be read.
    edit(&guest.join("pods-per-node.yaml"), "callTimeout", "callTime")?;
    dev.wait_lines(1, "unknown field", SOON)?;
    ensure!(dev.lines("keeping the previous version").len() == 2);

    // A second one would be in its way.
    let second = dev::run(dir, &["guests"])?;
    ensure!(
        second.status.code() == Some(1) && second.stderr.contains("another `pilothouse dev`"),
        "{second:?}"
    );

    dev.signal(Signal::INT)?;
    let status = dev.wait_exit(SOON)?;
    ensure!(status.code() == Some(0), "{status}");
    ensure!(dev.lines("stopped").iter().filter(|line| line.ends_with("  stopped")).count() == 1);
    wait_gone(&dev)?;

    // Again: nothing is compiled. And as a component that something else builds.
    edit(&guest.join("pods-per-node.yaml"), "callTime:", "callTimeout:")?;
    let begin = Instant::now();
    let again = Dev::start(dir, &["guests/pods-per-node", "--objects", objects])?;
    again.wait_lines(1, "reconciled worker-1 in", SOON)?;
    eprintln!("second start: first reconcile after {:?}", begin.elapsed());
    ensure!(again.lines("up to date after").len() == 1, "it was built again");
    let built = dir.join("built");
    fs::create_dir(&built)?;
    for file in ["pods_per_node.wasm", "pods-per-node.yaml"] {
        fs::copy(dir.join(".pilothouse/plugins").join(file), built.join(file))?;
    }
    again.signal(Signal::TERM)?;
    ensure!(again.wait_exit(SOON)?.code() == Some(0));
    let component = Dev::start(dir, &["built", "--objects", objects])?;
    component.wait_lines(1, "reconciled worker-1 in", SOON)?;
    edit(&built.join("pods-per-node.yaml"), "callTimeout: 5s", "callTimeout: 6s")?;
    component.wait_lines(1, "reloaded: generation 2", SOON)?;
    component.signal(Signal::TERM)?;
    ensure!(component.wait_exit(SOON)?.code() == Some(0));
    on_a_cluster(dir, objects)
}

/// The same component on a server that is not its own.
fn on_a_cluster(dir: &Path, objects: &str) -> Result<()> {
    let other = folder()?;
    let cluster = Dev::start(other.path(), &["--api-only", "--objects", objects])?;
    cluster.wait_lines(1, "export KUBECONFIG=", SOON)?;
    let kubeconfig = cluster.kubeconfig()?;
    let kubeconfig = kubeconfig.to_str().context("a path")?;
    let dev = Dev::start(dir, &["built", "--kubeconfig", kubeconfig])?;
    dev.wait_lines(1, "reconciled worker-1 in", SOON)?;
    ensure!(total(&cluster, "worker-1")? == "4");
    let named = format!("cluster {}, v1.36", cluster.server()?);
    ensure!(dev.lines(&named).len() == 1 && dev.lines("export KUBECONFIG=").is_empty(), "no {named:?}");
    edit(&dir.join("built/pods-per-node.yaml"), "callTimeout: 6s", "callTimeout: 7s")?;
    dev.wait_lines(1, "reloaded: generation 2", SOON)?;
    dev.signal(Signal::TERM)?;
    ensure!(dev.wait_exit(SOON)?.code() == Some(0));
    Ok(())
}

#[test]
fn a_cluster_has_no_server_of_ours_and_must_answer() -> Result<()> {
    let dir = folder()?;
    for flags in [["--kubeconfig", "x", "--api-only"], ["--context", "x", "--tls"]] {
        let refused = dev::run(dir.path(), &flags)?;
        ensure!(refused.status.code() == Some(2) && refused.stderr.contains("cannot be used"), "{refused:?}");
    }
    for flag in ["--objects", "--api-host", "--controllers"] {
        let refused = dev::run(dir.path(), &["--context", "x", flag, "pods"])?;
        ensure!(refused.stderr.contains("cannot be used"), "{refused:?}");
    }
    let refused = dev::run(dir.path(), &["--context", "x", "--objects", "objects"])?;
    ensure!(refused.stderr.contains("cannot be used"), "{refused:?}");
    Ok(())
}

#[test]
fn objects_are_applied_again_when_their_file_changes() -> Result<()> {
    let dir = folder()?;
    let objects = dir.path().join("objects");
    fs::create_dir(&objects)?;
    let file = objects.join("colours.yaml");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: colours}\ndata: {a: red}\n";
    fs::write(&file, text)?;
    // Two servers in one folder, neither of which needs it for itself.
    let other = Dev::start(dir.path(), &["--api-only"])?;
    other.wait_lines(1, "export KUBECONFIG=", SOON)?;
    let dev = Dev::start(dir.path(), &["--api-only", "--objects", "objects"])?;
    dev.wait_lines(1, "export KUBECONFIG=", SOON)?;
    ensure!(dev.kubeconfig()? != other.kubeconfig()? && dev.server()? != other.server()?);
    let colour = || {
        Ok::<_, anyhow::Error>(dev.get("/api/v1/namespaces/default/configmaps/colours")?["data"]["a"].clone())
    };
    ensure!(colour()? == "red");
    fs::write(&file, text.replace("red", "blue"))?;
    dev.wait_for("the change", SOON, || colour().map(|colour| colour == "blue"))?;
    fs::write(&file, "apiVersion: v1\nkind: ConfigMap\n  metadata: [\n")?;
    let wrong = dev.wait_lines(1, "not YAML", SOON)?;
    ensure!(wrong[0].contains("colours.yaml") && wrong[0].contains("line 3"), "{wrong:?}");
    ensure!(colour()? == "blue");
    fs::write(
        objects.join("more.json"),
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"more"}}"#,
    )?;
    dev.wait_for("the Namespace", SOON, || dev.get("/api/v1/namespaces/more").map(|_| true))?;
    let path = dev.kubeconfig()?;
    dev.signal(Signal::TERM)?;
    ensure!(dev.wait_exit(SOON)?.code() == Some(0) && !path.exists());
    Ok(())
}

#[test]
fn the_api_server_alone_serves_what_it_is_given_where_it_is_told() -> Result<()> {
    let (dir, objects) = (folder()?, dev::example_objects());
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let objects = objects.to_str().context("a path")?;
    let args = ["--api-only", "--api-port", &port, "--objects", objects];
    let dev = Dev::start(dir.path(), &args)?;
    dev.wait_lines(1, "export KUBECONFIG=", SOON)?;
    ensure!(dev.server()? == format!("http://127.0.0.1:{port}"));
    let nodes = dev.get("/api/v1/nodes")?;
    ensure!(nodes["items"].as_array().map(Vec::len) == Some(3), "{nodes}");
    let pod = dev.get("/api/v1/namespaces/default/pods/web-1")?;
    ensure!(pod["status"]["phase"] == "Running", "{pod}");
    ensure!(dev.lines("admin:").is_empty());
    dev.signal(Signal::TERM)?;
    ensure!(dev.wait_exit(SOON)?.code() == Some(0));

    // The port is taken.
    let _taken = TcpListener::bind(format!("127.0.0.1:{port}"))?;
    let refused = dev::run(dir.path(), &args)?;
    ensure!(
        refused.status.code() == Some(1) && refused.stderr.contains("choose another port"),
        "{refused:?}"
    );
    Ok(())
}

/// A namespace with something in it, and an object whose owner is not there.
const OWNED: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: inside, namespace: other}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  namespace: default
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: none, uid: 00000000-0000-4000-8000-000000000000}]
";

#[test]
fn the_controllers_of_the_api_server_can_be_chosen() -> Result<()> {
    let dir = folder()?;
    let file = dir.path().join("owned.yaml");
    fs::write(&file, OWNED)?;
    let file = file.to_str().context("a path")?;
    let code = |dev: &Dev, method: &str, path: &str| dev.request(method, path).map(|answer| answer.status);
    let owned = "/api/v1/namespaces/default/configmaps/owned";
    let namespace = "/api/v1/namespaces/other";
    let without =
        Dev::start(dir.path(), &["--api-only", "--objects", file, "--controllers", "*,-garbage-collector"])?;
    without.wait_lines(1, "export KUBECONFIG=", SOON)?;
    without.request("DELETE", namespace)?.ok()?;
    without.wait_for("the namespace to be gone", SOON, || {
        code(&without, "GET", namespace).map(|code| code == 404)
    })?;
    // What came before has been looked at.
    ensure!(code(&without, "GET", owned)? == 200);
    let all = Dev::start(dir.path(), &["--api-only", "--objects", file])?;
    all.wait_lines(1, "export KUBECONFIG=", SOON)?;
    all.wait_for("the object to be collected", SOON, || code(&all, "GET", owned).map(|code| code == 404))?;
    let refused = dev::run(dir.path(), &["--api-only", "--controllers", "-pod"])?;
    ensure!(refused.status.code() == Some(2), "{refused:?}");
    ensure!(refused.stderr.contains("\"pod\"") && refused.stderr.contains("namespaces, pods"), "{refused:?}");
    Ok(())
}

#[test]
fn the_api_server_answers_to_the_names_that_it_is_given() -> Result<()> {
    let dir = folder()?;
    let flags = ["--api-only", "--api-host", "dev.example.org", "--api-host", "10.1.2.3"];
    let dev = Dev::start(dir.path(), &flags)?;
    dev.wait_lines(1, "export KUBECONFIG=", SOON)?;
    let server = dev.server()?;
    let address = server.strip_prefix("http://").context("an address")?;
    for (host, status) in [("DEV.example.org:80", 200), ("10.1.2.3", 200), ("example.org", 403)] {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(SOON))?;
        write!(stream, "GET /version HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let answer = std::io::read_to_string(stream)?;
        ensure!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
    }
    for wrong in ["http://dev.example.org", "dev.example.org:80", ""] {
        let refused = dev::run(dir.path(), &["--api-only", "--api-host", wrong])?;
        ensure!(refused.status.code() == Some(2), "{refused:?}");
        ensure!(refused.stderr.contains("without a scheme or a port"), "{refused:?}");
    }
    Ok(())
}

#[test]
fn a_path_with_nothing_to_run_is_refused_with_what_was_looked_for() -> Result<()> {
    let dir = folder()?;
    fs::create_dir(dir.path().join("empty"))?;
    for (path, words) in [("empty", "no plugin found in empty"), ("nowhere", "No such file")] {
        let finished = dev::run(dir.path(), &[path])?;
        ensure!(finished.status.code() == Some(1), "{finished:?}");
        ensure!(finished.stderr.starts_with("error: ") && finished.stderr.contains(words), "{finished:?}");
    }
    Ok(())
}

#[test]
fn an_interrupt_ends_a_build_under_way_with_all_its_processes() -> Result<()> {
    let dir = folder()?;
    let guest = dir.path().join("slow");
    fs::create_dir_all(guest.join("src"))?;
    let toml = "[package]\nname = \"slow\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n";
    fs::write(guest.join("Cargo.toml"), toml)?;
    fs::write(guest.join("src/lib.rs"), "")?;
    fs::write(guest.join("build.rs"), "fn main() { loop { std::thread::park(); } }")?;
    let dev = Dev::start(dir.path(), &["slow"])?;
    let script = || dev.processes().iter().any(|process| process.contains("build-script-build"));
    dev.wait_for("the build script to run", BUILD, script)?;
    dev.signal(Signal::INT)?;
    ensure!(dev.wait_exit(SOON)?.code() == Some(0));
    wait_gone(&dev)
}

#[test]
fn a_reader_that_goes_away_does_not_end_it() -> Result<()> {
    let dir = folder()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let mut command = dev::command(dir.path(), &["--api-only", "--api-port", &port])?;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut first = String::new();
    BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut first)?;
    ensure!(first.starts_with("pilothouse "), "{first}");
    let kubeconfig = dir.path().join(format!(".pilothouse/kubeconfig-{port}"));
    poll::until("the kubeconfig", SOON, || kubeconfig.exists())?;
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::INT)?;
    let ended = poll::until("its end", SOON, || child.try_wait().ok().flatten());
    if ended.is_err() {
        child.kill()?;
    }
    ensure!(ended?.code() == Some(0));
    let said = std::io::read_to_string(child.stderr.take().context("a pipe")?)?;
    ensure!(said.is_empty(), "{said}");
    Ok(())
}
