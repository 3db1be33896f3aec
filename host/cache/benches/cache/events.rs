//! The event path within one process and on one thread: lines of a watch in memory, decoded, queued, stored and told to
//! listeners.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use futures_util::stream::{self, StreamExt};
use parking_lot::Mutex;
use pilothouse_bench::usage::cpu;
use pilothouse_bench::{Better, Report, is_full};
use pilothouse_cache::{EventStream, FnListerWatcher, Listener, SharedInformer};
use pilothouse_client::WatchEvent;
use pilothouse_object::{ListMeta, Object, ObjectKey};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::client::{Variant, node_index, pods};
use crate::samples;

const RUNS: usize = 5;
/// No run takes as long.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let (objects, events) = if is_full() { (100_000, 200_000) } else { (10_000, 30_000) };
    let (listed, lines) = (samples::objects(objects)?, Arc::new(samples::event_lines(objects, events)?));
    for variant in Variant::ALL {
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let spent = time(variant, &listed, &lines, 1)?;
            runs.push(lines.len() as f64 / spent.as_secs_f64());
        }
        let aim = match variant {
            Variant::Plain => 40_000.0,
            Variant::Compressed => 25_000.0,
        };
        let scenario = format!("{}: watch bytes to listener, churn over {objects} pods", variant.name());
        report.bound(&scenario, "events/s", Better::Higher, &mut runs, Some(aim));
    }
    Ok(())
}

/// Counts, and tells when all have come.
struct Counter {
    count: AtomicUsize,
    wanted: usize,
    reached: Notify,
}

impl Listener for Counter {
    fn on_add(&self, _: &Object, _: bool) {}

    fn on_update(&self, _: &Object, new: &Object, _: bool) {
        std::hint::black_box(new.resource_version());
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.wanted {
            self.reached.notify_one();
        }
    }

    fn on_delete(&self, _: &ObjectKey, _: Option<&Object>, _: bool) {}
}

/// Processor time from the first line to the last call of all listeners.
pub(crate) fn time(
    variant: Variant,
    listed: &[Object],
    lines: &Arc<Vec<Vec<u8>>>,
    listeners: usize,
) -> anyhow::Result<Duration> {
    let version = listed.last().map(|object| object.resource_version().to_owned()).unwrap_or_default();
    let (list, kind) = (listed.to_vec(), pods().gvk);
    // The watch is open from the beginning and begins to speak when it is told to.
    let (speak, told) = oneshot::channel::<()>();
    let (told, lines_of_watch) = (Mutex::new(Some(told)), Arc::clone(lines));
    let source = FnListerWatcher::new(
        move |_| Ok((list.clone(), ListMeta { resource_version: version.clone(), ..ListMeta::default() })),
        move |_| {
            let (told, lines, kind) = (told.lock().take(), Arc::clone(&lines_of_watch), kind.clone());
            let events = stream::once(async move {
                match told {
                    Some(told) => drop(told.await),
                    None => std::future::pending().await,
                }
                let count = lines.len();
                stream::iter(0..count).map(move |n| WatchEvent::decode(&lines[n], &kind))
            });
            Ok(Box::pin(events.flatten().chain(stream::pending())) as EventStream)
        },
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let informer = SharedInformer::new(Arc::new(source), pods(), None, variant.informer_options());
        informer.indexer().add_indexer("node", node_index()?)?;
        let counters: Vec<Arc<Counter>> = (0..listeners)
            .map(|_| {
                Arc::new(Counter { count: AtomicUsize::new(0), wanted: lines.len(), reached: Notify::new() })
            })
            .collect();
        let mut listening = Vec::new();
        for counter in &counters {
            listening.push(informer.add_listener(Arc::clone(counter) as Arc<dyn Listener>, None)?);
        }
        let cancel = CancellationToken::new();
        let run = tokio::spawn({
            let (informer, cancel) = (informer.clone(), cancel.clone());
            async move { informer.run(cancel).await }
        });
        ensure!(informer.wait_synced().await, "the informer has ended");
        let began = cpu();
        ensure!(speak.send(()).is_ok(), "the watch is gone");
        for counter in &counters {
            tokio::time::timeout(PATIENCE, counter.reached.notified()).await?;
        }
        let spent = cpu() - began;
        cancel.cancel();
        run.await?;
        Ok(spent)
    })
}
