//! An API server that is away: recorder calls go on, what waits is bounded, and when it is back each event has been delivered or is
//! counted as dropped or failed; the server has as many Events as are counted as sent. For both APIs in one outage, on both servers.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pilothouse_client::{Client, ClientOptions};
use pilothouse_events::{
    BroadcasterOptions, CoreV1Sink, EventBroadcaster, EventRecorder, EventSource, EventType, EventWatch,
    EventsV1Sink, ObjectReference, SinkCounts,
};
use pilothouse_object::{Gvk, ObjectKey};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::{Cluster, ControlPlane, Signal, poll};
use tokio::runtime::Runtime;

pilothouse_tests::on_both_servers!(
    calls_go_on_while_the_server_is_away_and_each_event_is_delivered_or_counted,
    calls_go_on_while_the_server_hangs_and_each_event_is_delivered_or_counted,
);

pilothouse_tests::on_the_real_server!(full: a_server_that_is_away_for_a_minute_gets_the_events_that_there_was_room_for);

/// Longer than anything takes.
const SOON: Duration = Duration::from_secs(240);
/// More than both queues and those of the writers hold.
const AT_ONCE: usize = 5_000;
/// The queue of the broadcaster, what is being distributed, the queue of the sink, and what is being written.
const HELD_BY_CORE: u64 = 1000 + 1 + 1000 + 1;
/// The same, and the queues of eight writers with 125 each, and what they are writing.
const HELD_BY_SERIES: u64 = HELD_BY_CORE + 8 * (125 + 1);

/// How the server is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    /// Nobody listens.
    Stopped,
    /// Connections stay open, and nothing answers.
    Hanging,
}

/// A broadcaster with one sink, and a namespace that its events go to.
struct Side {
    broadcaster: EventBroadcaster,
    watch: EventWatch,
    recorder: EventRecorder,
    namespace: &'static str,
    /// Events that may be held at once.
    bound: u64,
    calls: u64,
}

impl Side {
    /// Records events about objects that nothing was recorded of before.
    fn record(&mut self, events: usize) -> Result<()> {
        for _ in 0..events {
            let key = ObjectKey::new(Some(self.namespace), &format!("pod-{}", self.calls))?;
            let pod = ObjectReference::of_key(&Gvk::new("", "v1", "Pod"), &key);
            self.recorder.eventf(pod, EventType::Normal, "Away", format_args!("call {}", self.calls));
            self.calls += 1;
        }
        Ok(())
    }

    /// What has come to an end, and how many have not.
    fn counts(&self) -> (SinkCounts, u64) {
        let counts = self.watch.metrics().counts();
        let ended = counts.received - counts.pending() + self.broadcaster.metrics().counts().dropped;
        (counts, self.calls - ended)
    }

    /// Waits for the end of all events, and counts them.
    fn settle(&self) -> Result<SinkCounts> {
        let none_held = || {
            let (counts, held) = self.counts();
            if held == 0 { Ok(counts) } else { Err(format!("{held} are held: {counts:?}")) }
        };
        poll::until(&format!("the events of {}", self.namespace), SOON, || none_held().map(Some))
    }
}

/// Both APIs of one server.
struct TwoSinks {
    plane: ControlPlane,
    sides: [Side; 2],
    // Last, as the broadcasters run in it.
    _runtime: Runtime,
}

impl TwoSinks {
    fn set(server: Server, sleep_duration: Duration, request_timeout: Duration) -> Result<Self> {
        let plane = ControlPlane::start(Options::on(server))?;
        let cluster = Cluster::of(&plane)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let side = |namespace, series: bool| -> Result<Side> {
            cluster.namespace(namespace)?;
            runtime.block_on(async {
                let kubeconfig = Some(plane.kubeconfig().to_owned());
                let options = ClientOptions { kubeconfig, request_timeout, ..ClientOptions::default() };
                let client = Client::new(options).await?;
                let options = BroadcasterOptions { sleep_duration, ..BroadcasterOptions::default() };
                let broadcaster = EventBroadcaster::new(options);
                let watch = match series {
                    true => broadcaster.start_recording_series_to_sink(EventsV1Sink::new(client)).await?,
                    false => broadcaster.start_recording_to_sink(CoreV1Sink::new(client)).await?,
                };
                let recorder = broadcaster.new_recorder(EventSource::reporting("example.com/away", "node-1"));
                let bound = if series { HELD_BY_SERIES } else { HELD_BY_CORE };
                Ok(Side { broadcaster, watch, recorder, namespace, bound, calls: 0 })
            })
        };
        let sides = [side("away-core", false)?, side("away-series", true)?];
        Ok(Self { plane, sides, _runtime: runtime })
    }

    /// Sends the server away, records until `is_over`, gets it back, and checks all counts. What came to be of each side's events.
    fn outage(&mut self, away: Away, mut is_over: impl FnMut(&[Side; 2]) -> bool) -> Result<[SinkCounts; 2]> {
        for side in &mut self.sides {
            side.record(5)?;
            let counts = side.settle()?;
            ensure!(counts.sent == 5, "{counts:?}");
        }
        match away {
            Away::Stopped => self.plane.stop_apiserver(Signal::KILL)?,
            Away::Hanging => self.plane.pause_apiserver()?,
        };
        for side in &mut self.sides {
            side.record(AT_ONCE)?;
        }
        poll::until("the outage to be over", SOON, || {
            self.sides.iter_mut().try_for_each(|side| side.record(1))?;
            anyhow::Ok(is_over(&self.sides))
        })?;
        // All of these calls have come back, and nothing can have been written.
        let status = self.plane.status()?;
        ensure!(if away == Away::Stopped { !status.apiserver_running } else { status.apiserver_paused });
        for side in &self.sides {
            let received = side.broadcaster.metrics().counts().received;
            ensure!(received == side.calls, "{received} of {} calls", side.calls);
            let (counts, held) = side.counts();
            ensure!(counts.sent == 5 && held > 0 && held <= side.bound, "{held} are held: {counts:?}");
        }
        match away {
            Away::Stopped => self.plane.start_apiserver()?,
            Away::Hanging => self.plane.resume_apiserver()?,
        };
        for side in &mut self.sides {
            side.record(5)?;
        }
        let counts = [self.sides[0].settle()?, self.sides[1].settle()?];
        for (side, counts) in self.sides.iter().zip(&counts) {
            let taken = side.broadcaster.metrics().counts();
            eprintln!("{}: {taken:?}, {counts:?}", side.namespace);
            ensure!(taken.received == side.calls && taken.received == taken.dropped + counts.received);
            let SinkCounts { received, sent, aggregated, filtered, dropped, failed, .. } = *counts;
            ensure!(received == sent + aggregated + filtered + dropped + failed);
            ensure!(
                taken.dropped + dropped >= AT_ONCE as u64 - side.bound,
                "what found no room was not counted"
            );
            // More than was recorded before and after.
            ensure!(sent > 10, "nothing that waited was delivered");
            let listed = self.plane.kubectl(&["get", "events", "-o", "name", "-n", side.namespace])?;
            let listed = listed.lines().count() as u64;
            // A server that hung may do later what was given up as there was no answer.
            let unknown = if away == Away::Hanging { failed } else { 0 };
            ensure!((sent..=sent + unknown).contains(&listed), "{listed} are on the server");
        }
        Ok(counts)
    }
}

fn some_are_given_up(sides: &[Side; 2]) -> bool {
    sides.iter().all(|side| side.counts().0.failed > 0)
}

fn calls_go_on_while_the_server_is_away_and_each_event_is_delivered_or_counted(server: Server) -> Result<()> {
    // Twelve tries in about a second: some events are given up while the server is away.
    let mut sinks = TwoSinks::set(server, Duration::from_millis(100), Duration::from_secs(30))?;
    let counts = sinks.outage(Away::Stopped, some_are_given_up)?;
    ensure!(counts.iter().all(|counts| counts.retries >= 11), "{counts:?}");
    Ok(())
}

fn calls_go_on_while_the_server_hangs_and_each_event_is_delivered_or_counted(server: Server) -> Result<()> {
    // Long enough for a server that is there, also on a busy machine.
    let mut sinks = TwoSinks::set(server, Duration::from_millis(100), Duration::from_secs(2))?;
    sinks.outage(Away::Hanging, some_are_given_up).map(drop)
}

/// A minute, and the waits that client-go has.
fn a_server_that_is_away_for_a_minute_gets_the_events_that_there_was_room_for() -> Result<()> {
    let (sleep, timeout) =
        (BroadcasterOptions::default().sleep_duration, ClientOptions::default().request_timeout);
    let mut sinks = TwoSinks::set(Server::Real, sleep, timeout)?;
    let began = Instant::now();
    sinks.outage(Away::Stopped, |_| began.elapsed() > Duration::from_secs(60)).map(drop)
}
