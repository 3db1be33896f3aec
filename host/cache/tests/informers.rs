//! Runs the example `informers` against the development server, from the first list to a clean end.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_client::{Client, ClientOptions, DeleteParams, WriteParams};
use pilothouse_devserver::{DevServer, DevServerOptions};
use pilothouse_object::Gvk;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[path = "../examples/informers.rs"]
#[allow(dead_code, reason = "its `main` is for the command line")]
mod informers;

/// How long a line may take to come.
const SOON: Duration = Duration::from_secs(30);

/// What the example has printed.
#[derive(Default)]
struct Printed {
    lines: Mutex<Vec<String>>,
    count: watch::Sender<usize>,
}

impl Printed {
    fn push(&self, line: String) {
        self.lines.lock().push(line);
        self.count.send_modify(|count| *count += 1);
    }

    /// Waits for a line that is not among the first `after`, and says how many there are with it.
    async fn hear(&self, wanted: &str, after: usize) -> usize {
        let find = |_: &usize| {
            let lines = self.lines.lock();
            lines.iter().skip(after).any(|line| line.starts_with(wanted))
        };
        let heard = tokio::time::timeout(SOON, self.count.subscribe().wait_for(find)).await.is_ok();
        assert!(heard, "no line {wanted:?} behind the first {after} of {:#?}", self.lines.lock());
        let lines = self.lines.lock();
        lines.iter().skip(after).position(|line| line.starts_with(wanted)).unwrap_or(0) + after + 1
    }
}

fn pod(name: &str, app: &str, node: &str) -> Vec<u8> {
    let text = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
    });
    text.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_follows_pods_retries_and_ends_cleanly() {
    let server =
        DevServer::start(DevServerOptions { tls: true, ..DevServerOptions::default() }).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    let options = ClientOptions { kubeconfig: Some(kubeconfig), ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    let pods = client.discover(&Gvk::new("", "v1", "Pod")).await.unwrap();
    let write = WriteParams::default();
    let create = async |name: &str, app: &str, node: &str| {
        client.create(&pods, Some("default"), &pod(name, app, node), &write).await.unwrap()
    };
    create("a", "web", "n1").await;
    create("b", "db", "n2").await;

    let printed = Arc::new(Printed::default());
    let shutdown = CancellationToken::new();
    let out = Arc::clone(&printed);
    let (own, ended) = (client.clone(), shutdown.clone());
    let running = tokio::spawn(async move {
        // An error that crosses threads is its text.
        informers::run(own, Arc::new(move |line| out.push(line)), ended).await.map_err(|e| e.to_string())
    });

    let first = "synced: 2 pods, of which 1 in default with app=web; on nodes: n1, n2";
    let start = printed.hear(first, 0).await;
    printed.hear("default/a is on n1, one of 1", start).await;
    printed.hear("default/b is on n2, one of 1", start).await;

    // One that is added, then one that cannot be worked on: it is tried five times more, later and later.
    create("c", "web", "n1").await;
    printed.hear("default/c is on n1, one of 2", start).await;
    create("d", "web", "").await;
    let given_up = printed.hear("default/d: not scheduled yet; left alone until it changes", start).await;
    let tries = |lines: &[String]| lines.iter().filter(|line| line.starts_with("default/d: ")).count();
    assert_eq!(tries(&printed.lines.lock()), 6, "{:#?}", printed.lines.lock());
    let uid = client.get(&pods, &"default/d".parse().unwrap(), None).await.unwrap().uid().to_owned();
    let binding = serde_json::json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "d", "namespace": "default", "uid": uid},
        "target": {"kind": "Node", "name": "n1"},
    });
    let path = "/api/v1/namespaces/default/pods/d/binding";
    let bound =
        client.request_raw(http::Method::POST, path, Some(binding.to_string().as_bytes())).await.unwrap();
    assert!(bound.0.is_success(), "{bound:?}");
    printed.hear("default/d is on n1, one of 3", given_up).await;

    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    client.delete(&pods, &"default/a".parse().unwrap(), &now).await.unwrap();
    printed.hear("default/a is gone", given_up).await;

    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(printed.lines.lock().last().map(String::as_str), Some("stopped"));
    server.shutdown().await;
}
