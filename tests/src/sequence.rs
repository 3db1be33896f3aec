//! What an informer told of each key, in order, and whether that is a sequence that may be: of an informer in this
//! process, which a [`Notes`] listens to, or of one elsewhere that writes a line for each event.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, ensure};
use pilothouse_cache::Listener;
use pilothouse_object::{Object, ObjectKey};

/// What happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Its object is there.
    Add,
    /// Its object is another version.
    Update,
    /// Its object is gone.
    Delete,
    /// Its object is gone, and its last state is not known: a list did not have it.
    Missing,
}

/// One event, as told. The line of one is `add default/x UID VERSION`, with `update`, `delete` or `missing` for `add`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What happened.
    pub what: What,
    /// `namespace/name`.
    pub key: String,
    /// UID of the object.
    pub uid: String,
    /// Its resource version.
    pub version: String,
    /// The version that an update said the object had before, where that is known.
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

/// What an informer may tell that another would not.
#[derive(Debug, Clone, Copy, Default)]
pub struct Liberties {
    /// An object that was created anew may be told as an update.
    pub uid_changes: bool,
    /// A deletion that came twice may be told twice.
    pub deletes_again: bool,
}

/// UID and version by key.
pub type View = BTreeMap<String, (String, String)>;

/// The view of somebody who sees these objects.
#[must_use]
pub fn view<'a>(objects: impl IntoIterator<Item = &'a Object>) -> View {
    let entry = |o: &Object| (o.key().to_string(), (o.uid().to_owned(), o.resource_version().to_owned()));
    objects.into_iter().map(entry).collect()
}

/// What somebody must believe who was told this.
///
/// # Errors
/// When the sequence of a key is not legal, or its versions go back.
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

/// A listener that notes what it is told.
#[derive(Debug, Default)]
pub struct Notes {
    told: Mutex<Vec<Told>>,
}

impl Notes {
    /// One that was told nothing.
    #[must_use]
    pub fn new() -> Arc<Notes> {
        Arc::default()
    }

    /// What it was told.
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
