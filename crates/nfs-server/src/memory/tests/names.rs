use super::*;
use onego_nfs::mount::MountStatus;

#[test]
fn a_file_lives_until_its_last_name_is_gone() {
    let mut world = World::new();
    let file = world.create("a", 0o644).unwrap();
    world.write("a", 0, b"bytes").unwrap();
    world.link("a", "b").unwrap();
    assert_eq!(world.attributes("b").links, 2);
    world.remove("a").unwrap();
    assert_eq!(world.attributes("b").links, 1);
    assert_eq!(world.read("b", 0, 100), Ok((b"bytes".to_vec(), true)));
    assert_eq!(world.file("b"), file);
    world.remove("b").unwrap();
    assert_eq!(world.call(Memory::getattr, file).unwrap_err().status, Status::Stale);
}

#[test]
fn two_names_of_one_file_stay_when_one_is_renamed_to_the_other() {
    let mut world = World::new();
    world.create("a", 0o644).unwrap();
    world.link("a", "b").unwrap();
    world.rename("a", "b").unwrap();
    assert_eq!(world.file("a"), world.file("b"));
    assert_eq!(world.attributes("a").links, 2);
}

#[test]
fn directories_count_those_in_them() {
    let mut world = World::new();
    world.mkdir("a", 0o755).unwrap();
    world.mkdir("b", 0o755).unwrap();
    world.mkdir("a/c", 0o755).unwrap();
    world.create("a/file", 0o644).unwrap();
    assert_eq!((world.attributes("").links, world.attributes("a").links), (4, 3));
    world.rename("a/c", "b/c").unwrap();
    assert_eq!((world.attributes("a").links, world.attributes("b").links), (2, 3));
    assert_eq!(world.lookup("b/c/.."), Ok(world.file("b")));
    world.mkdir("d", 0o755).unwrap();
    world.rename("b/c", "d").unwrap();
    assert_eq!((world.attributes("").links, world.attributes("b").links), (5, 2));
    assert_eq!(world.lookup("d/.."), Ok(world.root()));
    assert_eq!(world.lookup(".."), Ok(world.root()));
}

#[test]
fn all_that_was_taken_is_given_back() {
    let mut world = World::new();
    let used = world.fs.used;
    world.mkdir("dir", 0o755).unwrap();
    for name in ["a", "b", "c"] {
        world.create(&format!("dir/{name}"), 0o644).unwrap();
        world.write(&format!("dir/{name}"), 12_345, &[1; 70_000]).unwrap();
    }
    world.symlink("dir/link", "somewhere").unwrap();
    world.link("dir/a", "dir/more").unwrap();
    world.rename("dir/a", "dir/a name that is far longer").unwrap();
    world.rename("dir/b", "dir/c").unwrap();
    world.set("dir/c", SetAttributes { size: Some(13_000), ..SetAttributes::default() }).unwrap();
    assert!(world.fs.used > used + 70_000);
    for name in ["a name that is far longer", "more", "c", "link"] {
        world.remove(&format!("dir/{name}")).unwrap();
    }
    world.rmdir("dir").unwrap();
    assert_eq!(world.fs.used, used);
    assert_eq!(world.fs.nodes.len(), 1);
}

#[test]
fn what_is_made_belongs_to_its_maker_and_in_some_directories_to_their_group() {
    let mut world = World::new();
    world.mkdir("open", 0o777).unwrap();
    world.mkdir("team", 0o2777).unwrap();
    world.set("team", SetAttributes { gid: Some(500), ..SetAttributes::default() }).unwrap();
    world.as_user(1000, |world| {
        world.create("open/file", 0o6755).unwrap();
        world.create("team/file", 0o644).unwrap();
        world.mkdir("team/dir", 0o755).unwrap();
    });
    let owner = |attributes: Attributes| (attributes.uid, attributes.gid, attributes.mode);
    assert_eq!(owner(world.attributes("open/file")), (1000, 1000, 0o6755));
    assert_eq!(owner(world.attributes("team/file")), (1000, 500, 0o644));
    assert_eq!(owner(world.attributes("team/dir")), (1000, 500, 0o2755));
    // Nobody lends the rights of a group that he is not of.
    world.set("team", SetAttributes { gid: Some(7), ..SetAttributes::default() }).unwrap();
    world.as_user(1000, |world| world.create("team/other", 0o2755).unwrap());
    assert_eq!(owner(world.attributes("team/other")), (1000, 7, 0o755));
}

#[test]
fn privileges_go_when_a_file_is_written_to_or_changes_hands() {
    let mut world = World::new();
    let bits = |world: &mut World| world.attributes("file").mode;
    world.create("file", 0o6777).unwrap();
    world.write("file", 0, b"by root").unwrap();
    assert_eq!(bits(&mut world), 0o6777);
    world.as_user(1000, |world| world.write("file", 0, b"x")).unwrap();
    assert_eq!(bits(&mut world), 0o777);
    world.set("file", mode(0o6767)).unwrap();
    world.set("file", SetAttributes { uid: Some(5), ..SetAttributes::default() }).unwrap();
    assert_eq!(bits(&mut world), 0o2767, "the group may not execute it");
    world
        .set("file", SetAttributes { uid: Some(6), mode: Some(0o4755), ..SetAttributes::default() })
        .unwrap();
    assert_eq!(bits(&mut world), 0o4755);
}

#[test]
fn an_exclusive_create_that_comes_again_has_made_the_file() {
    let mut world = World::new();
    let create = |world: &mut World, verifier| {
        let args = CreateArgs { place: world.place("file"), how: CreateHow::Exclusive([verifier; 8]) };
        world.call(Memory::create, args).map(|made| made.file.unwrap()).map_err(|failed| failed.status)
    };
    let file = create(&mut world, 1).unwrap();
    assert_eq!(create(&mut world, 1), Ok(file));
    assert_eq!(create(&mut world, 2), Err(Status::Exist));
    // What a client sends next: the times are no verifier any more.
    let now = SetTime::ServerTime;
    world.set("file", SetAttributes { atime: now, mtime: now, ..mode(0o644) }).unwrap();
    assert_eq!(create(&mut world, 1), Err(Status::Exist));
}

#[test]
fn an_unchecked_create_takes_what_is_there_and_cuts_it_if_asked() {
    let mut world = World::new();
    let file = world.create("file", 0o600).unwrap();
    world.write("file", 0, b"bytes").unwrap();
    let create = |world: &mut World, size| {
        let set = SetAttributes { mode: Some(0o777), size, ..SetAttributes::default() };
        let args = CreateArgs { place: world.place("file"), how: CreateHow::Unchecked(set) };
        world.call(Memory::create, args).map(|made| made.file.unwrap()).map_err(|failed| failed.status)
    };
    assert_eq!(create(&mut world, None), Ok(file));
    assert_eq!((world.attributes("file").size, world.attributes("file").mode), (5, 0o600));
    assert_eq!(create(&mut world, Some(0)), Ok(file));
    assert_eq!(world.attributes("file").size, 0);
}

#[test]
fn every_change_is_seen_in_what_was_before_and_after() {
    let mut world = World::new();
    let args = CreateArgs { place: world.place("file"), how: CreateHow::Guarded(mode(0o644)) };
    let before = world.attributes("");
    let made = world.call(Memory::create, args.clone()).unwrap();
    let after = world.attributes("");
    assert_eq!(made.dir, Change { before: Some(before.before()), after: Some(after) });
    // Time stands still, and yet no two changes have the same.
    assert!(after.ctime > before.ctime && after.mtime == after.ctime);
    let refused = world.call(Memory::create, args).unwrap_err();
    assert_eq!(refused.more, Change { before: Some(after.before()), after: Some(after) });

    let guarded = |world: &mut World, guard| {
        let args = SetattrArgs { file: world.file("file"), attributes: mode(0o600), guard: Some(guard) };
        world.call(Memory::setattr, args).map(drop).map_err(|failed| failed.status)
    };
    let ctime = world.attributes("file").ctime;
    assert_eq!(guarded(&mut world, ctime), Ok(()));
    assert_eq!(guarded(&mut world, ctime), Err(Status::NotSync));
}

#[test]
fn a_file_that_was_written_to_is_not_made_again() {
    let mut world = World::new();
    let args = CreateArgs { place: world.place("file"), how: CreateHow::Exclusive([1; 8]) };
    world.call(Memory::create, args.clone()).unwrap();
    world.write("file", 0, b"bytes").unwrap();
    assert_eq!(world.call(Memory::create, args).unwrap_err().status, Status::Exist);
}

#[test]
fn a_mount_follows_links_and_none_leads_out() {
    let mut world = World::new();
    let dir = world.mkdir("dir", 0o755).unwrap();
    let inner = world.mkdir("dir/inner", 0o755).unwrap();
    world.create("file", 0o644).unwrap();
    let links =
        [("to-dir", "dir"), ("dir/up", "../dir/./inner"), ("absolute", "/dir/up"), ("far", "../../dir")];
    for (link, target) in links.into_iter().chain([("loop", "loop"), ("gone", "nothing")]) {
        world.symlink(link, target).unwrap();
    }
    let mount =
        |world: &mut World, path: &str| world.call(|fs, cx, path: &str| fs.mount(cx, path.as_bytes()), path);
    for (path, handle) in
        [("to-dir", dir), ("/to-dir/inner", inner), ("/dir/up", inner), ("/absolute/..", dir), ("/far", dir)]
    {
        assert_eq!(mount(&mut world, path), Ok(handle), "{path}");
    }
    for (path, status) in [
        ("/loop", MountStatus::Noent),
        ("/gone", MountStatus::Noent),
        ("/file", MountStatus::Notdir),
        ("/file/..", MountStatus::Notdir),
    ] {
        assert_eq!(mount(&mut world, path), Err(status), "{path}");
    }
}
