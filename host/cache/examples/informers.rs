//! The work-queue controller of client-go's examples, written with the crates of this host and without guests: it watches
//! pods, and for each that changes says where it runs and how many pods are there.
//!
//! ```console
//! $ pilothouse dev --api-only --objects examples/objects
//! $ KUBECONFIG=.pilothouse/kubeconfig cargo run -p pilothouse-cache --example informers
//! ```
//!
//! What client-go's examples have stands in the same order here: clientset, shared informer factory, informer with an
//! indexer of its own, handlers that put keys on a rate-limited queue, a wait for the caches, workers with retries that read
//! through the lister, and an end that leaves nothing half done. Ctrl-C ends it. `host/cache/tests/informers.rs` runs it.

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use pilothouse_cache::{FactoryOptions, IndexFn, Listener, Lister, SharedInformer, SharedInformerFactory};
use pilothouse_client::{Client, ClientOptions};
use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_workqueue::Queue;
use tokio_util::sync::CancellationToken;

/// Name of the index of pods by the node they are on.
const BY_NODE: &str = "by-node";
/// How many keys are worked on at the same time.
const WORKERS: usize = 2;
/// How often a key is tried again before it is left alone until its pod changes; client-go's examples have the same.
const MAX_RETRIES: u32 = 5;

/// Takes the lines that the program prints.
type Out = Arc<dyn Fn(String) + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // As kubectl does: KUBECONFIG, ~/.kube/config, or the service account of the pod that it runs in.
    let client = Client::new(ClientOptions::default()).await?;
    let shutdown = CancellationToken::new();
    let ended = shutdown.clone();
    tokio::spawn(async move {
        // Where Ctrl-C cannot be heard, the program ends at once.
        let _ = tokio::signal::ctrl_c().await;
        ended.cancel();
    });
    let out: Out = Arc::new(|line| {
        // Whoever started it may have closed its output.
        let _ = writeln!(std::io::stdout(), "{line}");
    });
    run(client, out, shutdown).await
}

/// Runs the controller until it is told to shut down.
pub(crate) async fn run(client: Client, out: Out, shutdown: CancellationToken) -> Result<(), Box<dyn Error>> {
    // One informer for each kind, however many users it has; each user holds a lease of it.
    let factory = SharedInformerFactory::for_client(client.clone(), FactoryOptions::default());
    let pods = client.discover(&Gvk::new("", "v1", "Pod")).await?;
    let informer = factory.informer(&pods, None);
    informer.indexer().add_indexer(BY_NODE, IndexFn::path("/spec/nodeName".parse()?))?;

    // Handlers do nothing but put keys on the queue: they are called by the informer itself, which must not be held up.
    let queue: Queue<ObjectKey> = Queue::new();
    let registration = informer.add_listener(Arc::new(Enqueue(queue.clone())), None)?;

    let is_synced = shutdown.run_until_cancelled(factory.wait_for_cache_sync()).await;
    if is_synced.is_some_and(|informers| informers.values().all(|synced| *synced)) {
        tell_what_is_there(informer.informer(), &out)?;
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let controller = Controller {
                    queue: queue.clone(),
                    pods: informer.lister(),
                    informer: informer.informer().clone(),
                    out: Arc::clone(&out),
                };
                tokio::spawn(controller.work())
            })
            .collect();
        shutdown.cancelled().await;

        // In this order nothing is lost half-way: no new keys, those on the queue are worked off, delayed ones dropped.
        registration.remove();
        queue.shut_down();
        for worker in workers {
            worker.await?;
        }
    }
    drop(informer);
    factory.shutdown().await;
    out("stopped".to_owned());
    Ok(())
}

/// Reads all that the store offers besides single objects: a label selector within a namespace, and the values of an index.
fn tell_what_is_there(informer: &SharedInformer, out: &Out) -> Result<(), Box<dyn Error>> {
    let nodes = informer.indexer().index_values(BY_NODE)?.join(", ");
    let web = informer.lister().namespace("default").list(&"app=web".parse()?).len();
    let pods = informer.indexer().len();
    out(format!("synced: {pods} pods, of which {web} in default with app=web; on nodes: {nodes}"));
    Ok(())
}

/// Puts the key of each changed pod on a queue.
struct Enqueue(Queue<ObjectKey>);

impl Listener for Enqueue {
    fn on_add(&self, pod: &Object, _is_in_initial_list: bool) {
        self.0.add(pod.key().clone());
    }

    fn on_update(&self, _old: &Object, new: &Object, _is_sync: bool) {
        self.0.add(new.key().clone());
    }

    fn on_delete(&self, key: &ObjectKey, _last: Option<&Object>, _final_state_unknown: bool) {
        self.0.add(key.clone());
    }
}

/// What a worker needs.
struct Controller {
    queue: Queue<ObjectKey>,
    pods: Lister,
    informer: SharedInformer,
    out: Out,
}

impl Controller {
    /// Takes keys until the queue is shut down and empty. A key is with one worker at a time.
    async fn work(self) {
        while let Some(item) = self.queue.get().await {
            let key = &item.key;
            match self.sync(key) {
                Ok(line) => {
                    (self.out)(line);
                    self.queue.forget(key);
                }
                Err(error) if self.queue.num_requeues(key) < MAX_RETRIES => {
                    let delay = self.queue.add_rate_limited(key.clone(), (), item.priority);
                    (self.out)(format!("{key}: {error}; again in {delay:?}"));
                }
                Err(error) => {
                    (self.out)(format!("{key}: {error}; left alone until it changes"));
                    self.queue.forget(key);
                }
            }
            self.queue.done(item);
        }
    }

    /// The work itself: level-triggered, so it looks at what is there and not at what has happened.
    fn sync(&self, key: &ObjectKey) -> Result<String, Box<dyn Error + Send + Sync>> {
        let Ok(pod) = self.pods.get(key) else {
            return Ok(format!("{key} is gone"));
        };
        let node = pod.get_string("/spec/nodeName").filter(|node| !node.is_empty());
        let node = node.ok_or("not scheduled yet")?;
        let neighbours = self.informer.indexer().by_index(BY_NODE, &node)?.len();
        Ok(format!("{key} is on {node}, one of {neighbours}"))
    }
}
