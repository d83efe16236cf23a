use super::*;
use onego_nfs::xdr::{Body, Writer};
use std::collections::BTreeMap;

impl World {
    /// Lists a directory from a cookie on, and holds that the answer has at most `count` bytes.
    fn readdir(&mut self, path: &str, cookie: u64, count: u32) -> Result<ReaddirOk, Status> {
        let verifier = if cookie == 0 { [0; 8] } else { 7_u64.to_be_bytes() };
        let args = ReaddirArgs { dir: self.file(path), cookie, verifier, count };
        let listed = self.call(Memory::readdir, args).map_err(|failed| failed.status)?;
        let mut w = Writer::new();
        Body::write(&listed, &mut w, &mut Default::default());
        assert!(w.len() <= count as usize, "{} bytes, {count} were asked for", w.len());
        Ok(listed)
    }

    fn readdirplus(&mut self, dir_count: u32, max_count: u32, cookie: u64) -> Result<ReaddirplusOk, Status> {
        let verifier = if cookie == 0 { [0; 8] } else { 7_u64.to_be_bytes() };
        let args = ReaddirplusArgs { dir: self.root(), cookie, verifier, dir_count, max_count };
        let listed = self.call(Memory::readdirplus, args).map_err(|failed| failed.status)?;
        let mut w = Writer::new();
        Body::write(&listed, &mut w, &mut Default::default());
        assert!(w.len() <= max_count as usize, "{} bytes, {max_count} were asked for", w.len());
        Ok(listed)
    }

    /// All names of a directory, some at a time; between the calls something happens.
    fn list_all(&mut self, path: &str, count: u32, mut between: impl FnMut(&mut Self, usize)) -> Vec<String> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        for turn in 0.. {
            let listed = self.readdir(path, cookie, count).unwrap();
            names.extend(listed.entries.iter().map(|entry| String::from_utf8(entry.name.0.clone()).unwrap()));
            match listed.entries.last() {
                _ if listed.eof => break,
                Some(last) => cookie = last.cookie,
                None => panic!("an answer without entries is the last"),
            }
            between(self, turn);
        }
        names
    }
}

#[test]
fn a_listing_has_every_name_once_however_it_is_cut() {
    let mut world = World::new();
    let names: Vec<String> = (0..100).map(|n| format!("a file with the number {n}")).collect();
    for name in &names {
        world.create(name, 0o644).unwrap();
    }
    let expected = [".", ".."].into_iter().map(String::from).chain(names).collect::<Vec<_>>();
    for count in [180, 300, 1000, 4096, 1 << 20] {
        assert_eq!(world.list_all("", count, |_, _| {}), expected, "{count}");
    }
    assert_eq!(world.readdir("", 0, 100), Err(Status::Toosmall));
    assert_eq!(world.readdir("", 0, 127), Err(Status::Toosmall));
}

#[test]
fn a_listing_goes_on_whatever_was_removed_and_added_in_between() {
    let mut world = World::new();
    for n in 0..200 {
        world.create(&format!("keep {n}"), 0o644).unwrap();
        world.create(&format!("lose {n}"), 0o644).unwrap();
    }
    let names = world.list_all("", 512, |world, turn| {
        // What was listed last, what comes next, and more.
        for n in [turn, turn * 3, 199 - turn] {
            let _ = world.remove(&format!("lose {n}"));
        }
        world.create(&format!("new {turn}"), 0o644).unwrap();
        world.rename(&format!("new {turn}"), &format!("keep {}", turn % 200)).unwrap();
    });
    let mut counts = BTreeMap::new();
    names.iter().for_each(|name| *counts.entry(name.as_str()).or_insert(0) += 1);
    for n in 0..200 {
        assert_eq!(counts.get(format!("keep {n}").as_str()), Some(&1), "keep {n}");
    }
    assert!(counts.values().all(|count| *count == 1));
}

#[test]
fn a_listing_with_attributes_keeps_to_both_bounds() {
    let mut world = World::new();
    for n in 0..50 {
        world.create(&format!("file {n}"), 0o644).unwrap();
    }
    let all = world.readdirplus(1 << 20, 1 << 20, 0).unwrap();
    assert!(all.eof);
    assert_eq!(all.entries.len(), 52);
    for entry in &all.entries {
        let file = entry.file.unwrap();
        let attributes = world.call(Memory::getattr, file).unwrap();
        assert_eq!(entry.attributes, Some(attributes));
        assert_eq!(entry.fileid, attributes.fileid);
    }
    // ".", ".." and "file 0" take 24, 24 and 28 bytes without attributes.
    let few = world.readdirplus(76, 1 << 20, 0).unwrap();
    assert_eq!((few.entries.len(), few.eof), (3, false));
    let next = world.readdirplus(76, 1000, few.entries[2].cookie).unwrap();
    assert_eq!(next.entries[0].name, Name::from("file 1"));
    assert_eq!(world.readdirplus(10, 1000, 0).map(drop), Err(Status::Toosmall));
    assert_eq!(world.readdirplus(1000, 150, 0).map(drop), Err(Status::Toosmall));
}

#[test]
fn a_cookie_of_another_file_system_is_refused() {
    let mut world = World::new();
    world.create("file", 0o644).unwrap();
    let args = ReaddirArgs { dir: world.root(), cookie: 1, verifier: [9; 8], count: 4096 };
    assert_eq!(world.call(Memory::readdir, args).unwrap_err().status, Status::BadCookie);
    let listed = world.readdir("", 2, 4096).unwrap();
    assert_eq!(listed.entries.len(), 1);
    let listed = world.readdir("", u64::MAX, 4096).unwrap();
    assert!(listed.eof && listed.entries.is_empty());
    assert_eq!(world.readdir("file", 0, 4096), Err(Status::Notdir));
    world.mkdir("closed", 0o711).unwrap();
    assert_eq!(world.as_user(5, |world| world.readdir("closed", 0, 4096)), Err(Status::Access));
}

#[test]
fn a_listing_has_handles_only_where_names_can_be_looked_up() {
    let mut world = World::new();
    let dir = world.mkdir("dir", 0o704).unwrap();
    world.create("dir/file", 0o644).unwrap();
    let list = |world: &mut World| {
        let args =
            ReaddirplusArgs { dir, cookie: 0, verifier: [0; 8], dir_count: 1 << 20, max_count: 1 << 20 };
        let listed = world.as_user(5, |world| world.call(Memory::readdirplus, args)).unwrap();
        let file = listed.entries.into_iter().find(|entry| entry.name == Name::from("file")).unwrap();
        (file.file.is_some(), file.attributes.is_some())
    };
    assert_eq!(list(&mut world), (false, false));
    world.set("dir", mode(0o705)).unwrap();
    assert_eq!(list(&mut world), (true, true));
}
