//! What a recorder call costs who makes it: with a sink that takes everything, and with the queue full.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_bench::{Aim, Better, Report, median};
use pilothouse_events::{
    BroadcasterOptions, EventBroadcaster, EventRecorder, EventType, EventWatch, FnSink, ObjectReference,
    Write,
};
use rustix::time::{ClockId, clock_gettime};

use crate::events::{OBJECTS, reason, reference, source};
use crate::measure::{Figures, figures, per};
use crate::race::{CLIENT_GO, OURS, Table};

const RUNS: usize = 5;
/// Events of a burst: half of what the queues take, so that none is dropped.
const BURST: usize = 500;
const BURSTS: usize = 400;
/// Calls with a full queue.
const CALLS: usize = 200_000;
/// From the issue, which has it of the longer way from a guest.
const MOST_NANOSECONDS: f64 = 2_000.0;

/// Processor time of this thread.
fn thread_cpu() -> Duration {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(at.tv_sec.unsigned_abs(), u32::try_from(at.tv_nsec).unwrap_or_default())
}

fn references() -> Vec<Arc<ObjectReference>> {
    (0..OBJECTS).map(|number| Arc::new(reference(number))).collect()
}

/// The call that is measured.
fn call(recorder: &EventRecorder, references: &[Arc<ObjectReference>], number: usize) {
    let object = number % references.len();
    recorder.eventf(
        &references[object],
        EventType::Normal,
        reason(object),
        format_args!("Successfully pulled image \"registry.example.com/team/app:{number}\" in 1.2s"),
    );
}

/// Waits until everything has come to its end.
pub(crate) async fn settled(watch: &EventWatch, received: u64) {
    loop {
        let counts = watch.metrics().counts();
        if counts.received == received && counts.pending() == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// With a sink that takes everything, and time for it between bursts; distribution has a thread of its own.
pub(crate) fn taken() -> anyhow::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let references = references();
    let mut spent = Vec::with_capacity(BURSTS);
    runtime.block_on(async {
        let broadcaster = EventBroadcaster::new(BroadcasterOptions::default());
        let sink = FnSink::new(|_: Write| async { Ok(()) });
        let watch = broadcaster.start_recording_to_sink(sink).await?;
        let recorder = broadcaster.new_recorder(source());
        for burst in 0..BURSTS {
            let began = thread_cpu();
            for number in burst * BURST..(burst + 1) * BURST {
                call(&recorder, &references, number);
            }
            spent.push(per(thread_cpu() - began, BURST));
            settled(&watch, ((burst + 1) * BURST) as u64).await;
        }
        anyhow::ensure!(watch.metrics().counts().sent == (BURSTS * BURST) as u64, "not all were sent");
        anyhow::Ok(())
    })?;
    Ok(figures([("ns", median(&mut spent))]))
}

/// With nobody who takes anything.
pub(crate) fn full() -> anyhow::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let references = references();
    runtime.block_on(async {
        let options = BroadcasterOptions::default();
        let length = options.queue_length;
        let broadcaster = EventBroadcaster::new(options);
        let recorder = broadcaster.new_recorder(source());
        // Nothing else runs on this runtime until this is at its end.
        (0..length).for_each(|number| call(&recorder, &references, number));
        let began = thread_cpu();
        (0..CALLS).for_each(|number| call(&recorder, &references, number));
        let spent = thread_cpu() - began;
        anyhow::ensure!(broadcaster.metrics().counts().dropped == CALLS as u64, "the queue was not full");
        Ok(figures([("ns", per(spent, CALLS))]))
    })
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let (better, figure, aim) = (Better::Lower, ("ns/call", "ns"), Aim::Value(MOST_NANOSECONDS));
    let table = Table::race("record", RUNS, &[OURS, CLIENT_GO])?;
    let what = "a recorder call, with a sink that takes everything";
    table.row(report, what, better, figure, &[], aim)?;
    table.row(report, &format!("{what}: beside client-go"), better, figure, &[CLIENT_GO], Aim::Shown)?;
    let table = Table::race("record-full", RUNS, &[OURS])?;
    table.row(report, "a recorder call, with the queue full", better, figure, &[], aim)
}
