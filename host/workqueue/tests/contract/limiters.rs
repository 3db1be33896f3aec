//! The limiters: the vectors of the contract, and the edges of their formulae.

use std::time::Duration;

use pilothouse_workqueue::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, MaxOfRateLimiter,
    RateLimiter, WithMaxWait, default_controller_rate_limiter, default_item_based_rate_limiter,
};
use tokio::time::advance;

use crate::helpers::ms;

const FOREVER: Duration = Duration::from_nanos(i64::MAX as u64);

/// The delays of so many failures in a row.
fn whens(limiter: &impl RateLimiter, failures: u32) -> Vec<Duration> {
    (0..failures).map(|before| limiter.when(before)).collect()
}

fn exponential(base: Duration, max: Duration) -> ItemExponentialFailureRateLimiter {
    ItemExponentialFailureRateLimiter::new(base, max)
}

#[test]
fn exponential_doubles_with_each_failure_of_a_key() {
    assert_eq!(whens(&exponential(ms(1), ms(1_000)), 5), [1, 2, 4, 8, 16].map(ms));
}

#[test]
fn exponential_reaches_its_maximum_and_stays_there() {
    let limiter = exponential(ms(1), Duration::from_secs(1_000));
    assert_eq!(limiter.when(5), ms(32));
    assert_eq!([20, 1_000, u32::MAX].map(|failures| limiter.when(failures)), [Duration::from_secs(1_000); 3]);
}

#[test]
fn exponential_of_a_long_base_does_not_overflow() {
    let limiter = exponential(Duration::from_secs(60), Duration::from_secs(24 * 3600));
    assert_eq!(limiter.when(2), Duration::from_secs(240));
    assert_eq!(limiter.when(1_200), Duration::from_secs(24 * 3600));
    assert_eq!(whens(&exponential(Duration::MAX, ms(7)), 2), [ms(7), ms(7)]);
}

#[test]
fn exponential_goes_up_to_the_largest_delay_exactly() {
    let limiter = exponential(Duration::from_nanos(1), Duration::MAX);
    assert_eq!(limiter.when(62), Duration::from_nanos(1 << 62));
    assert_eq!(limiter.when(64), Duration::MAX, "beyond 2^63 ns: the maximum, whatever it is");
}

#[test]
fn exponential_of_zero_never_waits() {
    assert!(whens(&exponential(Duration::ZERO, ms(1_000)), 2_000).iter().all(Duration::is_zero));
}

#[test]
fn fast_slow_is_fast_for_so_many_failures_of_a_key() {
    let limiter = ItemFastSlowRateLimiter::new(ms(5), Duration::from_secs(10), 3);
    assert_eq!(whens(&limiter, 5), [5, 5, 5, 10_000, 10_000].map(ms));
}

#[test]
fn max_of_waits_as_long_as_the_strictest() {
    let limiter = MaxOfRateLimiter::new([
        Box::new(ItemFastSlowRateLimiter::new(ms(5), Duration::from_secs(3), 3)) as Box<dyn RateLimiter>,
        Box::new(exponential(ms(1), ms(1_000))),
    ]);
    assert_eq!(whens(&limiter, 5), [5, 5, 5, 3_000, 3_000].map(ms));
}

#[test]
fn max_of_nothing_never_waits() {
    assert_eq!(MaxOfRateLimiter::new([]).when(0), Duration::ZERO);
}

#[test]
fn max_wait_bounds_the_delay() {
    let limiter = WithMaxWait::new(exponential(ms(1), ms(1_000)), ms(5));
    assert_eq!(whens(&limiter, 5), [1, 2, 4, 5, 5].map(ms));
}

#[tokio::test(start_paused = true)]
async fn bucket_lets_a_burst_pass_and_spaces_the_rest() {
    let limiter = BucketRateLimiter::new(10.0, 3);
    assert_eq!(whens(&limiter, 6), [0, 0, 0, 100, 200, 300].map(ms));
    advance(ms(300)).await;
    assert_eq!(limiter.when(0), ms(100), "the debt is paid, no token is left");
    advance(ms(250)).await;
    assert_eq!(whens(&limiter, 2), [0, 50].map(ms), "half a token was left");
}

#[tokio::test(start_paused = true)]
async fn bucket_fills_up_to_its_burst_and_no_further() {
    let limiter = BucketRateLimiter::new(10.0, 2);
    whens(&limiter, 2);
    advance(Duration::from_secs(3600)).await;
    assert_eq!(whens(&limiter, 3), [0, 0, 100].map(ms));
}

#[tokio::test(start_paused = true)]
async fn bucket_without_rate_or_burst_waits_for_ever_and_with_an_infinite_rate_never() {
    assert_eq!(BucketRateLimiter::new(10.0, 0).when(0), FOREVER);
    assert_eq!(whens(&BucketRateLimiter::new(0.0, 1), 2), [Duration::ZERO, FOREVER]);
    assert_eq!(whens(&BucketRateLimiter::new(f64::NAN, 1), 2), [Duration::ZERO, FOREVER]);
    assert_eq!(whens(&BucketRateLimiter::new(-1.0, 1), 2), [Duration::ZERO, FOREVER]);
    assert_eq!(whens(&BucketRateLimiter::new(1e-300, 1), 2), [Duration::ZERO, FOREVER]);
    assert!(whens(&BucketRateLimiter::new(f64::INFINITY, 0), 9).iter().all(Duration::is_zero));
}

#[tokio::test(start_paused = true)]
async fn clear_forgets_reservations_also_within_other_limiters() {
    let limiter = WithMaxWait::new(default_controller_rate_limiter(), Duration::MAX);
    (0..200).for_each(|_| _ = limiter.when(0));
    assert!(limiter.when(0) > ms(5));
    limiter.clear();
    assert_eq!(limiter.when(0), ms(5));
}

#[tokio::test(start_paused = true)]
async fn the_default_doubles_from_5_ms_to_1000_s_for_one_key() {
    let delays = whens(&default_controller_rate_limiter(), 20);
    assert_eq!(delays[..4], [5, 10, 20, 40].map(ms));
    assert_eq!(delays[17], ms(5 << 17));
    assert_eq!(delays[18..], [Duration::from_secs(1_000); 2]);
}

#[test]
fn the_item_based_default_doubles_from_1_ms_to_1000_s() {
    let limiter = default_item_based_rate_limiter();
    assert_eq!(whens(&limiter, 3), [1, 2, 4].map(ms));
    assert_eq!(limiter.when(32), Duration::from_secs(1_000));
}

#[tokio::test(start_paused = true)]
async fn the_default_lets_100_keys_fail_and_then_10_a_second() {
    let limiter = default_controller_rate_limiter();
    let delays: Vec<Duration> = (0..110).map(|_| limiter.when(0)).collect();
    assert!(delays[..100].iter().all(|delay| *delay == ms(5)));
    for (n, delay) in delays[100..].iter().enumerate() {
        assert_eq!(*delay, ms(100 * (n as u64 + 1)));
    }
}
