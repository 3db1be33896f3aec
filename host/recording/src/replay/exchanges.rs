//! [`ReplayedExchanges`]: requests over HTTP, answered from the recording.

use std::sync::Arc;

use pilothouse_engine::{HttpExchange, HttpExchanges, HttpFailure, HttpRequestHead, HttpRoute};

use super::tape::{Place, ReplayTape};
use crate::values;

pub(super) struct ReplayedExchanges(pub(super) Arc<ReplayTape>);

struct Replayed {
    tape: Arc<ReplayTape>,
    place: Place,
}

impl HttpExchanges for ReplayedExchanges {
    fn begin(&self, head: HttpRequestHead) -> HttpRoute {
        let then = self.0.asked("http", values::http_args(&head));
        let place = then.as_ref().map_or_else(|| self.0.last(), |(place, _)| *place);
        let answer = then.and_then(|(_, answer)| values::http_result(&answer)).unwrap_or_else(|| {
            Err(HttpFailure {
                code: "internal-error".to_owned(),
                detail: Some("the recording has no answer for this request".to_owned()),
            })
        });
        HttpRoute::Answered(Arc::new(Replayed { tape: Arc::clone(&self.0), place }), answer)
    }
}

impl HttpExchange for Replayed {
    fn sent(&self, bytes: &[u8]) {
        self.tape.sent(self.place, bytes);
    }
}
