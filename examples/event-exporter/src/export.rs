//! [`export`]: from a batch of keys to one answer for each. Everything that calls the host is handed in, so that this is tested
//! natively.
//!
//! Invariants: one answer a request, in their order; no body is larger than `max_bytes`; the documents in memory are those of one
//! body; after a request that failed no further one is sent, so a batch waits for a server that is away only once.

use pilothouse_sdk::prelude::*;

use crate::answer::{Answer, Delivery, Refusal};
use crate::document::Document;
use crate::index::IndexPattern;

/// Exports a batch. `read` answers an Event's JSON, or none when the Event is gone; `send` sends the body of a `_bulk` request.
pub(crate) fn export(
    requests: &[Request],
    index: &IndexPattern,
    max_bytes: usize,
    read: impl Fn(&Key) -> Result<Option<Vec<u8>>, Failure>,
    send: impl FnMut(&[u8]) -> Result<Answer, Failure>,
) -> Vec<Delivery> {
    let mut batch = Batch {
        send,
        answers: vec![None; requests.len()],
        down: None,
        body: Vec::new(),
        waiting: Vec::new(),
    };
    for (place, request) in requests.iter().enumerate() {
        if batch.down.is_some() {
            break;
        }
        let document = match read(&request.key) {
            Ok(Some(event)) => Document::of(&event, index).map_err(Failure::terminal),
            // Deleted or expired. What it was cannot be had any more.
            Ok(None) => {
                batch.answers[place] = Some(Ok(Outcome::Done));
                continue;
            }
            Err(failure) => Err(failure),
        };
        let lines = match document {
            Ok(Document { lines }) if lines.len() > max_bytes => Err(Failure::terminal(format!(
                "the Event has {} bytes as a document, and `batch.maxBytes` allows {max_bytes}",
                lines.len()
            ))),
            Ok(Document { lines }) => Ok(lines),
            Err(failure) => Err(failure),
        };
        match lines {
            Ok(lines) => {
                if batch.body.len() + lines.len() > max_bytes {
                    batch.flush();
                }
                batch.body.extend(lines);
                batch.waiting.push(Waiting { place, end: batch.body.len() });
            }
            Err(failure) => batch.answers[place] = Some(Err(failure)),
        }
    }
    batch.flush();
    let down = batch.down;
    let answer = |answer: Option<Delivery>| match (answer, &down) {
        (Some(answer), _) => answer,
        (None, Some(failure)) => Err(failure.clone()),
        (None, None) => Err(Failure::transient("the Event was not sent")),
    };
    batch.answers.into_iter().map(answer).collect()
}

/// A document in the body.
#[derive(Clone, Copy)]
struct Waiting {
    /// The place of its request in the batch.
    place: usize,
    /// Where it ends in the body.
    end: usize,
}

struct Batch<S> {
    send: S,
    /// None for what has not been sent.
    answers: Vec<Option<Delivery>>,
    /// Why nothing more is sent.
    down: Option<Failure>,
    body: Vec<u8>,
    waiting: Vec<Waiting>,
}

impl<S: FnMut(&[u8]) -> Result<Answer, Failure>> Batch<S> {
    /// Sends what waits.
    fn flush(&mut self) {
        let (body, waiting) = (std::mem::take(&mut self.body), std::mem::take(&mut self.waiting));
        self.deliver(&body, 0, &waiting);
    }

    /// Sends some documents; `start` is where the first of them begins.
    fn deliver(&mut self, body: &[u8], start: usize, waiting: &[Waiting]) {
        let Some(last) = waiting.last() else { return };
        if self.down.is_some() {
            return;
        }
        let answer = (self.send)(&body[start..last.end]).map_err(Refusal::Failed);
        match answer.and_then(|answer| answer.read(waiting.len())) {
            Ok(answers) => {
                for (one, answer) in waiting.iter().zip(answers) {
                    self.answers[one.place] = Some(answer);
                }
            }
            // One large document must not keep the others out.
            Err(Refusal::TooLarge(_)) if waiting.len() > 1 => {
                let (first, second) = waiting.split_at(waiting.len() / 2);
                let middle = first.last().map_or(start, |one| one.end);
                self.deliver(body, start, first);
                self.deliver(body, middle, second);
            }
            // The same document would be refused again and again, and halve each batch that it is in.
            Err(Refusal::TooLarge(failure)) => {
                self.answers[last.place] = Some(Err(Failure::terminal(failure.message())));
            }
            Err(Refusal::Failed(failure)) => self.down = Some(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use pilothouse_sdk::serde_json::{self, Value};

    use super::*;

    /// The bytes of the document of [`event`], both lines.
    const SIZE: usize = 1000;

    fn requests(count: usize) -> Vec<Request> {
        (0..count).map(|n| Request::new(Key::namespaced("a", n.to_string()))).collect()
    }

    /// An Event whose uid is its name, filled up so that its document has `SIZE` bytes.
    fn event(key: &Key) -> Vec<u8> {
        let event = |fill: usize| {
            let metadata = json!({
                "uid": key.name, "resourceVersion": "1", "creationTimestamp": "2026-11-02T23:59:59Z",
            });
            json!({"metadata": metadata, "message": "x".repeat(fill)}).to_string().into_bytes()
        };
        let empty = Document::of(&event(0), &IndexPattern::default()).unwrap().lines.len();
        event(SIZE - empty)
    }

    fn ids(body: &[u8]) -> Vec<String> {
        let actions = body.split(|byte| *byte == b'\n').step_by(2).filter(|line| !line.is_empty());
        let id = |line: &[u8]| {
            let action: Value = serde_json::from_slice(line).unwrap();
            action["index"]["_id"].as_str().unwrap().to_owned()
        };
        actions.map(id).collect()
    }

    /// All well.
    fn taken(body: &[u8]) -> Answer {
        let items: Vec<Value> = ids(body).iter().map(|_| json!({"index": {"status": 201}})).collect();
        Answer { status: 200, retry_after: None, body: json!({"items": items}).to_string().into_bytes() }
    }

    fn status(status: u16) -> Answer {
        Answer { status, retry_after: None, body: Vec::new() }
    }

    /// Exports so many Events and returns the ids of each request beside the answers.
    fn run(
        count: usize,
        max_bytes: usize,
        read: impl Fn(&Key) -> Result<Option<Vec<u8>>, Failure>,
        answer: impl Fn(&[u8]) -> Result<Answer, Failure>,
    ) -> (Vec<Vec<String>>, Vec<Delivery>) {
        let sent = RefCell::new(Vec::new());
        let send = |body: &[u8]| {
            assert!(body.len() <= max_bytes, "{} bytes", body.len());
            sent.borrow_mut().push(ids(body));
            answer(body)
        };
        let answers = export(&requests(count), &IndexPattern::default(), max_bytes, read, send);
        assert_eq!(answers.len(), count);
        (sent.into_inner(), answers)
    }

    #[test]
    fn a_batch_is_one_request() {
        let (sent, answers) = run(3, 3 * SIZE, |key| Ok(Some(event(key))), |body| Ok(taken(body)));
        assert_eq!(sent, [["0", "1", "2"]]);
        assert_eq!(answers, vec![Ok(Outcome::Done); 3]);
    }

    #[test]
    fn a_request_never_has_more_bytes_than_allowed() {
        let (sent, answers) = run(5, 2 * SIZE + 1, |key| Ok(Some(event(key))), |body| Ok(taken(body)));
        assert_eq!(sent, [vec!["0", "1"], vec!["2", "3"], vec!["4"]]);
        assert_eq!(answers, vec![Ok(Outcome::Done); 5]);
    }

    #[test]
    fn what_is_gone_or_too_large_or_cannot_be_read_keeps_no_other_out() {
        let read = |key: &Key| match key.name.as_str() {
            "0" => Ok(None),
            "1" => Ok(Some(json!({"metadata": {}}).to_string().into_bytes())),
            "2" => Err(Failure::transient("the cache")),
            "3" => {
                let mut event: Value = serde_json::from_slice(&event(key)).unwrap();
                event["message"] = "x".repeat(SIZE).into();
                Ok(Some(event.to_string().into_bytes()))
            }
            _ => Ok(Some(event(key))),
        };
        let (sent, answers) = run(5, SIZE, read, |body| Ok(taken(body)));
        assert_eq!(sent, [["4"]]);
        let message = |n: usize| answers[n].as_ref().unwrap_err();
        assert_eq!((&answers[0], &answers[4]), (&Ok(Outcome::Done), &Ok(Outcome::Done)));
        assert!(message(1).is_terminal() && message(1).message().contains("no uid"), "{answers:?}");
        assert_eq!(message(2), &Failure::transient("the cache"));
        assert!(message(3).is_terminal() && message(3).message().contains("`batch.maxBytes` allows 1000"));
    }

    #[test]
    fn a_batch_of_events_that_are_gone_is_no_request() {
        let (sent, answers) = run(2, SIZE, |_| Ok(None), |_| panic!("sent"));
        assert_eq!((sent.len(), answers), (0, vec![Ok(Outcome::Done); 2]));
    }

    #[test]
    fn after_a_request_that_failed_none_is_sent() {
        let answer = |body: &[u8]| Ok(if ids(body) == ["0"] { taken(body) } else { status(503) });
        let (sent, answers) = run(4, SIZE, |key| Ok(Some(event(key))), answer);
        assert_eq!(sent, [["0"], ["1"]]);
        assert_eq!(answers[0], Ok(Outcome::Done));
        for answer in &answers[1..] {
            let failure = answer.as_ref().unwrap_err();
            assert!(!failure.is_terminal() && failure.message().contains("HTTP 503"), "{failure}");
        }

        let refused = || Failure::transient("connection refused");
        let (sent, answers) = run(3, SIZE, |key| Ok(Some(event(key))), |_| Err(refused()));
        assert_eq!(sent.len(), 1);
        assert_eq!(answers, vec![Err(refused()); 3]);
    }

    #[test]
    fn a_request_too_large_for_the_server_is_halved_until_it_fits() {
        let answer =
            |body: &[u8]| Ok(if ids(body).iter().any(|id| id == "2") { status(413) } else { taken(body) });
        let (sent, answers) = run(5, 5 * SIZE, |key| Ok(Some(event(key))), answer);
        assert_eq!(
            sent,
            [vec!["0", "1", "2", "3", "4"], vec!["0", "1"], vec!["2", "3", "4"], vec!["2"], vec!["3", "4"]]
        );
        for (n, answer) in answers.iter().enumerate() {
            assert_eq!(answer.is_ok(), n != 2, "{n}: {answer:?}");
            assert!(answer.as_ref().err().is_none_or(Failure::is_terminal), "not sent again: {answer:?}");
        }
    }

    #[test]
    fn each_event_gets_the_answer_to_its_own_document() {
        let read = |key: &Key| Ok((key.name != "1").then(|| event(key)));
        let answer = |body: &[u8]| {
            let item = |id: &String| json!({"index": {"status": if id == "2" { 429 } else { 200 }}});
            let items: Vec<Value> = ids(body).iter().map(item).collect();
            Ok(Answer {
                status: 200,
                retry_after: None,
                body: json!({"items": items}).to_string().into_bytes(),
            })
        };
        let (_, answers) = run(4, 4 * SIZE, read, answer);
        let failed: Vec<usize> = (0..4).filter(|n| answers[*n].is_err()).collect();
        assert_eq!(failed, [2]);
    }
}
