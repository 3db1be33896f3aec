//! The correlator against a model of its rules that compares texts and counts tokens.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_events::{
    Correlated, Correlation, CorrelatorOptions, Event, EventCorrelator, EventSource, EventType, Recorded,
};
use proptest::prelude::*;

use crate::support::{BEGIN, about, pod};

/// Source, object, type: what shares a bucket.
type Spam = (String, String, String, &'static str);
/// And reason: what is similar.
type Similar = (Spam, String);
/// And field path and message; none of them for the combined event.
type Whole = (Similar, Option<(String, String)>);

#[derive(Default)]
struct Model {
    /// Messages, and when the last came.
    similar: HashMap<Similar, (HashSet<String>, u64)>,
    /// Count, and whether it was written.
    counts: HashMap<Whole, (u32, bool)>,
    /// Three hundredths of tokens, and when they were counted.
    tokens: HashMap<Spam, (u64, u64)>,
}

#[derive(Debug, PartialEq)]
enum Expected {
    Skip,
    Create { count: u32, aggregated: bool },
    Patch { count: u32, aggregated: bool },
}

impl Model {
    fn correlate(&mut self, event: &Event, now: u64, stored: bool) -> Expected {
        let body = &event.body;
        let object = &body.regarding;
        let spam: Spam = (
            body.source.component.clone(),
            object.namespace.clone(),
            object.name.clone(),
            body.event_type.as_str(),
        );
        let similar: Similar = (spam.clone(), body.reason.clone());
        let (messages, last) = self.similar.entry(similar.clone()).or_insert_with(|| (HashSet::new(), now));
        if now - *last > 600 {
            messages.clear();
        }
        *last = now;
        let message = event.message.to_string();
        let aggregated = !messages.contains(&message) && messages.len() == 9;
        if !aggregated {
            messages.insert(message.clone());
        }
        let whole = (similar, (!aggregated).then(|| (object.field_path.clone(), message)));
        let (count, written) = self.counts.entry(whole).or_insert((0, false));
        *count += 1;
        let (tokens, counted) = self.tokens.entry(spam).or_insert((25 * 300, now));
        *tokens = (*tokens + now - *counted).min(25 * 300);
        *counted = now;
        if *tokens < 300 {
            return Expected::Skip;
        }
        *tokens -= 300;
        let (count, patched) = (*count, *written);
        *written |= stored;
        if patched { Expected::Patch { count, aggregated } } else { Expected::Create { count, aggregated } }
    }
}

#[derive(Debug, Clone)]
struct Step {
    event: Event,
    /// Seconds since the one before.
    after: u64,
    stored: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Texts that are the same when they are put together.
    let text = || prop::sample::select(vec!["", "a"]);
    let path = prop::sample::select(vec!["", "", "spec"]);
    let message =
        prop_oneof![1 => text().prop_map(str::to_owned), 3 => (0_u32..14).prop_map(|n| n.to_string())];
    let object = (prop::sample::select(vec!["a", "ab"]), prop::sample::select(vec!["ba", "a"]), path);
    let after = prop::sample::select(vec![0_u64, 0, 0, 0, 1, 29, 300, 599, 600]);
    let step = (object, text(), text(), message, any::<bool>(), after, prop::bool::weighted(0.8)).prop_map(
        |((namespace, name, path), component, reason, message, warning, after, stored)| {
            let mut regarding = pod(name).with_field_path(path);
            namespace.clone_into(&mut regarding.namespace);
            regarding.uid.clear();
            let mut event = about(regarding, reason, &message);
            let body = Arc::make_mut(&mut event.body);
            body.source = Arc::new(EventSource::new(component, ""));
            body.event_type = if warning { EventType::Warning } else { EventType::Normal };
            Step { event, after, stored }
        },
    );
    // Few kinds of events, each of them often.
    (prop::collection::vec(step, 1..40), prop::collection::vec(any::<prop::sample::Index>(), 0..600))
        .prop_map(|(kinds, picks)| picks.iter().map(|pick| pick.get(&kinds).clone()).collect())
}

proptest! {
    #[test]
    fn the_correlator_does_what_the_model_says(steps in steps()) {
        let (mut model, mut correlator) = (Model::default(), EventCorrelator::new(CorrelatorOptions::default()));
        let mut now = 0;
        for Step { event, after, stored } in steps {
            now += after;
            let expected = model.correlate(&event, now, stored);
            let correlated = correlator.correlate(event, BEGIN + Duration::from_secs(now));
            if let Correlated::Create(correlation) | Correlated::Patch(correlation) = &correlated
                && stored
            {
                correlator.update_state(correlation, Recorded::from(&correlation.event));
            }
            let of = |correlation: Correlation| (correlation.event.count, correlation.aggregated);
            let found = match correlated {
                Correlated::Skip => Expected::Skip,
                Correlated::Create(correlation) => {
                    let (count, aggregated) = of(correlation);
                    Expected::Create { count, aggregated }
                }
                Correlated::Patch(correlation) => {
                    let (count, aggregated) = of(correlation);
                    Expected::Patch { count, aggregated }
                }
            };
            prop_assert_eq!(found, expected);
        }
    }
}
