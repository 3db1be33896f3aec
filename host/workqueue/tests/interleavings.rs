//! Interleavings of the queue and of its hook, explored with shuttle: each test runs a few threads under thousands of
//! random schedules, half of them with few changes of thread (PCT), and prints the schedule of one that fails. A wake-up
//! that is lost shows as a deadlock.
//!
//! There is no tokio runtime here, which proves by the way that nothing but a delay needs one.
//! `cargo test -p pilothouse-workqueue --features shuttle --test interleavings`; `SHUTTLE_ITERATIONS` sets how many.

#![cfg(feature = "shuttle")]

use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use pilothouse_workqueue::{Item, Priority, Queue, Timekeeper, Verdict, WorkerCount};
use shuttle::future::{block_on, yield_now};
use shuttle::sync::Mutex;
use shuttle::thread::{self, JoinHandle};

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let iterations = std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000);
    let test = Arc::new(test);
    let random = Arc::clone(&test);
    shuttle::check_random(move || random(), iterations / 2);
    shuttle::check_pct(move || test(), iterations / 2, 3);
}

/// Runs `action` in a thread of its own.
fn spawn<T: Send + 'static>(action: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    thread::spawn(move || block_on(action))
}

fn join<T, const N: usize>(threads: [JoinHandle<T>; N]) -> [T; N] {
    threads.map(|thread| thread.join().unwrap())
}

/// What the tests know of a key.
#[derive(Default)]
struct Ledger {
    /// Raised before each add.
    wanted: AtomicUsize,
    /// What a worker saw of `wanted` when it last began.
    seen: AtomicUsize,
    busy: AtomicBool,
    runs: AtomicUsize,
}

impl Ledger {
    fn add(&self, queue: &Queue<usize>, key: usize, priority: Priority) {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        queue.add_with(key, (), priority);
    }

    /// A worker's run, in the midst of which others may go on.
    async fn run(&self) {
        assert!(!self.busy.swap(true, Ordering::SeqCst), "the key is with two workers");
        self.seen.store(self.wanted.load(Ordering::SeqCst), Ordering::SeqCst);
        self.runs.fetch_add(1, Ordering::SeqCst);
        yield_now().await;
        self.busy.store(false, Ordering::SeqCst);
    }

    fn is_settled(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) == self.seen.load(Ordering::SeqCst)
    }
}

fn ledgers<const N: usize>() -> Arc<[Ledger; N]> {
    Arc::new(std::array::from_fn(|_| Ledger::default()))
}

fn runs(ledgers: &[Ledger]) -> usize {
    ledgers.iter().map(|ledger| ledger.runs.load(Ordering::SeqCst)).sum()
}

/// Takes keys until there will be none.
async fn work(queue: Queue<usize>, ledgers: Arc<[Ledger; 2]>) {
    while let Some(item) = queue.get().await {
        ledgers[item.key].run().await;
        queue.done(item);
    }
}

#[test]
fn no_key_is_with_two_workers_and_no_add_is_lost() {
    explore(|| {
        let queue: Queue<usize> = Queue::new();
        let ledgers = ledgers::<2>();
        let workers = [(); 2].map(|()| spawn(work(queue.clone(), Arc::clone(&ledgers))));
        let producers = [Priority::NORMAL, Priority::LOW].map(|priority| {
            let (queue, ledgers) = (queue.clone(), Arc::clone(&ledgers));
            thread::spawn(move || {
                for key in [0, 1, 0] {
                    ledgers[key].add(&queue, key, priority);
                }
            })
        });
        join(producers);
        block_on(queue.shut_down_with_drain());
        join(workers);
        assert!(ledgers.iter().all(Ledger::is_settled), "an add was not followed by a run");
        assert_eq!(runs(&*ledgers) as u64, queue.stats().adds, "one run for each add that asked for one");
    });
}

/// Takes keys until there will be none; a key is run twice for its first add.
async fn work_fused(queue: Queue<usize>, ledgers: Arc<[Ledger; 2]>) {
    let mut next = queue.get().await;
    while let Some(mut item) = next {
        let ledger = &ledgers[item.key];
        ledger.run().await;
        if ledger.runs.load(Ordering::SeqCst) == 1 {
            queue.finish(&mut item, Verdict::After(Duration::ZERO));
        } else {
            queue.done(item);
        }
        next = queue.get().await;
    }
}

#[test]
fn fused_calls_leave_no_add_and_no_worker_behind() {
    explore(|| {
        let queue: Queue<usize> = Queue::new();
        let ledgers = ledgers::<2>();
        let workers = [(); 2].map(|()| spawn(work_fused(queue.clone(), Arc::clone(&ledgers))));
        let producers = [Priority::NORMAL, Priority::LOW].map(|priority| {
            let (queue, ledgers) = (queue.clone(), Arc::clone(&ledgers));
            thread::spawn(move || [0, 1].map(|key| ledgers[key].add(&queue, key, priority)))
        });
        join(producers);
        block_on(queue.shut_down_with_drain());
        join(workers);
        assert!(ledgers.iter().all(Ledger::is_settled), "an add was not followed by a run");
        assert_eq!(runs(&*ledgers) as u64, queue.stats().adds, "one run for each add that asked for one");
    });
}

#[test]
fn adds_during_processing_give_exactly_one_more_run() {
    explore(|| {
        let queue: Queue<usize> = Queue::new();
        queue.add(0);
        let item = queue.try_get().unwrap();
        let adders = [(); 3].map(|()| {
            let queue = queue.clone();
            thread::spawn(move || queue.add(0))
        });
        let thief = thread::spawn({
            let queue = queue.clone();
            move || assert_eq!(queue.try_get(), None, "the key is with a worker")
        });
        thief.join().unwrap();
        join(adders);
        queue.done(item);
        let item = queue.try_get().expect("one more run");
        queue.done(item);
        assert_eq!(queue.try_get(), None, "and no other");
    });
}

#[test]
fn an_add_that_meets_a_done_gives_one_more_run() {
    explore(|| {
        let queue: Queue<usize> = Queue::new();
        queue.add(0);
        let item = queue.try_get().unwrap();
        let adder = thread::spawn({
            let queue = queue.clone();
            move || queue.add(0)
        });
        queue.done(item);
        adder.join().unwrap();
        assert_eq!(queue.try_get().map(|item| item.key), Some(0));
        assert_eq!(queue.stats().adds, 2);
    });
}

#[test]
fn no_getter_sleeps_while_a_key_is_ready() {
    explore(|| {
        let queue: Queue<usize> = Queue::new();
        let getters = [(); 3].map(|()| {
            let queue = queue.clone();
            // The key is not given back: each getter must get one of its own.
            spawn(async move { queue.get().await.map(|item| item.key) })
        });
        let adder = thread::spawn({
            let queue = queue.clone();
            move || queue.add_batch([(0, (), Priority::LOW), (1, (), Priority::NORMAL)])
        });
        queue.add(2);
        adder.join().unwrap();
        let mut keys = join(getters);
        keys.sort_unstable();
        assert_eq!(keys, [Some(0), Some(1), Some(2)]);
    });
}

#[test]
fn a_key_given_back_dirty_wakes_a_getter() {
    explore(|| {
        let queue: Queue<usize> = Queue::new();
        queue.add(0);
        let item = queue.try_get().unwrap();
        let getter = spawn({
            let queue = queue.clone();
            async move { queue.get().await.map(|item| item.key) }
        });
        let adder = thread::spawn({
            let queue = queue.clone();
            move || queue.add(0)
        });
        queue.done(item);
        assert_eq!(getter.join().unwrap(), Some(0));
        adder.join().unwrap();
    });
}

/// Polls a future, lets others run, and drops it; what it returned if it was ready at once.
async fn give_up<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let first = std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    });
    let output = first.await;
    yield_now().await;
    output
}

#[test]
fn a_dropped_get_passes_its_notice_on() {
    explore(|| {
        let queue: Queue<usize> = Queue::new();
        let fickle = [(); 2].map(|()| {
            let queue = queue.clone();
            spawn(async move {
                if let Some(item) = give_up(queue.get()).await.flatten() {
                    queue.add(item.key);
                    queue.done(item);
                }
            })
        });
        let getter = spawn({
            let queue = queue.clone();
            async move { queue.get().await.map(|item| item.key) }
        });
        queue.add(0);
        assert_eq!(getter.join().unwrap(), Some(0));
        join(fickle);
    });
}

#[test]
fn a_drain_ends_when_all_that_was_accepted_has_run_and_not_before() {
    explore(|| {
        let queue: Queue<usize> = Queue::new();
        let ledgers = ledgers::<2>();
        queue.add(0);
        let worker = spawn(work(queue.clone(), Arc::clone(&ledgers)));
        let late = thread::spawn({
            let queue = queue.clone();
            move || queue.add_batch([1, 0, 1].map(|key| (key, (), Priority::NORMAL)))
        });
        block_on(queue.shut_down_with_drain());
        let (stats, at_the_end) = (queue.stats(), runs(&*ledgers));
        assert_eq!((stats.depth, stats.processing), (0, 0));
        assert_eq!(at_the_end as u64, stats.adds, "all that was accepted ran");
        late.join().unwrap();
        worker.join().unwrap();
        assert_eq!((runs(&*ledgers), queue.stats().adds), (at_the_end, stats.adds), "and nothing after that");
    });
}

#[test]
fn shut_down_ends_all_getters_and_drains() {
    explore(|| {
        let queue: Queue<usize> = Queue::new();
        queue.add(0);
        let held = queue.try_get().unwrap();
        let getters = [(); 2].map(|()| {
            let queue = queue.clone();
            spawn(async move { queue.get().await })
        });
        let drain = spawn({
            let queue = queue.clone();
            async move { queue.shut_down_with_drain().await }
        });
        // A drain that begins after the shut-down waits for the key that is held.
        let done = thread::spawn({
            let queue = queue.clone();
            move || queue.done(held)
        });
        queue.shut_down();
        for getter in getters {
            assert_eq!(getter.join().unwrap(), None);
        }
        drain.join().unwrap();
        done.join().unwrap();
    });
}

#[test]
fn batches_share_the_keys_and_leave_nobody_asleep() {
    explore(|| {
        let queue: Queue<usize> = Queue::new();
        let ledgers = ledgers::<2>();
        let workers = [1, 2].map(|max| {
            let (queue, ledgers) = (queue.clone(), Arc::clone(&ledgers));
            spawn(async move {
                loop {
                    let Some(first) = queue.get().await else { break };
                    let more = std::iter::from_fn(|| queue.try_get()).take(max - 1);
                    let items: Vec<Item<usize>> = std::iter::once(first).chain(more).collect();
                    for item in &items {
                        ledgers[item.key].run().await;
                    }
                    queue.done_batch(items);
                }
            })
        });
        for key in [0, 1, 0, 1] {
            ledgers[key].add(&queue, key, Priority::NORMAL);
        }
        block_on(queue.shut_down_with_drain());
        join(workers);
        assert!(ledgers.iter().all(Ledger::is_settled));
    });
}

/// Workers that a hook starts, as the host does it.
struct Crew {
    queue: OnceLock<Queue<usize>>,
    ledgers: Arc<[Ledger; 2]>,
    workers: WorkerCount,
    most: u32,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Crew {
    fn start(self: &Arc<Self>) {
        if self.workers.try_add() {
            let crew = Arc::clone(self);
            let worker = spawn(async move { crew.work().await });
            self.threads.lock().unwrap().push(worker);
        }
    }

    async fn work(self: Arc<Self>) {
        let queue = self.queue.get().unwrap();
        self.workers.started();
        while let Some(item) = queue.try_get() {
            assert!(self.workers.running() <= self.most);
            self.ledgers[item.key].run().await;
            queue.done(item);
        }
        self.workers.remove();
        if !queue.is_empty() {
            self.start();
        }
    }
}

#[test]
fn a_hook_leaves_no_key_without_a_worker() {
    for most in [1, 2] {
        explore(move || {
            let ledgers = ledgers();
            let crew = Arc::new_cyclic(|crew: &Weak<Crew>| {
                let ring = crew.clone();
                let hook = move || ring.upgrade().iter().for_each(Crew::start);
                Crew {
                    queue: OnceLock::from(Queue::builder().build_with_hook(&Timekeeper::new(), hook)),
                    ledgers: Arc::clone(&ledgers),
                    workers: WorkerCount::default(),
                    most,
                    threads: Mutex::default(),
                }
            });
            crew.workers.set_limit(most);
            let producers = [[0, 1], [0, 0]].map(|keys| {
                let crew = Arc::clone(&crew);
                let queue = crew.queue.get().unwrap().clone();
                thread::spawn(move || keys.map(|key| crew.ledgers[key].add(&queue, key, Priority::NORMAL)))
            });
            join(producers);
            // Workers may start others before they end.
            loop {
                let threads = mem::take(&mut *crew.threads.lock().unwrap());
                if threads.is_empty() {
                    break;
                }
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            }
            assert!(ledgers.iter().all(Ledger::is_settled));
        });
    }
}
