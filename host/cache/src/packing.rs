//! [`Packing`]: which objects of a kind are kept packed, and with which dictionary.
//!
//! Objects of a list are packed while it is decoded, so that a first list never stands in memory unpacked: the first
//! [`Dictionary::SAMPLE`] of them train the dictionary, and all later ones are packed at once. Objects that come by a
//! watch stay plain while they are *hot*, among those changed last, and are packed when others have come after them.
//! When objects no longer resemble the dictionary, it is trained anew from objects all over the store. A training is
//! judged by the worst of the windows that it packed then, so a kind with unlike objects does not ask for another one; and
//! not before as many objects have been packed as it had.
//!
//! Nothing is packed where it does not pay: that is judged again after each list. Secrets are never packed: a dictionary holds parts of the objects that trained it,
//! and would outlive them.
//!
//! Owned by the `Indexer`, which holds its writers' lock for everything here that takes `Hot`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use pilothouse_object::{Dictionary, Held, Object};

use crate::aside::aside;
use crate::store::Store;

/// Whether a store keeps objects compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Where it makes objects smaller by half at least: a fraction of the memory, for about twice the CPU of a first list
    /// (`docs/benchmarks.md`).
    Auto,
    /// Never.
    #[default]
    Off,
}

/// Packed objects over which the ratio is looked at.
const WINDOW: usize = 512;

/// A dictionary that makes objects no smaller than this share of their text is not worth its CPU.
const POOR: f64 = 0.5;

/// A dictionary is trained anew when a window of objects comes out so much larger than the worst one just after its training.
const DECAYED: f64 = 1.5;

/// One of so many objects stays plain after its last change, within the bounds below: few enough not to show in the
/// memory of a store, enough to spare those that change all the time.
const HOT_SHARE: usize = 64;
const HOT_LEAST: usize = 16;
const HOT_MOST: usize = 1024;

/// So many are packed together: the first of a row costs several times what the others do, for the memory that packing needs
/// close at hand. All in all that takes half a millisecond of the writers' lock.
const COOL_TOGETHER: usize = 32;

pub(crate) struct Packing {
    dictionary: ArcSwapOption<Dictionary>,
    /// Nothing is ever packed.
    off: AtomicBool,
    /// The last dictionary did not pay: nothing is packed until a list is complete, from which another one is trained.
    paused: AtomicBool,
    /// `Indexer::maintain` has work.
    wanted: AtomicBool,
    state: Mutex<PackingState>,
}

#[derive(Default)]
struct PackingState {
    sample: Vec<Object>,
    window: Window,
    /// The worst window's ratio just after the training; `None` before the first window.
    baseline: Option<f64>,
    /// Windows of objects that are packed anew after a training are the baseline, whatever their ratio.
    measuring: bool,
    /// Objects packed since the training.
    packed: usize,
    /// Objects in the store at the training: so many must be packed before the next one, so that packing the store anew
    /// at most doubles the work.
    trained_on: usize,
}

/// Text and packed bytes of some objects.
#[derive(Default)]
struct Window {
    text: usize,
    packed: usize,
    objects: usize,
}

impl Window {
    fn add(&mut self, held: &Held) {
        self.text += held.json_len();
        self.packed += held.retained_bytes();
        self.objects += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn ratio(&self) -> f64 {
        self.packed as f64 / self.text.max(1) as f64
    }
}

/// Objects that changed last, oldest first; each as it was then.
#[derive(Default)]
pub(crate) struct Hot(VecDeque<Held>);

impl Packing {
    pub(crate) fn new(compression: Compression) -> Self {
        Self {
            dictionary: ArcSwapOption::empty(),
            off: AtomicBool::new(compression == Compression::Off),
            paused: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off.load(Ordering::Relaxed) || self.paused.load(Ordering::Relaxed)
    }

    pub(crate) fn dictionary(&self) -> Option<Arc<Dictionary>> {
        self.dictionary.load_full()
    }

    /// An object of a list, packed if that is possible by now.
    pub(crate) fn listed(&self, object: Object) -> Object {
        if self.is_off() {
            return object;
        }
        if let Some(dictionary) = &*self.dictionary.load() {
            return self.pack(object, dictionary);
        }
        if is_secret(&object) {
            self.off.store(true, Ordering::Relaxed);
            return object;
        }
        let mut state = self.state.lock();
        state.sample.push(object.clone());
        if state.sample.len() >= Dictionary::SAMPLE {
            let sample = std::mem::take(&mut state.sample);
            drop(state);
            self.train(&sample);
        }
        object
    }

    /// A list is complete: the sample is dropped, and where packing is paused another training is due.
    pub(crate) fn list_ended(&self) {
        self.state.lock().sample = Vec::new();
        if self.paused.load(Ordering::Relaxed) && !self.off.load(Ordering::Relaxed) {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Trains a dictionary from objects of a list.
    fn train(&self, sample: &[Object]) {
        let dictionary = aside(|| Dictionary::train(sample));
        *self.state.lock() = PackingState::default();
        self.paused.store(dictionary.is_none(), Ordering::Relaxed);
        self.dictionary.store(dictionary);
    }

    /// Trains a dictionary from objects all over a store; `None`: it does not pay. Until [`end_retraining`] objects that
    /// are packed make the baseline.
    ///
    /// [`end_retraining`]: Self::end_retraining
    pub(crate) fn retrain(&self, store: &Store) -> Option<Arc<Dictionary>> {
        let step = (store.len() / Dictionary::SAMPLE).max(1);
        let sample: Vec<Object> =
            store.objects().step_by(step).take(Dictionary::SAMPLE).map(Held::object).collect();
        let dictionary = Dictionary::train(&sample).filter(|dictionary| {
            let mut window = Window::default();
            sample.iter().for_each(|object| window.add(object.unpacked().packed(dictionary).held()));
            window.ratio() <= POOR
        });
        let trained_on = store.len();
        *self.state.lock() = PackingState { measuring: true, trained_on, ..PackingState::default() };
        self.paused.store(dictionary.is_none(), Ordering::Relaxed);
        self.dictionary.store(dictionary.clone());
        dictionary
    }

    /// The store has been packed anew.
    pub(crate) fn end_retraining(&self) {
        let mut state = self.state.lock();
        state.measuring = false;
        state.window = Window::default();
        state.packed = 0;
    }

    /// An object packed with a dictionary, as far as that makes it smaller.
    pub(crate) fn pack(&self, object: Object, dictionary: &Arc<Dictionary>) -> Object {
        if object.is_packed() {
            return object;
        }
        let packed = object.packed(dictionary);
        self.note(packed.held());
        packed
    }

    /// Notes how well an object was packed, a window at a time.
    fn note(&self, held: &Held) {
        let mut state = self.state.lock();
        state.packed += 1;
        state.window.add(held);
        if state.window.objects < WINDOW {
            return;
        }
        let ratio = std::mem::take(&mut state.window).ratio();
        match state.baseline {
            _ if state.measuring => state.baseline = Some(state.baseline.unwrap_or(0.0).max(ratio)),
            // The first after a training from the first objects of a list: it does not pay.
            None if ratio > POOR => {
                drop(state);
                self.paused.store(true, Ordering::Relaxed);
                self.dictionary.store(None);
            }
            None => state.baseline = Some(ratio),
            Some(baseline) if ratio > baseline * DECAYED && state.packed >= state.trained_on => {
                self.wanted.store(true, Ordering::Relaxed);
            }
            Some(_) => {}
        }
    }

    /// Notes an object that changed.
    pub(crate) fn changed(&self, hot: &mut Hot, held: &Held) {
        if !self.is_off() {
            hot.0.push_back(held.clone());
        }
    }

    /// Whether enough is no longer hot.
    pub(crate) fn has_cooled(&self, hot: &Hot, store: &Store) -> bool {
        hot.0.len() >= hot_limit(store) + COOL_TOGETHER
    }

    /// Packs the objects that left the set of recently changed ones. Returns each before and after.
    pub(crate) fn cool(&self, hot: &mut Hot, store: &mut Store) -> Vec<(Held, Held)> {
        let limit = hot_limit(store);
        let dictionary = self.dictionary.load();
        let mut done = Vec::new();
        while hot.0.len() > limit {
            let Some(held) = hot.0.pop_front() else { break };
            // Else it changed again, and is in the queue again.
            let same = |now: &&Held| now.is_same(&held) && !now.is_packed();
            let Some(slot) = store.find(held.key().as_str()) else { continue };
            let Some(now) = store.slot(slot).filter(same) else { continue };
            match &*dictionary {
                Some(dictionary) => {
                    let packed = self.pack(now.object(), dictionary);
                    if packed.is_packed() {
                        let packed = packed.into_held();
                        done.push((held, packed.clone()));
                        store.swap(slot, packed);
                    }
                }
                None if self.is_off() => {}
                None if is_secret(&now.object()) => self.off.store(true, Ordering::Relaxed),
                None if store.len() >= Dictionary::SAMPLE => self.wanted.store(true, Ordering::Relaxed),
                None => {}
            }
        }
        done
    }

    /// Whether there is work for `Indexer::maintain`.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Takes the work on.
    pub(crate) fn take_wanted(&self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
    }
}

/// How many objects stay plain after a change.
fn hot_limit(store: &Store) -> usize {
    (store.len() / HOT_SHARE).clamp(HOT_LEAST, HOT_MOST)
}

fn is_secret(object: &Object) -> bool {
    object.kind() == "Secret" && object.api_version() == "v1"
}
