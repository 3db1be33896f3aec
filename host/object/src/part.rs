//! [`ObjectPart`]: the parts of an object's text whose places the header has, so that two objects are compared in one of them
//! without a walk over the text. The indexes of the cache ask which values can have changed.

use crate::object::Held;
use crate::pack::MetadataField;

/// A part of the text of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectPart<'a> {
    /// `metadata.labels`.
    Labels,
    /// `metadata.annotations`.
    Annotations,
    /// `metadata.ownerReferences`.
    OwnerReferences,
    /// A field of the object, such as `spec`.
    Field(&'a str),
}

impl Held {
    /// Whether both have the same text in a part, as far as that is known without a walk over the text: `false` says
    /// nothing.
    #[must_use]
    pub fn has_same(&self, other: &Self, part: ObjectPart<'_>) -> bool {
        let (Some(a), Some(b)) = (self.decoded(), other.decoded()) else { return false };
        match part {
            ObjectPart::Labels => a.field(MetadataField::Labels) == b.field(MetadataField::Labels),
            ObjectPart::Annotations => a.annotations.get(&a.buffer) == b.annotations.get(&b.buffer),
            ObjectPart::OwnerReferences => {
                a.field(MetadataField::OwnerReferences) == b.field(MetadataField::OwnerReferences)
            }
            ObjectPart::Field(name) => a.recorded(name).is_some_and(|text| b.recorded(name) == Some(text)),
        }
    }
}
