//! What each watcher gets, whoever else is slow, stops or shuts it down; in random interleavings too.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::FullChannelBehavior::{DropIfChannelFull, WaitIfChannelFull};
use super::*;

/// Longer than anything here takes, on a clock that stands still while something is to do.
const LONG: Duration = Duration::from_secs(3600);

/// Lets all other tasks run until they wait.
async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

async fn all<T>(watcher: &mut BroadcastWatcher<T>) -> Vec<T> {
    let mut events = Vec::new();
    while let Some(event) = timeout(LONG, watcher.next()).await.expect("an event or the end") {
        events.push(event);
    }
    events
}

#[tokio::test(start_paused = true)]
async fn each_watcher_gets_what_was_taken_after_it_began_behind_its_prefix() {
    let broadcaster = Broadcaster::new(10, WaitIfChannelFull);
    let mut first = broadcaster.watch().await.unwrap();
    broadcaster.action(1).await.unwrap();
    // Longer than the queue.
    let mut second = broadcaster.watch_with_prefix((100..120).collect()).await.unwrap();
    broadcaster.action(2).await.unwrap();
    assert_eq!(broadcaster.action_or_drop(3), Ok(true));
    broadcaster.shutdown().await;
    assert_eq!(all(&mut first).await, [1, 2, 3]);
    assert_eq!(all(&mut second).await, (100..120).chain([2, 3]).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_that_is_waited_for_loses_nothing_and_frees_all_when_it_stops() {
    let broadcaster = Broadcaster::with_incoming_queue(1, 2, WaitIfChannelFull);
    let mut quick = broadcaster.watch().await.unwrap();
    let mut slow = broadcaster.watch().await.unwrap();
    let sender = tokio::spawn({
        let broadcaster = broadcaster.clone();
        async move {
            for n in 0..20 {
                broadcaster.action(n).await.unwrap();
            }
        }
    });
    let quick = tokio::spawn(async move { all(&mut quick).await });
    settle().await;
    assert!(!sender.is_finished(), "the queue of the slow one holds all up");
    assert_eq!(broadcaster.action_or_drop(99), Ok(false));
    for n in 0..5 {
        assert_eq!(slow.next().await, Some(n));
    }
    settle().await;
    assert!(!sender.is_finished());
    slow.stop();
    timeout(LONG, sender).await.unwrap().unwrap();
    assert_eq!(all(&mut slow).await, [5, 6], "what was in its queue is left");
    broadcaster.shutdown().await;
    assert_eq!(quick.await.unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn who_has_room_gets_an_event_before_a_full_watcher_is_waited_for() {
    let broadcaster = Broadcaster::new(1, WaitIfChannelFull);
    let mut slow = broadcaster.watch().await.unwrap();
    let mut quick = broadcaster.watch().await.unwrap();
    for n in 0..2 {
        broadcaster.action(n).await.unwrap();
        assert_eq!(timeout(LONG, quick.next()).await, Ok(Some(n)));
    }
    assert_eq!(slow.next().await, Some(0));
    drop(slow);
    broadcaster.shutdown().await;
    assert_eq!(all(&mut quick).await, [] as [i32; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_full_watcher_misses_events_where_none_waits_and_counts_them() {
    let broadcaster = Broadcaster::new(3, DropIfChannelFull);
    let mut slow = broadcaster.watch_with_prefix(vec![100]).await.unwrap();
    let mut quick = broadcaster.watch().await.unwrap();
    for n in 0..10 {
        broadcaster.action(n).await.unwrap();
        assert_eq!(timeout(LONG, quick.next()).await, Ok(Some(n)));
    }
    assert_eq!((slow.missed(), quick.missed()), (7, 0));
    broadcaster.shutdown().await;
    assert_eq!(all(&mut slow).await, [100, 0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_delivers_what_was_taken_and_takes_nothing_more() {
    let broadcaster = Broadcaster::with_incoming_queue(4, 1, WaitIfChannelFull);
    let mut watcher = broadcaster.watch().await.unwrap();
    // One in the queue, one on its way, four waiting for that; the seventh has no room.
    for n in 0..6 {
        broadcaster.action(n).await.unwrap();
        settle().await;
    }
    let late = tokio::spawn({
        let broadcaster = broadcaster.clone();
        async move { broadcaster.action(6).await }
    });
    settle().await;
    assert!(!late.is_finished());
    assert!(timeout(LONG, broadcaster.shutdown()).await.is_err(), "it waits for the watcher");
    assert_eq!(late.await.unwrap(), Err(BroadcasterShutDown), "what waited was not taken");
    assert_eq!(broadcaster.action(7).await, Err(BroadcasterShutDown));
    assert_eq!(broadcaster.action_or_drop(8), Err(BroadcasterShutDown));
    assert!(matches!(broadcaster.watch().await, Err(BroadcasterShutDown)));
    assert_eq!(all(&mut watcher).await, (0..6).collect::<Vec<_>>());
    timeout(LONG, broadcaster.shutdown()).await.expect("all is delivered");
}

#[tokio::test(start_paused = true)]
async fn the_last_clone_that_goes_ends_it_behind_what_was_taken() {
    let broadcaster = Broadcaster::new(10, DropIfChannelFull);
    let mut watcher = broadcaster.watch().await.unwrap();
    let other = broadcaster.clone();
    broadcaster.action(1).await.unwrap();
    drop(broadcaster);
    other.action(2).await.unwrap();
    drop(other);
    assert_eq!(all(&mut watcher).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn watchers_that_come_and_go_are_not_kept() {
    let broadcaster = Broadcaster::<Arc<()>>::new(10, DropIfChannelFull);
    let held = Arc::new(());
    for _ in 0..100 {
        drop(broadcaster.watch_with_prefix(vec![Arc::clone(&held)]).await.unwrap());
    }
    let _last = broadcaster.watch().await.unwrap();
    settle().await;
    assert_eq!(Arc::strong_count(&held), 1);
}

/// What the tasks of a random run do; numbers are turns of the scheduler that pass before.
#[derive(Debug, Clone)]
struct Run {
    full: FullChannelBehavior,
    incoming: usize,
    queue: usize,
    /// Of each sender: the pause before each event.
    senders: Vec<Vec<usize>>,
    watchers: Vec<Watcher>,
    /// When it is shut down; `None`: once all have sent.
    shutdown: Option<usize>,
}

#[derive(Debug, Clone)]
struct Watcher {
    begin: usize,
    prefix: usize,
    /// Pauses before reads, in turn.
    pauses: Vec<usize>,
    /// After how many reads it is dropped, or stopped and read to the end; `None`: it stays to the end.
    stop: Option<(usize, bool)>,
}

fn watcher() -> impl Strategy<Value = Watcher> {
    (
        0..60_usize,
        0..4_usize,
        prop::collection::vec(0..12_usize, 1..6),
        prop::option::of((0..25_usize, any::<bool>())),
    )
        .prop_map(|(begin, prefix, pauses, stop)| Watcher { begin, prefix, pauses, stop })
}

fn run() -> impl Strategy<Value = Run> {
    (
        prop::sample::select(vec![WaitIfChannelFull, DropIfChannelFull]),
        1..4_usize,
        1..4_usize,
        prop::collection::vec(prop::collection::vec(0..6_usize, 0..15), 1..4),
        prop::collection::vec(watcher(), 1..5),
        prop::option::of(0..150_usize),
    )
        .prop_map(|(full, incoming, queue, senders, watchers, shutdown)| Run {
            full,
            incoming,
            queue,
            senders,
            watchers,
            shutdown,
        })
}

/// What came of a run.
#[derive(Default)]
struct Seen {
    /// Events in the order in which they were taken. On one thread a call that took one notes it before another task runs.
    taken: Mutex<Vec<(usize, usize)>>,
    /// Of each watcher: how many were taken before it, what it read without the prefix, how many it missed, whether it stayed.
    watched: Mutex<Vec<Watched>>,
}

#[derive(Debug)]
struct Watched {
    before: usize,
    read: Vec<(usize, usize)>,
    missed: u64,
    stayed: bool,
}

async fn turns(count: usize) {
    for _ in 0..count {
        yield_now().await;
    }
}

async fn play(run: &Run) -> Arc<Seen> {
    let broadcaster = Broadcaster::with_incoming_queue(run.incoming, run.queue, run.full);
    let (seen, senders_left) = (Arc::new(Seen::default()), Arc::new(AtomicUsize::new(run.senders.len())));
    let shut_down = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for (sender, pauses) in run.senders.iter().cloned().enumerate() {
        let (broadcaster, seen, left) = (broadcaster.clone(), seen.clone(), senders_left.clone());
        let shut_down = shut_down.clone();
        tasks.spawn(async move {
            for (n, pause) in pauses.into_iter().enumerate() {
                turns(pause).await;
                let event = (sender, n);
                let taken = match n % 3 {
                    0 => broadcaster.action_or_drop(event),
                    _ => broadcaster.action(event).await.map(|()| true),
                };
                match taken {
                    Ok(true) => seen.taken.lock().push(event),
                    Ok(false) => {}
                    Err(BroadcasterShutDown) => assert!(shut_down.load(Ordering::Relaxed)),
                }
            }
            left.fetch_sub(1, Ordering::Relaxed);
        });
    }
    for watcher in run.watchers.clone() {
        let (broadcaster, seen, shut_down) = (broadcaster.clone(), seen.clone(), shut_down.clone());
        tasks.spawn(async move {
            turns(watcher.begin).await;
            let prefix: Vec<_> = (0..watcher.prefix).map(|n| (usize::MAX, n)).collect();
            let Ok(mut events) = broadcaster.watch_with_prefix(prefix.clone()).await else {
                assert!(shut_down.load(Ordering::Relaxed));
                return;
            };
            drop(broadcaster);
            let before = seen.taken.lock().len();
            let mut read = Vec::new();
            let mut pauses = watcher.pauses.iter().copied().cycle();
            loop {
                if let Some((_, politely)) = watcher.stop.filter(|(after, _)| *after == read.len()) {
                    if !politely {
                        break;
                    }
                    events.stop();
                }
                turns(pauses.next().unwrap_or_default()).await;
                let Some(event) = events.next().await else { break };
                read.push(event);
            }
            let stayed = watcher.stop.is_none_or(|(after, _)| after > read.len());
            let missed = events.missed();
            let behind = read.split_off(prefix.len().min(read.len()));
            assert!(
                prefix.starts_with(&read) && (!stayed || prefix == read),
                "the prefix comes first and whole"
            );
            seen.watched.lock().push(Watched { before, read: behind, missed, stayed });
        });
    }
    let ending = run.shutdown;
    tasks.spawn(async move {
        match ending {
            Some(at) => turns(at).await,
            None => {
                while senders_left.load(Ordering::Relaxed) > 0 {
                    yield_now().await;
                }
            }
        }
        shut_down.store(true, Ordering::Relaxed);
        broadcaster.shutdown().await;
    });
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    seen
}

/// Whether `part` is `whole` without some of its elements.
fn is_part<T: PartialEq>(part: &[T], whole: &[T]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|wanted| whole.any(|found| found == wanted))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn however_senders_watchers_and_the_shutdown_interleave_each_gets_its_events(run in run()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        // The clock runs on to the limit once all tasks wait for each other.
        let seen = runtime.block_on(async { timeout(LONG, play(&run)).await });
        let seen = seen.map_err(|_| TestCaseError::fail("it hangs"))?;
        let taken = seen.taken.lock();
        for watched in seen.watched.lock().iter() {
            let due = &taken[watched.before..];
            match run.full {
                WaitIfChannelFull => {
                    prop_assert!(due.starts_with(&watched.read), "{watched:?} of {due:?}");
                    prop_assert!(!watched.stayed || due.len() == watched.read.len(), "{watched:?} of {due:?}");
                    prop_assert_eq!(watched.missed, 0);
                }
                DropIfChannelFull => {
                    prop_assert!(is_part(&watched.read, due), "{watched:?} of {due:?}");
                    let known = watched.read.len() + usize::try_from(watched.missed).unwrap();
                    prop_assert!(!watched.stayed || known == due.len(), "{watched:?} of {due:?}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_threads_nothing_is_lost_out_of_order_or_stuck() {
    const EVENTS: usize = 2_000;
    let broadcaster = Broadcaster::new(3, WaitIfChannelFull);
    let mut stay = broadcaster.watch().await.unwrap();
    let stay = tokio::spawn(async move { all(&mut stay).await });
    // Others come, read some and go, all the time.
    let others = tokio::spawn({
        let broadcaster = broadcaster.clone();
        async move {
            while let Ok(mut watcher) = broadcaster.watch().await {
                let first: (usize, usize) = match watcher.next().await {
                    Some(first) => first,
                    None => break,
                };
                if let Some(next) = watcher.next().await {
                    assert!(next.0 != first.0 || next.1 == first.1 + 1, "{first:?} then {next:?}");
                }
            }
        }
    });
    let mut senders = JoinSet::new();
    for sender in 0..2 {
        let broadcaster = broadcaster.clone();
        senders.spawn(async move {
            for n in 0..EVENTS {
                broadcaster.action((sender, n)).await.unwrap();
            }
        });
    }
    while let Some(ended) = senders.join_next().await {
        ended.unwrap();
    }
    timeout(LONG, broadcaster.shutdown()).await.unwrap();
    others.await.unwrap();
    let got = stay.await.unwrap();
    for sender in 0..2 {
        let of: Vec<usize> = got.iter().filter(|(s, _)| *s == sender).map(|(_, n)| *n).collect();
        assert_eq!(of, (0..EVENTS).collect::<Vec<_>>());
    }
}
