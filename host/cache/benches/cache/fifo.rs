//! The queue between reflector and informer: add and pop of an item, in batches as the informer takes them and one by one.

use std::process::Command;
use std::time::Instant;

use pilothouse_bench::{Aim, Better, Process, Report, peers};
use pilothouse_cache::{Delta, DeltaFifo};
use pilothouse_object::Object;
use serde::Deserialize;

use crate::samples;

const RUNS: usize = 5;
/// Items in the queue at most.
const WAITING: usize = DeltaFifo::BATCH;
/// Times that so many are added and taken out.
const ROUNDS: usize = 200;

/// As `tests/peers/clientgo/micro_fifo.go` says it: nanoseconds an item.
#[derive(Deserialize)]
struct Peer {
    real_fifo: f64,
    real_fifo_batch: f64,
    delta_fifo: f64,
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let objects = samples::objects(WAITING)?;
    let mut peer =
        Process::start(Command::new(peers::go()?).args(["micro", "-objects", &WAITING.to_string()]))?;
    let _: serde_json::Value = peer.read()?;
    let (mut batch, mut single) = (Vec::new(), Vec::new());
    let (mut real, mut real_batch, mut delta) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        batch.push(nanoseconds(&objects, DeltaFifo::BATCH)?);
        single.push(nanoseconds(&objects, 1)?);
        let theirs: Peer = peer.ask("fifo")?;
        real.push(theirs.real_fifo);
        real_batch.push(theirs.real_fifo_batch);
        delta.push(theirs.delta_fifo);
    }
    let peers = || {
        vec![
            ("client-go RealFIFO, Pop", real.clone()),
            ("client-go RealFIFO, PopBatch", real_batch.clone()),
            ("client-go DeltaFIFO, Pop", delta.clone()),
        ]
    };
    report.versus(
        "FIFO add and pop, as the informer pops",
        "ns/item",
        Better::Lower,
        &mut batch,
        peers(),
        Aim::Ratio(5.0),
    );
    report.versus(
        "FIFO add and pop, one item a pop",
        "ns/item",
        Better::Lower,
        &mut single,
        peers(),
        Aim::Shown,
    );
    Ok(())
}

fn nanoseconds(objects: &[Object], max: usize) -> anyhow::Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let fifo = DeltaFifo::new(DeltaFifo::DEFAULT_CAPACITY);
    let began = Instant::now();
    runtime.block_on(async {
        for _ in 0..ROUNDS {
            for object in objects {
                fifo.push(Delta::Updated(object.clone()), Some(object.resource_version().into())).await?;
            }
            // A pop takes up to `max` deltas.
            for _ in 0..objects.len().div_ceil(max) {
                std::hint::black_box(fifo.pop(max).await);
            }
        }
        anyhow::Ok(())
    })?;
    Ok(began.elapsed().as_nanos() as f64 / (ROUNDS * objects.len()) as f64)
}
