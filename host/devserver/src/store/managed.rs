//! [`ManagedFields`]: the text of `metadata.managedFields`, compressed.
//!
//! The text is about as long as the object and says little: its names are those of the object's fields. Compressed it takes a
//! fifth, and with a dictionary a tenth, for some microseconds a write and each time it is sent. Clients that ask for objects
//! without managed fields, as the host does, cost neither.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use zstd_safe::{CCtx, CDict, DCtx, DDict};

/// The compression level of zstd: level 3 makes it 1 % smaller, the levels below 1 a fifth larger.
const LEVEL: i32 = 1;
/// The managed fields of a ConfigMap, a Service, a Deployment and a Pod, as this server wrote them: texts that others have parts
/// of are compressed to references to these parts.
const DICTIONARY: &[u8] = include_bytes!("managed_fields.txt");

static COMPRESSION: LazyLock<CDict<'static>> = LazyLock::new(|| CDict::create(DICTIONARY, LEVEL));
static DECOMPRESSION: LazyLock<DDict<'static>> = LazyLock::new(|| DDict::create(DICTIONARY));

thread_local! {
    static COMPRESS: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESS: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// `metadata.managedFields` of an object. States of an object that differ in nothing of it share it.
///
/// The same text is always compressed to the same bytes, so two of them are equal if their texts are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ManagedFields(Option<Packed>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Packed {
    bytes: Arc<[u8]>,
    /// The length of the text.
    length: usize,
}

impl ManagedFields {
    /// From the JSON text of a list that is not empty.
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(zstd_safe::compress_bound(text.len()));
        let done =
            COMPRESS.with_borrow_mut(|context| context.compress_using_cdict(&mut bytes, text, &COMPRESSION));
        // There is room for the worst case, and nothing else can fail.
        Self(done.ok().map(|_| Packed { bytes: bytes.into(), length: text.len() }))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The length of the text in bytes; 0 if there is none.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |packed| packed.length)
    }

    /// Appends the text.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Some(packed) = &self.0 else { return };
        let start = out.len();
        out.resize(start + packed.length, 0);
        DECOMPRESS
            .with_borrow_mut(|context| {
                context.decompress_using_ddict(&mut out[start..], &packed.bytes, &DECOMPRESSION)
            })
            .expect("the bytes were compressed by `new`, from a text of this length");
    }

    /// The text; empty if there is none.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.write(&mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_comes_back_behind_what_was_written_before(text in ".{0,300}", before in ".{0,9}", repeated in 0..200_usize) {
            let text = text.repeat(repeated);
            let fields = ManagedFields::new(text.as_bytes());
            let mut out = before.clone().into_bytes();
            fields.write(&mut out);
            prop_assert_eq!(out, format!("{before}{text}").into_bytes());
            prop_assert_eq!(fields.len(), text.len());
            prop_assert_eq!(&fields, &ManagedFields::new(text.as_bytes()));
            prop_assert_eq!(fields.text(), text.into_bytes());
        }
    }

    #[test]
    fn an_object_without_managers_has_no_text() {
        let none = ManagedFields::default();
        assert!(none.is_empty());
        assert_eq!((none.len(), none.text()), (0, Vec::new()));
    }

    #[test]
    fn names_of_fields_take_little_room() {
        let fields: Vec<String> = (0..28)
            .map(|n| format!(r#""k:{{\"name\":\"SETTING_{n}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}"#))
            .collect();
        let text = format!(r#"[{{"manager":"m","fieldsV1":{{"f:env":{{{}}}}}}}]"#, fields.join(","));
        let packed = ManagedFields::new(text.as_bytes()).0.unwrap();
        assert!(packed.bytes.len() * 8 < text.len(), "{} of {}", packed.bytes.len(), text.len());
    }
}
