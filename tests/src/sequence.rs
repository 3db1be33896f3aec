//! The events of an informer in order, and the check that each key's sequence is legal. The informer runs in this
//! process with a [`Notes`] as listener, or in another one that writes a line per event.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, ensure};
use pilothouse_cache::Listener;
use pilothouse_object::{Object, ObjectKey};

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The object was added.
    Add,
    /// The object was updated.
    Update,
    /// The object was deleted.
    Delete,
    /// The object was deleted with an unknown final state: a list did not contain it.
    Missing,
}

/// One delivered event. As a line it is `add default/x UID VERSION`, with `update`, `delete` or `missing` for `add`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The type of the event.
    pub what: What,
    /// `namespace/name`.
    pub key: String,
    /// UID of the object.
    pub uid: String,
    /// Resource version of the object.
    pub version: String,
    /// The previous version in an update, if it is known.
    pub old: Option<String>,
}

impl FromStr for Told {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Told> {
        let fields: Vec<&str> = line.split(' ').collect();
        let [what, key, uid, version] = fields[..] else { anyhow::bail!("{line:?} is no event") };
        let what = match what {
            "add" => What::Add,
            "update" => What::Update,
            "delete" => What::Delete,
            "missing" => What::Missing,
            _ => anyhow::bail!("{line:?} is no event"),
        };
        Ok(Told { what, key: key.into(), uid: uid.into(), version: version.into(), old: None })
    }
}

/// Deviations that the check permits, for informers that differ in these points.
#[derive(Debug, Clone, Copy, Default)]
pub struct Liberties {
    /// A deleted and re-created object may be delivered as an update.
    pub uid_changes: bool,
    /// A deletion that was received twice may be delivered twice.
    pub deletes_again: bool,
}

/// UID and version by key.
pub type View = BTreeMap<String, (String, String)>;

/// The view that consists of these objects.
#[must_use]
pub fn view<'a>(objects: impl IntoIterator<Item = &'a Object>) -> View {
    let entry = |o: &Object| (o.key().to_string(), (o.uid().to_owned(), o.resource_version().to_owned()));
    objects.into_iter().map(entry).collect()
}

/// The view that results from applying these events.
///
/// # Errors
/// When the sequence of a key is illegal, or its versions decrease.
pub fn believe(told: &[Told], may: Liberties) -> anyhow::Result<View> {
    let mut view = View::new();
    for (number, event) in told.iter().enumerate() {
        take_in(&mut view, event, may).with_context(|| format!("event {number}: {event:?}"))?;
    }
    Ok(view)
}

fn take_in(view: &mut View, event: &Told, may: Liberties) -> anyhow::Result<()> {
    let known = view.get(&event.key);
    if let Some((_, version)) = known {
        let (before, now): (u64, u64) = (version.parse()?, event.version.parse()?);
        ensure!(now >= before, "the last version was {before}");
    }
    match event.what {
        What::Add => ensure!(known.is_none(), "it is there: {known:?}"),
        What::Update => {
            let (uid, version) = known.context("it is not there")?;
            ensure!(may.uid_changes || *uid == event.uid, "it has the UID {uid}");
            ensure!(event.old.as_ref().is_none_or(|old| old == version), "it was told at version {version}");
        }
        What::Delete | What::Missing => {
            ensure!(known.is_some() || may.deletes_again, "it is not there");
            let other = known.is_some_and(|(uid, _)| *uid != event.uid);
            ensure!(may.uid_changes || !other, "the one that is there is another: {known:?}");
        }
    }
    match event.what {
        What::Add | What::Update => {
            view.insert(event.key.clone(), (event.uid.clone(), event.version.clone()));
        }
        What::Delete | What::Missing => _ = view.remove(&event.key),
    }
    Ok(())
}

/// A listener that records its events.
#[derive(Debug, Default)]
pub struct Notes {
    told: Mutex<Vec<Told>>,
}

impl Notes {
    /// A listener without events.
    #[must_use]
    pub fn new() -> Arc<Notes> {
        Arc::default()
    }

    /// The events so far, in order.
    #[must_use]
    pub fn told(&self) -> Vec<Told> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: What, object: &Object, old: Option<&Object>) {
        let (key, uid) = (object.key().to_string(), object.uid().to_owned());
        let old = old.map(|old| old.resource_version().to_owned());
        self.lock().push(Told { what, key, uid, version: object.resource_version().to_owned(), old });
    }
}

impl Listener for Notes {
    fn on_add(&self, object: &Object, _: bool) {
        self.note(What::Add, object, None);
    }

    fn on_update(&self, old: &Object, new: &Object, _: bool) {
        self.note(What::Update, new, Some(old));
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool) {
        let what = if final_state_unknown { What::Missing } else { What::Delete };
        match object {
            Some(object) => self.note(what, object, None),
            None => self.lock().push(Told {
                what,
                key: key.to_string(),
                uid: String::new(),
                version: String::new(),
                old: None,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn believed(lines: &[&str], may: Liberties) -> anyhow::Result<View> {
        let told: Vec<Told> = lines.iter().map(|line| line.parse().unwrap()).collect();
        believe(&told, may)
    }

    #[test]
    fn a_legal_sequence_leads_to_a_view() {
        let lines = [
            "add a/x u 1",
            "update a/x u 2",
            "update a/x u 2",
            "delete a/x u 3",
            "add a/x v 4",
            "missing a/x v 4",
        ];
        assert_eq!(believed(&lines, Liberties::default()).unwrap(), View::new());
        let view = believed(&lines[..5], Liberties::default()).unwrap();
        assert_eq!(view["a/x"], ("v".to_owned(), "4".to_owned()));
    }

    #[test]
    fn what_is_not_legal_is_found_unless_it_is_allowed() {
        let (strict, free) = (Liberties::default(), Liberties { uid_changes: true, deletes_again: true });
        for (lines, may_be_free) in [
            (&["update a/x u 1"][..], false),
            (&["add a/x u 1", "add a/x u 2"], false),
            (&["add a/x u 2", "update a/x u 1"], false),
            (&["add a/x u 1", "update a/x v 2"], true),
            (&["add a/x u 1", "delete a/x v 2"], true),
            (&["delete a/x u 1"], true),
        ] {
            assert!(believed(lines, strict).is_err(), "{lines:?}");
            assert_eq!(believed(lines, free).is_ok(), may_be_free, "{lines:?}");
        }
    }
}
