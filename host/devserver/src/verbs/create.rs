//! `create`.

use http::StatusCode;

use super::{Answer, Core, Outcome, Rendering, ResourceRequest, reviews};
use crate::api::ApiError;
use crate::kinds::Creation;

impl Core {
    pub(super) fn create(&self, request: &ResourceRequest) -> Outcome {
        if request.target.name.is_some() {
            return Err(ApiError::method_not_allowed());
        }
        match request.resource.strategy.creation {
            Creation::Review(what) => return reviews::review(request, what),
            Creation::Binding => return self.bind(request),
            Creation::Object => {}
        }
        let write = request.write()?;
        let stored = self.create_object(&write, request.object(&write)?)?;
        let body = Rendering::of(request)?.object(&stored);
        Ok(Answer::Whole { code: StatusCode::CREATED, body })
    }
}
