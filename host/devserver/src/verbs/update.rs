//! `update`.

use http::StatusCode;

use super::{Answer, Core, JsonMap, ObjectPart, Outcome, Rendering, ResourceRequest, Write, identity};
use crate::api::ALREADY_EXISTS;

impl Core {
    pub(super) fn update(&self, request: &ResourceRequest) -> Outcome {
        let write = request.write()?;
        let object = request.object(&write)?;
        if self.store.get(&write.resource.storage, &write.key()).is_none()
            && write.resource.strategy.creates_on_update
        {
            let mut new = object.clone();
            identity::check_new(&write, &mut new)?;
            match self.create_object(&write, new) {
                // Another request was faster: then it is an update.
                Err(error) if error.reason == ALREADY_EXISTS => {}
                made => {
                    let body = Rendering::of(request)?.object(&*made?);
                    return Ok(Answer::Whole { code: StatusCode::CREATED, body });
                }
            }
        }
        self.replace_part(request, &write, &object, ObjectPart::Main)
    }

    pub(super) fn update_part(&self, request: &ResourceRequest, part: ObjectPart) -> Outcome {
        let write = request.write()?;
        self.replace_part(request, &write, &request.object(&write)?, part)
    }

    fn replace_part(
        &self,
        request: &ResourceRequest,
        write: &Write,
        object: &JsonMap,
        part: ObjectPart,
    ) -> Outcome {
        identity::check_names_of(write, object)?;
        let stored = self.update_object(write, part, |_, _| Ok(object.clone()))?;
        Ok(Answer::Whole { code: StatusCode::OK, body: Rendering::of(request)?.object(&stored) })
    }
}
