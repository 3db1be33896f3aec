//! Our own client process: a shared informer of all pods with a namespace and a node index, over TLS and HTTP/2.

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use pilothouse_cache::{
    Compression, FactoryOptions, IndexFn, InformerLease, InformerOptions, Listener, Registration,
    SharedInformer, SharedInformerFactory,
};
use pilothouse_client::{ApiResource, Client, ClientOptions};
use pilothouse_object::{Gvk, Object, ObjectKey};

use crate::usage::{Latencies, Usage};

/// First word of the command line of such a process: `client KUBECONFIG VARIANT`.
pub(crate) const COMMAND: &str = "client";

/// No first sync takes as long, that of a million pods included.
const PATIENCE: Duration = Duration::from_secs(300);

/// As `tests/peers/clientgo/pods` writes it.
const SENT_ANNOTATION: &str = "bench.example.com/sent";

/// How objects are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// As their bytes.
    Plain,
    /// Packed with a dictionary of their kind.
    Compressed,
}

impl Variant {
    /// All there are.
    pub(crate) const ALL: [Self; 2] = [Self::Plain, Self::Compressed];

    /// In tables and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Compressed => "compressed",
        }
    }

    /// The one place where a variant becomes an option of the informer.
    pub(crate) fn informer_options(self) -> InformerOptions {
        let compression = match self {
            Self::Plain => Compression::Off,
            Self::Compressed => Compression::Auto,
        };
        InformerOptions { compression, ..InformerOptions::default() }
    }
}

/// The resource of all benchmarks.
pub(crate) fn pods() -> ApiResource {
    ApiResource {
        verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
        ..ApiResource::new(Gvk::new("", "v1", "Pod"), "pods", true)
    }
}

/// The index that every informer of the benchmark has beside that of namespaces.
pub(crate) fn node_index() -> anyhow::Result<IndexFn> {
    Ok(IndexFn::path("/spec/nodeName".parse()?))
}

impl Listener for Latencies {
    fn on_add(&self, _: &Object, _: bool) {}

    fn on_update(&self, _: &Object, new: &Object, _: bool) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let sent = new.annotation(SENT_ANNOTATION).and_then(|sent| sent.parse::<u128>().ok());
        if let Some(sent) = sent.filter(|sent| *sent > 0) {
            self.0.lock().push(now.saturating_sub(sent) as f64 / 1e3);
        }
    }

    fn on_delete(&self, _: &ObjectKey, _: Option<&Object>, _: bool) {}
}

/// Runs until told to quit.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let begun = Instant::now();
    let [kubeconfig, variant] = args else { anyhow::bail!("client KUBECONFIG VARIANT") };
    let variant = Variant::ALL.into_iter().find(|v| v.name() == variant).context("an unknown variant")?;
    let events = Arc::new(Latencies::default());
    // As the host's runtime for the network on the machine of the figures, and on any of up to seven cores.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (lease, _listening) = runtime.block_on(sync(kubeconfig.into(), variant, Arc::clone(&events)))?;
    converse(begun, &events, lease.informer())
}

async fn sync(
    kubeconfig: PathBuf,
    variant: Variant,
    events: Arc<Latencies>,
) -> anyhow::Result<(InformerLease, Registration)> {
    let client =
        Client::new(ClientOptions { kubeconfig: Some(kubeconfig), ..ClientOptions::default() }).await?;
    let options = FactoryOptions { informer: variant.informer_options(), ..FactoryOptions::default() };
    let factory = SharedInformerFactory::for_client(client, options);
    let lease = factory.informer(&pods(), None);
    lease.informer().indexer().add_indexer("node", node_index()?)?;
    let listening = lease.informer().add_listener(events, None)?;
    let synced = tokio::time::timeout(PATIENCE, lease.wait_synced()).await;
    let why = || lease.informer().status().reflector.last_error;
    ensure!(matches!(synced, Ok(true)), "no first sync within {PATIENCE:?}: {:?}", why());
    Ok((lease, listening))
}

#[allow(clippy::print_stdout, reason = "the conversation with the benchmark")]
fn converse(begun: Instant, events: &Latencies, informer: &SharedInformer) -> anyhow::Result<()> {
    let say = || -> anyhow::Result<()> {
        let usage = Usage::now(begun, events, informer.indexer().len());
        println!("{}", serde_json::to_string(&usage)?);
        Ok(())
    };
    say()?;
    for command in std::io::stdin().lock().lines() {
        match command?.as_str() {
            // The allocator gives memory back by itself.
            "usage" | "trim" => {}
            "reset" => {
                std::fs::write("/proc/self/clear_refs", "5")?;
                events.0.lock().clear();
            }
            "quit" => return Ok(()),
            other => anyhow::bail!("unknown command {other:?}"),
        }
        say()?;
    }
    Ok(())
}
