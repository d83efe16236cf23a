//! Attacks on a directory that our server of NFS exports, by clients that name any user they like, and what honest
//! callers do all the same. What counts is what is on the disk then.

use super::wire::{self, Attacker, Handle, Reader, Reply, Set, User, Words, mode, user};
use crate::cluster::{ADDRESS, Embedded, Stage};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The directory that is exported
    export: PathBuf,
    /// Where the server is
    address: SocketAddr,
}

/// A user who has an account, and another one.
const USER: u32 = 1000;
const OTHER: u32 = 1001;
/// A group that `USER` is in.
const GROUP: u32 = 1500;
const NOBODY: u32 = 65_534;
const NO_ID: u32 = u32::MAX;

/// Which ports connections come from in a network namespace.
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// The first port that takes no privileges.
const FIRST_FREE: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// How often the race is run, and how many calls run against the CREATE.
const RACES: usize = 1000;
const RIVALS: usize = 6;

/// An attack: its name, and what carries it out. An error says what it gained.
type Attack = (&'static str, fn(&mut Field) -> Result<()>);

const ATTACKS: &[Attack] = &[
    ("honest callers work", honest),
    ("calls by 4294967295", ids_of_callers),
    ("files for 4294967295", ids_of_files),
    ("root is nobody", root),
    ("owners of new files", owners),
    ("a race for the name of a new file", race),
    ("hard links to files of others", links),
    ("setuid bits of files of others", privileges),
    ("handles from a directory that cannot be searched", listing),
    ("access control lists", lists),
    ("a directory that was moved out", moved),
    ("links on the way of a MOUNT", mounts),
    ("ports of all users", ports),
];

/// The scenario: a server as root, with its default options, on the stage.
pub(crate) fn run(stage: &Stage) -> Result<()> {
    fs::create_dir(stage.path("export"))?;
    let _server = Embedded::start_nfs(stage, "export")?;
    let xtask = std::env::current_exe()?;
    let line = format!("nfs-attack {} {ADDRESS}:2049", stage.path("export").display());
    let said = crate::sh::text(&mut stage.program(&xtask, &line))?;
    let held = said.lines().filter(|line| line.starts_with("held: ")).count();
    ensure!(held == ATTACKS.len(), "{held} attacks of {} were carried out:\n{said}", ATTACKS.len());
    Ok(())
}

/// Carries the attacks out, in the server's network and on its machine. An error names those that gained something.
pub(crate) fn attack(options: &Options) -> Result<()> {
    // All connections come from ports that only root may take, until an attack is about that.
    fs::write(FIRST_FREE, "0")?;
    fs::write(PORTS, "600 1000")?;
    let mut won = Vec::new();
    for (name, carry_out) in ATTACKS {
        let result = Field::new(options).and_then(|mut field| carry_out(&mut field));
        match result {
            Ok(()) => println!("held: {name}"),
            Err(error) => won.push(format!("{name}: {error:#}")),
        }
    }
    if won.is_empty() { Ok(()) } else { bail!("attacks have gained something:\n  {}", won.join("\n  ")) }
}

/// A fresh directory for everybody in the export, and a connection.
struct Field {
    address: SocketAddr,
    export: PathBuf,
    client: Attacker,
    root: Handle,
}

impl Field {
    fn new(options: &Options) -> Result<Self> {
        let Options { export, address } = options;
        for entry in fs::read_dir(export)? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        fs::set_permissions(export, Permissions::from_mode(0o777))?;
        let mut client = Attacker::connect(*address)?;
        let root = client.mount(&user(0), "/export")?;
        let root = root.map_err(|status| anyhow::anyhow!("the export cannot be mounted: {status}"))?;
        Ok(Self { address: *address, export: export.clone(), client, root })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.export.join(name)
    }

    /// Makes a file of root's.
    fn file(&self, name: &str, mode: u32) -> Result<()> {
        fs::write(self.path(name), "root's")?;
        Ok(fs::set_permissions(self.path(name), Permissions::from_mode(mode))?)
    }

    fn look_up(&mut self, caller: &User, name: &str) -> Result<Handle> {
        let found = self.client.look_up(caller, &self.root.clone(), name)?;
        found.map_err(|status| anyhow::anyhow!("{name} is not found: {status}"))
    }

    fn create(&mut self, caller: &User, name: &str, set: Set) -> Result<Result<Handle, u32>> {
        self.client.create(caller, &self.root.clone(), name, &set)
    }

    /// Makes one of every type but devices: `NAME file`, `NAME directory`, `NAME fifo` and `NAME link`.
    fn make_all(&mut self, caller: &User, name: &str, set: Set) -> Result<[u32; 4]> {
        let place = |kind: &str| Words::default().place(&self.root, &format!("{name} {kind}"));
        let calls = [
            (wire::CREATE, place("file").u32(1).set(&set)),
            (wire::MKDIR, place("directory").set(&set)),
            (wire::MKNOD, place("fifo").u32(7).set(&set)),
            (wire::SYMLINK, place("link").set(&set).opaque(b"target")),
        ];
        let mut statuses = [0; 4];
        for (status, (procedure, args)) in statuses.iter_mut().zip(calls) {
            *status = self.client.status(procedure, caller, args)?;
        }
        Ok(statuses)
    }

    /// Everything in the export: owner, group and mode.
    fn all(&self) -> Result<BTreeMap<String, (u32, u32, u32)>> {
        let entry = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.file_name().to_string_lossy().into_owned(), owner(&entry.path())?))
        };
        fs::read_dir(&self.export)?.map(entry).collect()
    }

    /// All that callers have made must belong to them.
    fn all_belong_to(&self, uid: u32) -> Result<()> {
        let all = self.all()?;
        let is_theirs = |(owner, group, _): &(u32, u32, u32)| (*owner, *group) == (uid, uid);
        ensure!(all.values().all(is_theirs), "not all files are {uid}'s: {all:?}");
        Ok(())
    }
}

/// Owner, group and mode of a file.
fn owner(path: &Path) -> Result<(u32, u32, u32)> {
    let stat = fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    Ok((stat.uid(), stat.gid(), stat.mode() & 0o7777))
}

/// A caller does with its files what a local user does.
fn honest(field: &mut Field) -> Result<()> {
    let me = User { groups: vec![GROUP], ..user(USER) };
    let file =
        field.create(&me, "mine", mode(0o640))?.map_err(|status| anyhow::anyhow!("CREATE: {status}"))?;
    let root = field.root.clone();
    ensure!(field.client.write(&me, &file, b"bytes")? == wire::OK, "WRITE is refused");
    ensure!(field.client.read(&me, &file)? == Ok(b"bytes".to_vec()), "READ gives other bytes");
    let group = Set { gid: Some(GROUP), ..mode(0o2750) };
    ensure!(field.client.set(&me, &file, &group)? == wire::OK, "SETATTR of group and mode is refused");
    ensure!(owner(&field.path("mine"))? == (USER, GROUP, 0o2750), "{:?}", field.all()?);
    let link = Words::default().opaque(&file).place(&root, "link");
    ensure!(field.client.status(wire::LINK, &me, link)? == wire::OK, "LINK is refused");
    let rename = Words::default().place(&root, "link").place(&root, "renamed");
    ensure!(field.client.status(wire::RENAME, &me, rename)? == wire::OK, "RENAME is refused");
    // A user who has opened a file goes on with it, whatever its mode has become.
    ensure!(field.client.set(&me, &file, &mode(0o400))? == wire::OK, "SETATTR of the mode is refused");
    ensure!(field.client.write(&me, &file, b"BYTES")? == wire::OK, "the owner may not WRITE");
    ensure!(fs::read(field.path("renamed"))? == b"BYTES", "the file has other bytes");
    ensure!(field.client.read(&user(OTHER), &file)? == Err(wire::ACCES), "another user may READ");
    ensure!(field.make_all(&me, "all", mode(0o755))? == [wire::OK; 4], "not everything can be made");
    for kind in ["file", "directory", "fifo", "link"] {
        let (uid, gid, _) = owner(&field.path(&format!("all {kind}")))?;
        ensure!((uid, gid) == (USER, USER), "a new {kind} belongs to {uid}:{gid}");
    }
    let remove = Words::default().place(&root, "renamed");
    ensure!(field.client.status(wire::REMOVE, &me, remove)? == wire::OK, "REMOVE is refused");
    ensure!(field.all()?.len() == 5, "{:?}", field.all()?);
    Ok(())
}

/// A call by an impossible user is one by nobody.
fn ids_of_callers(field: &mut Field) -> Result<()> {
    field.make_all(&user(NO_ID), "both", mode(0o4777))?;
    field.all_belong_to(NOBODY)?;
    field.make_all(&User { gid: NO_ID, ..user(USER) }, "group", mode(0o2777))?;
    field.make_all(&User { uid: NO_ID, ..user(USER) }, "user", mode(0o4777))?;
    let all = field.all()?;
    let is_roots = |(uid, gid, _): &(u32, u32, u32)| *uid == 0 || *gid == 0;
    ensure!(!all.values().any(is_roots), "files are root's: {all:?}");
    Ok(())
}

/// No file is left to root, and none keeps its bits, by an owner that is nobody possible.
fn ids_of_files(field: &mut Field) -> Result<()> {
    let me = user(USER);
    let ids = Set { uid: Some(NO_ID), gid: Some(NO_ID), ..mode(0o4777) };
    field.make_all(&me, "made", ids)?;
    field.all_belong_to_if_any(USER)?;
    let file =
        field.create(&me, "mine", mode(0o755))?.map_err(|status| anyhow::anyhow!("CREATE: {status}"))?;
    for ids in [Set { uid: Some(NO_ID), ..Set::default() }, Set { gid: Some(NO_ID), ..Set::default() }] {
        ensure!(field.client.set(&me, &file, &ids)? == wire::INVAL, "SETATTR takes 4294967295");
    }
    field.file("root's", 0o6755)?;
    let file = field.look_up(&me, "root's")?;
    field.client.set(&me, &file, &ids)?;
    ensure!(owner(&field.path("root's"))? == (0, 0, 0o6755), "root's file was changed: {:?}", field.all()?);
    Ok(())
}

impl Field {
    fn all_belong_to_if_any(&self, uid: u32) -> Result<()> {
        if fs::read_dir(&self.export)?.next().is_none() { Ok(()) } else { self.all_belong_to(uid) }
    }
}

/// Root is nobody, and so is its group, also among the further ones.
fn root(field: &mut Field) -> Result<()> {
    field.make_all(&User { groups: vec![0, 0], ..user(0) }, "made", mode(0o6777))?;
    field.all_belong_to(NOBODY)?;
    field.file("group's", 0o660)?;
    for caller in [user(0), User { gid: 0, ..user(USER) }, User { groups: vec![0], ..user(USER) }] {
        let file = field.look_up(&caller, "group's")?;
        ensure!(field.client.read(&caller, &file)? == Err(wire::ACCES), "{caller:?} reads root's file");
        ensure!(field.client.write(&caller, &file, b"x")? == wire::ACCES, "{caller:?} writes root's file");
    }
    ensure!(fs::read(field.path("group's"))? == b"root's", "root's file has other bytes");
    let device = Words::default().place(&field.root, "null").u32(4).set(&mode(0o666)).u32(1).u32(3);
    ensure!(field.client.status(wire::MKNOD, &user(0), device)? == wire::PERM, "root makes a device");
    Ok(())
}

/// Nobody makes files for others, or gives them away.
fn owners(field: &mut Field) -> Result<()> {
    let me = user(USER);
    field.make_all(&me, "made", Set { uid: Some(0), gid: Some(0), ..mode(0o6777) })?;
    field.all_belong_to_if_any(USER)?;
    let file =
        field.create(&me, "mine", mode(0o755))?.map_err(|status| anyhow::anyhow!("CREATE: {status}"))?;
    for set in [Set { uid: Some(0), ..Set::default() }, Set { gid: Some(0), ..Set::default() }] {
        let status = field.client.set(&me, &file, &set)?;
        ensure!(status == wire::PERM, "a file can be given to root: {status}");
    }
    field.file("root's", 0o644)?;
    let file = field.look_up(&me, "root's")?;
    for set in [mode(0o777), Set { uid: Some(USER), ..Set::default() }] {
        ensure!(field.client.set(&me, &file, &set)? == wire::PERM, "root's file can be taken");
    }
    ensure!(owner(&field.path("root's"))? == (0, 0, 0o644), "root's file was changed");
    Ok(())
}

/// RENAMEs on the same connection put files of root's under the name of the file that a CREATE makes.
fn race(field: &mut Field) -> Result<()> {
    let me = user(USER);
    let secrets: Vec<_> = (0..RIVALS).map(|number| format!("secret {number}")).collect();
    for round in 0..RACES {
        secrets.iter().try_for_each(|secret| field.file(secret, 0o600))?;
        let place = |name: &str| Words::default().place(&field.root, name);
        let create = (wire::CREATE, place("new").u32(0).set(&mode(0o4755)));
        let renames = secrets.iter().map(|secret| (wire::RENAME, place(secret).place(&field.root, "new")));
        let calls = std::iter::once(create).chain(renames).collect();
        field.client.at_once(&me, calls)?;
        for (name, (uid, _, mode)) in field.all()? {
            let is_roots = fs::read(field.path(&name))? == b"root's";
            ensure!(
                !is_roots || (uid, mode) == (0, 0o600),
                "round {round}: root's file is {uid}'s, {mode:o}"
            );
            ensure!(
                is_roots || (uid, mode) == (USER, 0o4755),
                "round {round}: the new file is {uid}'s, {mode:o}"
            );
            fs::remove_file(field.path(&name))?;
        }
    }
    Ok(())
}

/// A hard link would keep a file that its owner removes, and have it where the quota or the next fault is.
fn links(field: &mut Field) -> Result<()> {
    let protected = fs::read_to_string("/proc/sys/fs/protected_hardlinks")?;
    ensure!(
        protected.trim() == "1",
        "this machine lets every user link files of others (fs.protected_hardlinks)"
    );
    field.file("root's", 0o4755)?;
    let me = user(USER);
    let file = field.look_up(&me, "root's")?;
    let link = Words::default().opaque(&file).place(&field.root, "link");
    let status = field.client.status(wire::LINK, &me, link)?;
    ensure!(status == wire::PERM && !field.path("link").exists(), "LINK: {status}, {:?}", field.all()?);
    Ok(())
}

/// A change of the bytes of a program takes its privileges.
fn privileges(field: &mut Field) -> Result<()> {
    let me = user(USER);
    let changes: [fn(&mut Field, &User) -> Result<u32>; 3] = [
        |field, me| {
            let file = field.look_up(me, "program")?;
            field.client.set(me, &file, &Set { size: Some(2), ..Set::default() })
        },
        |field, me| {
            let place = Words::default().place(&field.root, "program").u32(0);
            field.client.status(wire::CREATE, me, place.set(&Set { size: Some(0), ..Set::default() }))
        },
        |field, me| {
            let file = field.look_up(me, "program")?;
            field.client.write(me, &file, b"mine")
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        field.file("program", 0o6777)?;
        ensure!(change(field, &me)? == wire::OK, "change {number} is refused");
        let after = owner(&field.path("program"))?;
        ensure!(after == (0, 0, 0o777), "after change {number} the program is {after:?}");
    }
    Ok(())
}

/// A directory that can be read but not searched gives names, and nothing to open them by.
fn listing(field: &mut Field) -> Result<()> {
    fs::create_dir(field.path("list"))?;
    fs::write(field.path("list/open"), "bytes")?;
    fs::set_permissions(field.path("list"), Permissions::from_mode(0o704))?;
    let me = user(USER);
    let dir = field.look_up(&me, "list")?;
    ensure!(field.client.look_up(&me, &dir, "open")? == Err(wire::ACCES), "LOOKUP is not refused");
    let args = Words::default().opaque(&dir).u64(0).u64(0).u32(8000).u32(8000);
    let results = field.client.results(wire::READDIRPLUS, &me, args)?;
    let mut r = Reader(&results);
    ensure!(r.u32()? == wire::OK, "READDIRPLUS is refused");
    r.attributes()?;
    r.skip(2)?;
    let mut names = Vec::new();
    while r.u32()? == 1 {
        r.skip(2)?;
        let name = String::from_utf8(r.opaque()?)?;
        r.skip(2)?;
        let (attributes, handle) = (r.attributes()?, r.handle()?);
        if name == "open" {
            let read = handle.as_ref().map(|file| field.client.read(&me, file)).transpose()?;
            ensure!(handle.is_none() && !attributes, "READDIRPLUS gives a handle, which reads {read:?}");
        }
        names.push(name);
    }
    ensure!(names.iter().any(|name| name == "open"), "READDIRPLUS gives {names:?}");
    Ok(())
}

/// The mask of an ACL stands where the rights of the group do, and gives the group nothing.
fn lists(field: &mut Field) -> Result<()> {
    field.file("listed", 0o600)?;
    chown(field.path("listed"), None, Some(GROUP))?;
    let rights = format!("u:{OTHER}:rw,g::---,m::rw,o::---");
    let mut setfacl = Command::new("setfacl");
    crate::sh::run(setfacl.args(["-m", &rights]).arg(field.path("listed")))?;
    ensure!(owner(&field.path("listed"))?.2 == 0o660, "{:?}", field.all()?);
    let me = User { groups: vec![GROUP], ..user(USER) };
    let file = field.look_up(&me, "listed")?;
    ensure!(field.client.read(&me, &file)? == Err(wire::ACCES), "a member of the group reads the file");
    ensure!(field.client.write(&me, &file, b"x")? == wire::ACCES, "a member of the group writes the file");
    ensure!(field.client.read(&user(OTHER), &file)? == Ok(b"root's".to_vec()), "who is listed cannot read");
    ensure!(field.client.write(&user(OTHER), &file, b"other")? == wire::OK, "who is listed cannot write");
    Ok(())
}

/// What is put into a directory after it was moved out of the export was never given to anybody.
fn moved(field: &mut Field) -> Result<()> {
    fs::create_dir_all(field.path("dir/inner"))?;
    let me = user(USER);
    let dir = field.look_up(&me, "dir")?;
    let inner =
        field.client.look_up(&me, &dir, "inner")?.map_err(|status| anyhow::anyhow!("LOOKUP: {status}"))?;
    let outside = field.export.with_file_name("outside");
    fs::rename(field.path("dir"), &outside)?;
    let attacked = (|| {
        fs::write(outside.join("inner/private"), "private")?;
        for dir in [&dir, &inner] {
            let args = Words::default().opaque(dir).u64(0).u64(0).u32(8000);
            ensure!(field.client.status(wire::READDIR, &me, args)? == wire::STALE, "READDIR works outside");
        }
        let found = field.client.look_up(&me, &inner, "private")?;
        let read = found.as_ref().ok().map(|file| field.client.read(&me, file)).transpose()?;
        ensure!(found == Err(wire::STALE), "LOOKUP works outside, and what is found reads {read:?}");
        Ok(())
    })();
    fs::remove_dir_all(outside)?;
    attacked
}

/// MOUNT follows links within the export, and none out of it.
fn mounts(field: &mut Field) -> Result<()> {
    fs::create_dir_all(field.path("dir/inner"))?;
    for (link, target) in [("inside", "dir"), ("up", "../outside"), ("etc", "/etc"), ("loop", "loop")] {
        symlink(target, field.path(link))?;
    }
    let outside = field.export.with_file_name("outside");
    fs::create_dir_all(&outside)?;
    let me = user(USER);
    let mut mount = |path: &str| field.client.mount(&me, path);
    let inner = mount("/export/dir/inner")?;
    ensure!(
        inner.is_ok() && mount("/export/inside/inner")? == inner,
        "a link within the export is not followed"
    );
    for path in
        ["/export/up", "/export/etc", "/export/loop", "/export/../outside", "/export/inside/../../outside"]
    {
        ensure!(mount(path)?.is_err(), "{path} can be mounted");
    }
    Ok(fs::remove_dir(outside)?)
}

/// A user without privileges on a host that is let in cannot make calls at all.
fn ports(field: &mut Field) -> Result<()> {
    fs::write(PORTS, "32768 60999")?;
    let mut client = Attacker::connect(field.address)?;
    let denied = client.ping(&user(USER), &field.root)?;
    ensure!(denied == Reply::Denied(wire::TOO_WEAK), "a call from a port of every user is answered");
    ensure!(client.mount(&user(USER), "/export")? == Err(wire::ACCES), "a port of every user can MOUNT");
    ensure!(
        matches!(field.client.ping(&user(USER), &field.root)?, Reply::Results(_)),
        "others are refused, too"
    );
    Ok(())
}
