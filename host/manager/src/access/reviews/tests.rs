//! When questions are asked, and what the answers mean, on the paused clock.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::*;
use crate::testing::{FakeRules, settle};

const MINUTE: Duration = Duration::from_secs(60);

fn question(resource: &str) -> Question {
    Question {
        account: NamespacedName { namespace: "ns".to_owned(), name: "robot".to_owned() },
        verb: "list",
        group: String::new(),
        resource: resource.to_owned(),
        namespace: Some("a".to_owned()),
        name: None,
    }
}

fn reviews() -> (AccessReviews, FakeRules) {
    let rules = FakeRules::default();
    (AccessReviews::new(Arc::new(rules.clone())), rules)
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_at_once_and_allows_nothing_before_the_answer() {
    let (reviews, rules) = reviews();
    rules.set_trouble(true);
    let review = reviews.review(question("pods"));
    assert!(!review.is_allowed());
    settle().await;
    assert!(!review.is_allowed());
    assert_eq!(
        review.refusal().unwrap(),
        "the API server has not said yet whether ServiceAccount ns/robot may list pods in namespace a: away"
    );
    rules.set_trouble(false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(review.is_allowed());
    assert_eq!((review.refusal(), review.denials()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_revocation_is_noticed_within_two_minutes_and_so_is_its_end() {
    let (reviews, rules) = reviews();
    let mut lifted = reviews.lifted();
    let review = reviews.review(question("pods"));
    settle().await;
    assert!(review.is_allowed());
    tokio::time::sleep(MINUTE / 2).await;
    rules.deny(&["list pods"]);
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(
        review.refusal().unwrap(),
        "ServiceAccount ns/robot may not list pods in namespace a: no rule"
    );
    assert_eq!((review.is_allowed(), review.denials()), (false, 1));
    assert!(lifted.changed().now_or_never().is_none());
    rules.deny(&[]);
    tokio::time::sleep(2 * MINUTE).await;
    assert!(review.is_allowed());
    assert!(lifted.changed().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn trouble_of_the_server_changes_nothing_for_ten_minutes_and_denies_then() {
    let (reviews, rules) = reviews();
    let review = reviews.review(question("pods"));
    settle().await;
    rules.set_trouble(true);
    tokio::time::sleep(9 * MINUTE).await;
    assert!(review.is_allowed());
    tokio::time::sleep(2 * MINUTE).await;
    let refusal = review.refusal().unwrap();
    assert!(refusal.ends_with("in namespace a: not confirmed for 10 minutes: away"), "{refusal}");
    tokio::time::sleep(30 * MINUTE).await;
    assert!(!review.is_allowed());
    rules.set_trouble(false);
    tokio::time::sleep(MINUTE).await;
    assert!(review.is_allowed());
}

#[tokio::test(start_paused = true)]
async fn trouble_does_not_lift_a_denial() {
    let (reviews, rules) = reviews();
    rules.deny(&["list pods"]);
    let review = reviews.review(question("pods"));
    settle().await;
    rules.set_trouble(true);
    tokio::time::sleep(20 * MINUTE).await;
    assert!(review.refusal().unwrap().ends_with("no rule"), "{:?}", review.refusal());
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_once_for_all_who_depend_on_it_and_never_again_for_nobody() {
    let (reviews, rules) = reviews();
    let (one, other) = (reviews.review(question("pods")), reviews.review(question("pods")));
    settle().await;
    assert_eq!(rules.asked().len(), 1);
    tokio::time::sleep(3 * MINUTE).await;
    assert_eq!(rules.asked().len(), 3);
    drop(one);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(rules.asked().len(), 1);
    drop(other);
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(rules.asked(), [""; 0]);
    assert!(!reviews.0.reviews.lock().is_asking, "the task ended");
    let _again = reviews.review(question("pods"));
    settle().await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(rules.asked().len(), 2);
}

/// Counts how many are asked at a time.
#[derive(Default)]
struct Slow {
    now: AtomicU64,
    most: AtomicU64,
}

impl Asker for Slow {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Result<Decision, String>> {
        Box::pin(async move {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            Ok(Ok(()))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_bounded_number_is_asked_at_a_time() {
    let slow = Arc::new(Slow::default());
    let reviews = AccessReviews::new(Arc::clone(&slow) as _);
    let held: Vec<_> = (0..200).map(|n| reviews.review(question(&format!("r{n}")))).collect();
    tokio::time::sleep(3 * MINUTE).await;
    assert!(held.iter().all(|review| review.is_allowed()));
    assert_eq!(slow.most.load(Ordering::SeqCst), AT_ONCE as u64);
}
