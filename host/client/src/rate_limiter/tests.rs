//! The limiter under a paused clock.

use tokio::task::JoinHandle;
use tokio::time::advance;

use super::*;

fn limiter(qps: f64, burst: u32) -> RateLimiter {
    RateLimiter::new(RateLimit { qps, burst }, Handle::current()).unwrap()
}

fn name(flow: &str) -> Arc<str> {
    flow.into()
}

/// Asks for this many turns at once; the times at which they came.
fn ask(limiter: &RateLimiter, flow: &str, turns: usize) -> Vec<JoinHandle<Duration>> {
    let began = Instant::now();
    let one = |_| {
        let (limiter, flow) = (limiter.clone(), name(flow));
        tokio::spawn(async move {
            limiter.turn(&flow).await;
            began.elapsed()
        })
    };
    (0..turns).map(one).collect()
}

async fn times(asked: Vec<JoinHandle<Duration>>) -> Vec<u128> {
    let mut times = Vec::new();
    for turn in asked {
        times.push(turn.await.unwrap().as_millis());
    }
    times
}

#[tokio::test(start_paused = true)]
async fn after_the_burst_turns_come_at_the_rate_and_in_order() {
    let limiter = limiter(10.0, 3);
    assert_eq!(times(ask(&limiter, "a", 6)).await, [0, 0, 0, 100, 200, 300]);
    // Rest fills the burst again, and no more than it.
    advance(Duration::from_secs(60)).await;
    assert_eq!(times(ask(&limiter, "a", 5)).await, [0, 0, 0, 100, 200]);
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_less_than_its_share_never_waits_for_a_flood() {
    let limiter = limiter(100.0, 10);
    let flood = ask(&limiter, "flood", 1000);
    tokio::task::yield_now().await;
    for _ in 0..40 {
        // 40 of its 50 a second.
        advance(Duration::from_millis(25)).await;
        let began = Instant::now();
        limiter.turn(&name("quiet")).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
    // Nothing is lost: what the quiet one took, the flood waited for.
    let last = *times(flood).await.last().unwrap();
    assert!((10_000..=10_500).contains(&last), "1,040 turns of 100 a second less the burst took {last} ms");
}

#[tokio::test(start_paused = true)]
async fn floods_get_equal_parts_and_together_all_of_the_rate() {
    let limiter = limiter(100.0, 10);
    let floods = ["a", "b", "c", "d"].map(|flow| ask(&limiter, flow, 100));
    for flood in floods {
        let last = *times(flood).await.last().unwrap();
        assert!((3600..=3900).contains(&last), "its last turn came after {last} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_busy_flow_leaves_goes_round() {
    let limiter = limiter(100.0, 3);
    let floods = ["a", "b"].map(|flow| ask(&limiter, flow, 200));
    // Busy, and far below its third.
    let quiet = tokio::spawn({
        let limiter = limiter.clone();
        async move {
            for _ in 0..8 {
                limiter.turn(&name("quiet")).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    });
    for flood in floods {
        let times = times(flood).await;
        let (middle, last) = (times[100], times[199]);
        assert!((1900..=2150).contains(&middle) && (3900..=4200).contains(&last), "{middle} and {last} ms");
    }
    quiet.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_goes_beyond_the_rate_is_bounded_by_the_bursts() {
    let limiter = limiter(50.0, 20);
    let began = Instant::now();
    let floods: Vec<_> = (0..8).map(|flow| ask(&limiter, &flow.to_string(), 40)).collect();
    let mut all = Vec::new();
    for flood in floods {
        all.extend(times(flood).await);
    }
    all.sort_unstable();
    let bursts: f64 = 20.0 + (1..=8).map(|n| 20.0 / f64::from(n)).sum::<f64>();
    for (count, at) in all.iter().enumerate() {
        let allowed = bursts + 50.0 * (*at as f64 + 1.0) / 1000.0;
        assert!((count as f64) < allowed, "{} turns within {at} ms", count + 1);
    }
    assert!(began.elapsed() >= Duration::from_secs(5), "320 turns at 50 a second took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_goes_while_it_waits_takes_nothing() {
    let limiter = limiter(10.0, 1);
    limiter.turn(&name("a")).await;
    let gone = ask(&limiter, "a", 50);
    tokio::task::yield_now().await;
    gone.iter().for_each(JoinHandle::abort);
    tokio::task::yield_now().await;
    assert_eq!(times(ask(&limiter, "a", 2)).await, [100, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_flow_that_has_had_all_it_asked_for_stands_in_no_turn_beside_a_flood() {
    let limiter = limiter(100.0, 10);
    let flood = ask(&limiter, "flood", 1000);
    tokio::task::yield_now().await;
    // More than its share at once, and then more of it one by one, so that it waits again and again.
    times(ask(&limiter, "quiet", 12)).await;
    for _ in 0..100 {
        limiter.turn(&name("quiet")).await;
        assert!(limiter.0.state.lock().turns.len() <= 2);
    }
    let rests = {
        let mut state = limiter.0.state.lock();
        let now = Instant::now();
        state.hand_out(now).is_some_and(|next| next > now) && state.turns.len() == 1
    };
    assert!(rests, "the next turn is in the past, or of nobody");
    times(flood).await;
}

#[tokio::test(start_paused = true)]
async fn a_flow_in_debt_is_not_forgotten() {
    let limiter = limiter(0.01, 1);
    let began = Instant::now();
    for turn in 0..5 {
        limiter.turn(&name("a")).await;
        assert!(
            began.elapsed() >= Duration::from_secs(100 * turn),
            "turn {turn} after {:?}",
            began.elapsed()
        );
        tokio::time::sleep(Duration::from_secs(61)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn flows_that_ask_seldom_share_a_rate_that_is_seldom_too() {
    let limiter = limiter(0.1, 1);
    let one = |flow: &'static str| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            for _ in 0..50 {
                limiter.turn(&name(flow)).await;
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
        })
    };
    let began = Instant::now();
    for flow in [one("a"), one("b"), one("c")] {
        flow.await.unwrap();
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(1440), "150 turns at one in ten seconds took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn flows_are_forgotten_after_a_rest() {
    let limiter = limiter(1000.0, 1000);
    for flow in 0..100 {
        limiter.turn(&name(&flow.to_string())).await;
    }
    advance(REMEMBERED + Duration::from_secs(1)).await;
    limiter.turn(&name("new")).await;
    assert_eq!(limiter.0.state.lock().flows.len(), 1);
}

#[tokio::test]
async fn a_limit_that_lets_nothing_through_is_refused() {
    for (qps, burst) in [(0.0, 1), (-1.0, 1), (f64::NAN, 1), (f64::INFINITY, 1), (1.0, 0), (1e9, 5)] {
        let error = RateLimiter::new(RateLimit { qps, burst }, Handle::current()).err().unwrap();
        assert!(error.to_string().contains("leave the limit out"), "{error}");
    }
}
