//! [`Written`]: the state that caches must show after a write, read from the server's answer.
//!
//! An answer does not say whether the object is deleted. The API server deletes a marked object as soon as it has neither
//! finalizers nor a grace period left.

use pilothouse_client::Deleted;
use pilothouse_object::{Object, ObjectKey};

/// The effect of a write on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written<'a> {
    /// The object is there in this version.
    Version(&'a str),
    /// The object is gone. `version` is the last one that is known of it, empty if none is.
    Gone { key: &'a ObjectKey, uid: &'a str, version: &'a str },
}

impl<'a> Written<'a> {
    /// Of a create, an update or a patch. One that takes the last finalizer away ends the object; the server then answers
    /// with the object as it was sent, whose version is from before the end.
    pub(crate) fn by_change(object: &'a Object) -> Self {
        let is_last = object.deletion_timestamp().is_some() && grace(object) == Some(0);
        if is_last && !has_finalizers(object) { Self::gone(object) } else { Self::there(object) }
    }

    /// Of a delete; none when there is nothing to look for. `uid` is what the call asked for.
    pub(crate) fn by_delete(deleted: &'a Deleted, key: &'a ObjectKey, uid: Option<&'a str>) -> Option<Self> {
        match deleted {
            Deleted::Object(object) => {
                let waits = has_finalizers(object) || grace(object).is_some_and(|seconds| seconds > 0);
                let is_marked = object.deletion_timestamp().is_some();
                Some(if is_marked && waits { Self::there(object) } else { Self::gone(object) })
            }
            Deleted::Status(status) => {
                let answered = status.details.as_ref().map(|details| details.uid.as_str());
                let uid = answered.filter(|uid| !uid.is_empty()).or(uid)?;
                Some(Self::Gone { key, uid, version: "" })
            }
        }
    }

    fn there(object: &'a Object) -> Self {
        Self::Version(object.resource_version())
    }

    fn gone(object: &'a Object) -> Self {
        Self::Gone { key: object.key(), uid: object.uid(), version: object.resource_version() }
    }
}

fn has_finalizers(object: &Object) -> bool {
    let some = |pointer: &str| object.get(&format!("{pointer}/0")).is_some();
    // Those of a namespace are in its spec.
    some("/metadata/finalizers") || some("/spec/finalizers")
}

fn grace(object: &Object) -> Option<u64> {
    object.get("/metadata/deletionGracePeriodSeconds")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKED: &str = r#","deletionTimestamp":"2026-01-01T00:00:00Z""#;

    fn object(more: &str) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"a","uid":"u","resourceVersion":"7"{more}}}}}"#
        );
        Object::decode(json.as_bytes()).unwrap()
    }

    fn is_gone(written: Written<'_>) -> bool {
        match written {
            Written::Version(version) => {
                assert_eq!(version, "7");
                false
            }
            Written::Gone { key, uid, version } => {
                assert_eq!((key.as_str(), uid, version), ("a/p", "u", "7"));
                true
            }
        }
    }

    fn by_delete(more: &str) -> bool {
        let key = "a/p".parse().unwrap();
        is_gone(Written::by_delete(&Deleted::Object(object(more)), &key, None).unwrap())
    }

    #[test]
    fn a_delete_is_done_unless_finalizers_or_grace_keep_the_object() {
        assert!(by_delete(""));
        assert!(by_delete(&format!(r#"{MARKED},"deletionGracePeriodSeconds":0"#)));
        assert!(!by_delete(&format!(r#"{MARKED},"deletionGracePeriodSeconds":30"#)));
        assert!(!by_delete(&format!(r#"{MARKED},"deletionGracePeriodSeconds":0,"finalizers":["x/y"]"#)));
        assert!(by_delete(&format!(r#"{MARKED},"deletionGracePeriodSeconds":0,"finalizers":[]"#)));
        // Deleted while it still had finalizers that the server takes for nothing: the object as it was before.
        assert!(by_delete(r#","finalizers":["x/y"]"#));
    }

    #[test]
    fn a_change_that_takes_the_last_finalizer_away_ends_the_object() {
        let gone = |more: &str| is_gone(Written::by_change(&object(more)));
        assert!(gone(&format!(r#"{MARKED},"deletionGracePeriodSeconds":0"#)));
        assert!(!gone(&format!(r#"{MARKED},"deletionGracePeriodSeconds":0,"finalizers":["x/y"]"#)));
        // A pod that still ends is written to by many.
        assert!(!gone(&format!(r#"{MARKED},"deletionGracePeriodSeconds":30"#)));
        assert!(!gone(""));
    }

    #[test]
    fn a_status_of_success_names_the_object_by_its_uid() {
        let key: ObjectKey = "a/p".parse().unwrap();
        let status = |json: &str| Deleted::Status(serde_json::from_str(json).unwrap());
        let of = |json: &str, uid| {
            Written::by_delete(&status(json), &key, uid).map(|written| match written {
                Written::Gone { uid, version: "", .. } => uid.to_owned(),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(of(r#"{"details":{"name":"p","uid":"u1"}}"#, Some("u2")).as_deref(), Some("u1"));
        assert_eq!(of(r#"{"details":{"name":"p"}}"#, Some("u2")).as_deref(), Some("u2"));
        assert_eq!(of(r"{}", None), None);
    }
}
