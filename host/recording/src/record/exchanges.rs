//! [`RecordedExchanges`]: requests over HTTP, written down as they go to the network.

use std::sync::Arc;

use pilothouse_engine::{
    HttpExchange, HttpExchanges, HttpFailure, HttpRequestHead, HttpResponseHead, HttpRoute,
};

use super::tape::{Place, Tape};
use crate::values;

pub(super) struct RecordedExchanges(pub(super) Arc<Tape>);

struct Recorded {
    tape: Arc<Tape>,
    place: Option<Place>,
}

impl HttpExchanges for RecordedExchanges {
    fn begin(&self, head: HttpRequestHead) -> HttpRoute {
        let place = self.0.asked("http", || values::http_args(&head));
        HttpRoute::Network(Arc::new(Recorded { tape: Arc::clone(&self.0), place }))
    }
}

impl HttpExchange for Recorded {
    fn sent(&self, bytes: &[u8]) {
        self.tape.sent(self.place, bytes);
    }

    fn sent_all(&self) {
        self.tape.sent_all(self.place);
    }

    fn answered(&self, answer: Result<&HttpResponseHead, &HttpFailure>) {
        self.tape.answered(self.place, || values::http_answer(answer));
    }

    fn received(&self, bytes: &[u8]) {
        self.tape.received(self.place, bytes);
    }

    fn failed(&self, failure: &HttpFailure) {
        self.tape.failed(self.place, failure);
    }
}
