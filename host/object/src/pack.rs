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
use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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
    /// Labels and owners that several objects have alike, as those of one ReplicaSet do.
    families: Families,
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
            families: Families::default(),
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

/// A text field that stays outside the compressed part.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Field {
    Uid,
    ResourceVersion,
    DeletionTimestamp,
    Labels,
    OwnerReferences,
}

impl Field {
    /// Of one object: in its own buffer.
    const OWN: [Self; 3] = [Self::Uid, Self::ResourceVersion, Self::DeletionTimestamp];
    /// Of a family: in a text of their own.
    const OF_FAMILY: [Self; 2] = [Self::Labels, Self::OwnerReferences];
}

/// A compressed object.
#[repr(C)]
pub(crate) struct Packed {
    version: ShortText,
    key: ObjectKey,
    /// The object's own fields, one after the other, then the compressed text.
    buffer: Box<[u8]>,
    /// Labels, then owners.
    family: Arc<str>,
    dictionary: Arc<Dictionary>,
    /// [`NO_GENERATION`] for none.
    generation: i64,
    annotations: u64,
    json_len: u32,
    /// Where each field of the buffer ends.
    ends: [u16; Field::OWN.len()],
    /// Where the labels end.
    labels: u16,
    partial: bool,
}

/// Stands for no generation; an object that has this one is not packed.
const NO_GENERATION: i64 = i64::MIN;

impl Packed {
    /// Packs an object; `None` when it is of another kind than the dictionary, or does not become much smaller.
    pub(crate) fn new(plain: &Object, decoded: &Decoded, dictionary: &Arc<Dictionary>) -> Option<Self> {
        if plain.api_version() != dictionary.api_version() || plain.kind() != dictionary.kind() {
            return None;
        }
        if plain.generation() == Some(NO_GENERATION) {
            return None;
        }
        let text = |field: Field| match field {
            // It stands in the struct.
            Field::ResourceVersion if decoded.version.get().is_some() => "",
            field => decoded.field(field).unwrap_or_default(),
        };
        let fields = Field::OWN.map(text);
        let mut end = 0;
        let ends = fields.map(|field| {
            end += field.len();
            u16::try_from(end)
        });
        let [Ok(uid), Ok(version), Ok(deletion)] = ends else { return None };
        let [labels, owners] = Field::OF_FAMILY.map(text);
        let labels_end = u16::try_from(labels.len()).ok()?;
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
            family: dictionary.families.share(labels, owners),
            dictionary: dictionary.clone(),
            generation: plain.generation().unwrap_or(NO_GENERATION),
            annotations: annotations_hash(plain),
            json_len: decoded.json_len,
            ends: [uid, version, deletion],
            labels: labels_end,
            partial: decoded.partial,
        })
    }

    pub(crate) fn key(&self) -> &ObjectKey {
        &self.key
    }

    pub(crate) fn version(&self) -> &ShortText {
        &self.version
    }

    pub(crate) fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        Some(self.generation).filter(|generation| *generation != NO_GENERATION)
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
        let [uid, version, deletion] = self.ends.map(usize::from);
        // Fields were copied from text.
        let own =
            |range: std::ops::Range<usize>| std::str::from_utf8(&self.buffer[range]).unwrap_or_default();
        let labels = usize::from(self.labels);
        let text = match field {
            Field::Uid => own(0..uid),
            Field::ResourceVersion => self.version.get().unwrap_or_else(|| own(uid..version)),
            Field::DeletionTimestamp => own(version..deletion),
            Field::Labels => &self.family[..labels],
            Field::OwnerReferences => &self.family[labels..],
        };
        (!text.is_empty()).then_some(text)
    }

    /// The text that was packed.
    pub(crate) fn unpack(&self) -> Box<str> {
        let [_, _, start] = self.ends.map(usize::from);
        let compressed = &self.buffer[start..];
        let mut json = Vec::with_capacity(self.json_len());
        DECOMPRESS
            .with_borrow_mut(|context| {
                context.decompress_using_ddict(&mut json, compressed, &self.dictionary.decompress)
            })
            .expect("what was compressed with a dictionary is decompressed with it");
        String::from_utf8(json).expect("text was compressed").into_boxed_str()
    }

    /// Bytes of heap this object retains, what it shares with its family not counted.
    pub(crate) fn retained_bytes(&self) -> usize {
        size_of::<Self>() + self.buffer.len() + self.key.as_str().len() + 4 * size_of::<usize>()
    }
}

/// The labels and owners of objects, each text once: the pods of one ReplicaSet all have the same.
#[derive(Default)]
struct Families(Mutex<Known>);

#[derive(Default)]
struct Known {
    texts: HashSet<Arc<str>>,
    /// When this many texts are known, those that no object has any more are dropped.
    sweep_at: usize,
}

/// The first sweep; each later one is at twice what the last one left.
const FIRST_SWEEP: usize = 1024;

impl Families {
    /// Labels and owners as one text.
    fn share(&self, labels: &str, owners: &str) -> Arc<str> {
        let text = [labels, owners].concat();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = known.texts.get(text.as_str()) {
            return text.clone();
        }
        if known.texts.len() >= known.sweep_at.max(FIRST_SWEEP) {
            known.texts.retain(|text| Arc::strong_count(text) > 1);
            known.sweep_at = known.texts.len() * 2;
        }
        let text: Arc<str> = text.into();
        known.texts.insert(text.clone());
        text
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

    fn packed(object: &Object, dictionary: &Arc<Dictionary>) -> Packed {
        let decoded = object.decoded().expect("plain");
        Packed::new(object, decoded, dictionary).expect("it pays")
    }

    #[test]
    fn objects_of_one_family_share_their_labels_and_owners() {
        let dictionary = dictionary();
        let [a, b, c] = [("a", 1), ("b", 1), ("c", 2)]
            .map(|(name, family)| packed(&object(name, family, "1"), &dictionary));
        assert!(Arc::ptr_eq(&a.family, &b.family) && !Arc::ptr_eq(&a.family, &c.family));
        assert_eq!(b.field(Field::Labels), Some(r#"{"app":"x","family":"f1"}"#));
        assert!(c.field(Field::OwnerReferences).unwrap().contains("r2"));
    }

    #[test]
    fn families_that_nobody_has_any_more_are_dropped() {
        let families = Families::default();
        let kept = families.share("kept", "owners");
        for n in 0..5000 {
            families.share("gone", &n.to_string());
        }
        assert!(families.0.lock().unwrap().texts.len() <= FIRST_SWEEP);
        assert!(Arc::ptr_eq(&kept, &families.share("kept", "owners")));
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
        assert!(size_of::<Packed>() <= 112, "{}", size_of::<Packed>());
    }
}
