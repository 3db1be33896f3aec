//! §1.5: `FIFO` and `Heap`.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::soon;
use crate::{Fifo, Heap};

type Item = (&'static str, u32);

fn fifo() -> Fifo<Item, &'static str> {
    Fifo::new(|item: &Item| item.0)
}

async fn pop(fifo: &Fifo<Item, &'static str>) -> Option<Item> {
    soon(fifo.pop(|item, _| item)).await
}

#[tokio::test(start_paused = true)]
async fn a_fifo_gives_the_newest_state_of_a_key_at_the_place_of_the_first() {
    let fifo = fifo();
    for item in [("a", 1), ("b", 1), ("a", 2)] {
        fifo.add(item);
    }
    fifo.add(("b", 2));
    assert_eq!((fifo.get_by_key(&"a"), fifo.list().len(), fifo.list_keys().len()), (Some(("a", 2)), 2, 2));
    assert_eq!((pop(&fifo).await, pop(&fifo).await), (Some(("a", 2)), Some(("b", 2))));
}

#[tokio::test(start_paused = true)]
async fn a_fifo_adds_if_not_present_only_what_is_not() {
    let fifo = fifo();
    fifo.add(("a", 2));
    fifo.add_if_not_present(("a", 1));
    fifo.add_if_not_present(("b", 1));
    assert_eq!((pop(&fifo).await, pop(&fifo).await), (Some(("a", 2)), Some(("b", 1))));
}

#[tokio::test(start_paused = true)]
async fn a_fifo_skips_what_was_deleted_before_its_turn() {
    let fifo = fifo();
    fifo.add(("a", 1));
    fifo.add(("b", 1));
    fifo.delete(&("a", 1));
    assert_eq!(pop(&fifo).await, Some(("b", 1)));
    fifo.delete(&("none", 1));
    assert!(fifo.list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_put_back_while_it_is_processed_does_not_replace_something_newer() {
    let fifo = fifo();
    fifo.add(("a", 1));
    fifo.add(("b", 1));
    soon(fifo.pop(|item, _| fifo.add_if_not_present(item))).await;
    let newer = |item: Item, _| {
        fifo.add((item.0, 2));
        fifo.add_if_not_present(item);
    };
    soon(fifo.pop(newer)).await;
    assert_eq!((pop(&fifo).await, pop(&fifo).await), (Some(("a", 1)), Some(("b", 2))));
    assert!(fifo.list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_fifo_is_synced_when_its_first_list_has_been_processed() {
    let fifo = fifo();
    assert!(!fifo.has_synced());
    fifo.replace([("a", 1), ("b", 1), ("c", 1)]);
    fifo.add(("d", 1));
    fifo.delete(&("b", 1));
    let mut initial = Vec::new();
    for _ in 0..2 {
        assert!(!fifo.has_synced());
        let process = |item: Item, in_first: bool| {
            assert!(!fifo.has_synced(), "not before processing has returned");
            initial.push((item.0, in_first));
        };
        soon(fifo.pop(process)).await.unwrap();
    }
    assert!(fifo.has_synced());
    assert_eq!(initial, [("a", true), ("c", true)]);
    assert_eq!(soon(fifo.pop(|item, in_first| (item, in_first))).await, Some((("d", 1), false)));
}

#[test]
fn a_fifo_is_synced_by_an_empty_list_and_by_an_add_that_comes_first() {
    let (empty, added) = (fifo(), fifo());
    empty.replace([]);
    added.add(("a", 1));
    assert!(empty.has_synced() && added.has_synced());
}

#[test]
fn a_second_list_takes_the_place_of_a_first_one_that_was_not_through() {
    let fifo = fifo();
    fifo.replace([("a", 1)]);
    fifo.replace([("b", 1)]);
    assert!(!fifo.has_synced());
    assert_eq!(fifo.list(), [("b", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_closed_fifo_is_drained_and_then_says_so_and_wakes_all_who_wait() {
    let fifo = Arc::new(fifo());
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn({
                let fifo = fifo.clone();
                async move { pop(&fifo).await }
            })
        })
        .collect();
    tokio::task::yield_now().await;
    fifo.add(("a", 1));
    fifo.close();
    let mut outcomes = Vec::new();
    for waiting in waiting {
        outcomes.push(soon(waiting).await.unwrap());
    }
    assert_eq!(outcomes.iter().flatten().count(), 1);
    assert!(fifo.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_pop_that_is_dropped_while_it_waits_loses_nothing() {
    let (fifo, heap) = (fifo(), heap());
    for _ in 0..3 {
        let mut waiting = Box::pin(fifo.pop(|_, _| ()));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        let mut also = Box::pin(heap.pop(|_, _| ()));
        assert!(futures_util::poll!(&mut also).is_pending());
        fifo.add(("a", 1));
        heap.add(("a", 1));
        drop((waiting, also));
        assert_eq!(pop(&fifo).await, Some(("a", 1)));
        assert_eq!(soon(heap.pop(|item, _| item)).await, Some(("a", 1)));
    }
}

#[tokio::test]
async fn a_panic_while_the_first_list_is_processed_does_not_keep_the_queue_from_being_synced() {
    let fifo = Arc::new(fifo());
    fifo.replace([("a", 1)]);
    let other = fifo.clone();
    let panicked = tokio::spawn(async move {
        let _: Option<()> = other.pop(|_, _| panic!("no")).await;
    });
    assert!(panicked.await.is_err());
    assert!(fifo.has_synced());
}

fn heap() -> Heap<Item, &'static str, u32> {
    Heap::by_rank(|item: &Item| item.0, |item: &Item| item.1)
}

#[tokio::test(start_paused = true)]
async fn a_heap_gives_the_least_first_and_moves_what_is_updated() {
    let heap = heap();
    heap.bulk_add([("a", 5), ("b", 3), ("c", 4)]);
    heap.add(("a", 1));
    heap.add(("b", 9));
    heap.add_if_not_present(("c", 0));
    assert_eq!((heap.get_by_key(&"b"), heap.get(&("c", 0))), (Some(("b", 9)), Some(("c", 4))));
    for wanted in [("a", 1), ("c", 4), ("b", 9)] {
        assert_eq!(soon(heap.pop(|item, _| item)).await, Some(wanted));
    }
    assert_eq!((heap.list(), heap.delete(&("a", 1))), (vec![], None));
}

#[tokio::test(start_paused = true)]
async fn a_closed_heap_takes_nothing_in_is_drained_and_then_says_so() {
    let heap = heap();
    assert!(heap.add(("a", 1)));
    heap.close();
    assert!(!heap.add(("b", 1)) && !heap.bulk_add([("b", 1)]) && !heap.add_if_not_present(("b", 1)));
    assert_eq!(
        (soon(heap.pop(|item, _| item)).await, soon(heap.pop(|item, _| item)).await),
        (Some(("a", 1)), None)
    );
    assert!(heap.is_closed());
}

proptest! {
    #[test]
    fn a_heap_is_a_sorted_map(steps in prop::collection::vec((0_u8..4, 0_u8..12, any::<u16>()), 0..200)) {
        let heap = Heap::by_rank(|item: &(u8, u16)| item.0, |item: &(u8, u16)| (item.1, item.0));
        let mut model: BTreeMap<u8, u16> = BTreeMap::new();
        for (what, key, value) in steps {
            match what {
                0 => drop(model.remove(&key).zip(heap.delete(&(key, 0)))),
                1 => {
                    model.entry(key).or_insert(value);
                    heap.add_if_not_present((key, value));
                }
                _ => {
                    model.insert(key, value);
                    heap.add((key, value));
                }
            }
            prop_assert_eq!(heap.list_keys().len(), model.len());
        }
        heap.close();
        let mut sorted: Vec<_> = model.into_iter().map(|(key, value)| (value, key)).collect();
        sorted.sort_unstable();
        for (value, key) in sorted {
            prop_assert_eq!(futures_util::FutureExt::now_or_never(heap.pop(|item, _| item)), Some(Some((key, value))));
        }
    }
}
