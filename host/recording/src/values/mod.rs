//! What passes between guest and host, as JSON: arguments in one direction, answers in both.

mod answers;
mod args;

pub(crate) use answers::{
    OwnListed, add_http_body, answer_of, client_answer, client_result, http_answer, http_result, listed,
    refused, refused_or, result_object, unit,
};
pub(crate) use args::{
    Back, OwnRequest, add_sent, client_args, config, delayed, described, event_args, fault, guest_event,
    handled, http_args, index, key, keys, least_level, log_line, metric_change, metric_spec, object_at,
    outcome, query, request, requests, sent,
};
