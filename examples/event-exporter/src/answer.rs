//! What the search server answered to a `_bulk` request, as one answer for each document or one failure for all. Read by
//! [`crate::export`].
//!
//! Invariant: a document counts as delivered only when the server has said that the index holds it. Everything that an operator can
//! put right without a change of the Event is tried again: it ends when the Event does, after an hour in most clusters.

use std::fmt;

use pilothouse_sdk::prelude::*;
use pilothouse_sdk::serde_json;

/// How much of an answer that is no JSON an error shows.
const SHOWN: usize = 200;

/// The one kind of conflict that means the index has the document, in this version or a newer one.
const VERSION_CONFLICT: &str = "version_conflict_engine_exception";

/// Refusals with status 400 that are about the document. All others are about the index or the cluster, which an operator can mend: a
/// closed index, too many shards, an alias that does not say which of its indices is written to.
const ABOUT_THE_DOCUMENT: [&str; 3] =
    ["mapper_parsing_exception", "document_parsing_exception", "strict_dynamic_mapping_exception"];

/// What a refusal of these kinds says that is about the index all the same: it has as many fields as it may have.
const LIMIT: &str = "Limit of ";

/// An answer, without what is of no use here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The status of the whole.
    pub(crate) status: u16,
    /// How long the server asks to wait.
    pub(crate) retry_after: Option<Duration>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// What became of one document.
pub(crate) type Delivery = Result<Outcome, Failure>;

/// Why a whole request failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is too large for the server; a smaller one may do.
    TooLarge(Failure),
    /// Another one would fail as well.
    Failed(Failure),
}

#[derive(Deserialize)]
struct Items {
    items: Vec<Action>,
}

#[derive(Deserialize)]
struct Action {
    index: Item,
}

#[derive(Deserialize)]
struct Item {
    status: u16,
    error: Option<Reason>,
}

#[derive(Deserialize)]
struct Refused {
    error: Reason,
}

/// Each may be `null`, or missing.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Reason {
    r#type: Option<String>,
    reason: Option<String>,
    caused_by: Option<Box<Reason>>,
}

impl Reason {
    fn kind(&self) -> &str {
        self.r#type.as_deref().unwrap_or_default()
    }

    /// Whether it, or what it was caused by, says this.
    fn says(&self, text: &str) -> bool {
        self.reason.as_ref().is_some_and(|reason| reason.contains(text))
            || self.caused_by.as_ref().is_some_and(|cause| cause.says(text))
    }

    fn is_about_the_document(&self) -> bool {
        ABOUT_THE_DOCUMENT.contains(&self.kind()) && !self.says(LIMIT)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind(), self.reason.as_deref().unwrap_or_default())
    }
}

impl Answer {
    /// What became of the `sent` documents of the request, in their order.
    pub(crate) fn read(&self, sent: usize) -> Result<Vec<Delivery>, Refusal> {
        if !(200..300).contains(&self.status) {
            return Err(self.refusal());
        }
        let failed = |what: String| Refusal::Failed(Failure::transient(what));
        let Items { items } = serde_json::from_slice(&self.body).map_err(|error| {
            failed(format!(
                "the answer is none to a bulk request ({error}); is `endpoint` a search server? {}",
                self.shown()
            ))
        })?;
        if items.len() != sent {
            return Err(failed(format!(
                "{sent} documents were sent, and the answer is about {}",
                items.len()
            )));
        }
        Ok(items.into_iter().map(|action| action.index.delivery()).collect())
    }

    fn refusal(&self) -> Refusal {
        let why = match serde_json::from_slice::<Refused>(&self.body) {
            Ok(Refused { error }) => error.to_string(),
            Err(_) => self.shown(),
        };
        let status = self.status;
        let what = match status {
            401 => "the search server does not take the credentials (`username` and `password`, or `apiKey`)",
            403 => "the search server does not let these credentials write to the index",
            413 => {
                "the request is too large for the search server: lower `batch.maxBytes`, or raise its `http.max_content_length`"
            }
            429 => "the search server has too much to do",
            300..=399 => "the search server sends elsewhere, which is not followed: correct `endpoint`",
            404 | 405 => "there is no `_bulk` at `endpoint`",
            500.. => "the search server failed",
            _ => "the search server refused the request",
        };
        let failure = Failure::transient(format!("{what} (HTTP {status}): {why}"));
        let failure = match self.retry_after {
            Some(delay) => failure.retry_after(delay),
            None => failure,
        };
        if status == 413 { Refusal::TooLarge(failure) } else { Refusal::Failed(failure) }
    }

    /// The beginning of the body.
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(SHOWN).collect()
    }
}

impl Item {
    fn delivery(self) -> Delivery {
        let error = self.error.unwrap_or_default();
        let failed = |what: &str| format!("{what} (status {}): {error}", self.status);
        match self.status {
            200..300 => Ok(Outcome::Done),
            409 if error.kind() == VERSION_CONFLICT => Ok(Outcome::Done),
            400 if error.is_about_the_document() => {
                Err(Failure::terminal(failed("the index does not take the Event")))
            }
            _ => Err(Failure::transient(failed("the Event could not be indexed"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, retry_after: None, body: body.into() }
    }

    fn one(item: &serde_json::Value) -> Delivery {
        let body = json!({"items": [{"index": item}]}).to_string();
        let mut all = answer(200, &body).read(1).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    fn refused(status: u16, kind: &str, reason: &str) -> Failure {
        one(&json!({"status": status, "error": {"type": kind, "reason": reason}})).unwrap_err()
    }

    #[test]
    fn each_document_has_its_own_answer() {
        let body = json!({"items": [
            {"index": {"status": 201}},
            {"index": {"status": 429, "error": {"type": "rejected_execution_exception", "reason": "full"}}},
            {"index": {"status": 200}},
            {"index": {"status": 400, "error": {"type": "mapper_parsing_exception", "reason": "no date"}}},
        ]});
        let all = answer(200, &body.to_string()).read(4).unwrap();
        assert!(matches!(all[..], [Ok(Outcome::Done), Err(_), Ok(Outcome::Done), Err(_)]), "{all:?}");
        let terminal: Vec<bool> = all.into_iter().filter_map(|one| Some(one.err()?.is_terminal())).collect();
        assert_eq!(terminal, [false, true]);
    }

    #[test]
    fn a_conflict_of_versions_is_a_delivery_and_no_other_conflict_is() {
        let conflict =
            json!({"status": 409, "error": {"type": VERSION_CONFLICT, "reason": "current version [7]"}});
        assert_eq!(one(&conflict), Ok(Outcome::Done));
        assert!(!refused(409, "resource_already_exists_exception", "r").is_terminal());
    }

    #[test]
    fn only_what_is_wrong_with_the_document_is_terminal() {
        for kind in ABOUT_THE_DOCUMENT {
            let failure = refused(400, kind, "the reason");
            assert!(
                failure.is_terminal() && failure.message().ends_with(&format!("{kind}: the reason")),
                "{failure}"
            );
        }
        for (status, kind, reason) in [
            (429, "es_rejected_execution_exception", "queue"),
            (503, "unavailable_shards_exception", "timed out"),
            (500, "exception", "r"),
            (403, "cluster_block_exception", "read-only / allow delete"),
            (404, "index_not_found_exception", "no such index and [action.auto_create_index] is [false]"),
            (400, "validation_exception", "this cluster currently has [1000]/[1000] maximum shards open"),
            (400, "illegal_argument_exception", "no write index is defined for alias [events]"),
            (400, "illegal_argument_exception", "Limit of total fields [1000] has been exceeded"),
            (400, "mapper_parsing_exception", "Limit of total fields [1000] has been exceeded"),
            (400, "index_closed_exception", "closed"),
        ] {
            assert!(!refused(status, kind, reason).is_terminal(), "{status} {kind}");
        }
        let limit = json!({"type": "illegal_argument_exception", "reason": "Limit of total fields [1000] has been exceeded"});
        let error =
            json!({"type": "mapper_parsing_exception", "reason": "failed to parse", "caused_by": limit});
        assert!(!one(&json!({"status": 400, "error": error})).unwrap_err().is_terminal());
    }

    #[test]
    fn an_error_without_words_is_about_its_document_only() {
        let nothing = json!({"type": null, "reason": null});
        let body = json!({"items": [
            {"index": {"status": 500, "error": nothing}}, {"index": {"status": 201}},
        ]});
        let all = answer(200, &body.to_string()).read(2).unwrap();
        assert!(matches!(&all[..], [Err(failure), Ok(Outcome::Done)] if !failure.is_terminal()), "{all:?}");
    }

    #[test]
    fn a_request_that_failed_is_tried_again_and_says_why() {
        for (status, told) in [
            (401, "does not take the credentials"),
            (403, "does not let these credentials"),
            (429, "too much to do"),
            (302, "correct `endpoint`"),
            (404, "no `_bulk`"),
            (400, "refused"),
            (500, "failed"),
            (503, "failed"),
        ] {
            let body = r#"{"error": {"type": "a_type", "reason": "the reason"}}"#;
            let Err(Refusal::Failed(failure)) = answer(status, body).read(1) else { panic!("{status}") };
            let message = failure.message();
            assert!(!failure.is_terminal() && message.contains(told), "{message}");
            assert!(message.ends_with(&format!("(HTTP {status}): a_type: the reason")), "{message}");
        }
        let Err(Refusal::Failed(failure)) = answer(502, "<html>no upstream").read(1) else { panic!() };
        assert!(failure.message().ends_with("<html>no upstream"), "{failure}");
    }

    #[test]
    fn a_wait_that_the_server_asks_for_is_kept() {
        let asked = Answer { status: 429, retry_after: Some(Duration::from_secs(7)), body: Vec::new() };
        let wanted = answer(429, "").refusal();
        let (Refusal::Failed(asked), Refusal::Failed(wanted)) = (asked.refusal(), wanted) else { panic!() };
        assert_eq!(asked, wanted.retry_after(Duration::from_secs(7)));
    }

    #[test]
    fn an_answer_that_is_not_about_what_was_sent_delivers_nothing() {
        let page = answer(200, "<html>welcome</html>").read(1).unwrap_err();
        let Refusal::Failed(failure) = page else { panic!() };
        assert!(failure.message().contains("is `endpoint` a search server?"), "{failure}");
        for body in
            [r#"{"items": []}"#, r#"{"items": [{"index": {"status": 201}}, {"index": {"status": 201}}]}"#]
        {
            assert!(answer(200, body).read(1).is_err(), "{body}");
        }
        // Only `index` was asked for.
        assert!(answer(200, r#"{"items": [{"delete": {"status": 200}}]}"#).read(1).is_err());
    }
}
