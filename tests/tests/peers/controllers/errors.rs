//! [`LoggedError`]: an error in the log of kube-controller-manager, by its place and its kind.

/// What a message says of a write that came too late, or of a cache that is behind the controller's own writes. The
/// controller tries again with a newer object. Which controller is late depends on the speed of the machine.
const RACES: [&str; 4] = [
    "the object has been modified",
    "is not as new as written version",
    "informer cache is out of date",
    // After such a conflict, of a StatefulSet that has been deleted.
    "Error getting updated StatefulSet from lister",
];

/// Messages of the API server that tell what kind of an error it is, whatever the object.
const KINDS: [&str; 6] = [
    "already exists",
    "is invalid",
    "is forbidden",
    "because it is being terminated",
    "could not find the requested resource",
    "Precondition failed",
];

/// What the steps delete: a controller may be about to write it, and learns from the API server that it has gone.
const DELETED: [&str; 8] = ["example", "web", "once", "passing", "set", "inside", "yard", "tick"];

/// An error: where in the source it was logged, and its kind or else its text.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LoggedError {
    place: String,
    kind: String,
}

impl LoggedError {
    /// Whether it depends on the speed of the machine alone, so that one of two equal servers may have it.
    pub(super) fn is_race(&self) -> bool {
        RACES.contains(&&*self.kind) || self.kind == "not found after a deletion"
    }
}

/// The error that a line tells: one of the levels E and F, or one with an `err`, which controllers that try again log as
/// information.
///
/// `E1124 05:12:28.193247   24540 stateful_set.go:509] "Syncing failed" err="…"`
pub(super) fn read(line: &str) -> Option<LoggedError> {
    let (head, text) = line.split_once("] ")?;
    let place = head.split_whitespace().nth(3).filter(|place| place.contains(".go:"))?;
    let tells = head.starts_with(['E', 'F']) || text.contains(" err=\"") || text.contains(" error=\"");
    tells.then(|| LoggedError { place: place.to_owned(), kind: kind(text) })
}

fn kind(text: &str) -> String {
    if let Some(known) = RACES.iter().chain(&KINDS).find(|kind| text.contains(**kind)) {
        return (*known).to_owned();
    }
    if let Some(missing) = missing(text)
        && DELETED.iter().any(|stem| {
            missing.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    {
        return "not found after a deletion".to_owned();
    }
    without_chance(text)
}

/// The name of an object that was not found: `pods \"web-1\" not found`.
fn missing(text: &str) -> Option<&str> {
    let (before, _) = text.split_once("\\\" not found")?;
    before.rsplit_once("\\\"").map(|(_, name)| name)
}

/// A text without its words that have digits: names, UIDs, versions and times.
fn without_chance(text: &str) -> String {
    let word = |word: &str| match word.contains(|c: char| c.is_ascii_digit()) {
        true => "*".to_owned(),
        false => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn errors_are_told_apart_by_place_and_kind() {
    let read = |text: &str| read(&format!("E1124 05:12:28.193247   24540 set.go:509] {text}")).unwrap();
    let race = "\"Unhandled\" err=\"Operation cannot be fulfilled on jobs \\\"a\\\": the object has been modified; please\"";
    assert!(read(race).is_race());
    assert!(read("\"Syncing\" err=\"pods \\\"web-1\\\" not found\"").is_race());
    let [one, two] =
        ["a1", "b2"].map(|name| read(&format!("\"Syncing\" err=\"pods \\\"{name}\\\" not found\"")));
    assert!(!one.is_race() && one == two, "{one:?}, {two:?}");
    assert_ne!(one, read("\"Syncing\" err=\"jobs \\\"a1\\\" not found\""));
}
