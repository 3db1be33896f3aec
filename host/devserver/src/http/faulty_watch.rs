//! [`FaultyWatch`]: a watch on its way to the client, with the faults of its request: lines come late, twice, in another
//! order or not at all, and the watch ends too early.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use crate::faults::{Fault, Hit};
use crate::verbs::{Piece, WatchStream};

/// How many pieces a lag keeps back at most; while there are so many no more are taken from the watch.
const MAX_LAGGING: usize = 1024;

/// The faults of one watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WatchFaults {
    /// Nothing is ever sent.
    silent: bool,
    /// After that many lines, an `ERROR` line with code 410 and the end.
    gone_after: Option<u64>,
    /// After that many lines half of one, and the connection is reset.
    tear_after: Option<u64>,
    /// The bookmark that ends the initial events is left out.
    no_initial_end: bool,
    /// Changes are sent so much later.
    lag: Duration,
    /// Each event comes twice.
    duplicate: bool,
    /// Of each two events the later comes first.
    out_of_order: bool,
}

impl WatchFaults {
    /// Those of the rules that hit the request.
    pub(super) fn of(hits: &[Hit]) -> Self {
        let mut faults = Self::default();
        for hit in hits {
            match hit.fault {
                Fault::Silent => faults.silent = true,
                Fault::Gone { after } => faults.gone_after = after,
                Fault::Tear { after } => faults.tear_after = Some(after),
                Fault::NoInitialEventsEnd => faults.no_initial_end = true,
                Fault::Lag { milliseconds } => faults.lag = Duration::from_millis(milliseconds),
                Fault::Duplicate => faults.duplicate = true,
                Fault::OutOfOrder => faults.out_of_order = true,
                _ => {}
            }
        }
        faults
    }
}

/// What is to be done next on the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WatchOutput {
    Line(Bytes),
    /// The first part of a line; the connection is to be reset behind it.
    Torn(Bytes),
    /// Nothing more, while the connection is on its way to be reset.
    Hang,
}

/// One watch and its faults.
#[derive(Debug)]
pub(super) struct FaultyWatch {
    stream: WatchStream,
    faults: WatchFaults,
    ready: VecDeque<Bytes>,
    /// An event that waits for the next one to go before it.
    held: Option<Bytes>,
    /// What a lag keeps back, and until when.
    lagging: VecDeque<(Instant, Piece)>,
    /// Whether nothing more comes from the stream.
    exhausted: bool,
    /// Whether nothing more is added to `ready`.
    ended: bool,
    sent: u64,
    torn: bool,
}

impl FaultyWatch {
    pub(super) fn new(stream: WatchStream, faults: WatchFaults) -> Self {
        Self {
            stream,
            faults,
            ready: VecDeque::new(),
            held: None,
            lagging: VecDeque::new(),
            exhausted: false,
            ended: false,
            sent: 0,
            torn: false,
        }
    }

    /// What comes next; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<WatchOutput> {
        if self.torn {
            return Some(WatchOutput::Hang);
        }
        loop {
            if !self.ended && self.faults.gone_after.is_some_and(|n| self.sent >= n) {
                self.ready.clear();
                let last = self.stream.expire();
                self.push(last);
            }
            if let Some(line) = self.ready.pop_front() {
                self.sent += 1;
                if self.faults.tear_after.is_some_and(|n| self.sent > n) {
                    self.torn = true;
                    return Some(WatchOutput::Torn(line.slice(..line.len() / 2)));
                }
                return Some(WatchOutput::Line(line));
            }
            if self.ended {
                return None;
            }
            match self.next_due().await {
                Some(piece) => self.push(piece),
                None => {
                    self.ended = true;
                    self.ready.extend(self.held.take());
                }
            }
        }
    }

    /// The next piece of the stream; a change only when its lag is over.
    async fn next_due(&mut self) -> Option<Piece> {
        if self.faults.lag.is_zero() {
            return self.stream.next().await;
        }
        loop {
            let due = self.lagging.front().map(|(due, _)| *due);
            let takes_more = !self.exhausted && self.lagging.len() < MAX_LAGGING;
            tokio::select! {
                biased;
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    return self.lagging.pop_front().map(|(_, piece)| piece);
                }
                piece = self.stream.next(), if takes_more => match piece {
                    Some(piece @ Piece::Event(_)) => {
                        self.lagging.push_back((Instant::now() + self.faults.lag, piece));
                    }
                    // In its place behind the changes, without a lag of its own.
                    Some(piece) => self.lagging.push_back((Instant::now(), piece)),
                    None => self.exhausted = true,
                },
                else => return None,
            }
        }
    }

    fn push(&mut self, piece: Piece) {
        if self.faults.silent {
            self.ended |= matches!(piece, Piece::Error(_));
            return;
        }
        match piece {
            Piece::Initial(line) | Piece::Event(line) => self.push_event(line),
            Piece::InitialEnd(_) if self.faults.no_initial_end => {}
            Piece::InitialEnd(line) | Piece::Bookmark(line) => {
                // A bookmark is true in any case: what it speaks of has been sent.
                self.ready.extend(self.held.take());
                self.ready.push_back(line);
            }
            Piece::Error(line) => {
                self.ended = true;
                self.ready.push_back(line);
            }
        }
    }

    fn push_event(&mut self, line: Bytes) {
        if self.faults.duplicate {
            self.ready.push_back(line.clone());
        }
        if self.faults.out_of_order {
            match self.held.take() {
                None => self.held = Some(line),
                Some(earlier) => self.ready.extend([line, earlier]),
            }
        } else {
            self.ready.push_back(line);
        }
    }
}
