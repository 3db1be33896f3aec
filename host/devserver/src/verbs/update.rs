//! `update`.

use http::StatusCode;

use super::{Answer, Core, JsonMap, ObjectPart, Outcome, Rendering, ResourceRequest, Write, identity};

impl Core {
    pub(super) fn update(&self, request: &ResourceRequest) -> Outcome {
        let write = request.write()?;
        let mut object = request.object(&write)?;
        if self.store.get(&write.resource.storage, &write.key()).is_none()
            && write.resource.strategy.creates_on_update
        {
            identity::check_new(&write, &mut object)?;
            let stored = self.create_object(&write, object)?;
            let body = Rendering::of(request)?.object(&stored);
            return Ok(Answer::Whole { code: StatusCode::CREATED, body });
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
        let stored = self.update_object(write, part, |_, _| Ok(object.clone()))?;
        Ok(Answer::Whole { code: StatusCode::OK, body: Rendering::of(request)?.object(&stored) })
    }
}
