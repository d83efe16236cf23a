//! Tests of unfinished copies of this machine.

use super::*;
use std::time::Duration;

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn begun(path: &Path, existing: Existing, keep: u64) -> PartialFile {
    let mut file = PartialFile::open(path, existing, &[]).unwrap();
    file.begin(Some("file:1"), keep).unwrap();
    file
}

#[test]
fn a_file_has_its_name_only_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    fs::write(&path, "old").unwrap();
    let file = begun(&path, Existing::Replace, 0);
    file.file().write_all_at(b"new", 0).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert!(PartialFile::open(&path, Existing::Replace, &[]).is_err(), "two write it at a time");
    file.finish(&SourceFacts::default()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names(folder.path()), ["disk"]);
}

#[test]
fn a_copy_has_the_permissions_and_the_time_of_its_source_and_keeps_those_of_a_file_it_replaces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_700_000_000, 7);
    let source = SourceFacts { mode: Some(0o640), modified: Some(time), ..SourceFacts::default() };
    let file = begun(&path, Existing::Refuse, 0);
    assert_eq!(file.file().metadata().unwrap().permissions().mode() & 0o777, 0o600, "before it is whole");
    file.finish(&source).unwrap();
    let about = path.metadata().unwrap();
    assert_eq!((about.permissions().mode() & 0o777, about.modified().unwrap()), (0o640, time));
    fs::set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
    begun(&path, Existing::Replace, 0).finish(&source).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o604);
}

#[test]
fn a_copy_is_resumed_next_to_the_record_of_its_source_and_nothing_is_not_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    drop(begun(&path, Existing::Refuse, 0));
    assert!(names(folder.path()).is_empty());
    let file = begun(&path, Existing::Refuse, 0);
    file.file().write_all_at(b"half", 0).unwrap();
    drop(file);
    assert_eq!(names(folder.path()), [".disk.onego-partial", ".disk.onego-source"]);
    let mut file = PartialFile::open(&path, Existing::Resume, &[]).unwrap();
    assert_eq!((file.len(), file.recorded()), (4, Some("file:1")));
    file.begin(None, 3).unwrap();
    file.file().write_all_at(b"+half", 3).unwrap();
    file.finish(&SourceFacts::default()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hal+half");
    assert_eq!(names(folder.path()), ["disk"]);
}

#[test]
fn a_length_is_relied_on_once_it_is_synced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let open = || PartialFile::open(&path, Existing::Resume, &[]).unwrap();
    let lengths = || {
        let file = open();
        (file.len(), file.reliable())
    };
    let mut file = open();
    file.sync_every(SyncEvery { bytes: 4, time: Duration::MAX });
    file.begin(None, 0).unwrap();
    file.file().write_all_at(b"half of it", 0).unwrap();
    file.written(3).unwrap();
    file.written(4).unwrap();
    file.durable.as_mut().unwrap().wait().unwrap();
    drop(file);
    assert_eq!(lengths(), (10, 4), "the size may be there before the bytes");
    // What is written again is not durable, and what is abandoned is.
    let mut file = open();
    file.begin(None, 2).unwrap();
    file.file().write_all_at(b"other", 2).unwrap();
    drop(file);
    assert_eq!(lengths(), (7, 2));
    let mut file = open();
    file.begin(None, 2).unwrap();
    file.file().write_all_at(b"other", 2).unwrap();
    file.written(7).unwrap();
    file.abandon();
    assert_eq!(lengths(), (7, 7));
    // A file of that name was never written by a copy that is not over.
    fs::rename(folder.path().join(".disk.onego-partial"), &path).unwrap();
    let mut file = open();
    assert_eq!(file.reliable(), 7);
    file.begin(None, 7).unwrap();
    drop(file);
    assert_eq!(lengths(), (7, 7));
}

#[test]
fn files_of_others_are_refused_whatever_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let (path, at) = (folder.path().join("disk"), |name: &str| folder.path().join(name));
    let (partial, record) = (at(".disk.onego-partial"), at(".disk.onego-source"));
    let of_other = Record { source: None, file: Some(1), synced: 9, owner: None };
    for existing in [Existing::Refuse, Existing::Replace, Existing::Resume] {
        for (bytes, noted) in [
            (Some("mine"), None),
            (Some("mine"), Some(of_other.text())),
            (Some("mine"), Some("mine".to_owned())),
            (None, Some("mine".to_owned())),
            (None, Some("mine\n".repeat(1000))),
        ] {
            bytes.iter().for_each(|bytes| fs::write(&partial, bytes).unwrap());
            noted.iter().for_each(|noted| fs::write(&record, noted).unwrap());
            let refused = PartialFile::open(&path, existing, &[]).err().expect("it is refused").to_string();
            assert!(refused.contains("rename or remove it"), "{refused}");
            assert_eq!(fs::read_to_string(&partial).ok().as_deref(), bytes);
            assert_eq!(fs::read_to_string(&record).ok(), noted);
            let _ = (fs::remove_file(&partial), fs::remove_file(&record));
        }
        for name in [&partial, &record] {
            std::os::unix::fs::symlink("elsewhere", name).unwrap();
            assert!(PartialFile::open(&path, existing, &[]).is_err());
            fs::remove_file(name).unwrap();
        }
    }
    // A record without its copy, and a copy that has nothing in it yet.
    fs::write(&record, of_other.text()).unwrap();
    fs::write(&partial, "").unwrap();
    begun(&path, Existing::Refuse, 0).finish(&SourceFacts::default()).unwrap();
    assert_eq!(names(folder.path()), ["disk"]);
}

#[test]
fn a_copy_writes_to_none_of_its_sources() {
    let folder = tempfile::tempdir().unwrap();
    let (path, at) = (folder.path().join("disk"), |name: &str| folder.path().join(name));
    drop({
        let file = begun(&path, Existing::Refuse, 0);
        file.file().write_all_at(b"half", 0).unwrap();
        file
    });
    let before = fs::read(at(".disk.onego-source")).unwrap();
    for name in [".disk.onego-partial", ".disk.onego-source"] {
        fs::hard_link(at(name), at("link")).unwrap();
        let source = SourceFacts::here(&at("link").metadata().unwrap(), None);
        for existing in [Existing::Refuse, Existing::Replace, Existing::Resume] {
            let refused = PartialFile::open(&path, existing, &[&source]).err().unwrap().to_string();
            assert!(refused.contains(name) && refused.contains("is the source"), "{refused}");
        }
        fs::remove_file(at("link")).unwrap();
    }
    assert_eq!(fs::read(at(".disk.onego-partial")).unwrap(), b"half");
    assert_eq!(fs::read(at(".disk.onego-source")).unwrap(), before);
}

#[test]
fn a_file_that_is_taken_for_the_beginning_keeps_its_name_until_the_copy_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    fs::write(&path, "whole").unwrap();
    let mut file = PartialFile::open(&path, Existing::Resume, &[]).unwrap();
    assert!(file.is_adopted() && file.len() == 5);
    drop(PartialFile::open(&path, Existing::Refuse, &[]).err().unwrap());
    assert_eq!(names(folder.path()), ["disk"], "nothing is renamed before all checks");
    file.begin(None, 5).unwrap();
    assert_eq!(names(folder.path()), [".disk.onego-partial", ".disk.onego-source"]);
    file.finish(&SourceFacts::default()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"whole");
}

#[test]
fn a_file_that_came_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let file = begun(&path, Existing::Refuse, 0);
    fs::write(&path, "other").unwrap();
    assert!(file.finish(&SourceFacts::default()).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"other");
    assert!(PartialFile::open(&path, Existing::Refuse, &[]).is_err());
}

#[test]
fn what_cannot_be_finished_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).unwrap();
    fs::write(folder.path().join("file"), "mine").unwrap();
    for name in ["missing/", "dangling", "missing/file", "missing/.", "missing/..", "file/", "file/."] {
        for existing in [Existing::Refuse, Existing::Replace, Existing::Resume, Existing::InPlace] {
            let refused = PartialFile::open(&folder.path().join(name), existing, &[]);
            assert!(refused.is_err(), "{name}");
            assert_eq!(names(folder.path()), ["dangling", "file"], "{name}");
        }
    }
}

#[test]
fn long_names_stay_names_and_stay_different() {
    assert_eq!(name_of(b"disk"), b".disk.onego-partial");
    let long = |last: u8| [&[b'x'; 254][..], &[last]].concat();
    assert_eq!(name_of(&long(b'a')).len(), 255);
    assert_ne!(name_of(&long(b'a')), name_of(&long(b'b')));
    assert_ne!(record_name_of(&long(b'a')), record_name_of(&long(b'b')));
}
