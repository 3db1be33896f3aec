//! [`AuditFile`]: a file with a bound, beyond which it is renamed and begun anew.
//!
//! Invariant: each line is whole. One that could be written in part only is ended, so that it does not spoil the next one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{AuditError, Out};

/// The file, and its name when it is full.
pub(super) struct AuditFile {
    path: PathBuf,
    full: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
    /// The last line could not be written whole.
    is_torn: bool,
}

impl AuditFile {
    pub(super) fn open(path: &Path, max_bytes: u64) -> Result<Self, AuditError> {
        let failed = |error| AuditError::Io { path: path.to_owned(), error };
        // Not opened first: a pipe without a reader would block.
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(AuditError::NoFile(path.to_owned()));
        }
        let file = create(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let mut full = path.as_os_str().to_owned();
        full.push(".1");
        // What a host that was killed wrote last may be no whole line.
        let is_torn = bytes > 0 && !ends_with_line(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), full: full.into(), file, bytes, max_bytes, is_torn })
    }

    fn rotate(&mut self) -> io::Result<()> {
        match fs::rename(&self.path, &self.full) {
            // The file could not be made after the last rename, or somebody took it away.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.file = create(&self.path)?;
        self.bytes = self.file.metadata()?.len();
        self.is_torn = false;
        Ok(())
    }
}

impl Out for AuditFile {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        if self.is_torn {
            self.file.write_all(b"\n")?;
            self.bytes += 1;
            self.is_torn = false;
        }
        self.is_torn = true;
        self.file.write_all(line)?;
        self.is_torn = false;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// Names and keys of a cluster are for the host's user alone.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn ends_with_line(path: &Path) -> io::Result<bool> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_full_file_is_renamed_in_place_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let (path, full) = (dir.path().join("audit"), dir.path().join("audit.1"));
        let mut file = AuditFile::open(&path, 6).unwrap();
        for line in ["a\n", "b\n", "c\n"] {
            file.write(line.as_bytes()).unwrap();
        }
        assert_eq!(
            (text(&path).as_str(), full.exists()),
            ("a\nb\nc\n", false),
            "exactly as long as it may be"
        );
        file.write(b"d\n").unwrap();
        assert_eq!((text(&path).as_str(), text(&full).as_str()), ("d\n", "a\nb\nc\n"));
        // A line that is longer than the file has a file of its own.
        file.write(b"0123456789\n").unwrap();
        file.write(b"e\n").unwrap();
        assert_eq!((text(&path).as_str(), text(&full).as_str()), ("e\n", "0123456789\n"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn another_host_adds_to_the_file_and_counts_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        AuditFile::open(&path, 6).unwrap().write(b"a\n").unwrap();
        // The host before was killed in the middle of a line.
        create(&path).unwrap().write_all(b"b").unwrap();
        let mut file = AuditFile::open(&path, 6).unwrap();
        file.write(b"c\n").unwrap();
        assert_eq!(text(&path), "a\nb\nc\n");
        file.write(b"d\n").unwrap();
        assert_eq!(text(&path), "d\n");
    }

    #[test]
    fn a_file_that_cannot_be_made_anew_is_tried_again_and_nothing_is_written_beyond_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let (path, full) = (dir.path().join("audit"), dir.path().join("audit.1"));
        let mut file = AuditFile::open(&path, 2).unwrap();
        file.write(b"a\n").unwrap();
        // A folder that has something cannot be replaced.
        fs::create_dir_all(full.join("x")).unwrap();
        assert!(file.write(b"b\n").is_err());
        assert_eq!(text(&path), "a\n");
        fs::remove_dir_all(&full).unwrap();
        fs::rename(&path, &full).unwrap();
        file.write(b"c\n").unwrap();
        assert_eq!((text(&path).as_str(), text(&full).as_str()), ("c\n", "a\n"));
    }

    #[test]
    fn what_is_no_file_is_refused_with_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |path: &Path| AuditFile::open(path, 1).err().unwrap().to_string();
        let error = refused(dir.path());
        assert!(
            error.contains("is not a regular file") && error.contains("- for standard output"),
            "{error}"
        );
        let error = refused(&dir.path().join("nowhere/audit"));
        assert!(error.contains("nowhere/audit cannot be written"), "{error}");
    }
}
