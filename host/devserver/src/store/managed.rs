//! [`ManagedFields`]: the text of `metadata.managedFields`, compressed and shared.
//!
//! The text is about as long as the object and says little: its names are those of the object's fields. Compressed it takes a
//! fifth, and with a dictionary a tenth, for some microseconds a write and each time it is sent. Clients that ask for objects
//! without managed fields, as the host does, cost neither.
//!
//! Objects of one controller differ in nothing but the times of their entries, so these are kept apart, and objects share the
//! rest.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp as Instant;
use parking_lot::Mutex;
use zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::api::Timestamp;

/// The compression level of zstd: level 3 makes it 1 % smaller, the levels below 1 a fifth larger.
const LEVEL: i32 = 1;
/// The managed fields of a ConfigMap, a Service, a Deployment and a Pod, as this server wrote them: texts that others have parts
/// of are compressed to references to these parts.
const DICTIONARY: &[u8] = include_bytes!("managed_fields.txt");
/// What stands before the time of an entry. No other text contains it: quotes within strings are escaped, and names of fields
/// have a prefix.
const BEFORE_TIME: &[u8] = b"\"time\":\"";
/// The placeholder of a time; the dictionary contains it.
const ANY_TIME: &[u8; 20] = b"2026-01-01T00:00:00Z";
/// How many shapes there are at least before those that nobody uses are dropped.
const MIN_SHAPES: usize = 1_024;
/// The same in bytes.
const MIN_BYTES: usize = 1 << 20;

static COMPRESSION: LazyLock<CDict<'static>> = LazyLock::new(|| CDict::create(DICTIONARY, LEVEL));
static DECOMPRESSION: LazyLock<DDict<'static>> = LazyLock::new(|| DDict::create(DICTIONARY));
static SHAPES: LazyLock<Mutex<Shapes>> = LazyLock::new(Mutex::default);

thread_local! {
    static COMPRESS: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESS: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// `metadata.managedFields` of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ManagedFields {
    shape: Option<Arc<Shape>>,
    /// Of the entries that have one, in seconds.
    times: Box<[i64]>,
}

/// A text without its times. The same text is always compressed to the same bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shape {
    bytes: Box<[u8]>,
    /// The length of the text.
    length: usize,
}

/// All shapes, and some that nobody uses any more.
#[derive(Debug, Default)]
struct Shapes {
    known: HashSet<Arc<Shape>>,
    bytes: usize,
    /// How many were in use when they were last counted, and their bytes.
    used: (usize, usize),
}

impl Shapes {
    fn share(&mut self, shape: Shape) -> Arc<Shape> {
        if let Some(known) = self.known.get(&shape) {
            return known.clone();
        }
        if self.known.len() >= MIN_SHAPES.max(self.used.0 * 2) || self.bytes >= MIN_BYTES.max(self.used.1 * 2)
        {
            self.known.retain(|shape| Arc::strong_count(shape) > 1);
            self.known.shrink_to_fit();
            self.bytes = self.known.iter().map(|shape| shape.bytes.len()).sum();
            self.used = (self.known.len(), self.bytes);
        }
        let shape = Arc::new(shape);
        self.bytes += shape.bytes.len();
        self.known.insert(shape.clone());
        shape
    }
}

impl ManagedFields {
    /// From the JSON text of a list that is not empty.
    pub(crate) fn new(mut text: Vec<u8>) -> Self {
        let mut times = Vec::new();
        for_each_time(&mut text, |time| {
            if let Some(seconds) = seconds_of(time) {
                times.push(seconds);
                time.copy_from_slice(ANY_TIME);
            }
        });
        let mut bytes = Vec::with_capacity(zstd_safe::compress_bound(text.len()));
        let done =
            COMPRESS.with_borrow_mut(|context| context.compress_using_cdict(&mut bytes, &text, &COMPRESSION));
        // There is room for the worst case, and nothing else can fail.
        let shape = done.ok().map(|_| Shape { bytes: bytes.into(), length: text.len() });
        Self { shape: shape.map(|shape| SHAPES.lock().share(shape)), times: times.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shape.is_none()
    }

    /// The length of the text in bytes; 0 if there is none.
    pub(crate) fn len(&self) -> usize {
        self.shape.as_ref().map_or(0, |shape| shape.length)
    }

    /// Appends the text.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Some(shape) = &self.shape else { return };
        let start = out.len();
        out.resize(start + shape.length, 0);
        let text = &mut out[start..];
        DECOMPRESS
            .with_borrow_mut(|context| context.decompress_using_ddict(text, &shape.bytes, &DECOMPRESSION))
            .expect("the bytes were compressed by `new`, from a text of this length");
        let mut times = self.times.iter();
        for_each_time(text, |time| {
            if time == ANY_TIME
                && let Some(instant) = times.next().and_then(|seconds| Instant::from_second(*seconds).ok())
            {
                time.copy_from_slice(Timestamp(instant).seconds().as_bytes());
            }
        });
    }

    /// The text; empty if there is none.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.write(&mut text);
        text
    }
}

/// Calls `each` with what stands where the times of entries are, if it is as long as one.
fn for_each_time(text: &mut [u8], mut each: impl FnMut(&mut [u8; 20])) {
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&text[from..], BEFORE_TIME) {
        from += at + BEFORE_TIME.len();
        if let Some(time) = text[from..].first_chunk_mut() {
            each(time);
            from += time.len();
        }
    }
}

/// The seconds of a time that is written as this server writes it.
fn seconds_of(time: &[u8; 20]) -> Option<i64> {
    let text = std::str::from_utf8(time).ok()?;
    let instant: Instant = text.parse().ok()?;
    (Timestamp(instant).seconds() == text).then_some(instant.as_second())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Times as this server writes them, as it does not, and none.
    fn piece() -> impl Strategy<Value = String> {
        let time = prop_oneof![
            (-62_135_596_800..=253_402_207_200_i64)
                .prop_map(|second| Timestamp(Instant::from_second(second).unwrap()).seconds()),
            Just("2026-01-01T00:00:00Z".to_owned()),
            Just("2016-12-31T23:59:60Z".to_owned()),
            "[0-9TZ:-]{15,25}",
        ];
        prop_oneof![
            ".{0,300}",
            time.prop_map(|time| format!("\"time\":\"{time}\"")),
            Just("\"time\":\"".to_owned())
        ]
    }

    proptest! {
        #[test]
        fn a_text_comes_back_behind_what_was_written_before(
            pieces in prop::collection::vec(piece(), 0..6), before in ".{0,9}", repeated in 0..50_usize,
        ) {
            let text = pieces.concat().repeat(repeated);
            let fields = ManagedFields::new(text.clone().into_bytes());
            let mut out = before.clone().into_bytes();
            fields.write(&mut out);
            prop_assert_eq!(out, format!("{before}{text}").into_bytes());
            prop_assert_eq!(fields.len(), text.len());
            prop_assert_eq!(&fields, &ManagedFields::new(text.clone().into_bytes()));
            prop_assert_eq!(fields.text(), text.into_bytes());
        }
    }

    fn at(time: &str) -> ManagedFields {
        let text =
            format!(r#"[{{"manager":"m","time":"{time}","fieldsV1":{{"f:spec":{{"f:time":{{}}}}}}}}]"#);
        ManagedFields::new(text.into_bytes())
    }

    #[test]
    fn objects_share_all_but_times() {
        let (a, b) = (at("2026-11-24T12:00:00Z"), at("2026-11-24T12:00:01Z"));
        assert!(Arc::ptr_eq(a.shape.as_ref().unwrap(), b.shape.as_ref().unwrap()));
        assert_ne!(a, b);
        assert_eq!(a, at("2026-11-24T12:00:00Z"));
    }

    #[test]
    fn shapes_that_nobody_uses_are_dropped() {
        for (length, most) in [(8, MIN_SHAPES), (MIN_BYTES / 4, 4)] {
            let shape = |n: usize| {
                let mut bytes = vec![0; length];
                bytes[..8].copy_from_slice(&n.to_le_bytes());
                Shape { bytes: bytes.into(), length }
            };
            let mut shapes = Shapes::default();
            let kept = shapes.share(shape(0));
            for n in 1..most * 10 {
                shapes.share(shape(n));
                assert!(shapes.known.len() <= most + 1, "{} of {length} bytes", shapes.known.len());
            }
            assert!(shapes.known.contains(&kept));
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
        let packed = ManagedFields::new(text.clone().into_bytes()).shape.unwrap();
        assert!(packed.bytes.len() * 8 < text.len(), "{} of {}", packed.bytes.len(), text.len());
    }
}
