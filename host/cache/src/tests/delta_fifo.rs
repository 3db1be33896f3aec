//! §1.3: arrival order, batches, barriers, the synced signal, closing.
//!
//! The batch vectors of §1.3 are of a queue whose first list is a run of deltas, and whose batches end before a key comes
//! again; here a list is one piece of work and a batch may have a key several times. `R[…]` is a list, `[k:U k:U]` a batch
//! with two updates of `k`.

use std::sync::Arc;

use crate::testing::config_map;
use crate::{CacheError, Delta, DeltaFifo, DeltaType, Deltas, WorkKind};

async fn push(fifo: &DeltaFifo, delta: Delta) {
    let version = match &delta {
        Delta::Added(o) | Delta::Updated(o) | Delta::Deleted(o) | Delta::Replaced(o) => {
            Some(o.resource_version().to_owned())
        }
        _ => None,
    };
    fifo.push(delta, version.as_deref().map(Into::into)).await.unwrap();
}

async fn update(fifo: &DeltaFifo, key: &str, version: &str) {
    push(fifo, Delta::Updated(config_map(key, version))).await;
}

async fn replace(fifo: &DeltaFifo, keys: &[&str], version: &str) {
    fifo.replace(keys.iter().map(|key| config_map(key, "1")).collect(), version).await.unwrap();
}

/// Pops one piece of work and writes it down, with what is complete after it.
async fn pop(fifo: &DeltaFifo, max: usize) -> String {
    let Some(work) = fifo.pop(max).await else { return "end".to_owned() };
    fifo.done(work.initial);
    let seen = work.seen.map_or_else(|| "-".to_owned(), |version| version.to_string());
    let letter = |delta: &Delta| match delta.kind() {
        DeltaType::Added => 'A',
        DeltaType::Updated => 'U',
        DeltaType::Deleted => 'D',
        DeltaType::Replaced => 'R',
        DeltaType::Sync => 'S',
    };
    let what = match work.kind {
        WorkKind::Replace(list) => {
            let keys: Vec<_> = list.iter().map(|object| object.key().as_str()).collect();
            format!("R[{}]", keys.join(" "))
        }
        WorkKind::Deltas(batch) => {
            let deltas: Vec<_> =
                batch.iter().map(|delta| format!("{}:{}", delta.key(), letter(delta))).collect();
            format!("[{}]", deltas.join(" "))
        }
        WorkKind::Resync => "resync".to_owned(),
        WorkKind::Bookmark => "bookmark".to_owned(),
    };
    format!("{what}@{seen}")
}

fn fifo() -> DeltaFifo {
    DeltaFifo::new(DeltaFifo::DEFAULT_CAPACITY)
}

#[tokio::test(start_paused = true)]
async fn batch_vectors_of_the_initial_list() {
    let queue = fifo();
    replace(&queue, &["1", "2", "3"], "10").await;
    assert_eq!(pop(&queue, 1000).await, "R[1 2 3]@10");

    let queue = fifo();
    replace(&queue, &["1", "2"], "10").await;
    update(&queue, "3", "11").await;
    update(&queue, "4", "12").await;
    assert_eq!(pop(&queue, 2).await, "R[1 2]@10");
    assert_eq!(pop(&queue, 2).await, "[3:U 4:U]@12");

    let queue = fifo();
    replace(&queue, &["1", "2"], "10").await;
    update(&queue, "2", "11").await;
    update(&queue, "3", "12").await;
    assert_eq!(pop(&queue, 1000).await, "R[1 2]@10");
    assert_eq!(pop(&queue, 1000).await, "[2:U 3:U]@12");

    let queue = fifo();
    replace(&queue, &["1", "2", "3"], "10").await;
    update(&queue, "4", "11").await;
    assert_eq!(pop(&queue, 2).await, "R[1 2 3]@10");
    assert_eq!(pop(&queue, 2).await, "[4:U]@11");
}

#[tokio::test(start_paused = true)]
async fn deltas_come_in_arrival_order_across_keys() {
    let queue = fifo();
    push(&queue, Delta::Added(config_map("1", "11"))).await;
    push(&queue, Delta::Added(config_map("2", "12"))).await;
    update(&queue, "1", "13").await;
    push(&queue, Delta::Deleted(config_map("1", "14"))).await;
    push(&queue, Delta::Added(config_map("1", "15"))).await;
    assert_eq!(queue.len(), 5);
    assert_eq!(pop(&queue, 3).await, "[1:A 2:A 1:U]@13");
    assert_eq!(pop(&queue, 1000).await, "[1:D 1:A]@15");
    assert_eq!(queue.len(), 0);
}

#[test]
fn deltas_are_grouped_by_key_for_a_controller_and_deletions_in_a_row_become_one() {
    let batch = vec![
        Delta::Added(config_map("1", "11")),
        Delta::Added(config_map("2", "12")),
        Delta::DeletedFinalStateUnknown { key: "1".parse().unwrap(), object: None },
        Delta::Updated(config_map("2", "13")),
        Delta::Deleted(config_map("1", "14")),
        Delta::Added(config_map("1", "15")),
    ];
    let groups: Vec<_> = Deltas::group(batch)
        .iter()
        .map(|deltas| (deltas.key().to_string(), deltas.iter().map(Delta::kind).collect::<Vec<_>>()))
        .collect();
    assert_eq!(
        groups,
        [
            ("1".to_owned(), vec![DeltaType::Added, DeltaType::Deleted, DeltaType::Added]),
            ("2".to_owned(), vec![DeltaType::Added, DeltaType::Updated]),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn two_deletions_in_a_row_become_one_that_has_an_object() {
    let unknown = |object| Delta::DeletedFinalStateUnknown { key: "1".parse().unwrap(), object };
    for (first, second) in [
        (unknown(None), Delta::Deleted(config_map("1", "9"))),
        (Delta::Deleted(config_map("1", "9")), unknown(Some(config_map("1", "3")))),
        (Delta::Deleted(config_map("1", "9")), Delta::Deleted(config_map("1", "10"))),
    ] {
        let queue = fifo();
        queue.push(first, None).await.unwrap();
        queue.push(second, None).await.unwrap();
        assert_eq!(queue.len(), 1);
        let WorkKind::Deltas(batch) = queue.pop(10).await.unwrap().kind else { panic!() };
        let Delta::Deleted(object) = &batch[0] else { panic!("a guess beat the server's word") };
        assert_eq!(object.resource_version(), "9");
    }
}

#[tokio::test(start_paused = true)]
async fn only_deletions_in_a_row_are_merged() {
    let queue = fifo();
    for delta in [Delta::Deleted as fn(_) -> _, Delta::Added, Delta::Deleted, Delta::Deleted] {
        push(&queue, delta(config_map("1", "9"))).await;
    }
    assert_eq!(pop(&queue, 10).await, "[1:D 1:A 1:D]@9");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_a_barrier_between_deltas() {
    let queue = fifo();
    replace(&queue, &["1"], "10").await;
    pop(&queue, 10).await;
    update(&queue, "1", "11").await;
    replace(&queue, &["1", "2"], "20").await;
    update(&queue, "1", "21").await;
    assert_eq!(pop(&queue, 10).await, "[1:U]@11");
    assert_eq!(pop(&queue, 10).await, "R[1 2]@20");
    assert_eq!(pop(&queue, 10).await, "[1:U]@21");
}

#[tokio::test(start_paused = true)]
async fn a_resync_is_a_barrier_and_one_that_waits_stands_for_several() {
    let queue = fifo();
    update(&queue, "1", "11").await;
    queue.resync();
    queue.resync();
    update(&queue, "1", "12").await;
    assert_eq!(pop(&queue, 10).await, "[1:U]@11");
    assert!(queue.pending_keys().contains("1"));
    assert_eq!(pop(&queue, 10).await, "resync@11");
    assert_eq!(pop(&queue, 10).await, "[1:U]@12");
    assert!(queue.pending_keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_promised_as_seen_has_been_handed_out_completely() {
    let queue = fifo();
    update(&queue, "1", "11").await;
    update(&queue, "2", "12").await;
    update(&queue, "1", "13").await;
    queue.bookmark("20");
    assert_eq!(pop(&queue, 1).await, "[1:U]@11");
    assert_eq!(pop(&queue, 1).await, "[2:U]@12");
    assert_eq!(pop(&queue, 1).await, "[1:U]@20");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_alone_wakes_the_consumer_once() {
    let queue = fifo();
    queue.bookmark("5");
    queue.bookmark("7");
    assert_eq!(pop(&queue, 10).await, "bookmark@7");
    queue.close();
    assert_eq!(pop(&queue, 10).await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_is_not_announced_again_after_the_deltas_that_came_behind_it() {
    let queue = fifo();
    queue.bookmark("5");
    queue.push(Delta::Added(config_map("1", "50")), None).await.unwrap();
    assert_eq!(pop(&queue, 10).await, "[1:A]@5");
    queue.close();
    assert_eq!(pop(&queue, 10).await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_delta_out_of_order_promises_nothing() {
    let queue = fifo();
    queue.push(Delta::Added(config_map("1", "50")), None).await.unwrap();
    assert_eq!(pop(&queue, 10).await, "[1:A]@-");
}

#[tokio::test(start_paused = true)]
async fn synced_only_after_the_first_list_was_handled_even_an_empty_one() {
    let queue = fifo();
    update(&queue, "1", "5").await;
    pop(&queue, 10).await;
    assert!(!queue.has_synced(), "deltas alone are no list");
    replace(&queue, &[], "10").await;
    let work = queue.pop(10).await.unwrap();
    assert!(work.initial && !queue.has_synced(), "taken is not handled");
    queue.done(work.initial);
    assert!(queue.has_synced());
    replace(&queue, &[], "11").await;
    assert!(!queue.pop(10).await.unwrap().initial);
}

#[tokio::test(start_paused = true)]
async fn a_producer_waits_while_the_consumer_is_far_behind() {
    let queue = Arc::new(DeltaFifo::new(2));
    update(&queue, "1", "1").await;
    update(&queue, "2", "2").await;
    let producer = tokio::spawn({
        let queue = queue.clone();
        async move { update(&queue, "3", "3").await }
    });
    tokio::task::yield_now().await;
    assert!(!producer.is_finished());
    assert_eq!(pop(&queue, 1).await, "[1:U]@1");
    producer.await.unwrap();
    assert_eq!(pop(&queue, 9).await, "[2:U 3:U]@3");
}

#[tokio::test(start_paused = true)]
async fn a_second_list_waits_until_the_first_is_taken() {
    let queue = Arc::new(fifo());
    replace(&queue, &["1"], "1").await;
    let second = tokio::spawn({
        let queue = queue.clone();
        async move { replace(&queue, &["2"], "2").await }
    });
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    pop(&queue, 1).await;
    second.await.unwrap();
    assert_eq!(pop(&queue, 1).await, "R[2]@2");
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_hands_out_what_it_has_then_ends_and_takes_nothing_in() {
    let queue = Arc::new(DeltaFifo::new(1));
    update(&queue, "1", "1").await;
    let stuck = tokio::spawn({
        let queue = queue.clone();
        async move { queue.push(Delta::Added(config_map("2", "2")), None).await }
    });
    tokio::task::yield_now().await;
    queue.close();
    assert_eq!(stuck.await.unwrap(), Err(CacheError::Closed));
    assert_eq!(pop(&queue, 9).await, "[1:U]@1");
    assert_eq!(pop(&queue, 9).await, "end");
    assert_eq!(queue.replace(Vec::new(), "3").await, Err(CacheError::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_consumer_that_is_dropped_loses_nothing() {
    let queue = fifo();
    {
        let mut waiting = Box::pin(queue.pop(10));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        update(&queue, "1", "1").await;
    }
    assert_eq!(pop(&queue, 10).await, "[1:U]@1");
}
