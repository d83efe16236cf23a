mod callers;
mod crashes;
#[allow(dead_code, reason = "the target `privileged` uses the rest")]
mod world;

use super::Directory;
use super::handles::Handles;
use super::system;
use crate::caller::Caller;
use crate::file_system::{Context, FileSystem};
use crate::procedures::inodes::Access;
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::{
    self, CreateArgs, CreateHow, FileType, Handle, LinkArgs, MkdirArgs, ReaddirArgs, ReaddirplusArgs,
    SetAttributes, SetTime, SetattrArgs, Status, SymlinkArgs,
};
use rustix::fs;
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::Arc;
use world::{CallResult, DirectoryWorld, USER, me, mode, owner};

impl DirectoryWorld {
    /// The same where files cannot be opened by handles.
    fn without_handles() -> Self {
        let mut world = Self::new();
        Arc::get_mut(&mut world.fs.0).unwrap().handles.forget_mount();
        world
    }
}

#[test]
fn what_is_written_is_in_the_directory() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    let file = world.create(root, "file").unwrap();
    assert_eq!(world.write(file, 3, b"bytes"), Ok(5));
    assert_eq!(std::fs::read(world.path("file")).unwrap(), b"\0\0\0bytes");
    assert_eq!(std::fs::metadata(world.path("file")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(world.read(file, 4, 100), Ok((b"ytes".to_vec(), true)));
    assert_eq!(world.read(file, 0, 4), Ok((b"\0\0\0b".to_vec(), false)));
    let set = SetAttributes {
        size: Some(2),
        mode: Some(0o600),
        mtime: SetTime::To(v3::Time { seconds: 5, nanoseconds: 6 }),
        ..SetAttributes::default()
    };
    world.call(Directory::setattr, SetattrArgs { file, attributes: set, guard: None }).unwrap();
    let now = std::fs::metadata(world.path("file")).unwrap();
    assert_eq!((now.len(), now.mode() & 0o7777, now.mtime(), now.mtime_nsec()), (2, 0o600, 5, 6));
    let large = vec![7; 1 << 20];
    assert_eq!(world.write(file, 1, &large), Ok(1 << 20));
    assert_eq!(world.read(file, 1, 1 << 20), Ok((large, true)));
    assert_eq!(world.create(root, "file"), Err(Status::Exist));
}

#[test]
fn no_name_and_no_link_leads_out() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    assert_eq!(world.lookup(root, ".."), Ok(root));
    for name in ["../secret", "a/../../secret", "/etc/passwd", "dir/file"] {
        assert_eq!(world.lookup(root, name), Err(Status::Inval), "{name}");
        assert_eq!(world.create(root, name), Err(Status::Inval), "{name}");
    }
    symlink("../secret", world.path("link")).unwrap();
    symlink("..", world.path("up")).unwrap();
    let link = world.lookup(root, "link").unwrap();
    // The link itself is given; nobody follows it here.
    assert_eq!(world.getattr(link).unwrap().file_type, FileType::Symlink);
    assert_eq!(world.read(link, 0, 100), Err(Status::Inval));
    assert_eq!(world.write(link, 0, b"x"), Err(Status::Inval));
    assert_eq!(world.create(root, "link"), Err(Status::Exist));
    let up = world.lookup(root, "up").unwrap();
    assert_eq!(world.lookup(up, "secret"), Err(Status::Notdir));
    let path = world.call(Directory::readlink, link).unwrap().path;
    assert_eq!(path, b"../secret");
    assert_eq!(std::fs::read(world.outer.path().join("secret")).unwrap(), b"outside");
}

#[test]
fn a_directory_that_was_moved_out_is_stale_at_once() {
    [DirectoryWorld::new(), DirectoryWorld::without_handles()].into_iter().for_each(|mut world| {
        let root = world.root();
        let dir = world.mkdir(root, "dir");
        let inner = world.mkdir(dir, "inner");
        std::fs::write(world.path("dir/file"), b"bytes").unwrap();
        world.lookup(dir, "file").unwrap();
        // A name that begins like the root's path is not in the root.
        let outside = world.outer.path().join("export-not");
        std::fs::rename(world.path("dir"), &outside).unwrap();
        for dir in [dir, inner] {
            assert_eq!(world.getattr(dir).map(drop), Err(Status::Stale));
            assert_eq!(world.lookup(dir, "..").map(drop), Err(Status::Stale));
            let args = ReaddirArgs { dir, cookie: 0, verifier: [0; 8], count: 1000 };
            assert_eq!(world.call(Directory::readdir, args).unwrap_err().status, Status::Stale);
        }
        assert_eq!(world.lookup(dir, "file").map(drop), Err(Status::Stale));
        assert_eq!(world.create(dir, "new").map(drop), Err(Status::Stale));
        std::fs::rename(outside, world.path("back")).unwrap();
        assert_eq!(world.lookup(root, "back"), Ok(dir));
        assert_eq!(world.lookup(dir, "inner"), Ok(inner));
    });
}

#[test]
fn handles_survive_renames_and_go_with_their_files() {
    [DirectoryWorld::new(), DirectoryWorld::without_handles()].into_iter().for_each(rename_and_remove);
}

fn rename_and_remove(mut world: DirectoryWorld) {
    let root = world.root();
    let (file, dir) = (world.create(root, "file").unwrap(), world.mkdir(root, "dir"));
    world.write(file, 0, b"bytes").unwrap();
    world.rename((root, "file"), (dir, "moved")).unwrap();
    assert_eq!(world.read(file, 0, 9), Ok((b"bytes".to_vec(), true)));
    // Others may rename, too.
    std::fs::rename(world.path("dir"), world.path("other")).unwrap();
    assert_eq!(world.lookup(dir, "moved"), Ok(file));
    assert_eq!(world.rename((root, "other"), (dir, "inside")), Err(Status::Inval));
    let place = world.place(dir, "moved");
    world.call(Directory::remove, place).unwrap();
    assert_eq!(world.getattr(file), Err(Status::Stale));
    std::fs::remove_dir(world.path("other")).unwrap();
    assert_eq!(world.getattr(dir), Err(Status::Stale));
    assert_eq!(world.getattr(Handle::new(b"no").unwrap()), Err(Status::Badhandle));
}

#[test]
fn files_are_found_again_after_their_descriptors_were_closed() {
    [DirectoryWorld::new(), DirectoryWorld::without_handles()].into_iter().for_each(find_again);
}

fn find_again(mut world: DirectoryWorld) {
    world.fs.table().limit(2);
    let root = world.root();
    let dir = world.mkdir(root, "dir");
    let inner = world.mkdir(dir, "inner");
    let files: Vec<_> = (0..20).map(|n| world.create(inner, &format!("file {n}")).unwrap()).collect();
    world.rename((root, "dir"), (root, "renamed")).unwrap();
    for (n, file) in (0..).zip(&files) {
        world.write(*file, 0, format!("bytes {n}").as_bytes()).unwrap();
    }
    for (n, file) in (0..).zip(&files) {
        assert_eq!(world.read(*file, 0, 99), Ok((format!("bytes {n}").into_bytes(), true)));
    }
    // Another file in the same place is not the same file.
    std::fs::remove_file(world.path("renamed/inner/file 3")).unwrap();
    std::fs::write(world.path("renamed/inner/file 3"), b"another").unwrap();
    (4..20).for_each(|n| assert!(world.getattr(files[n]).is_ok()));
    assert_eq!(world.getattr(files[3]), Err(Status::Stale));
}

#[test]
fn files_that_nobody_uses_are_closed_and_found_again() {
    [DirectoryWorld::new(), DirectoryWorld::without_handles()].into_iter().for_each(|mut world| {
        let root = world.root();
        let file = world.create(root, "file").unwrap();
        world.write(file, 0, b"bytes").unwrap();
        world.read(file, 0, 9).unwrap();
        let identity =
            system::stat(&std::fs::File::open(world.path("file")).unwrap().into()).unwrap().identity;
        let is_open = |world: &DirectoryWorld| {
            [Access::Read, Access::Write].map(|access| world.fs.table().data(identity, access).is_some())
        };
        world.fs.sweep();
        assert_eq!(is_open(&world), [true, true]);
        world.fs.sweep();
        assert_eq!(is_open(&world), [false, false]);
        assert_eq!(world.read(file, 0, 9), Ok((b"bytes".to_vec(), true)));
        // What was written is not kept from being executed once it is safe.
        world.write(file, 0, b"BYTES").unwrap();
        let args = v3::CommitArgs { file, offset: 0, count: 0 };
        world.call(Directory::commit, args).unwrap();
        assert_eq!(is_open(&world), [true, false]);
    });
}

/// What comes of a handle after a restart where files cannot be opened by handles.
fn lasting<T>(world: &DirectoryWorld, outcome: CallResult<T>) -> CallResult<T> {
    if world.fs.handles_last() { outcome } else { Err(Status::Stale) }
}

#[test]
fn handles_outlive_the_server() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    let (file, dir) = (world.create(root, "file").unwrap(), world.mkdir(root, "dir"));
    let (inner, gone) = (world.mkdir(dir, "inner"), world.create(dir, "gone").unwrap());
    symlink("target", world.path("link")).unwrap();
    let link = world.lookup(root, "link").unwrap();
    world.write(file, 0, b"bytes").unwrap();
    world.restart();
    assert_eq!(world.root(), root);
    assert_eq!(world.read(file, 0, 9), lasting(&world, Ok((b"bytes".to_vec(), true))));
    assert_eq!(world.write(file, 5, b"!"), lasting(&world, Ok(1)));
    assert_eq!(world.getattr(link).map(|link| link.file_type), lasting(&world, Ok(FileType::Symlink)));
    assert_eq!(world.lookup(inner, ".."), lasting(&world, Ok(dir)));
    assert_eq!(world.lookup(dir, ".."), lasting(&world, Ok(root)));
    assert_eq!(world.lookup(root, "file"), Ok(file));
    // Files are moved while no server runs.
    std::fs::rename(world.path("file"), world.path("dir/inner/moved")).unwrap();
    std::fs::remove_file(world.path("dir/gone")).unwrap();
    std::fs::write(world.path("dir/gone"), b"another").unwrap();
    std::fs::rename(world.path("dir"), world.path("elsewhere")).unwrap();
    world.restart();
    assert_eq!(world.read(file, 0, 9), lasting(&world, Ok((b"bytes!".to_vec(), true))));
    assert_eq!(world.lookup(inner, "moved"), lasting(&world, Ok(file)));
    assert_eq!(world.getattr(gone).map(drop), Err(Status::Stale));
    assert_eq!(world.create(dir, "new").map(drop), lasting(&world, Ok(())));
}

#[test]
fn a_directory_that_was_moved_out_is_stale_after_a_restart() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    let dir = world.mkdir(root, "dir");
    let (inner, file) = (world.mkdir(dir, "inner"), world.create(dir, "file").unwrap());
    std::fs::rename(world.path("dir"), world.outer.path().join("dir")).unwrap();
    world.restart();
    assert_eq!(world.getattr(dir).map(drop), Err(Status::Stale));
    assert_eq!(world.getattr(inner).map(drop), Err(Status::Stale));
    // A file says nothing of where it is, and may have another name inside.
    assert_eq!(world.getattr(file).map(drop), lasting(&world, Ok(())));
    std::fs::rename(world.outer.path().join("dir"), world.path("back")).unwrap();
    assert_eq!(world.lookup(inner, ".."), lasting(&world, Ok(dir)));
}

#[test]
fn handles_that_were_not_given_open_nothing() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    let file = world.create(root, "file").unwrap();
    // The best forgery without the key.
    let secret = std::fs::File::open(world.outer.path().join("secret")).unwrap().into();
    let outer = std::fs::File::open(world.outer.path()).unwrap().into();
    let root_identity = world.fs.0.root;
    let forger = Handles::new(root_identity, &world.fs.0.root_fd, &[6; 32]);
    for fd in [secret, outer] {
        let identity = system::stat(&fd).unwrap().identity;
        let forged = forger.give(identity, &fd);
        assert_eq!(world.getattr(forged).map(drop), Err(Status::Stale));
        // Signed for another directory, by the same key.
        let elsewhere = Handles::new(identity, &fd, &[5; 32]);
        assert_eq!(world.getattr(elsewhere.give(root_identity, &fd)).map(drop), Err(Status::Stale));
    }
    for at in 0..file.as_bytes().len() {
        let mut bytes = file.as_bytes().to_vec();
        bytes[at] ^= 1;
        let status = world.getattr(Handle::new(&bytes).unwrap()).unwrap_err();
        assert!(matches!(status, Status::Stale | Status::Badhandle), "byte {at}: {status:?}");
        bytes.truncate(at);
        let status = world.getattr(Handle::new(&bytes).unwrap()).unwrap_err();
        assert!(matches!(status, Status::Stale | Status::Badhandle), "{at} bytes: {status:?}");
    }
    assert!(world.getattr(file).is_ok());
}

#[test]
fn an_exclusive_create_that_comes_again_finds_its_file_also_after_a_restart() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    let create = |world: &mut DirectoryWorld, verifier: [u8; 8]| {
        let args = CreateArgs { place: world.place(root, "file"), how: CreateHow::Exclusive(verifier) };
        world.call(Directory::create, args).map(|made| made.file.unwrap()).map_err(|failed| failed.status)
    };
    let file = create(&mut world, [0xf1; 8]).unwrap();
    assert_eq!(create(&mut world, [0xf1; 8]), Ok(file));
    world.restart();
    assert_eq!(create(&mut world, [0xf1; 8]), Ok(file));
    assert_eq!(create(&mut world, [0xf2; 8]), Err(Status::Exist));
    // The client has its file, and sets the times: a later call comes from another client.
    let set = SetAttributes { mtime: SetTime::ServerTime, ..SetAttributes::default() };
    world.call(Directory::setattr, SetattrArgs { file, attributes: set, guard: None }).unwrap();
    assert_eq!(create(&mut world, [0xf1; 8]), Err(Status::Exist));
}

#[test]
fn links_of_both_kinds_are_made() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    let file = world.create(root, "file").unwrap();
    let args = LinkArgs { file, link: world.place(root, "hard") };
    assert_eq!(world.call(Directory::link, args.clone()).unwrap().file.unwrap().links, 2);
    assert_eq!(world.call(Directory::link, args).unwrap_err().status, Status::Exist);
    let args =
        SymlinkArgs { place: world.place(root, "soft"), attributes: mode(0o777), path: b"file".to_vec() };
    world.call(Directory::symlink, args).unwrap();
    assert_eq!(std::fs::read_link(world.path("soft")).unwrap().as_os_str(), "file");
    assert_eq!(world.lookup(root, "hard"), Ok(file));
}

#[test]
fn a_listing_has_every_name_once() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    for n in 0..300 {
        std::fs::write(world.path(&format!("file {n}")), b"").unwrap();
    }
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let args = ReaddirArgs { dir: root, cookie, verifier: [0; 8], count: 1000 };
        let listed = world.call(Directory::readdir, args).unwrap();
        names.extend(listed.entries.iter().map(|entry| entry.name.0.clone()));
        match listed.entries.last() {
            Some(last) if !listed.eof => cookie = last.cookie,
            _ => break,
        }
    }
    assert_eq!((names.len(), names.iter().collect::<BTreeSet<_>>().len()), (302, 302));
    let args =
        ReaddirplusArgs { dir: root, cookie: 0, verifier: [0; 8], dir_count: 1 << 20, max_count: 1 << 20 };
    let listed = world.call(Directory::readdirplus, args).unwrap();
    for entry in &listed.entries {
        let attributes = world.getattr(entry.file.unwrap()).unwrap();
        assert_eq!(entry.fileid, attributes.fileid, "{:?}", entry.name);
    }
    let up = listed.entries.iter().find(|entry| entry.name.0 == b"..").unwrap();
    assert_eq!(up.file, Some(root));
}
