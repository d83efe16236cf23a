//! What callers may do: what the system lets local users do.

use super::*;

#[test]
fn ids_that_stand_for_no_change_are_refused() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    let file = world.create(root, "file").unwrap();
    let before = world.owner("file");
    for set in [owner(Some(u32::MAX), None), owner(None, Some(u32::MAX))] {
        assert_eq!(world.set(file, set), Err(Status::Inval));
        let how = [CreateHow::Unchecked(set), CreateHow::Guarded(set)];
        for how in how {
            let args = CreateArgs { place: world.place(root, "new"), how };
            assert_eq!(world.call(Directory::create, args).unwrap_err().status, Status::Inval);
        }
        let args = MkdirArgs { place: world.place(root, "new"), attributes: set };
        assert_eq!(world.call(Directory::mkdir, args).unwrap_err().status, Status::Inval);
    }
    assert_eq!(world.owner("file"), before);
    assert!(!world.path("new").exists());
    // Times that utimensat(2) takes for words.
    for nanoseconds in [fs::UTIME_NOW, fs::UTIME_OMIT] {
        let mtime = SetTime::To(v3::Time { seconds: 1, nanoseconds: nanoseconds as u32 });
        let set = SetAttributes { mtime, ..SetAttributes::default() };
        assert_eq!(world.set(file, set), Err(Status::Inval));
    }
}

#[test]
fn a_server_without_privileges_does_what_its_user_may() {
    let mut world = DirectoryWorld::new();
    Arc::get_mut(&mut world.fs.0).unwrap().switches = false;
    let root = world.root();
    world.act(USER);
    let file = world.create(root, "file").unwrap();
    assert_eq!(world.owner("file"), (me().uid, me().gid, 0o640));
    assert_eq!(world.write(file, 0, b"bytes"), Ok(5));
    assert_eq!(world.set(file, owner(Some(USER), Some(USER))), Err(Status::Perm));
    // Not even the user whom the client calls root may more than that.
    world.caller = Caller { uid: 0, gid: 0, groups: Vec::new() };
    assert_eq!(world.set(file, owner(Some(USER), None)), Err(Status::Perm));
    world.chmod("", 0o500);
    assert_eq!(world.create(root, "more"), Err(Status::Access));
}

#[test]
fn a_mount_follows_links_and_none_leads_out() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    let dir = world.mkdir(root, "dir");
    let inner = world.mkdir(dir, "inner");
    std::fs::create_dir(world.outer.path().join("outside")).unwrap();
    let links =
        [("to-dir", "dir"), ("dir/up", "../dir/./inner"), ("absolute", "/dir/up"), ("out", "../outside")];
    for (link, target) in
        links.into_iter().chain([("loop", "loop"), ("far", "../../../dir"), ("gone", "nothing")])
    {
        symlink(target, world.path(link)).unwrap();
    }
    symlink(world.outer.path().join("outside"), world.path("absolute-out")).unwrap();
    let mount = |world: &mut DirectoryWorld, path: &str| {
        world.call(|fs, cx, path: &str| fs.mount(cx, path.as_bytes()), path)
    };
    for (path, handle) in [
        ("/to-dir", dir),
        ("/to-dir/inner", inner),
        ("/dir/up", inner),
        ("/absolute", inner),
        ("/absolute/..", dir),
        ("/far", dir),
        ("/../../dir", dir),
    ] {
        assert_eq!(mount(&mut world, path), Ok(handle), "{path}");
    }
    for path in ["/out", "/absolute-out", "/loop", "/gone", "/to-dir/nothing"] {
        assert_eq!(mount(&mut world, path), Err(MountStatus::Noent), "{path}");
    }
    world.create(root, "file").unwrap();
    assert_eq!(mount(&mut world, "/file"), Err(MountStatus::Notdir));
    assert_eq!(mount(&mut world, "/file/.."), Err(MountStatus::Notdir));
}
