//! [`PackedObject`]: an object whose text is compressed with the [`Dictionary`] of its kind.
//!
//! The fields that the host reads without the body stay uncompressed: key, UID, version, generation, deletion
//! timestamp, labels and owner references, and a hash of the annotations. So selectors, predicates, owner mapping and
//! work on keys never decompress. Most of these fields are cut out of the compressed part, so they are stored once.
//!
//! Invariants: unpacking returns the same bytes that were packed; the uncompressed fields equal the fields of that
//! text. [`Object::packed`](crate::Object::packed) packs an object; the cache decides which objects are packed, and
//! when.

use std::cell::RefCell;
use std::hash::BuildHasher as _;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;

use crate::cuts::Cuts;
use crate::decode::DecodedObject;
use crate::dictionary::{Codec, Dictionary};
use crate::families::Family;
use crate::key::ObjectKey;
use crate::labels::{END, Labels};
use crate::members::map_hash;
use crate::object::Object;
use crate::short_text::ShortText;

/// An object is kept plain unless its compressed size is below this fraction of its text.
const WORTHWHILE: f64 = 0.7;

/// An object with more bytes of labels or of owner references is kept plain. The API limits neither, and the search for
/// common labels takes time quadratic in their number.
const MOST_SHARED: usize = 4 << 10;

/// A metadata field that stays uncompressed, as text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MetadataField {
    Uid,
    ResourceVersion,
    DeletionTimestamp,
    Labels,
    OwnerReferences,
}

/// A compressed object.
#[repr(C)]
pub(crate) struct PackedObject {
    key: ObjectKey,
    /// UID, a version that is too long for the handles, deletion timestamp, labels that the family lacks; then the
    /// compressed text.
    buffer: Box<[u8]>,
    family: Arc<Family>,
    /// Hash of the annotations.
    annotations: u32,
    text_hash: u32,
    json_len: u32,
    /// [`NO_GENERATION`] when the object has none.
    generation: u32,
    cuts: Cuts,
    // Lengths of the parts of the buffer in bytes.
    labels_len: u16,
    uid_len: u8,
    version_len: u8,
    deletion_len: u8,
    partial: bool,
}

/// Marks an object without a generation. An object with this generation or a later one is not packed.
const NO_GENERATION: u32 = u32::MAX;

/// Calls `work` with two buffers of this thread, which it may use until it returns.
fn with_scratch<T>(work: impl FnOnce(&mut String, &mut Vec<u8>) -> T) -> T {
    /// Capacity in bytes that a buffer keeps between calls.
    const KEEP: usize = 256 << 10;
    thread_local! {
        static SCRATCH: RefCell<(String, Vec<u8>)> = const { RefCell::new((String::new(), Vec::new())) };
    }
    SCRATCH.with_borrow_mut(|(text, compressed)| {
        let done = work(text, compressed);
        text.clear();
        text.shrink_to(KEEP);
        compressed.clear();
        compressed.shrink_to(KEEP);
        done
    })
}

/// Appends the part of an object's text that packing compresses to `out`: the training input of a dictionary.
pub(crate) fn compressed_part(object: &Object, out: &mut String) {
    let plain = object.unpacked();
    if let Some(decoded) = plain.decoded() {
        let fields = cuttable(decoded);
        Cuts::find(decoded.json(), fields).cut(decoded.json(), fields, out);
    }
}

/// Index of the labels among the fields that can be cut out.
const LABELS: usize = 3;

/// The fields that can be cut out of a text because they are stored uncompressed: UID, version, owner references and
/// last the labels, if [`Labels::json`] reproduces their text exactly.
fn cuttable(decoded: &DecodedObject) -> [&str; LABELS + 1] {
    let text = |field| decoded.field(field).unwrap_or_default();
    let labels = text(MetadataField::Labels);
    let labels = if Labels::are_written_so(labels) { labels } else { "" };
    [
        text(MetadataField::Uid),
        text(MetadataField::ResourceVersion),
        text(MetadataField::OwnerReferences),
        labels,
    ]
}

/// A hash that tells texts of one version of an object apart; the same within this process.
pub(crate) fn text_hash(text: &str) -> u32 {
    static SEED: OnceLock<RandomState> = OnceLock::new();
    short_hash(SEED.get_or_init(RandomState::default).hash_one(text))
}

/// The upper half of a hash: both hashes of a packed object fit in eight bytes.
pub(crate) fn short_hash(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or_default()
}

impl PackedObject {
    /// Packs an object. `None` when its kind differs from the dictionary's, when a field has a value that an API server
    /// does not accept, or when compression saves too little.
    pub(crate) fn new(plain: &Object, decoded: &DecodedObject, dictionary: &Dictionary) -> Option<Self> {
        let codec = dictionary.codec();
        if plain.api_version() != &*codec.api_version || plain.kind() != &*codec.kind {
            return None;
        }
        let generation = match plain.generation() {
            None => NO_GENERATION,
            Some(generation) => u32::try_from(generation).ok().filter(|number| *number != NO_GENERATION)?,
        };
        let text = |field| decoded.field(field).unwrap_or_default();
        let [uid, deletion] = [MetadataField::Uid, MetadataField::DeletionTimestamp].map(text);
        let version = text(MetadataField::ResourceVersion);
        let version = if ShortText::new(version).get().is_some() { "" } else { version };
        let [Ok(uid_len), Ok(version_len), Ok(deletion_len)] =
            [uid, version, deletion].map(|own| u8::try_from(own.len()))
        else {
            return None;
        };
        if [MetadataField::Labels, MetadataField::OwnerReferences]
            .map(text)
            .iter()
            .any(|shared| shared.len() > MOST_SHARED)
        {
            return None;
        }
        let lines = Labels::Json(decoded.field(MetadataField::Labels)).lines()?;
        let pairs: Vec<&str> = lines.split_terminator(END).collect();
        let fields = cuttable(decoded);
        let cuts = Cuts::find(decoded.json(), fields);
        with_scratch(|rest, compressed| {
            cuts.cut(decoded.json(), fields, rest);
            codec.compress(rest, compressed)?;
            #[expect(clippy::cast_precision_loss, reason = "a ratio")]
            let worthwhile = (compressed.len() as f64) < decoded.json().len() as f64 * WORTHWHILE;
            if !worthwhile {
                return None;
            }
            let family =
                dictionary.families().of(plain.key().as_str(), text(MetadataField::OwnerReferences), &pairs);
            let mut labels = String::new();
            for pair in pairs.iter().filter(|pair| !family.has(pair)) {
                labels.push_str(pair);
                labels.push(END);
            }
            let parts =
                [uid.as_bytes(), version.as_bytes(), deletion.as_bytes(), labels.as_bytes(), compressed];
            Some(Self {
                key: plain.key().clone(),
                buffer: parts.concat().into(),
                family,
                annotations: short_hash(map_hash(decoded.annotations.get(&decoded.buffer))),
                text_hash: text_hash(decoded.json()),
                json_len: decoded.json_len,
                generation,
                cuts,
                labels_len: u16::try_from(labels.len()).ok()?,
                uid_len,
                version_len,
                deletion_len,
                partial: decoded.partial,
            })
        })
    }

    pub(crate) fn key(&self) -> &ObjectKey {
        &self.key
    }

    pub(crate) fn codec(&self) -> &Arc<Codec> {
        &self.family.codec
    }

    pub(crate) fn uid(&self) -> &str {
        let [uid, ..] = self.parts();
        self.text(uid)
    }

    /// The version, if it is too long for the handles; else an empty text.
    pub(crate) fn long_version(&self) -> &str {
        let [_, version, ..] = self.parts();
        self.text(version)
    }

    pub(crate) fn deletion_timestamp(&self) -> Option<&str> {
        let [_, _, deletion, ..] = self.parts();
        (!deletion.is_empty()).then(|| self.text(deletion))
    }

    pub(crate) fn labels(&self) -> Labels<'_> {
        let [_, _, _, labels, _] = self.parts();
        Labels::Pairs { shared: &self.family.labels, own: self.text(labels) }
    }

    pub(crate) fn owners(&self) -> Option<&str> {
        (!self.family.owners.is_empty()).then_some(&*self.family.owners)
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        (self.generation != NO_GENERATION).then_some(self.generation.into())
    }

    pub(crate) fn annotations(&self) -> u32 {
        self.annotations
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    pub(crate) fn text_hash(&self) -> u32 {
        self.text_hash
    }

    pub(crate) fn json_len(&self) -> usize {
        self.json_len as usize
    }

    /// Decompresses the text; `version` is the object's.
    pub(crate) fn unpack(&self, version: &str) -> Box<str> {
        let [.., compressed] = self.parts();
        let labels = if self.cuts.has(LABELS) { self.labels().json() } else { String::new() };
        let fields = [self.uid(), version, self.owners().unwrap_or_default(), &labels];
        with_scratch(|_, rest| {
            let rest = self.codec().decompress(&self.buffer[compressed], self.json_len(), rest);
            self.cuts.fill(rest, fields, self.json_len()).into_boxed_str()
        })
    }

    /// Bytes of heap that this object alone retains: the struct, its buffer and its key with their reference counts.
    /// The dictionary and the family are not counted, although the only object of an owner has a family for itself.
    pub(crate) fn retained_bytes(&self) -> usize {
        size_of::<Self>() + self.buffer.len() + self.key.as_str().len() + 4 * size_of::<usize>()
    }

    /// The ranges of UID, version, deletion timestamp, labels and compressed text in the buffer.
    fn parts(&self) -> [Range<usize>; 5] {
        let mut start = 0;
        let mut part = |len: usize| {
            start += len;
            start - len..start
        };
        let lens = [self.uid_len, self.version_len, self.deletion_len].map(usize::from);
        let [uid, version, deletion] = lens.map(&mut part);
        let labels = part(self.labels_len.into());
        [uid, version, deletion, labels.clone(), labels.end..self.buffer.len()]
    }

    /// A part of the buffer that is text.
    fn text(&self, part: Range<usize>) -> &str {
        std::str::from_utf8(&self.buffer[part]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, family: u32, version: &str) -> Object {
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"a","uid":"uid-of-{name}",
                "resourceVersion":"{version}","labels":{{"app":"x","family":"f{family}"}},"annotations":{{"n":"{name}"}},
                "ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r{family}","uid":"u{family}"}}]}},
                "spec":{{"containers":[{{"name":"main","image":"registry.example.com/team/app:1.2.3","ports":[
                {{"name":"http","containerPort":8080,"protocol":"TCP"}}],"terminationMessagePath":"/dev/termination-log"}}],
                "restartPolicy":"Always","schedulerName":"default-scheduler","dnsPolicy":"ClusterFirst"}}}}"#
        );
        Object::decode(text.as_bytes()).unwrap()
    }

    fn dictionary() -> Arc<Dictionary> {
        let samples: Vec<Object> = (0..128).map(|n| object(&format!("p{n}"), n % 5, "1")).collect();
        Dictionary::train(&samples).unwrap()
    }

    fn packed(object: &Object, dictionary: &Arc<Dictionary>) -> PackedObject {
        let decoded = object.decoded().expect("plain");
        PackedObject::new(object, decoded, dictionary).expect("it pays")
    }

    #[test]
    fn objects_of_one_owner_keep_nothing_of_what_they_have_alike() {
        let dictionary = dictionary();
        let [_, _, a, b, c] = [("y", 1), ("z", 1), ("a", 1), ("b", 1), ("c", 2)]
            .map(|(name, family)| packed(&object(name, family, "1"), &dictionary));
        assert!(Arc::ptr_eq(&a.family, &b.family) && !Arc::ptr_eq(&a.family, &c.family));
        assert_eq!((a.labels_len, b.labels_len), (0, 0));
        assert_eq!(b.labels().json(), r#"{"app":"x","family":"f1"}"#);
        assert!(c.owners().unwrap().contains("r2"));
    }

    #[test]
    fn what_stands_outside_is_not_in_the_compressed_part() {
        let mut rest = String::new();
        let object = object("a", 1, "777");
        compressed_part(&object, &mut rest);
        for outside in ["uid-of-a", "777", "family", "ReplicaSet"] {
            assert!(object.json().contains(outside) && !rest.contains(outside), "{outside}");
        }
    }

    #[test]
    fn long_versions_and_absent_fields_come_back() {
        let dictionary = dictionary();
        let long = "12345678901234567890";
        let object = object("a", 1, long).packed(&dictionary);
        assert!(object.is_packed());
        assert_eq!((object.resource_version(), object.uid()), (long, "uid-of-a"));
        assert_eq!((object.deletion_timestamp(), object.generation()), (None, None));
    }

    /// The text of a real object is a few times larger than all that stays outside.
    #[test]
    fn the_struct_is_small() {
        assert!(size_of::<PackedObject>() <= 80, "{}", size_of::<PackedObject>());
    }
}
