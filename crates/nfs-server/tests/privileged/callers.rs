//! Rights of callers: those that the system gives local users.

use crate::world::{CallResult, DirectoryWorld, GROUP, OTHER, USER, me, mode, owner};
use onego_nfs::v3::{
    self, CreateArgs, CreateHow, Handle, MkdirArgs, MknodArgs, Node, ReaddirArgs, ReaddirplusArgs,
    SetAttributes, SetTime, Status, SymlinkArgs, access,
};
use onego_nfs_server::{Caller, Directory, FileSystem as _};
use onego_testkit::{Need, NeedyTest, needy_tests};
use rustix::fs;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    &[Need::Root];
    rights_are_those_of_now_also_for_files_that_are_open,
    callers_do_what_local_users_may_and_no_more,
    what_is_made_belongs_to_its_maker_or_to_whom_root_names,
    changes_by_others_take_the_privileges_of_a_file,
    a_listing_has_handles_only_where_names_can_be_looked_up,
    access_control_lists_count,
    a_caller_whose_ids_stand_for_no_change_is_refused,
];

/// A change by a caller, in the root and of a file there.
type Change = fn(&mut DirectoryWorld, Handle, Handle) -> CallResult<()>;

/// An ACL as the system keeps it (`system.posix_acl_access`, version 2): tags, permissions and ids.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn rights_are_those_of_now_also_for_files_that_are_open() {
    let mut world = DirectoryWorld::for_all();
    let root = world.root();
    let file = world.create(root, "file").unwrap();
    world.write(file, 0, b"bytes").unwrap();
    world.read(file, 0, 9).unwrap();
    world.chmod("file", 0o606);
    world.act(USER);
    assert_eq!(world.read(file, 0, 9), Ok((b"bytes".to_vec(), true)));
    assert_eq!(world.write(file, 0, b"BYTES"), Ok(5));
    world.chmod("file", 0o600);
    assert_eq!(world.read(file, 0, 9), Err(Status::Access));
    assert_eq!(world.write(file, 0, b"bytes"), Err(Status::Access));
    assert_eq!(world.granted(file), 0);
    // A client reads a file to execute it.
    world.chmod("file", 0o711);
    assert_eq!(world.read(file, 0, 9), Ok((b"BYTES".to_vec(), true)));
    assert_eq!(world.granted(file), access::EXECUTE);
}

fn callers_do_what_local_users_may_and_no_more() {
    let mut world = DirectoryWorld::for_all();
    let root = world.root();
    let file = world.create(root, "file").unwrap();
    world.act(USER);
    let refused = [
        world.read(file, 0, 1).map(drop),
        world.write(file, 0, b"x").map(drop),
        world.set(file, SetAttributes { size: Some(0), ..SetAttributes::default() }),
    ];
    assert_eq!(refused, [Err(Status::Access); 3]);
    let refused = [
        world.set(file, mode(0o777)),
        world.set(file, owner(Some(USER), None)),
        world.set(file, owner(None, Some(GROUP))),
        world.link(file, root, "link"),
    ];
    assert_eq!(refused, [Err(Status::Perm); 4]);
    assert_eq!(world.owner("file"), (me().uid, me().gid, 0o640));

    let mine = world.create(root, "mine").unwrap();
    assert_eq!(world.owner("mine"), (USER, USER, 0o640));
    assert_eq!(world.write(mine, 0, b"mine"), Ok(4));
    assert_eq!(world.set(mine, owner(Some(USER), Some(GROUP))), Ok(()));
    assert_eq!(world.set(mine, mode(0o2750)), Ok(()));
    assert_eq!(world.owner("mine"), (USER, GROUP, 0o2750));
    assert_eq!(world.link(mine, root, "link"), Ok(()));
    assert_eq!(world.rename((root, "link"), (root, "renamed")), Ok(()));
    assert_eq!(world.set(mine, owner(Some(OTHER), None)), Err(Status::Perm));
    assert_eq!(world.set(mine, owner(None, Some(0))), Err(Status::Perm));
    // Owners go on with files that they have opened, whatever their permission bits have become.
    assert_eq!(world.set(mine, mode(0)), Ok(()));
    assert_eq!(world.write(mine, 0, b"MINE"), Ok(4));
    // A server that has just started has no descriptor of it.
    world.restart();
    assert_eq!(world.read(mine, 0, 9), Ok((b"MINE".to_vec(), true)));
    assert_eq!(world.act(OTHER).read(mine, 0, 9), Err(Status::Access));
}

fn what_is_made_belongs_to_its_maker_or_to_whom_root_names() {
    let mut world = DirectoryWorld::for_all();
    let root = world.root();
    let make = |world: &mut DirectoryWorld, name: &str, attributes: SetAttributes| {
        let kinds = ["file", "directory", "fifo", "link"];
        let args = CreateArgs {
            place: world.place(root, &format!("{name} file")),
            how: CreateHow::Guarded(attributes),
        };
        world.call(Directory::create, args).unwrap();
        let args = MkdirArgs { place: world.place(root, &format!("{name} directory")), attributes };
        world.call(Directory::mkdir, args).unwrap();
        let args =
            MknodArgs { place: world.place(root, &format!("{name} fifo")), what: Node::Fifo(attributes) };
        world.call(Directory::mknod, args).unwrap();
        let args = SymlinkArgs {
            place: world.place(root, &format!("{name} link")),
            attributes,
            path: b"x".to_vec(),
        };
        world.call(Directory::symlink, args).unwrap();
        kinds.map(|kind| world.owner(&format!("{name} {kind}")))
    };
    let bits = SetAttributes { mode: Some(0o6777), ..owner(Some(OTHER), Some(GROUP)) };
    let made = make(&mut world, "root's", bits);
    assert_eq!(
        made,
        [(OTHER, GROUP, 0o6777), (OTHER, GROUP, 0o6777), (OTHER, GROUP, 0o6777), (OTHER, GROUP, 0o777)]
    );
    // Whom a user names does not count.
    let made = make(world.act(USER), "mine", bits);
    assert_eq!(made, [(USER, USER, 0o6777), (USER, USER, 0o6777), (USER, USER, 0o6777), (USER, USER, 0o777)]);
    let device = v3::Device { major: 1, minor: 3 };
    let args = MknodArgs { place: world.place(root, "null"), what: Node::Character(mode(0o666), device) };
    assert_eq!(world.call(Directory::mknod, args).unwrap_err().status, Status::Perm);
    // Where a directory gives its group, it does.
    std::os::unix::fs::chown(world.path(""), None, Some(77)).unwrap();
    world.chmod("", 0o2777);
    let made = make(&mut world, "inherited", mode(0o755));
    assert_eq!(made, [(USER, 77, 0o755), (USER, 77, 0o2755), (USER, 77, 0o755), (USER, 77, 0o777)]);
}

fn changes_by_others_take_the_privileges_of_a_file() {
    let mut world = DirectoryWorld::for_all();
    let root = world.root();
    let file = world.create(root, "file").unwrap();
    world.write(file, 0, b"bytes").unwrap();
    let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    world.act(USER);
    let changes: [Change; 3] = [
        |world, _, file| world.set(file, SetAttributes { size: Some(3), ..SetAttributes::default() }),
        |world, _, file| world.write(file, 0, b"x").map(drop),
        |world, root, _| {
            let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
            let args = CreateArgs { place: world.place(root, "file"), how: CreateHow::Unchecked(set) };
            world.call(Directory::create, args).map(drop).map_err(|failed| failed.status)
        },
    ];
    for change in changes {
        world.chmod("file", 0o6777);
        assert_eq!(change(&mut world, root, file), Ok(()));
        assert_eq!(world.owner("file"), (me().uid, me().gid, 0o777));
    }
    // What a client sends for O_TRUNC: the time is the server's.
    let set = SetAttributes { mtime: SetTime::ServerTime, ..size(1) };
    assert_eq!(world.set(file, set), Ok(()));
    assert_eq!(
        world.set(file, SetAttributes { mtime: SetTime::ServerTime, ..SetAttributes::default() }),
        Ok(())
    );
    let then = SetTime::To(v3::Time { seconds: 1, nanoseconds: 0 });
    assert_eq!(world.set(file, SetAttributes { mtime: then, ..SetAttributes::default() }), Err(Status::Perm));
}

fn a_listing_has_handles_only_where_names_can_be_looked_up() {
    let mut world = DirectoryWorld::for_all();
    let root = world.root();
    let dir = world.mkdir(root, "dir");
    std::fs::write(world.path("dir/open"), b"bytes").unwrap();
    world.chmod("dir", 0o704);
    world.act(USER);
    assert_eq!(world.lookup(dir, "open"), Err(Status::Access));
    let list = |world: &mut DirectoryWorld| {
        let args =
            ReaddirplusArgs { dir, cookie: 0, verifier: [0; 8], dir_count: 1 << 20, max_count: 1 << 20 };
        let listed = world.call(Directory::readdirplus, args).unwrap();
        let open = listed.entries.into_iter().find(|entry| entry.name.0 == b"open").unwrap();
        (open.file.is_some(), open.attributes.is_some())
    };
    assert_eq!(list(&mut world), (false, false));
    world.chmod("dir", 0o705);
    assert_eq!(list(&mut world), (true, true));
    world.chmod("dir", 0o701);
    let args = ReaddirArgs { dir, cookie: 0, verifier: [0; 8], count: 1000 };
    assert_eq!(world.call(Directory::readdir, args).unwrap_err().status, Status::Access);
}

fn access_control_lists_count() {
    let mut world = DirectoryWorld::for_all();
    let root = world.root();
    let file = world.create(root, "file").unwrap();
    std::os::unix::fs::chown(world.path("file"), None, Some(GROUP)).unwrap();
    world.write(file, 0, b"bytes").unwrap();
    // The owner, OTHER, the group without anything, the mask, all others: the mode looks like 0670 then.
    let (none, own) = (0, u32::MAX);
    let list = acl(&[(1, 6, own), (2, 7, OTHER), (4, none, own), (0x10, 7, own), (0x20, none, own)]);
    fs::setxattr(world.path("file"), c"system.posix_acl_access", &list, fs::XattrFlags::empty()).unwrap();
    assert_eq!(world.owner("file").2, 0o670);
    assert_eq!(world.act(USER).read(file, 0, 9), Err(Status::Access));
    assert_eq!(world.granted(file), 0);
    assert_eq!(world.act(OTHER).read(file, 0, 9), Ok((b"bytes".to_vec(), true)));
    assert_eq!(world.write(file, 0, b"other"), Ok(5));
    // What a directory gives to new files: others may read them, whatever bits the client asks for.
    let list = acl(&[(1, 7, own), (2, 6, OTHER), (4, none, own), (0x10, 6, own), (0x20, none, own)]);
    fs::setxattr(world.path(""), c"system.posix_acl_default", &list, fs::XattrFlags::empty()).unwrap();
    let made = world.act(USER).create(root, "made").unwrap();
    world.write(made, 0, b"made").unwrap();
    assert_eq!(world.act(OTHER).read(made, 0, 9), Ok((b"made".to_vec(), true)));
}

fn a_caller_whose_ids_stand_for_no_change_is_refused() {
    let mut world = DirectoryWorld::new();
    let root = world.root();
    let file = world.create(root, "file").unwrap();
    // Otherwise it would act as the caller before.
    world.caller = Caller { uid: u32::MAX, gid: u32::MAX, groups: vec![u32::MAX] };
    assert_eq!(world.getattr(file).map(drop), Err(Status::Access));
}
