//! What asks for a running container: this server has none, and says what to do instead.

use http::StatusCode;

use crate::api::ApiError;
use crate::resources::Resource;

/// The answer to a request on a part of an object behind which a container would run, such as `pods/NAME/log`.
pub(super) fn refused(resource: &Resource, name: &str, part: &str) -> ApiError {
    let (lacks, instead) = match part {
        "log" => {
            ("there are no logs", "plugins log to the output of `pilothouse dev`; for logs of containers, ")
        }
        "exec" | "attach" => ("no program runs in it", "run the program on this machine, or "),
        "portforward" | "proxy" => ("nothing listens", "connect to a program on this machine, or "),
        _ => ("this is not served", ""),
    };
    let kind = resource.kind.to_lowercase();
    let message = format!(
        "{kind} {name:?}: {lacks}, because this development server runs no containers; {instead}use a cluster, as \
         `pilothouse dev --kubeconfig FILE` does"
    );
    ApiError::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
}
