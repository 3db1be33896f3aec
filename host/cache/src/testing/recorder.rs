//! [`Recorder`]: a listener that keeps what it was told, and [`View`]: what somebody who was told must believe.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_object::{Object, ObjectKey};
use tokio::sync::watch;

use crate::listener::Listener;
use crate::ring::Event;

/// One call of a listener, in a form that tests compare. Versions stand for objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `on_add`: key, version, whether initial.
    Add(String, String, bool),
    /// `on_update`: key, old and new version, whether a sync.
    Update(String, String, String, bool),
    /// `on_delete`: key, version if there was an object, whether the final state is unknown.
    Delete(String, Option<String>, bool),
    /// `on_initial_list_end`.
    InitialListEnd,
}

/// What somebody who was told of every change must believe: key to UID and version. Panics at what is not legal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// UID and version by key.
    pub objects: BTreeMap<String, (String, String)>,
}

impl View {
    /// The view of somebody who sees these objects.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Self {
        let mut view = Self::default();
        for object in objects {
            view.set(object);
        }
        view
    }

    /// Takes in an add.
    ///
    /// # Panics
    /// When the key is there.
    pub fn add(&mut self, object: &Object) {
        assert!(!self.objects.contains_key(object.key().as_str()), "add of {} that is there", object.key());
        self.set(object);
    }

    /// Takes in an update.
    ///
    /// # Panics
    /// When the key is not there, under another UID, or newer; or `old` is not what was there.
    pub fn update(&mut self, old: Option<&Object>, new: &Object) {
        let key = new.key().as_str();
        let Some((uid, version)) = self.objects.get(key) else { panic!("update of {key} that is not there") };
        assert_eq!(uid, new.uid(), "an update of {key} across UIDs");
        if let Some(old) = old {
            assert_eq!(old.uid(), new.uid(), "an update of {key} across UIDs");
            assert_eq!(version, old.resource_version(), "the old state of {key} is not the one told last");
        }
        self.set(new);
    }

    /// Takes in a deletion.
    ///
    /// # Panics
    /// When the key is not there, or the object that went is another one.
    pub fn delete(&mut self, key: &ObjectKey, object: Option<&Object>) {
        let Some((uid, _)) = self.objects.remove(key.as_str()) else {
            panic!("delete of {key} that is not there")
        };
        if let Some(object) = object {
            assert_eq!(uid, object.uid(), "the deletion of {key} is that of another object");
        }
    }

    /// Takes in an event of a ring.
    ///
    /// # Panics
    /// When it is not legal.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Added { object, .. } => self.add(object),
            Event::Updated { old, new } => self.update(old.as_ref(), new),
            Event::Deleted { key, object, .. } => self.delete(key, object.as_ref()),
        }
    }

    fn set(&mut self, object: &Object) {
        let told = (object.uid().to_owned(), object.resource_version().to_owned());
        self.objects.insert(object.key().to_string(), told);
    }
}

/// A listener that keeps what it was told and checks that it is legal.
#[derive(Debug)]
pub struct Recorder {
    state: Mutex<(Vec<Call>, View)>,
    calls: watch::Sender<usize>,
    /// The first call that was not legal: the informer contains panics.
    illegal: Mutex<Option<String>>,
}

impl Recorder {
    /// One that was told nothing.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), calls: watch::Sender::new(0), illegal: Mutex::new(None) })
    }

    /// What it was told, in order.
    ///
    /// # Panics
    /// When a call was not legal.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.check();
        self.state.lock().0.clone()
    }

    /// What it was told since the last call of this.
    ///
    /// # Panics
    /// When a call was not legal.
    #[must_use]
    pub fn take(&self) -> Vec<Call> {
        self.check();
        std::mem::take(&mut self.state.lock().0)
    }

    /// What it must believe.
    ///
    /// # Panics
    /// When a call was not legal.
    #[must_use]
    pub fn view(&self) -> View {
        self.check();
        self.state.lock().1.clone()
    }

    /// Waits until it was told of `count` changes in all (the end of the initial list counts).
    pub async fn wait_for_calls(&self, count: usize) {
        let _ = self.calls.subscribe().wait_for(|calls| *calls >= count).await;
    }

    fn check(&self) {
        if let Some(illegal) = &*self.illegal.lock() {
            panic!("{illegal}");
        }
    }

    fn note(&self, call: Call, view: impl FnOnce(&mut View)) {
        let mut state = self.state.lock();
        state.0.push(call);
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| view(&mut state.1)));
        if let Err(panic) = checked {
            let text =
                panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "an illegal call".to_owned());
            self.illegal.lock().get_or_insert(text);
        }
        drop(state);
        self.calls.send_modify(|calls| *calls += 1);
    }
}

fn version(object: &Object) -> String {
    object.resource_version().to_owned()
}

impl Listener for Recorder {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        let call = Call::Add(object.key().to_string(), version(object), is_in_initial_list);
        self.note(call, |view| view.add(object));
    }

    fn on_update(&self, old: &Object, new: &Object, is_sync: bool) {
        let call = Call::Update(new.key().to_string(), version(old), version(new), is_sync);
        self.note(call, |view| view.update(Some(old), new));
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool) {
        let call = Call::Delete(key.to_string(), object.map(version), final_state_unknown);
        self.note(call, |view| view.delete(key, object));
    }

    fn on_initial_list_end(&self) {
        self.note(Call::InitialListEnd, |_| {});
    }
}
