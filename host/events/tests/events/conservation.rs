//! Whatever happens, each event ends up in exactly one count.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_events::{BroadcasterOptions, CorrelatorOptions, EventBroadcaster, EventType, SinkError};
use proptest::prelude::*;

use crate::support::{Scripted, clock, exists, not_found, pod, recorder, transient};

#[derive(Debug, Clone)]
enum Step {
    /// Event with these numbers of object, reason and message.
    Event(u8, u8, u8),
    Sleep(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let event =
        (0_u8..3, 0_u8..2, 0_u8..15).prop_map(|(object, reason, text)| Step::Event(object, reason, text));
    let sleep = prop::sample::select(vec![1_u64, 1_000, 15_000, 400_000]).prop_map(Step::Sleep);
    prop::collection::vec(prop_oneof![12 => event, 1 => sleep], 0..150)
}

fn answers() -> impl Strategy<Value = Vec<Result<(), SinkError>>> {
    let rejected = Err(SinkError::Rejected("no".to_owned()));
    let answer = prop_oneof![
        6 => Just(Ok(())),
        1 => Just(transient()),
        1 => Just(not_found()),
        1 => Just(exists()),
        1 => Just(rejected),
    ];
    prop::collection::vec(answer, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn counts_are_conserved(
        steps in steps(),
        answers in answers(),
        queue_length in 1_usize..30,
        latency in prop::sample::select(vec![0_u64, 10, 5_000]),
        deadline in prop::sample::select(vec![0_u64, 1_000, 3_600_000]),
        series in any::<bool>(),
        lru_cache_size in prop::sample::select(vec![1_usize, 2, 4096]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let correlator =
                CorrelatorOptions { lru_cache_size, clock: clock(), ..CorrelatorOptions::default() };
            let options = BroadcasterOptions { queue_length, correlator, ..BroadcasterOptions::default() };
            let broadcaster = EventBroadcaster::new(options);
            let sink = Scripted::slow(answers, Duration::from_millis(latency));
            let watch = if series {
                broadcaster.start_recording_series_to_sink(Arc::clone(&sink)).await.unwrap()
            } else {
                broadcaster.start_recording_to_sink(Arc::clone(&sink)).await.unwrap()
            };
            let recorder = recorder(&broadcaster);
            let mut recorded = 0;
            for step in steps {
                match step {
                    Step::Event(object, reason, text) => {
                        recorded += 1;
                        let object = pod(&format!("pod-{object}"));
                        let reason = format!("Reason{reason}");
                        recorder.eventf(object, EventType::Normal, &reason, format_args!("message {text}"));
                    }
                    Step::Sleep(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
                }
            }
            let in_time = broadcaster.shutdown(Duration::from_millis(deadline)).await;
            let (taken, ended) = (broadcaster.metrics().counts(), watch.metrics().counts());
            prop_assert_eq!(taken.received, recorded);
            prop_assert_eq!(taken.received, taken.dropped + ended.received, "{:?} {:?}", taken, ended);
            prop_assert_eq!(
                ended.received,
                ended.sent + ended.aggregated + ended.filtered + ended.dropped + ended.failed,
                "{:?}, in time: {}",
                ended,
                in_time
            );
            prop_assert!(deadline < 3_600_000 || in_time);
            Ok(())
        })?;
    }
}
