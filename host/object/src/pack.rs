//! Objects compressed with a dictionary of their kind: [`Dictionary`] and [`Packed`].
//!
//! Objects of one kind resemble each other, so a dictionary trained from some of them makes the rest a tenth of their
//! size. What is asked of objects that nobody reads the body of stays outside the compressed part: key, UID, version,
//! generation, deletion, labels and owners, and a hash of the annotations. Selectors, predicates, owner mapping and all
//! work on keys never decompress.
//!
//! Invariants: decompressing gives the very text that was compressed; what a packed object says of itself outside the
//! compressed part is what that text says. [`Object`](crate::Object) hands packed objects out; the cache decides which
//! objects are packed, and when.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, OnceLock};

use foldhash::quality::RandomState;
use zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::decode::Decoded;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::short_text::ShortText;

/// Dictionaries beyond this gain little and cost CPU: measured on 6.6-KB pods of 200 templates, 16 KB gave 667 bytes an
/// object, 32 KB 620, 64 KB 601, at rising cost of training.
const DICTIONARY_SIZE: usize = 32 << 10;

/// zstd's level: 3 took 14 µs and 620 bytes for those pods, 1 took 12 µs and 658, -1 took 16 µs and 856.
const LEVEL: i32 = 3;

/// An object that does not come out smaller than this share of its text is kept plain.
const WORTHWHILE: f64 = 0.7;

thread_local! {
    static COMPRESS: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESS: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// What objects of one kind have in common, for packing and unpacking them.
pub struct Dictionary {
    api_version: Box<str>,
    kind: Box<str>,
    compress: CDict<'static>,
    decompress: DDict<'static>,
}

impl Dictionary {
    /// Objects that a sample should have: training takes about 0.7 ms for each.
    pub const SAMPLE: usize = 128;

    /// Trains a dictionary from some objects of one kind. `None` when they are too few or too unlike each other for one.
    #[must_use]
    pub fn train(samples: &[Object]) -> Option<Arc<Self>> {
        let first = samples.first()?;
        let texts: Vec<&str> = samples.iter().map(Object::json).collect();
        let sizes: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        let mut dictionary = vec![0; DICTIONARY_SIZE.min(sizes.iter().sum::<usize>() / 4).max(1 << 10)];
        let size =
            zstd_safe::train_from_buffer(&mut dictionary[..], texts.concat().as_bytes(), &sizes).ok()?;
        let dictionary = &dictionary[..size];
        Some(Arc::new(Self {
            api_version: first.api_version().into(),
            kind: first.kind().into(),
            compress: CDict::try_create(dictionary, LEVEL)?,
            decompress: DDict::try_create(dictionary)?,
        }))
    }

    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A text field that stays outside the compressed part; the number is its place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Field {
    Uid,
    ResourceVersion,
    DeletionTimestamp,
    Labels,
    OwnerReferences,
}

const FIELDS: usize = 5;

/// A compressed object.
#[repr(C)]
pub(crate) struct Packed {
    version: Option<ShortText>,
    key: ObjectKey,
    /// The fields, one after the other, then the compressed text.
    buffer: Box<[u8]>,
    dictionary: Arc<Dictionary>,
    /// `i64::MIN` stands for none.
    generation: i64,
    annotations: u64,
    json_len: u32,
    /// Where each field ends.
    ends: [u16; FIELDS],
    partial: bool,
}

impl Packed {
    /// Packs an object; `None` when it is of another kind than the dictionary, or does not become much smaller.
    pub(crate) fn new(plain: &Object, decoded: &Decoded, dictionary: &Arc<Dictionary>) -> Option<Self> {
        if plain.api_version() != dictionary.api_version() || plain.kind() != dictionary.kind() {
            return None;
        }
        let mut fields = [""; FIELDS];
        let mut ends = [0; FIELDS];
        let mut end = 0;
        for (place, field) in [
            Field::Uid,
            Field::ResourceVersion,
            Field::DeletionTimestamp,
            Field::Labels,
            Field::OwnerReferences,
        ]
        .into_iter()
        .enumerate()
        {
            fields[place] = decoded.field(field).unwrap_or_default();
            end += fields[place].len();
            ends[place] = u16::try_from(end).ok()?;
        }
        let json = decoded.json();
        let buffer = COMPRESS.with_borrow_mut(|context| {
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.resize(end + zstd_safe::compress_bound(json.len()), 0);
                let mut at = 0;
                for field in fields {
                    scratch[at..at + field.len()].copy_from_slice(field.as_bytes());
                    at += field.len();
                }
                let size = context
                    .compress_using_cdict(&mut scratch[end..], json.as_bytes(), &dictionary.compress)
                    .ok()?;
                let packed = &scratch[..end + size];
                #[expect(clippy::cast_precision_loss, reason = "a ratio")]
                let worthwhile = (packed.len() as f64) < json.len() as f64 * WORTHWHILE;
                let packed = worthwhile.then(|| Box::from(packed));
                scratch.shrink_to(KEEP);
                packed
            })
        })?;
        Some(Self {
            version: decoded.version,
            key: plain.key().clone(),
            buffer,
            dictionary: dictionary.clone(),
            generation: plain.generation().unwrap_or(i64::MIN),
            annotations: annotations_hash(plain),
            json_len: decoded.json_len,
            ends,
            partial: decoded.partial,
        })
    }

    pub(crate) fn key(&self) -> &ObjectKey {
        &self.key
    }

    pub(crate) fn version(&self) -> Option<&ShortText> {
        self.version.as_ref()
    }

    pub(crate) fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        Some(self.generation).filter(|generation| *generation != i64::MIN)
    }

    pub(crate) fn annotations(&self) -> u64 {
        self.annotations
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    pub(crate) fn json_len(&self) -> usize {
        self.json_len as usize
    }

    pub(crate) fn field(&self, field: Field) -> Option<&str> {
        let place = field as usize;
        let start = if place == 0 { 0 } else { usize::from(self.ends[place - 1]) };
        let text = &self.buffer[start..usize::from(self.ends[place])];
        // Fields were copied from text.
        std::str::from_utf8(text).ok().filter(|text| !text.is_empty())
    }

    /// The text that was packed.
    pub(crate) fn unpack(&self) -> Box<str> {
        let compressed = &self.buffer[usize::from(self.ends[FIELDS - 1])..];
        let mut json = Vec::with_capacity(self.json_len());
        DECOMPRESS
            .with_borrow_mut(|context| {
                context.decompress_using_ddict(&mut json, compressed, &self.dictionary.decompress)
            })
            .expect("what was compressed with a dictionary is decompressed with it");
        String::from_utf8(json).expect("text was compressed").into_boxed_str()
    }

    /// Bytes of heap this object retains.
    pub(crate) fn retained_bytes(&self) -> usize {
        size_of::<Self>() + self.buffer.len() + self.key.as_str().len() + 4 * size_of::<usize>()
    }
}

thread_local! {
    /// Where packing puts its outcome before its size is known.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A scratch buffer grown above this is given back.
const KEEP: usize = 256 << 10;

/// A hash of the annotations as a map: equal maps have equal hashes, however they are written. Seeded by process, so
/// that nobody can make two maps that collide.
pub(crate) fn annotations_hash(object: &Object) -> u64 {
    static SEED: OnceLock<RandomState> = OnceLock::new();
    let mut hasher = SEED.get_or_init(RandomState::default).build_hasher();
    for (name, value) in object.annotations() {
        for text in [name, value] {
            hasher.write(text.as_bytes());
            hasher.write_usize(text.len());
        }
    }
    hasher.finish()
}
