//! Every fault that the development server can produce, and what the user of the client sees of it: a table over the faults, which each
//! verb, list, watch and `RetryWatcher` is held against, over HTTP/1.1 and over HTTP/2. Nothing hangs, and behind a fault all is well.

mod scene;
mod watches;

use futures_util::{StreamExt as _, stream};
use pilothouse_devserver::Fault;

use scene::{Protocol, Scene};

/// Scenes at a time: each has a server.
const AT_ONCE: usize = 32;

/// What the user of one call sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sees {
    /// The answer, perhaps late.
    Answer,
    /// An answer that shows an older state.
    OldState,
    /// `Error::Api` with this code.
    Api(u16),
    /// `Error::Transport`.
    Broken,
    /// `Error::Transport` with `timeout`.
    TimedOut,
    /// `Error::Protocol`.
    Garbled,
}

/// What the user of a watch sees that begins before the events `b` and `c`: these events, and then.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Watched(Vec<String>, Then);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// What happens next.
    GoesOn,
    /// The end, when the watch's time is over.
    Ends,
    /// An error and the end.
    Error(Sees),
    /// Nothing, though the watch is open: in no row.
    Nothing,
}

fn watched(events: &[&str], then: Then) -> Watched {
    Watched(events.iter().map(|name| (*name).to_owned()).collect(), then)
}

/// What is seen of one fault.
struct Row {
    /// By a get and by a list of one page.
    read: Sees,
    /// By a list whose second page it hits.
    second_page: Sees,
    /// By create, update, patch and delete.
    write: Sees,
    /// Whether such a write was carried out.
    written: bool,
    /// By a watch.
    watch: Watched,
    /// By a [`RetryWatcher`](pilothouse_client::RetryWatcher) whose first watch it hits.
    retry_watcher: Watched,
}

impl Row {
    /// A fault that is not seen.
    fn unseen() -> Self {
        let all = watched(&["b", "c"], Then::GoesOn);
        Self {
            read: Sees::Answer,
            second_page: Sees::Answer,
            write: Sees::Answer,
            written: true,
            watch: all.clone(),
            retry_watcher: all,
        }
    }

    /// A fault instead of each answer, which the server does not even begin to make.
    fn instead(sees: Sees) -> Self {
        Self {
            read: sees,
            second_page: sees,
            write: sees,
            written: false,
            watch: watched(&[], Then::Error(sees)),
            ..Self::unseen()
        }
    }

    /// A fault of all watches alike.
    fn of_watches(watch: Watched) -> Self {
        Self { retry_watcher: watch.clone(), watch, ..Self::unseen() }
    }
}

/// One of each fault, and of those whose numbers matter some. A new fault does not compile without a row, and gets a sample here.
fn samples() -> Vec<Fault> {
    let status = |code| Fault::Status { code, retry_after: None };
    vec![
        Fault::Delay { milliseconds: 50 },
        status(400),
        status(401),
        status(403),
        status(409),
        status(410),
        status(404),
        status(429),
        status(500),
        status(503),
        status(504),
        Fault::Status { code: 503, retry_after: Some(1) },
        Fault::Reset,
        Fault::Tear { after: 0 },
        Fault::Tear { after: 1 },
        Fault::HalfOpen,
        Fault::Silent,
        Fault::Gone { after: None },
        Fault::Gone { after: Some(0) },
        Fault::Gone { after: Some(1) },
        Fault::TooLargeVersion,
        Fault::NoInitialEventsEnd,
        Fault::Lag { milliseconds: 50 },
        Fault::Duplicate,
        Fault::OutOfOrder,
        Fault::Stale { by: 1 },
        Fault::Truncate,
        Fault::ContentType { value: "text/html".to_owned() },
    ]
}

fn row(fault: &Fault) -> Row {
    let all = || watched(&["b", "c"], Then::GoesOn);
    let gone = || Then::Error(Sees::Api(410));
    match fault {
        Fault::Delay { .. } | Fault::Lag { .. } => Row::unseen(),
        // Pages that are gone are made good by the full list; a watch that is gone is not made good by anything but a list.
        Fault::Status { code: 410, .. } | Fault::Gone { after: None } => Row {
            second_page: Sees::Answer,
            retry_watcher: watched(&[], gone()),
            ..Row::instead(Sees::Api(410))
        },
        // Trying again cannot help who may not watch, or asks for what is not understood.
        Fault::Status { code: code @ (400 | 401 | 403), .. } => Row {
            retry_watcher: watched(&[], Then::Error(Sees::Api(*code))),
            ..Row::instead(Sees::Api(*code))
        },
        // What passes is made good by asking again, as the server wishes.
        Fault::Status { code: code @ (429 | 503), retry_after: Some(_) } => {
            Row { second_page: Sees::Answer, ..Row::instead(Sees::Api(*code)) }
        }
        Fault::Status { code, .. } => Row::instead(Sees::Api(*code)),
        Fault::TooLargeVersion => Row::instead(Sees::Api(504)),
        Fault::Reset => Row::instead(Sees::Broken),
        Fault::HalfOpen => Row::instead(Sees::TimedOut),
        // What is torn was done before.
        Fault::Tear { after } => {
            let seen: &[&str] = if *after == 0 { &[] } else { &["b"] };
            Row {
                written: true,
                watch: watched(seen, Then::Error(Sees::Broken)),
                ..Row::instead(Sees::Broken)
            }
        }
        Fault::Truncate => Row { written: true, watch: all(), ..Row::instead(Sees::Garbled) },
        // It ends when the server's own time is over, and the next one shows all.
        Fault::Silent => Row { watch: watched(&[], Then::Ends), ..Row::unseen() },
        Fault::Gone { after: Some(0) } => Row::of_watches(watched(&[], gone())),
        Fault::Gone { after: Some(_) } => Row::of_watches(watched(&["b"], gone())),
        // Only who asks for initial events lacks their end: see `watches`.
        Fault::NoInitialEventsEnd => Row::unseen(),
        // Events are handed on as the server sends them; stores take them by their versions.
        Fault::Duplicate => Row::of_watches(watched(&["b", "b", "c", "c"], Then::GoesOn)),
        Fault::OutOfOrder => Row::of_watches(watched(&["c", "b"], Then::GoesOn)),
        // A continue token names its version.
        Fault::Stale { .. } => Row { read: Sees::OldState, ..Row::unseen() },
        // The answer is what it is, whatever it is called.
        Fault::ContentType { .. } => Row::unseen(),
    }
}

/// What is not as the row of a fault says, in one part of it.
async fn play(fault: Fault, protocol: Protocol, part: usize) -> Vec<String> {
    let (scene, row) = (Scene::start(&fault, protocol).await, row(&fault));
    let wrong = match part {
        0 => scene.reads(row.read, row.second_page).await,
        1 => scene.writes(row.write, row.written).await,
        2 => scene.watch(&row.watch).await,
        _ => scene.retry_watcher(&row.retry_watcher).await,
    };
    wrong.into_iter().map(|what| format!("{fault:?} over {protocol:?}: {what}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_is_seen_as_its_row_says_and_all_is_well_behind_it() {
    let mut scenes = Vec::new();
    for fault in samples() {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            // Nobody else can use a connection that is half open; that pings find it is shown by `tests/server_faults.rs`.
            if (&fault, protocol) == (&Fault::HalfOpen, Protocol::Http2) {
                continue;
            }
            scenes.extend((0..4).map(|part| (fault.clone(), protocol, part)));
        }
    }
    let wrong: Vec<String> = stream::iter(scenes)
        .map(|(fault, protocol, part)| play(fault, protocol, part))
        .buffer_unordered(AT_ONCE)
        .flat_map(stream::iter)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
