//! What passes between guest and host, as JSON: arguments in one direction, answers in both.

mod answers;
mod args;

pub(crate) use answers::{
    add_http_body, answer_of, client_answer, client_result, http_answer, http_result, refused, refused_or,
    result_object, unit,
};
pub(crate) use args::{
    Back, OwnRequest, add_sent, bytes, client_args, config, described, event_args, fault, guest_event,
    handled, http_args, kind, metric_change, metric_spec, object, outcome, query, request, requests,
    restored, saved, sent,
};
