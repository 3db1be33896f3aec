//! Kinds that are asked and not kept: who am I, may I. This server has no rules of access yet: everybody may do everything,
//! and every token is good.

use http::StatusCode;
use serde_json::{Value, json};

use super::write::check_kind;
use super::{Outcome, ResourceRequest, User};
use crate::kinds::Review;
use crate::verbs::Answer;

pub(super) fn review(call: &ResourceRequest, what: Review) -> Outcome {
    let mut object = call.json_body()?;
    // Its options are checked as those of a write.
    call.write()?;
    check_kind(&call.resource, &object, &call.source())?;
    let status = match what {
        Review::SelfSubject => json!({"userInfo": user_info(&call.user)}),
        Review::Token => json!({"authenticated": true, "user": user_info(&call.user)}),
        Review::Rules => json!({
            "incomplete": false,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        Review::Access => {
            json!({"allowed": true, "reason": "this development server has no rules of access"})
        }
    };
    object.insert("status".to_owned(), status);
    object.insert("kind".to_owned(), call.resource.kind.as_str().into());
    object.insert("apiVersion".to_owned(), call.resource.api_version().into());
    Ok(Answer::json(StatusCode::CREATED, &object.into()))
}

fn user_info(user: &User) -> Value {
    let extra: serde_json::Map<String, Value> =
        user.extra.iter().map(|(name, values)| (name.clone(), json!(values))).collect();
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !extra.is_empty() {
        info["extra"] = extra.into();
    }
    info
}
