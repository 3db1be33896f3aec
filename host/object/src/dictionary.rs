//! [`Dictionary`]: a zstd dictionary for the objects of one kind, and compression with it.
//!
//! Objects of one kind resemble each other, so a dictionary trained from a sample compresses the others to about a
//! tenth of their size. The cache trains and replaces dictionaries; an object keeps the [`Codec`] that it was packed
//! with.

use std::cell::RefCell;
use std::sync::Arc;

use zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::families::Families;
use crate::object::Object;
use crate::pack;

/// Maximum size in bytes. A larger dictionary gains little and costs more CPU to train: measured on 6.6-KB pods of 200
/// templates, 16 KB gave 667 bytes an object, 32 KB 620, 64 KB 601.
const DICTIONARY_SIZE: usize = 32 << 10;

/// The compression level of zstd. Packing a pod of the benchmark took 15 µs at level 1 and 19 µs at level 3; the packed
/// pod retained 783 and 771 bytes. Level 2 was no better, and below level 1 objects were a third larger.
const LEVEL: i32 = 1;

thread_local! {
    static COMPRESS: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESS: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// A compression dictionary for the objects of one kind, with the labels and owner references that they share.
pub struct Dictionary {
    families: Families,
}

impl Dictionary {
    /// Recommended number of objects in a sample. Training takes about 0.7 ms per object.
    pub const SAMPLE: usize = 128;

    /// Trains a dictionary from a sample of objects of one kind. `None` when zstd finds too few objects or too little
    /// in common.
    #[must_use]
    pub fn train(samples: &[Object]) -> Option<Arc<Self>> {
        let first = samples.first()?;
        let mut texts = String::new();
        let mut sizes = Vec::with_capacity(samples.len());
        for sample in samples {
            let before = texts.len();
            pack::compressed_part(sample, &mut texts);
            sizes.push(texts.len() - before);
        }
        let mut dictionary = vec![0; DICTIONARY_SIZE.min(texts.len() / 4).max(1 << 10)];
        let size = zstd_safe::train_from_buffer(&mut dictionary[..], texts.as_bytes(), &sizes).ok()?;
        dictionary.truncate(size);
        // zstd would write the identifier of the dictionary (RFC 8878, section 5) into each compressed object.
        if let Some(identifier) = dictionary.get_mut(4..8) {
            identifier.fill(0);
        }
        let dictionary = &dictionary[..];
        let codec = Arc::new(Codec {
            api_version: first.api_version().into(),
            kind: first.kind().into(),
            compress: CDict::try_create(dictionary, LEVEL)?,
            decompress: DDict::try_create(dictionary)?,
        });
        Some(Arc::new(Self { families: Families::new(codec) }))
    }

    pub(crate) fn codec(&self) -> &Arc<Codec> {
        self.families.codec()
    }

    pub(crate) fn families(&self) -> &Families {
        &self.families
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("kind", &self.codec().kind).finish_non_exhaustive()
    }
}

/// The compressor and decompressor of one dictionary.
pub(crate) struct Codec {
    pub(crate) api_version: Box<str>,
    pub(crate) kind: Box<str>,
    compress: CDict<'static>,
    decompress: DDict<'static>,
}

impl Codec {
    /// Compresses a text into `out`, whose previous content is discarded. `None` when zstd fails.
    pub(crate) fn compress(&self, text: &str, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        out.reserve(zstd_safe::compress_bound(text.len()));
        COMPRESS
            .with_borrow_mut(|context| context.compress_using_cdict(out, text.as_bytes(), &self.compress))
            .is_ok()
            .then_some(())
    }

    /// Decompresses a text of at most `len` bytes into `out`, whose previous content is discarded.
    pub(crate) fn decompress<'a>(&self, compressed: &[u8], len: usize, out: &'a mut Vec<u8>) -> &'a str {
        out.clear();
        out.reserve(len);
        DECOMPRESS
            .with_borrow_mut(|context| context.decompress_using_ddict(out, compressed, &self.decompress))
            .expect("what was compressed with a dictionary is decompressed with it");
        std::str::from_utf8(out).expect("text was compressed")
    }
}
