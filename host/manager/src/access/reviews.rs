//! [`AccessReviews`]: the questions that plugins with a ServiceAccount depend on, each asked once for all of them, and again
//! every minute as long as somebody depends on it.
//!
//! Invariants:
//! * A review allows nothing before the first answer.
//! * Trouble of the host or the server is no answer. After the first answer it changes nothing, until that answer has not
//!   been confirmed for [`LONGEST_UNCONFIRMED`]; then the review denies.
//! * At most [`AT_ONCE`] questions are asked at a time. A server that answers in 50 ms answers 18,000 a minute.
//!
//! One task asks, as long as there are questions; a host whose plugins name no account has none.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use parking_lot::Mutex;
use pilothouse_cache::Backoff;
use pilothouse_plugin::NamespacedName;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::{Asker, Decision};

/// Between two askings of the same question: what is revoked is noticed within twice this time.
pub(super) const PERIOD: Duration = Duration::from_secs(60);

/// Questions asked at once.
const AT_ONCE: usize = 16;

/// How long an answer counts that the server cannot be asked to confirm. Long enough for a restart of an API server, and
/// for an upgrade of a small control plane.
pub(super) const LONGEST_UNCONFIRMED: Duration = Duration::from_secs(600);

/// The pauses after trouble, until the first answer; each is up to twice as long.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// What is asked: whether an account may do something to the objects of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) account: NamespacedName,
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) resource: String,
    /// None: in all namespaces, or a cluster-scoped resource.
    pub(crate) namespace: Option<String>,
    /// None: all names.
    pub(crate) name: Option<String>,
}

/// `ServiceAccount ns/robot may not list secrets "tls" in namespace ns`.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account, verb, group, resource, namespace, name } = self;
        write!(f, "ServiceAccount {}/{} may not {verb} {resource}", account.namespace, account.name)?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if let Some(name) = name {
            write!(f, " {name:?}")?;
        }
        match namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => f.write_str(" in the whole cluster"),
        }
    }
}

/// The last answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// There is none yet, and why, if that is known.
    Unknown(Option<String>),
    Allowed,
    /// The sentence to show, with the reason of the server or of the host.
    Denied(String),
}

/// A question and its last answer. It is asked again as long as somebody holds it.
pub(crate) struct Review {
    question: Question,
    /// Name of the cluster, for the log; none of the home cluster.
    cluster: Option<Arc<str>>,
    answer: watch::Sender<Answer>,
    /// Whether the answer is `Allowed`, readable for each event.
    is_allowed: AtomicBool,
    /// Times that an answer became `Denied`.
    denials: AtomicU64,
    /// When the server answered last.
    confirmed: Mutex<Instant>,
}

impl Review {
    fn new(question: Question, cluster: Option<Arc<str>>) -> Self {
        Self {
            question,
            cluster,
            answer: watch::Sender::new(Answer::Unknown(None)),
            is_allowed: AtomicBool::new(false),
            denials: AtomicU64::new(0),
            confirmed: Mutex::new(Instant::now()),
        }
    }

    /// Whether the last answer allows it.
    pub(crate) fn is_allowed(&self) -> bool {
        self.is_allowed.load(Ordering::Acquire)
    }

    /// Times that it was denied after it was allowed, or at first.
    pub(crate) fn denials(&self) -> u64 {
        self.denials.load(Ordering::Acquire)
    }

    /// The last answer, and a notice of the next.
    pub(crate) fn answers(&self) -> watch::Receiver<Answer> {
        self.answer.subscribe()
    }

    /// Why it is not allowed; none if it is.
    pub(crate) fn refusal(&self) -> Option<String> {
        match &*self.answer.borrow() {
            Answer::Allowed => None,
            Answer::Denied(why) => Some(why.clone()),
            Answer::Unknown(Some(error)) => Some(self.unanswered(error)),
            Answer::Unknown(None) => Some(self.unanswered("asked just now")),
        }
    }

    /// As [`refusal`](Self::refusal), once something is known: the answer, or why there is none.
    pub(crate) fn known_refusal(&self) -> Option<String> {
        let is_known = *self.answer.borrow() != Answer::Unknown(None);
        self.refusal().filter(|_| is_known)
    }

    fn unanswered(&self, error: &str) -> String {
        format!("the API server has not said yet whether {}: {error}", self.question)
            .replace(" may not ", " may ")
    }

    fn denied(&self, reason: &str) -> String {
        if reason.is_empty() { self.question.to_string() } else { format!("{}: {reason}", self.question) }
    }

    /// Takes what came of asking. `true` if a denial was lifted.
    fn take(&self, outcome: Result<Decision, String>) -> bool {
        let now = Instant::now();
        if outcome.is_ok() {
            *self.confirmed.lock() = now;
        }
        let answer = match outcome {
            Ok(Ok(())) => Answer::Allowed,
            Ok(Err(reason)) => Answer::Denied(self.denied(&reason)),
            Err(trouble) => match &*self.answer.borrow() {
                Answer::Unknown(_) => Answer::Unknown(Some(trouble)),
                Answer::Allowed if now - *self.confirmed.lock() >= LONGEST_UNCONFIRMED => {
                    let minutes = LONGEST_UNCONFIRMED.as_secs() / 60;
                    Answer::Denied(self.denied(&format!("not confirmed for {minutes} minutes: {trouble}")))
                }
                unchanged => unchanged.clone(),
            },
        };
        let mut is_lifted = false;
        let cluster = self.cluster.as_deref();
        self.answer.send_if_modified(|present| {
            if *present == answer {
                return false;
            }
            match (&*present, &answer) {
                (Answer::Allowed, Answer::Denied(why)) => {
                    tracing::warn!(
                        event = "access_revoked",
                        cluster,
                        "{why}; what plugins with it read is hidden"
                    );
                }
                (Answer::Denied(_), Answer::Allowed) => {
                    is_lifted = true;
                    let question = self.question.to_string().replace(" may not ", " may ");
                    tracing::info!(event = "access_restored", cluster, "{question} again");
                }
                _ => {}
            }
            if matches!(answer, Answer::Denied(_)) {
                self.denials.fetch_add(1, Ordering::AcqRel);
            }
            // Before those that wait for the answer look.
            self.is_allowed.store(answer == Answer::Allowed, Ordering::Release);
            *present = answer;
            true
        });
        is_lifted
    }
}

/// The reviews of a host; a cheap clone.
#[derive(Clone)]
pub(crate) struct AccessReviews(Arc<Inner>);

struct Inner {
    asker: Arc<dyn Asker>,
    /// None of the home cluster.
    cluster: Option<Arc<str>>,
    reviews: Mutex<Reviews>,
    at_once: Semaphore,
    /// Counts the denials that were lifted.
    lifted: watch::Sender<u64>,
}

#[derive(Default)]
struct Reviews {
    held: HashMap<Question, Weak<Review>>,
    /// Whether the task that asks again runs.
    is_asking: bool,
}

impl AccessReviews {
    /// Those of the home cluster, without questions.
    pub(crate) fn new(asker: Arc<dyn Asker>) -> Self {
        Self::of(asker, None)
    }

    /// Those of another cluster, without questions.
    pub(crate) fn in_cluster(name: &str, asker: Arc<dyn Asker>) -> Self {
        Self::of(asker, Some(name.into()))
    }

    fn of(asker: Arc<dyn Asker>, cluster: Option<Arc<str>>) -> Self {
        Self(Arc::new(Inner {
            asker,
            cluster,
            reviews: Mutex::default(),
            at_once: Semaphore::new(AT_ONCE),
            lifted: watch::Sender::new(0),
        }))
    }

    /// The review of a question; a new one is asked at once. To be called on the runtime of the connections.
    pub(crate) fn review(&self, question: Question) -> Arc<Review> {
        let mut reviews = self.0.reviews.lock();
        if let Some(review) = reviews.held.get(&question).and_then(Weak::upgrade) {
            return review;
        }
        let review = Arc::new(Review::new(question.clone(), self.0.cluster.clone()));
        reviews.held.insert(question, Arc::downgrade(&review));
        tokio::spawn(Arc::clone(&self.0).ask_first(Arc::downgrade(&review)));
        if !std::mem::replace(&mut reviews.is_asking, true) {
            tokio::spawn(Arc::clone(&self.0).ask_again());
        }
        review
    }

    /// A notice of each denial that is lifted.
    pub(crate) fn lifted(&self) -> watch::Receiver<u64> {
        self.0.lifted.subscribe()
    }
}

impl Inner {
    async fn ask(&self, review: &Review) {
        // The semaphore is never closed.
        let _turn = self.at_once.acquire().await;
        if review.take(self.asker.ask(&review.question).await) {
            self.lifted.send_modify(|count| *count += 1);
        }
    }

    /// Asks a new question until there is an answer.
    async fn ask_first(self: Arc<Self>, review: Weak<Review>) {
        let mut backoff = Backoff::new(RETRY.0, RETRY.1, Duration::MAX);
        while let Some(review) = review.upgrade() {
            self.ask(&review).await;
            if !matches!(*review.answer.borrow(), Answer::Unknown(_)) {
                return;
            }
            drop(review);
            tokio::time::sleep(backoff.failure()).await;
        }
    }

    /// Asks all answered questions again, every minute, until nobody depends on any.
    async fn ask_again(self: Arc<Self>) {
        let mut rounds = tokio::time::interval(PERIOD);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        rounds.tick().await;
        loop {
            rounds.tick().await;
            let held: Vec<Weak<Review>> = {
                let mut reviews = self.reviews.lock();
                reviews.held.retain(|_, review| review.strong_count() > 0);
                if reviews.held.is_empty() {
                    // The next question starts another task.
                    reviews.is_asking = false;
                    return;
                }
                reviews.held.values().cloned().collect()
            };
            let this = &self;
            let ask = |review: Weak<Review>| async move {
                if let Some(review) = review.upgrade()
                    && !matches!(*review.answer.borrow(), Answer::Unknown(_))
                {
                    this.ask(&review).await;
                }
            };
            stream::iter(held).for_each_concurrent(AT_ONCE, ask).await;
        }
    }
}

#[cfg(test)]
mod tests;
