//! [`Writers`]: who else may write a file or directory that decides what the host runs.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Others than root and the user of the host who may write something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writers {
    /// Who they are, and how that is seen.
    pub reason: String,
    /// How to take their right to write.
    pub remedy: String,
}

impl Writers {
    /// Those who may write what is at this path; `None` when there are none.
    ///
    /// A group whose number is that of the owner is the owner's own, as `useradd` makes it, and is not counted. Lists of
    /// access control (ACL) show in the mode: its group bits are then their mask.
    #[must_use]
    pub fn of(path: &Path, metadata: &Metadata) -> Option<Self> {
        let user = rustix::process::geteuid().as_raw();
        Self::seen(path, (metadata.uid(), metadata.gid()), metadata.mode() & 0o7777, user)
    }

    fn seen(path: &Path, (owner, group): (u32, u32), mode: u32, user: u32) -> Option<Self> {
        if owner != user && owner != 0 {
            return Some(Self {
                reason: format!("belongs to user {owner}, and the host runs as user {user}"),
                remedy: format!("give it to the user of the host (chown {user} {})", path.display()),
            });
        }
        let writable = if group == owner { 0o002 } else { 0o022 };
        (mode & writable != 0).then(|| Self {
            reason: format!("may be written by others (mode {mode:04o}, group {group})"),
            remedy: format!("take their right to write (chmod go-w {})", path.display()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_those_beside_root_the_user_of_the_host_and_the_own_group_of_the_owner() {
        let seen =
            |owner, mode| Writers::seen(Path::new("a.wasm"), owner, mode, 7).map(|writers| writers.reason);
        for (owner, mode) in
            [((7, 7), 0o664), ((7, 7), 0o775), ((7, 8), 0o755), ((0, 0), 0o664), ((0, 8), 0o644)]
        {
            assert_eq!(seen(owner, mode), None, "{owner:?} {mode:o}");
        }
        for (owner, mode) in
            [((7, 7), 0o666), ((7, 7), 0o1777), ((7, 8), 0o664), ((0, 7), 0o775), ((0, 0), 0o757)]
        {
            let expected = format!("may be written by others (mode {mode:04o}, group {})", owner.1);
            assert_eq!(seen(owner, mode), Some(expected));
        }
        assert_eq!(seen((8, 7), 0o600).as_deref(), Some("belongs to user 8, and the host runs as user 7"));
    }
}
