//! The limiters: the vectors of the contract, and the edges of their formulae.

use std::time::Duration;

use pilothouse_workqueue::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, MaxOfRateLimiter,
    RateLimiter, WithMaxWait, default_controller_rate_limiter, default_item_based_rate_limiter,
};
use tokio::time::advance;

use crate::helpers::ms;

const FOREVER: Duration = Duration::from_nanos(i64::MAX as u64);

fn whens(limiter: &impl RateLimiter<&'static str>, key: &'static str, times: usize) -> Vec<Duration> {
    (0..times).map(|_| limiter.when(&key)).collect()
}

fn exponential(base: Duration, max: Duration) -> ItemExponentialFailureRateLimiter<&'static str> {
    ItemExponentialFailureRateLimiter::new(base, max)
}

#[test]
fn exponential_doubles_with_each_failure_of_a_key() {
    let limiter = exponential(ms(1), ms(1_000));
    assert_eq!(whens(&limiter, "one", 5), [1, 2, 4, 8, 16].map(ms));
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(whens(&limiter, "two", 2), [1, 2].map(ms));
    assert_eq!(limiter.num_requeues(&"two"), 2);
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(limiter.when(&"one"), ms(1));
}

#[test]
fn exponential_reaches_its_maximum_and_stays_there() {
    let limiter = exponential(ms(1), Duration::from_secs(1_000));
    assert_eq!(whens(&limiter, "key", 6)[5], ms(32));
    assert_eq!(whens(&limiter, "key", 1_000)[999], Duration::from_secs(1_000));
    assert_eq!(limiter.num_requeues(&"key"), 1_006);
}

#[test]
fn exponential_of_a_long_base_does_not_overflow() {
    let limiter = exponential(Duration::from_secs(60), Duration::from_secs(24 * 3600));
    assert_eq!(whens(&limiter, "key", 3)[2], Duration::from_secs(240));
    assert_eq!(whens(&limiter, "key", 1_200)[1_199], Duration::from_secs(24 * 3600));
    let limiter = exponential(Duration::MAX, ms(7));
    assert_eq!(whens(&limiter, "key", 2), [ms(7), ms(7)]);
}

#[test]
fn exponential_goes_up_to_the_largest_delay_exactly() {
    let limiter = exponential(Duration::from_nanos(1), Duration::MAX);
    let delays = whens(&limiter, "key", 65);
    assert_eq!(delays[62], Duration::from_nanos(1 << 62));
    assert_eq!(delays[64], Duration::MAX, "beyond 2^63 ns: the maximum, whatever it is");
}

#[test]
fn exponential_of_zero_never_waits() {
    let limiter = exponential(Duration::ZERO, ms(1_000));
    assert!(whens(&limiter, "key", 2_000).iter().all(Duration::is_zero));
}

#[test]
fn fast_slow_is_fast_for_so_many_failures_of_a_key() {
    let limiter = ItemFastSlowRateLimiter::new(ms(5), Duration::from_secs(10), 3);
    assert_eq!(whens(&limiter, "one", 5), [5, 5, 5, 10_000, 10_000].map(ms));
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(whens(&limiter, "two", 2), [5, 5].map(ms));
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(limiter.when(&"one"), ms(5));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_has_not_failed_for_an_hour_is_forgotten() {
    let limiter = exponential(ms(1), Duration::from_secs(1_000));
    assert_eq!(whens(&limiter, "key", 3), [1, 2, 4].map(ms));
    advance(Duration::from_secs(3_600)).await;
    assert_eq!((limiter.num_requeues(&"key"), limiter.when(&"key")), (3, ms(8)));
    advance(Duration::from_secs(3_600)).await;
    assert_eq!(limiter.num_requeues(&"key"), 4, "the hour begins with each failure");
    advance(Duration::from_secs(1)).await;
    assert_eq!((limiter.num_requeues(&"key"), limiter.when(&"key")), (0, ms(1)));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_whenever_it_is_tried_is_not_forgotten_however_long_it_waits() {
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    let limiters: [Box<dyn RateLimiter<&'static str>>; 2] =
        [Box::new(exponential(ms(1), 7 * DAY)), Box::new(ItemFastSlowRateLimiter::new(ms(5), 7 * DAY, 3))];
    for limiter in limiters {
        let mut waited = Duration::ZERO;
        for failures in 0..60 {
            assert_eq!(limiter.num_requeues(&"key"), failures);
            waited = limiter.when(&"key");
            advance(waited).await;
        }
        assert_eq!(waited, 7 * DAY);
        advance(8 * DAY).await;
        assert_eq!(limiter.num_requeues(&"key"), 0);
    }
}

#[test]
fn max_of_waits_as_long_as_the_strictest() {
    let limiter: MaxOfRateLimiter<&'static str> = MaxOfRateLimiter::new([
        Box::new(ItemFastSlowRateLimiter::new(ms(5), Duration::from_secs(3), 3)) as Box<dyn RateLimiter<_>>,
        Box::new(exponential(ms(1), ms(1_000))),
    ]);
    assert_eq!(whens(&limiter, "one", 5), [5, 5, 5, 3_000, 3_000].map(ms));
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(whens(&limiter, "two", 2), [5, 5].map(ms));
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(limiter.when(&"one"), ms(5));
}

#[test]
fn max_of_nothing_never_waits() {
    let limiter: MaxOfRateLimiter<&'static str> = MaxOfRateLimiter::new([]);
    assert_eq!((limiter.when(&"key"), limiter.num_requeues(&"key")), (Duration::ZERO, 0));
}

#[test]
fn max_wait_bounds_the_delay_and_not_the_count() {
    let limiter = WithMaxWait::new(exponential(ms(1), ms(1_000)), ms(5));
    assert_eq!(whens(&limiter, "key", 5), [1, 2, 4, 5, 5].map(ms));
    assert_eq!(limiter.num_requeues(&"key"), 5);
    limiter.forget(&"key");
    assert_eq!(limiter.when(&"key"), ms(1));
    limiter.clear();
    assert_eq!(limiter.num_requeues(&"key"), 0);
}

#[tokio::test(start_paused = true)]
async fn bucket_lets_a_burst_pass_and_spaces_the_rest() {
    let limiter = BucketRateLimiter::new(10.0, 3);
    assert_eq!(whens(&limiter, "key", 6), [0, 0, 0, 100, 200, 300].map(ms));
    advance(ms(300)).await;
    assert_eq!(limiter.when(&"key"), ms(100), "the debt is paid, no token is left");
    advance(ms(250)).await;
    assert_eq!(whens(&limiter, "key", 2), [0, 50].map(ms), "half a token was left");
}

#[tokio::test(start_paused = true)]
async fn bucket_fills_up_to_its_burst_and_no_further() {
    let limiter = BucketRateLimiter::new(10.0, 2);
    whens(&limiter, "key", 2);
    advance(Duration::from_secs(3600)).await;
    assert_eq!(whens(&limiter, "key", 3), [0, 0, 100].map(ms));
}

#[tokio::test(start_paused = true)]
async fn bucket_keeps_a_reservation_when_its_key_is_forgotten() {
    let limiter = BucketRateLimiter::new(10.0, 1);
    assert_eq!(whens(&limiter, "key", 2), [0, 100].map(ms));
    RateLimiter::<&str>::forget(&limiter, &"key");
    assert_eq!((limiter.when(&"key"), limiter.num_requeues(&"key")), (ms(200), 0));
}

#[tokio::test(start_paused = true)]
async fn bucket_without_rate_or_burst_waits_for_ever_and_with_an_infinite_rate_never() {
    assert_eq!(BucketRateLimiter::new(10.0, 0).when(&"key"), FOREVER);
    assert_eq!(whens(&BucketRateLimiter::new(0.0, 1), "key", 2), [Duration::ZERO, FOREVER]);
    assert_eq!(whens(&BucketRateLimiter::new(f64::NAN, 1), "key", 2), [Duration::ZERO, FOREVER]);
    assert_eq!(whens(&BucketRateLimiter::new(-1.0, 1), "key", 2), [Duration::ZERO, FOREVER]);
    assert_eq!(whens(&BucketRateLimiter::new(1e-300, 1), "key", 2), [Duration::ZERO, FOREVER]);
    assert!(whens(&BucketRateLimiter::new(f64::INFINITY, 0), "key", 9).iter().all(Duration::is_zero));
}

#[tokio::test(start_paused = true)]
async fn clear_forgets_all_keys_and_reservations() {
    let limiter = default_controller_rate_limiter::<u32>();
    for key in 0..200 {
        limiter.when(&key);
    }
    limiter.clear();
    assert_eq!((limiter.num_requeues(&0), limiter.when(&0)), (0, ms(5)));
}

#[tokio::test(start_paused = true)]
async fn the_default_doubles_from_5_ms_to_1000_s_for_one_key() {
    let limiter = default_controller_rate_limiter::<&str>();
    let delays: Vec<Duration> = (0..20).map(|_| limiter.when(&"key")).collect();
    assert_eq!(delays[..4], [5, 10, 20, 40].map(ms));
    assert_eq!(delays[17], ms(5 << 17));
    assert_eq!(delays[18..], [Duration::from_secs(1_000); 2]);
}

#[test]
fn the_item_based_default_doubles_from_1_ms_to_1000_s() {
    let limiter = default_item_based_rate_limiter();
    assert_eq!(whens(&limiter, "key", 3), [1, 2, 4].map(ms));
    assert_eq!(whens(&limiter, "key", 30)[29], Duration::from_secs(1_000));
}

#[tokio::test(start_paused = true)]
async fn the_default_lets_100_keys_fail_and_then_10_a_second() {
    let limiter = default_controller_rate_limiter::<u32>();
    let delays: Vec<Duration> = (0..110).map(|key| limiter.when(&key)).collect();
    assert!(delays[..100].iter().all(|delay| *delay == ms(5)));
    for (n, delay) in delays[100..].iter().enumerate() {
        assert_eq!(*delay, ms(100 * (n as u64 + 1)));
    }
}
