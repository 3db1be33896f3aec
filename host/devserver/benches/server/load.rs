//! A server on a thread of its own, clients, and pods to fill it with.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pilothouse_devserver::{DevServer, DevServerOptions};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// A server on one thread, which is bound to the first core.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Asks the thread for its CPU time.
    ask: tokio::sync::mpsc::UnboundedSender<oneshot::Sender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel::<oneshot::Sender<Duration>>();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            bind_to(0);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let server = DevServer::start(DevServerOptions::default()).await.expect("a server");
                tell.send(server.address()).expect("somebody waits");
                while let Some(answer) = asked.recv().await {
                    let _ = answer.send(cpu_time());
                }
            });
        });
        let address = told.recv().context("the server did not start")?;
        Ok(Self { address, ask, thread: Some(thread) })
    }

    /// The CPU time of the server's thread so far.
    pub(crate) async fn cpu(&self) -> Result<Duration> {
        let (answer, answered) = oneshot::channel();
        self.ask.send(answer)?;
        Ok(answered.await?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The thread ends when nobody can ask any more.
        self.ask = tokio::sync::mpsc::unbounded_channel().0;
        self.thread.take().map(JoinHandle::join);
    }
}

/// Runs clients on a thread of their own, on the second core if there is one.
pub(crate) fn on_clients<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let clients = std::thread::spawn(move || {
        bind_to(1);
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
    });
    clients.join().expect("the clients do not panic")
}

fn bind_to(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    // With one core only, or where it is not allowed, the figures are of a shared core.
    let _ = sched_setaffinity(None, &set);
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A connection, and the host that its requests name.
pub(crate) struct Client(http1::SendRequest<Full<Bytes>>, String);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self(sender, address.to_string()))
    }

    pub(crate) async fn begin(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        self.begin_accepting("application/json", method, path, body).await
    }

    async fn begin_accepting(
        &mut self,
        accept: &str,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let request =
            Request::builder().method(method).uri(path).header("host", &self.1).header("accept", accept);
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = request.header("content-type", kind).body(Full::new(body))?;
        self.0.ready().await?;
        let response = self.0.send_request(request).await?;
        let status = response.status();
        if !status.is_success() {
            let body = response.into_body().collect().await?.to_bytes();
            bail!("{method} {path}: {status} {}", String::from_utf8_lossy(&body));
        }
        Ok(response)
    }

    /// The size of the answer.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: Bytes) -> Result<usize> {
        size_of(self.begin(method, path, body).await?).await
    }

    /// As [`Client::send`], for what is read in a form of its own.
    pub(crate) async fn get(&mut self, path: &str, accept: &str) -> Result<usize> {
        size_of(self.begin_accepting(accept, "GET", path, Bytes::new()).await?).await
    }

    /// Makes the ReplicaSet that owns all pods, without which the garbage collector would delete them; its UID.
    pub(crate) async fn make_owner(&mut self) -> Result<String> {
        let labels = json!({"app": "service"});
        let container = json!({"name": "main", "image": "registry.example/team/service"});
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": OWNER},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        });
        let body = owner.to_string().into();
        let made = self.begin("POST", "/apis/apps/v1/namespaces/default/replicasets", body).await?;
        let made: Value = serde_json::from_slice(&made.into_body().collect().await?.to_bytes())?;
        Ok(made["metadata"]["uid"].as_str().context("a UID")?.to_owned())
    }
}

/// Reads an answer to its end.
async fn size_of(answer: Response<Incoming>) -> Result<usize> {
    let (mut body, mut size) = (answer.into_body(), 0);
    while let Some(frame) = body.frame().await {
        size += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(size)
}

/// The ReplicaSet that owns all pods.
const OWNER: &str = "service-0123456789";

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Which pods have the same fields, and so share their managed fields.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Alike {
    /// Those of one of 200 workloads, as in a cluster: their variables have the same names.
    Workload,
    /// None.
    Nothing,
}

/// A pod of about 3.5 KB with names, hashes and values of its own; `owner` is the UID of its ReplicaSet.
pub(crate) fn pod(number: usize, owner: &str, alike: Alike) -> Bytes {
    let workload = number % 200;
    let variant = match alike {
        Alike::Workload => workload,
        Alike::Nothing => number,
    };
    let mut random = StdRng::seed_from_u64(number as u64);
    let mut word = |length: usize| -> String {
        (0..length)
            .map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[random.random_range(0..36)]))
            .collect()
    };
    let variables: Vec<Value> =
        (0..28).map(|n| json!({"name": format!("SETTING_{n}_{variant:04}"), "value": word(30)})).collect();
    let container = |name: &str, image: String, variables: &[Value]| {
        json!({
            "name": name, "image": image, "env": variables,
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": [{"mountPath": "/var/run/secrets", "name": "token", "readOnly": true}],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
        })
    };
    let image = format!("registry.example/team/service@sha256:{}", word(64));
    let name = format!("service-{number:06}-{}", word(5));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": format!("service-{workload}"), "pod-template-hash": word(10), "tier": "backend"},
            "annotations": {"example.com/checksum": word(64), "example.com/owner": word(20)},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": OWNER, "controller": true, "uid": owner,
            }],
        },
        "spec": {
            "nodeName": format!("node-{}", number % 100),
            "serviceAccountName": "service",
            "containers": [container("main", image.clone(), &variables[..22]), container("proxy", image, &variables[22..])],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
    });
    pod.to_string().into()
}
