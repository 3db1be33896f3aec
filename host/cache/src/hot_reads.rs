//! [`HotReads`]: the unpacked texts of the packed objects that were read last, one by one.
//!
//! A controller that reads the same few objects again and again pays for unpacking them twice. Lists and cursors do not
//! come here, so that a scan cannot push out what is read often. Memory is bounded by the number of places times
//! [`LARGEST`].

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pilothouse_object::{Body, Held, Object};

/// Each slot number has one place.
const PLACES: usize = 128;

/// Larger objects are unpacked anew: 128 of these are 8 MB.
const LARGEST: usize = 64 << 10;

type ReadPlace = Mutex<RecentRead>;

/// What was read last of the slots that share a place.
#[derive(Default)]
enum RecentRead {
    #[default]
    Nothing,
    /// This slot, once: that says nothing yet, and costs no more than this note.
    Once(u32),
    /// An object, again and again, and the text that handles of it share.
    Often(Held, Arc<Body>),
}

#[derive(Default)]
pub(crate) struct HotReads {
    /// Made by the first read of a packed object.
    places: OnceLock<Box<[ReadPlace]>>,
}

impl HotReads {
    /// A handle of an object that shares its unpacked text with other handles made here.
    pub(crate) fn object(&self, slot: u32, held: &Held) -> Object {
        if !held.is_packed() || held.json_len() > LARGEST {
            return held.object();
        }
        let places = self.places.get_or_init(|| (0..PLACES).map(|_| ReadPlace::default()).collect());
        let mut place = places[slot as usize % PLACES].lock();
        let body = match &*place {
            RecentRead::Often(known, body) if known.is_same(held) => body.clone(),
            RecentRead::Once(known) if *known == slot => {
                let body = Arc::<Body>::default();
                *place = RecentRead::Often(held.clone(), body.clone());
                body
            }
            _ => {
                *place = RecentRead::Once(slot);
                return held.object();
            }
        };
        held.object_sharing(body)
    }
}
