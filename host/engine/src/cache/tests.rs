use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn cache(dir: &Path) -> CompileCache {
    CompileCache::new(dir, wasmtime_engine(&InstancePool::None).unwrap()).unwrap()
}

fn refusal(dir: &Path) -> String {
    let engine = wasmtime_engine(&InstancePool::None).unwrap();
    CompileCache::new(dir, engine).map(drop).unwrap_err().to_string()
}

/// Adds an entry with this code and returns its key and sum.
fn add(cache: &CompileCache, code: &[u8]) -> (String, String) {
    let mut scratch = cache.scratch().unwrap();
    scratch.file.write_all(code).unwrap();
    let key = cache.key(&[1; 32]);
    let sum = cache.adopt(&key, scratch).unwrap();
    (key, sum)
}

fn file_of(dir: &Path, sum: &str) -> PathBuf {
    dir.join(FOLDER).join(format!("{sum}.cwasm"))
}

fn found(cache: &CompileCache, key: &str) -> Option<String> {
    cache.find(key).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join(FOLDER)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_folder_and_its_files_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("deep/cache");
    let (_, sum) = add(&cache(&dir), b"machine code");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir.join(FOLDER)), mode(&file_of(&dir, &sum))), (0o700, 0o400));
    assert_eq!(names(&dir).len(), 2, "no temporary file is left: {:?}", names(&dir));
}

#[test]
fn a_folder_that_others_may_enter_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(FOLDER);
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("planted.cwasm"), b"").unwrap();
    let error = refusal(dir.path());
    assert!(error.contains("mode 755") && error.contains("--cache-dir"), "{error}");
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o755);
    assert!(folder.join("planted.cwasm").exists());
}

#[test]
fn the_folder_that_the_operator_names_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    add(&cache(dir.path()), b"machine code");
    assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o777);
}

#[test]
fn a_link_in_place_of_the_folder_or_of_a_file_is_not_followed() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join(FOLDER)).unwrap();
    assert!(refusal(dir.path()).contains("cannot open"));

    let cache = cache(elsewhere.path());
    let (key, sum) = add(&cache, b"machine code");
    let file = file_of(elsewhere.path(), &sum);
    let moved = elsewhere.path().join("moved");
    fs::rename(&file, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &file).unwrap();
    assert!(cache.verified(&sum).is_err());
    assert_eq!(found(&cache, &key), None);
}

#[test]
fn an_entry_is_found_by_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let (key, sum) = add(&cache(dir.path()), b"machine code");
    let next = cache(dir.path());
    assert_eq!(found(&next, &key), Some(sum));
    assert_eq!(found(&next, &next.key(&[2; 32])), None);
}

#[test]
fn code_with_other_content_is_not_mapped_even_after_it_was_checked() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let (key, sum) = add(&cache, b"machine code");
    assert!(cache.verified(&sum).is_ok());
    // In place and with the same size, as another process of this user could.
    let file = file_of(dir.path(), &sum);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, b"other   code").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    let error = cache.map(&sum).map(drop).unwrap_err().to_string();
    assert!(error.contains("does not have the sum"), "{error}");
    assert_eq!(found(&cache, &key), None);
    assert!(!file.exists(), "the damaged entry is removed");
    assert_eq!(found(&cache, &add(&cache, b"machine code").0), Some(sum));
}

#[test]
fn an_entry_that_cannot_be_read_now_stays_and_the_load_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let (key, sum) = add(&cache, b"machine code");
    let (file, moved) = (file_of(dir.path(), &sum), dir.path().join("moved"));
    fs::rename(&file, &moved).unwrap();
    // A socket cannot be opened: an error as that of a broken disk, or of a process with too many open files.
    let socket = std::os::unix::net::UnixListener::bind(&file).unwrap();
    for error in [cache.find(&key).unwrap_err(), cache.map(&sum).map(drop).unwrap_err()] {
        assert!(matches!(error, LoadError::Cache(_)) && !error.is_refusal(), "{error}");
    }
    assert_eq!(names(dir.path()).len(), 2, "{:?}", names(dir.path()));
    drop(socket);
    fs::rename(&moved, &file).unwrap();
    assert_eq!(found(&cache, &key), Some(sum));
}

#[test]
fn code_that_others_may_write_is_not_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let (_, sum) = add(&cache, b"machine code");
    for mode in [0o600, 0o440, 0o404, 0o4400] {
        fs::set_permissions(file_of(dir.path(), &sum), fs::Permissions::from_mode(mode)).unwrap();
        let error = cache.verified(&sum).map(drop).unwrap_err().to_string();
        assert!(error.contains("mode 400"), "{mode:o}: {error}");
    }
}

#[test]
fn two_hosts_with_other_code_for_one_component_each_leave_a_sound_entry() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (cache(dir.path()), cache(dir.path()));
    let (key, sum_of_a) = add(&a, b"code of a");
    let (_, sum_of_b) = add(&b, b"code of b");
    assert_eq!((found(&a, &key), found(&b, &key)), (Some(sum_of_b.clone()), Some(sum_of_b)));
    assert!(a.verified(&sum_of_a).is_ok(), "what a runs stays");
}

#[test]
fn what_is_left_over_or_long_unused_is_removed_at_the_start_and_the_rest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let (key, sum) = add(&cache, b"machine code");
    std::mem::forget(cache.scratch().unwrap());
    let now = SystemTime::now();
    cache.prune(now + LEFT_OVER / 2);
    assert_eq!(names(dir.path()).len(), 3, "another host may be compiling");
    cache.prune(now + LEFT_OVER * 2);
    assert_eq!(names(dir.path()).len(), 2);
    assert_eq!(found(&cache, &key), Some(sum.clone()));
    // A use long after the last mark counts as a use.
    let old = now - UNUSED * 2;
    File::open(file_of(dir.path(), &sum)).unwrap().set_modified(old).unwrap();
    assert!(cache.verified(&sum).is_ok());
    cache.prune(now);
    assert_eq!(found(&cache, &key), Some(sum.clone()));
    cache.prune(now + UNUSED * 2);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn what_cannot_be_a_folder_is_an_error_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = refusal(&file);
    assert!(error.contains("--cache-dir"), "{error}");
}
