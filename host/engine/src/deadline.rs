//! [`Deadline`]: the wall-clock deadline of a call.
//!
//! Nearly all calls end in their first poll, so a timer is made only when a call is pending for the first time. Called by
//! `instance`.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep_until};

/// When a call is interrupted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

/// The call was still pending at its deadline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exceeded;

impl Deadline {
    pub(crate) fn new(at: std::time::Instant) -> Self {
        Self(at.into())
    }

    /// Runs the future of a call until the deadline. A call that ends in the poll in which the deadline passes is answered.
    pub(crate) async fn limit<F: Future>(self, call: F) -> Result<F::Output, Exceeded> {
        let mut call = pin!(call);
        let mut timer = pin!(None);
        poll_fn(|cx| {
            if let Poll::Ready(answer) = call.as_mut().poll(cx) {
                return Poll::Ready(Ok(answer));
            }
            if timer.is_none() {
                // A call that has used up tokio's budget in its poll must not keep the timer from being looked at.
                timer.set(Some(unconstrained(sleep_until(self.0))));
            }
            let passed = timer.as_mut().as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx));
            passed.map(|()| Err(Exceeded))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::task::{Context, Waker};
    use std::time::Duration;

    use tokio::task::coop::consume_budget;
    use tokio::time::{advance, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_call_that_ends_in_its_first_poll_needs_no_timer() {
        // Outside of a runtime a timer panics.
        let call = pin!(Deadline(Instant::now()).limit(ready(7)));
        assert_eq!(call.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_ends_at_its_deadline_and_not_before() {
        let began = Instant::now();
        let deadline = Deadline(began + SECOND);
        let answer = deadline.limit(async {
            sleep(SECOND - Duration::from_millis(1)).await;
            7
        });
        assert_eq!(answer.await, Ok(7));
        assert_eq!(deadline.limit(pending::<()>()).await, Err(Exceeded));
        assert_eq!(began.elapsed(), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_uses_up_the_budget_of_its_task_ends_as_well() {
        let deadline = Deadline(Instant::now());
        advance(Duration::from_millis(2)).await;
        let mut call = pin!(deadline.limit(async {
            loop {
                consume_budget().await;
            }
        }));
        let polled: Poll<Result<(), _>> = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
        assert_eq!(polled, Poll::Ready(Err(Exceeded)));
    }
}
