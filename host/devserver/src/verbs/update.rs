//! `update`.

use http::StatusCode;

use super::{Answer, Core, ObjectPart, Outcome, Rendering, ResourceRequest, identity};
use crate::api::ALREADY_EXISTS;

impl Core {
    pub(super) fn update(&self, request: &ResourceRequest) -> Outcome {
        self.update_part(request, ObjectPart::Main)
    }

    pub(super) fn update_part(&self, request: &ResourceRequest, part: ObjectPart) -> Outcome {
        let write = request.write()?;
        let object = request.object(&write)?;
        if self.store.get(&write.resource.storage, &write.key()).is_none()
            && write.resource.strategy.creates_on_update
        {
            let mut new = object.clone();
            let version = identity::check_new(&write, &mut new)?;
            match self.create_owned(&write, new, None, &version) {
                // Another request was faster: then it is an update.
                Err(error) if error.reason == ALREADY_EXISTS => {}
                made => {
                    let body = Rendering::of(request)?.object(&*made?);
                    return Ok(Answer::Whole { code: StatusCode::CREATED, body });
                }
            }
        }
        identity::check_names_of(&write, &object)?;
        let stored = self.update_object(&write, part, |_, _| Ok(object.clone()))?;
        Ok(Answer::Whole { code: StatusCode::OK, body: Rendering::of(request)?.object(&stored) })
    }
}
