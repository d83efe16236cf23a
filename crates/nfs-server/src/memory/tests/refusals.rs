//! What POSIX and the RFC refuse, one line each.

use super::*;

/// A tree in which a user with the number 1000 works.
fn world() -> World {
    let mut world = World::new();
    world.mkdir("home", 0o755).unwrap();
    let mine = SetAttributes { uid: Some(1000), gid: Some(1000), ..SetAttributes::default() };
    world.set("home", mine).unwrap();
    world.as_user(1000, |world| {
        world.mkdir("home/dir", 0o755).unwrap();
        world.mkdir("home/dir/inner", 0o755).unwrap();
        world.mkdir("home/empty", 0o755).unwrap();
        world.create("home/file", 0o644).unwrap();
        world.create("home/secret", 0o600).unwrap();
        world.symlink("home/link", "file").unwrap();
    });
    world.mkdir("foreign", 0o755).unwrap();
    world.mkdir("foreign/open", 0o777).unwrap();
    world.mkdir("closed", 0o700).unwrap();
    world.create("closed/file", 0o666).unwrap();
    world.create("foreign/file", 0o666).unwrap();
    world.mkdir("sticky", 0o1777).unwrap();
    world.create("sticky/file", 0o666).unwrap();
    world
}

type Act = fn(&mut World) -> Result<(), Status>;

fn check(table: &[(&str, Act, Result<(), Status>)]) {
    for (what, act, expected) in table {
        // Each in a world of its own: what is not refused changes it.
        let mut world = world();
        assert_eq!(world.as_user(1000, act), *expected, "{what}");
    }
}

const LONG: &str = concat!(
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
);

#[test]
fn names() {
    use Status::*;
    check(&[
        ("look up nothing", |w| w.lookup("home/none").map(drop), Err(Noent)),
        ("look up without a name", |w| w.lookup("home/").map(drop), Err(Access)),
        ("look up a long name", |w| w.lookup(&format!("home/{LONG}")).map(drop), Err(Nametoolong)),
        ("look up the longest name", |w| w.lookup(&format!("home/{}", &LONG[1..])).map(drop), Err(Noent)),
        ("look up in a file", |w| w.lookup("home/file/x").map(drop), Err(Notdir)),
        ("look up where one may not", |w| w.lookup("closed/file").map(drop), Err(Access)),
        ("look up itself", |w| w.lookup("home/dir/.").map(drop), Ok(())),
        ("create what is there", |w| w.create("home/file", 0o644).map(drop), Err(Exist)),
        ("create over a link", |w| w.create("home/link", 0o644).map(drop), Err(Exist)),
        ("create itself", |w| w.create("home/.", 0o644).map(drop), Err(Exist)),
        ("create the parent", |w| w.mkdir("home/..", 0o755).map(drop), Err(Exist)),
        ("create in a foreign directory", |w| w.create("foreign/x", 0o644).map(drop), Err(Access)),
        ("create in an open directory", |w| w.create("foreign/open/x", 0o644).map(drop), Ok(())),
        ("create in a closed directory", |w| w.create("closed/x", 0o644).map(drop), Err(Access)),
        ("create in a file", |w| w.create("home/file/x", 0o644).map(drop), Err(Notdir)),
        ("create a long name", |w| w.create(&format!("home/{LONG}"), 0o644).map(drop), Err(Nametoolong)),
        ("create a name with a zero", |w| w.create("home/a\0b", 0o644).map(drop), Err(Inval)),
        ("make a directory over a file", |w| w.mkdir("home/file", 0o755).map(drop), Err(Exist)),
        ("make a link with a zero", |w| w.symlink("home/new", "a\0b").map(drop), Err(Inval)),
        ("make a link without a text", |w| w.symlink("home/new", "").map(drop), Err(Noent)),
        ("make a link over a directory", |w| w.symlink("home/dir", "x").map(drop), Err(Exist)),
        ("remove nothing", |w| w.remove("home/none"), Err(Noent)),
        ("remove a directory as a file", |w| w.remove("home/empty"), Err(Isdir)),
        ("remove itself", |w| w.remove("home/."), Err(Inval)),
        ("remove in a foreign directory", |w| w.remove("foreign/file"), Err(Access)),
        ("remove what is another's in a sticky directory", |w| w.remove("sticky/file"), Err(Perm)),
        ("remove a file that cannot be read", |w| w.remove("home/secret"), Ok(())),
        ("remove a file as a directory", |w| w.rmdir("home/file"), Err(Notdir)),
        ("remove a link as a directory", |w| w.rmdir("home/link"), Err(Notdir)),
        ("remove a full directory", |w| w.rmdir("home/dir"), Err(Notempty)),
        ("remove an empty directory", |w| w.rmdir("home/empty"), Ok(())),
        ("remove the directory itself", |w| w.rmdir("home/dir/."), Err(Inval)),
        ("remove the parent", |w| w.rmdir("home/dir/.."), Err(Exist)),
    ]);
}

#[test]
fn renames_and_links() {
    use Status::*;
    check(&[
        ("rename nothing", |w| w.rename("home/none", "home/x"), Err(Noent)),
        ("rename into itself", |w| w.rename("home/dir", "home/dir/x"), Err(Inval)),
        ("rename into what is in itself", |w| w.rename("home/dir", "home/dir/inner/x"), Err(Inval)),
        ("rename itself", |w| w.rename("home/.", "home/x"), Err(Inval)),
        ("rename to the parent", |w| w.rename("home/file", "home/.."), Err(Inval)),
        ("rename a file over a directory", |w| w.rename("home/file", "home/empty"), Err(Isdir)),
        ("rename a directory over a file", |w| w.rename("home/empty", "home/file"), Err(Notdir)),
        ("rename over a full directory", |w| w.rename("home/empty", "home/dir"), Err(Notempty)),
        ("rename over a directory above", |w| w.rename("home/dir/inner", "home/dir"), Err(Notempty)),
        ("rename over an empty directory", |w| w.rename("home/dir", "home/empty"), Ok(())),
        ("rename a file over a file", |w| w.rename("home/file", "home/secret"), Ok(())),
        ("rename to the same name", |w| w.rename("home/file", "home/file"), Ok(())),
        ("rename out of a foreign directory", |w| w.rename("foreign/file", "home/x"), Err(Access)),
        ("rename into a foreign directory", |w| w.rename("home/file", "foreign/x"), Err(Access)),
        ("rename to a long name", |w| w.rename("home/file", &format!("home/{LONG}")), Err(Nametoolong)),
        ("rename what is another's in a sticky directory", |w| w.rename("sticky/file", "home/x"), Err(Perm)),
        (
            "replace what is another's in a sticky directory",
            |w| w.rename("home/file", "sticky/file"),
            Err(Perm),
        ),
        ("link a directory", |w| w.link("home/dir", "home/x"), Err(Perm)),
        ("link over a file", |w| w.link("home/file", "home/secret"), Err(Exist)),
        ("link into a foreign directory", |w| w.link("home/file", "foreign/x"), Err(Access)),
        ("link a file", |w| w.link("home/file", "home/x"), Ok(())),
    ]);
    let mut world = world();
    // A move to another directory changes the "..".
    world.mkdir("foreign/open/locked", 0o755).unwrap();
    let moved = world.as_user(1000, |world| world.rename("foreign/open/locked", "home/x"));
    assert_eq!(moved, Err(Access));
    let renamed = world.as_user(1000, |world| world.rename("foreign/open/locked", "foreign/open/x"));
    assert_eq!(renamed, Ok(()));
}

#[test]
fn attributes() {
    use Status::*;
    const NONE: SetAttributes = SetAttributes {
        mode: None,
        uid: None,
        gid: None,
        size: None,
        atime: SetTime::Leave,
        mtime: SetTime::Leave,
    };
    const THEN: SetTime = SetTime::To(onego_nfs::v3::Time { seconds: 5, nanoseconds: 0 });
    const NEVER: SetTime = SetTime::To(onego_nfs::v3::Time { seconds: 5, nanoseconds: 1_000_000_000 });
    check(&[
        ("permissions of a foreign file", |w| w.set("foreign/file", mode(0o644)), Err(Perm)),
        ("permissions of one's own", |w| w.set("home/file", mode(0o644)), Ok(())),
        ("give a file away", |w| w.set("home/file", SetAttributes { uid: Some(5), ..NONE }), Err(Perm)),
        ("keep a file", |w| w.set("home/file", SetAttributes { uid: Some(1000), ..NONE }), Ok(())),
        ("take a file", |w| w.set("foreign/file", SetAttributes { uid: Some(1000), ..NONE }), Err(Perm)),
        ("a group of others", |w| w.set("home/file", SetAttributes { gid: Some(5), ..NONE }), Err(Perm)),
        ("a group of one's own", |w| w.set("home/file", SetAttributes { gid: Some(500), ..NONE }), Ok(())),
        (
            "the size of a directory",
            |w| w.set("home/dir", SetAttributes { size: Some(0), ..NONE }),
            Err(Isdir),
        ),
        ("the size of a link", |w| w.set("home/link", SetAttributes { size: Some(0), ..NONE }), Err(Inval)),
        (
            "a size beyond all",
            |w| w.set("home/file", SetAttributes { size: Some(1 << 63), ..NONE }),
            Err(Fbig),
        ),
        (
            "the size of a file for all",
            |w| w.set("foreign/file", SetAttributes { size: Some(0), ..NONE }),
            Ok(()),
        ),
        (
            "times of a foreign file",
            |w| w.set("foreign/file", SetAttributes { mtime: THEN, ..NONE }),
            Err(Perm),
        ),
        (
            "the server's time for a file for all",
            |w| w.set("foreign/file", SetAttributes { mtime: SetTime::ServerTime, ..NONE }),
            Ok(()),
        ),
        (
            "the server's time for a foreign file",
            |w| w.set("foreign", SetAttributes { mtime: SetTime::ServerTime, ..NONE }),
            Err(Access),
        ),
        ("a time that is none", |w| w.set("home/file", SetAttributes { mtime: NEVER, ..NONE }), Err(Inval)),
    ]);
}

#[test]
fn data() {
    use Status::*;
    check(&[
        ("read a directory", |w| w.read("home/dir", 0, 1).map(drop), Err(Inval)),
        ("write to a link", |w| w.write("home/link", 0, b"x"), Err(Inval)),
        ("write beyond all", |w| w.write("home/file", (1 << 63) - 1, b"xy"), Err(Fbig)),
        ("write at the end of all", |w| w.write("home/file", u64::MAX, b"xy"), Err(Fbig)),
        ("write to a file for all", |w| w.write("foreign/file", 0, b"x"), Ok(())),
        ("make a device", |w| w.node("home/x", &Node::Block(mode(0o600), Device::default())), Err(Perm)),
        ("make a pipe", |w| w.node("home/x", &Node::Fifo(mode(0o600))), Ok(())),
        ("make a file by MKNOD", |w| w.node("home/x", &Node::Other(FileType::Regular)), Err(Badtype)),
    ]);
    let mut world = world();
    assert_eq!(world.as_user(1001, |world| world.read("home/secret", 0, 1)), Err(Access));
    assert_eq!(world.as_user(1001, |world| world.write("home/file", 0, b"x")), Err(Access));
    // Its owner may have opened it before.
    world.set("home/file", mode(0)).unwrap();
    assert_eq!(world.as_user(1000, |world| world.write("home/file", 0, b"x")), Ok(()));
}

impl World {
    fn node(&mut self, path: &str, what: &Node) -> Result<(), Status> {
        let args = MknodArgs { place: self.place(path), what: *what };
        self.call(Memory::mknod, args).map(drop).map_err(|failed| failed.status)
    }
}

#[test]
fn handles() {
    let mut world = world();
    let (file, dir) = (world.file("home/file"), world.file("home/empty"));
    world.remove("home/file").unwrap();
    world.rmdir("home/empty").unwrap();
    // Their places in the table are taken again.
    world.create("home/file", 0o644).unwrap();
    world.mkdir("home/empty", 0o755).unwrap();
    let get = |world: &mut World, file| world.call(Memory::getattr, file).map_err(|failed| failed.status);
    assert_eq!(get(&mut world, file), Err(Status::Stale));
    assert_eq!(get(&mut world, dir), Err(Status::Stale));
    let place = Place { dir, name: "x".into() };
    assert_eq!(world.call(Memory::lookup, place).unwrap_err().status, Status::Stale);
    let mut other = World::new();
    other.fs.instance = 8;
    let foreign = other.root();
    assert_eq!(get(&mut world, foreign), Err(Status::Stale));
    assert_eq!(get(&mut world, Handle::new(b"short").unwrap()), Err(Status::Badhandle));
}

#[test]
fn access_shows_what_the_bits_permit() {
    let mut world = world();
    let granted = |world: &mut World, uid, path, wanted| {
        let args = AccessArgs { file: world.file(path), wanted };
        world.as_user(uid, |world| world.call(Memory::access, args)).unwrap().granted
    };
    world.mkdir("some", 0o750).unwrap();
    let owners = |uid| SetAttributes { uid: Some(uid), gid: Some(500), ..SetAttributes::default() };
    world.set("some", owners(10)).unwrap();
    assert_eq!(granted(&mut world, 10, "some", access::ALL), access::ALL & !access::EXECUTE);
    // Every user of these tests is in the group 500.
    assert_eq!(granted(&mut world, 11, "some", access::ALL), access::READ | access::LOOKUP);
    world.set("some", SetAttributes { gid: Some(20), ..SetAttributes::default() }).unwrap();
    assert_eq!(granted(&mut world, 11, "some", access::ALL), 0);
    world.create("some/file", 0o070).unwrap();
    world.set("some/file", owners(10)).unwrap();
    assert_eq!(granted(&mut world, 11, "some/file", access::READ), access::READ);
    assert_eq!(granted(&mut world, 11, "some/file", access::EXECUTE | access::DELETE), access::EXECUTE);
}
