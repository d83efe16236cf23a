//! Attacks on an exported directory by clients that claim any identity, and what honest callers do. The files on the
//! disk decide.

use super::wire::{self, Answer, Attacker, Handle, Reader, Reply, Set, User, Words, granted, mode, user};
use anyhow::{Context as _, Result, bail, ensure};
use onego_sandbox::{ADDRESS, Sandbox, Server};
use rustix::fs::{XattrFlags, setxattr};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Options {
    export: PathBuf,
    address: SocketAddr,
}

/// A user with an account, and another one.
const USER: u32 = 1000;
const OTHER: u32 = 1001;
/// A supplementary group of `USER`.
const GROUP: u32 = 1500;
const NOBODY: u32 = 65_534;
const NO_ID: u32 = u32::MAX;

/// Local ports of connections in a network namespace, and the first one that needs no privileges.
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const FIRST_FREE: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// Repetitions of the race, and calls that race with the CREATE.
const RACES: usize = 1000;
const RIVALS: usize = 6;

/// A name and an attack that fails if it gains something.
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
    ("links in the path of a MOUNT", mounts),
    ("ports of all users", ports),
];

/// Attacks a server that runs as root with its default options.
pub(super) fn run(sandbox: &Sandbox) -> Result<()> {
    fs::create_dir(sandbox.path("export"))?;
    let _server = Server::nfs(sandbox, "export")?;
    let said = super::attack(sandbox, &format!("nfs-attack export {ADDRESS}:2049"))?;
    let held = said.lines().filter(|line| line.starts_with("held: ")).count();
    ensure!(held == ATTACKS.len(), "{held} of {} attacks ran:\n{said}", ATTACKS.len());
    Ok(())
}

/// Attacks in the server's network and on its machine. An error names the attacks that gained something.
pub(super) fn attack(options: &Options) -> Result<()> {
    // All connections come from privileged ports, until an attack is about that.
    fs::write(FIRST_FREE, "0")?;
    fs::write(PORTS, "600 1000")?;
    let mut won = Vec::new();
    for (name, carry_out) in ATTACKS {
        match Field::new(options).and_then(|mut field| carry_out(&mut field)) {
            Ok(()) => println!("held: {name}"),
            Err(error) => won.push(format!("{name}: {error:#}")),
        }
    }
    if won.is_empty() { Ok(()) } else { bail!("attacks have gained something:\n  {}", won.join("\n  ")) }
}

/// An empty export with mode 777, and a connection.
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
            let is_folder = path.is_dir() && !path.is_symlink();
            if is_folder { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        fs::set_permissions(export, Permissions::from_mode(0o777))?;
        let mut client = Attacker::connect(*address)?;
        let root = granted("MOUNT", client.mount(&user(0), "/export")?)?;
        Ok(Self { address: *address, export: export.clone(), client, root })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.export.join(name)
    }

    /// Creates a file that belongs to root.
    fn file(&self, name: &str, mode: u32) -> Result<()> {
        fs::write(self.path(name), "root's")?;
        Ok(fs::set_permissions(self.path(name), Permissions::from_mode(mode))?)
    }

    fn look_up(&mut self, caller: &User, name: &str) -> Result<Handle> {
        granted("LOOKUP", self.client.look_up(caller, &self.root, name)?)
    }

    fn create(&mut self, caller: &User, name: &str, set: Set) -> Result<Handle> {
        granted("CREATE", self.client.create(caller, &self.root, name, &set)?)
    }

    fn set(&mut self, caller: &User, file: &Handle, set: Set) -> Result<u32> {
        self.client.set(caller, file, &set)
    }

    fn read(&mut self, caller: &User, file: &Handle) -> Result<Answer<Vec<u8>>> {
        self.client.read(caller, file)
    }

    fn write(&mut self, caller: &User, file: &Handle, data: &[u8]) -> Result<u32> {
        self.client.write(caller, file, data)
    }

    fn status(&mut self, procedure: u32, caller: &User, args: Words) -> Result<u32> {
        self.client.status(procedure, caller, &args)
    }

    /// Creates one of every type but devices: `NAME file`, `NAME directory`, `NAME fifo` and `NAME link`.
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
            *status = self.status(procedure, caller, args)?;
        }
        Ok(statuses)
    }

    /// Returns owner, group and mode of everything in the export.
    fn all(&self) -> Result<BTreeMap<String, (u32, u32, u32)>> {
        let entry = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.file_name().to_string_lossy().into_owned(), owner(&entry.path())?))
        };
        fs::read_dir(&self.export)?.map(entry).collect()
    }

    fn all_belong_to(&self, uid: u32) -> Result<()> {
        let all = self.all()?;
        let is_theirs = |(owner, group, _): &(u32, u32, u32)| (*owner, *group) == (uid, uid);
        ensure!(all.values().all(is_theirs), "not all files belong to {uid}: {all:?}");
        Ok(())
    }
}

/// Returns owner, group and mode of a file.
fn owner(path: &Path) -> Result<(u32, u32, u32)> {
    let stat = fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    Ok((stat.uid(), stat.gid(), stat.mode() & 0o7777))
}

/// A caller can do with its files what a local user can.
fn honest(field: &mut Field) -> Result<()> {
    let me = User { groups: vec![GROUP], ..user(USER) };
    let file = field.create(&me, "mine", mode(0o640))?;
    let root = field.root.clone();
    ensure!(field.write(&me, &file, b"bytes")? == wire::OK, "WRITE is refused");
    ensure!(field.read(&me, &file)? == Ok(b"bytes".to_vec()), "READ returns other bytes");
    let group = Set { gid: Some(GROUP), ..mode(0o2750) };
    ensure!(field.set(&me, &file, group)? == wire::OK, "SETATTR of group and mode is refused");
    ensure!(owner(&field.path("mine"))? == (USER, GROUP, 0o2750), "{:?}", field.all()?);
    let link = Words::default().opaque(&file).place(&root, "link");
    ensure!(field.status(wire::LINK, &me, link)? == wire::OK, "LINK is refused");
    let rename = Words::default().place(&root, "link").place(&root, "renamed");
    ensure!(field.status(wire::RENAME, &me, rename)? == wire::OK, "RENAME is refused");
    // A user who has opened a file keeps access when its mode changes.
    ensure!(field.set(&me, &file, mode(0o400))? == wire::OK, "SETATTR of the mode is refused");
    ensure!(field.write(&me, &file, b"BYTES")? == wire::OK, "the owner may not WRITE");
    ensure!(fs::read(field.path("renamed"))? == b"BYTES", "the file has other bytes");
    ensure!(field.read(&user(OTHER), &file)? == Err(wire::ACCES), "another user may READ");
    ensure!(field.make_all(&me, "all", mode(0o755))? == [wire::OK; 4], "not everything can be created");
    for kind in ["file", "directory", "fifo", "link"] {
        let (uid, gid, _) = owner(&field.path(&format!("all {kind}")))?;
        ensure!((uid, gid) == (USER, USER), "a new {kind} belongs to {uid}:{gid}");
    }
    let remove = Words::default().place(&root, "renamed");
    ensure!(field.status(wire::REMOVE, &me, remove)? == wire::OK, "REMOVE is refused");
    ensure!(field.all()?.len() == 5, "{:?}", field.all()?);
    Ok(())
}

/// A call by an impossible user counts as one by nobody.
fn ids_of_callers(field: &mut Field) -> Result<()> {
    field.make_all(&user(NO_ID), "both", mode(0o4777))?;
    field.all_belong_to(NOBODY)?;
    field.make_all(&User { gid: NO_ID, ..user(USER) }, "group", mode(0o2777))?;
    field.make_all(&User { uid: NO_ID, ..user(USER) }, "user", mode(0o4777))?;
    let all = field.all()?;
    ensure!(all.values().all(|(uid, gid, _)| *uid != 0 && *gid != 0), "files are root's: {all:?}");
    Ok(())
}

/// An impossible owner neither leaves a file to root nor keeps its mode bits.
fn ids_of_files(field: &mut Field) -> Result<()> {
    let me = user(USER);
    let ids = Set { uid: Some(NO_ID), gid: Some(NO_ID), ..Set::default() };
    field.make_all(&me, "made", Set { mode: Some(0o4777), ..ids })?;
    field.all_belong_to(USER)?;
    let file = field.create(&me, "mine", mode(0o755))?;
    for ids in [Set { gid: None, ..ids }, Set { uid: None, ..ids }] {
        ensure!(field.set(&me, &file, ids)? == wire::INVAL, "SETATTR accepts 4294967295");
    }
    field.file("root's", 0o6755)?;
    let file = field.look_up(&me, "root's")?;
    field.set(&me, &file, Set { mode: Some(0o4777), ..ids })?;
    ensure!(owner(&field.path("root's"))? == (0, 0, 0o6755), "root's file was changed: {:?}", field.all()?);
    Ok(())
}

/// Root is nobody, and so is its group, even as a supplementary one.
fn root(field: &mut Field) -> Result<()> {
    field.make_all(&User { groups: vec![0, 0], ..user(0) }, "made", mode(0o6777))?;
    field.all_belong_to(NOBODY)?;
    field.file("group's", 0o660)?;
    for caller in [user(0), User { gid: 0, ..user(USER) }, User { groups: vec![0], ..user(USER) }] {
        let file = field.look_up(&caller, "group's")?;
        ensure!(field.read(&caller, &file)? == Err(wire::ACCES), "{caller:?} reads root's file");
        ensure!(field.write(&caller, &file, b"x")? == wire::ACCES, "{caller:?} writes root's file");
    }
    ensure!(fs::read(field.path("group's"))? == b"root's", "root's file has other bytes");
    let device = Words::default().place(&field.root, "null").u32(4).set(&mode(0o666)).u32(1).u32(3);
    ensure!(field.status(wire::MKNOD, &user(0), device)? == wire::PERM, "root makes a device");
    Ok(())
}

/// A caller can neither create files for others nor give files away.
fn owners(field: &mut Field) -> Result<()> {
    let (me, to_root) = (user(USER), Set { uid: Some(0), gid: Some(0), ..Set::default() });
    field.make_all(&me, "made", Set { mode: Some(0o6777), ..to_root })?;
    field.all_belong_to(USER)?;
    let file = field.create(&me, "mine", mode(0o755))?;
    for set in [Set { gid: None, ..to_root }, Set { uid: None, ..to_root }] {
        let status = field.set(&me, &file, set)?;
        ensure!(status == wire::PERM, "a file can be given to root: {status}");
    }
    field.file("root's", 0o644)?;
    let file = field.look_up(&me, "root's")?;
    for set in [mode(0o777), Set { uid: Some(USER), ..Set::default() }] {
        ensure!(field.set(&me, &file, set)? == wire::PERM, "root's file can be taken");
    }
    ensure!(owner(&field.path("root's"))? == (0, 0, 0o644), "root's file was changed");
    Ok(())
}

/// RENAMEs on the same connection move root's files to the name of the file that a CREATE makes.
fn race(field: &mut Field) -> Result<()> {
    let me = user(USER);
    let secrets: Vec<_> = (0..RIVALS).map(|number| format!("secret {number}")).collect();
    for round in 0..RACES {
        secrets.iter().try_for_each(|secret| field.file(secret, 0o600))?;
        let place = |name: &str| Words::default().place(&field.root, name);
        let create = (wire::CREATE, place("new").u32(0).set(&mode(0o4755)));
        let renames = secrets.iter().map(|secret| (wire::RENAME, place(secret).place(&field.root, "new")));
        let calls: Vec<_> = std::iter::once(create).chain(renames).collect();
        field.client.at_once(&me, &calls)?;
        for (name, (uid, _, mode)) in field.all()? {
            let is_roots = fs::read(field.path(&name))? == b"root's";
            let (file, expected) =
                if is_roots { ("root's", (0, 0o600)) } else { ("the new", (USER, 0o4755)) };
            ensure!((uid, mode) == expected, "round {round}: {file} file has owner {uid}, mode {mode:o}");
            fs::remove_file(field.path(&name))?;
        }
    }
    Ok(())
}

/// A hard link would keep a file after its owner removes it, against a quota or a security fix.
fn links(field: &mut Field) -> Result<()> {
    let protected = fs::read_to_string("/proc/sys/fs/protected_hardlinks")?;
    ensure!(protected.trim() == "1", "this machine has fs.protected_hardlinks off: every user may link");
    field.file("root's", 0o4755)?;
    let me = user(USER);
    let file = field.look_up(&me, "root's")?;
    let link = Words::default().opaque(&file).place(&field.root, "link");
    let status = field.status(wire::LINK, &me, link)?;
    ensure!(status == wire::PERM && !field.path("link").exists(), "LINK: {status}, {:?}", field.all()?);
    Ok(())
}

/// A program whose bytes change loses its privileges.
fn privileges(field: &mut Field) -> Result<()> {
    let me = user(USER);
    let size = |size| Set { size: Some(size), ..Set::default() };
    for change in ["SETATTR", "CREATE", "WRITE"] {
        field.file("program", 0o6777)?;
        let file = field.look_up(&me, "program")?;
        let place = Words::default().place(&field.root, "program").u32(0);
        let status = match change {
            "SETATTR" => field.set(&me, &file, size(2))?,
            "CREATE" => field.status(wire::CREATE, &me, place.set(&size(0)))?,
            _ => field.write(&me, &file, b"mine")?,
        };
        ensure!(status == wire::OK, "{change} is refused");
        let after = owner(&field.path("program"))?;
        ensure!(after == (0, 0, 0o777), "after {change} the program has {after:?}");
    }
    Ok(())
}

/// A directory that can be read but not searched gives names without handles.
fn listing(field: &mut Field) -> Result<()> {
    fs::create_dir(field.path("list"))?;
    fs::write(field.path("list/open"), "bytes")?;
    fs::set_permissions(field.path("list"), Permissions::from_mode(0o704))?;
    let me = user(USER);
    let dir = field.look_up(&me, "list")?;
    ensure!(field.client.look_up(&me, &dir, "open")? == Err(wire::ACCES), "LOOKUP is not refused");
    let args = Words::default().opaque(&dir).u64(0).u64(0).u32(8000).u32(8000);
    let results = field.client.results(wire::READDIRPLUS, &me, &args)?;
    let mut reader = Reader(&results);
    ensure!(reader.u32()? == wire::OK, "READDIRPLUS is refused");
    reader.attributes()?;
    reader.skip(2)?;
    let mut names = Vec::new();
    while reader.u32()? == 1 {
        reader.skip(2)?;
        let name = String::from_utf8(reader.opaque()?)?;
        reader.skip(2)?;
        let (attributes, handle) = (reader.attributes()?, reader.optional_handle()?);
        if name == "open" {
            let read = handle.as_ref().map(|file| field.read(&me, file)).transpose()?;
            ensure!(handle.is_none() && !attributes, "READDIRPLUS gives a handle, which reads {read:?}");
        }
        names.push(name);
    }
    ensure!(names.iter().any(|name| name == "open"), "READDIRPLUS gives {names:?}");
    Ok(())
}

/// The mask of an ACL takes the place of the group's mode bits and grants the group nothing.
fn lists(field: &mut Field) -> Result<()> {
    field.file("listed", 0o600)?;
    chown(field.path("listed"), None, Some(GROUP))?;
    // Owner rw, OTHER rw, group none, mask rw, others none: tag, rights and id each (linux/posix_acl_xattr.h).
    let entries = [(1_u16, 6_u16, NO_ID), (2, 6, OTHER), (4, 0, NO_ID), (16, 6, NO_ID), (32, 0, NO_ID)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    setxattr(field.path("listed"), "system.posix_acl_access", &list, XattrFlags::empty())?;
    ensure!(owner(&field.path("listed"))?.2 == 0o660, "{:?}", field.all()?);
    let me = User { groups: vec![GROUP], ..user(USER) };
    let file = field.look_up(&me, "listed")?;
    ensure!(field.read(&me, &file)? == Err(wire::ACCES), "a member of the group reads the file");
    ensure!(field.write(&me, &file, b"x")? == wire::ACCES, "a member of the group writes the file");
    ensure!(field.read(&user(OTHER), &file)? == Ok(b"root's".to_vec()), "the listed user cannot read");
    ensure!(field.write(&user(OTHER), &file, b"other")? == wire::OK, "the listed user cannot write");
    Ok(())
}

/// Handles of a directory that was moved out of the export give no access to what is put into it later.
fn moved(field: &mut Field) -> Result<()> {
    fs::create_dir_all(field.path("dir/inner"))?;
    let me = user(USER);
    let dir = field.look_up(&me, "dir")?;
    let inner = granted("LOOKUP", field.client.look_up(&me, &dir, "inner")?)?;
    let outside = field.export.with_file_name("moved");
    fs::rename(field.path("dir"), &outside)?;
    fs::write(outside.join("inner/private"), "private")?;
    for dir in [&dir, &inner] {
        let args = Words::default().opaque(dir).u64(0).u64(0).u32(8000);
        ensure!(field.status(wire::READDIR, &me, args)? == wire::STALE, "READDIR works outside");
    }
    let found = field.client.look_up(&me, &inner, "private")?;
    let read = found.as_ref().ok().map(|file| field.read(&me, file)).transpose()?;
    ensure!(found == Err(wire::STALE), "LOOKUP works outside, and what is found reads {read:?}");
    Ok(())
}

/// MOUNT follows links within the export, but not out of it.
fn mounts(field: &mut Field) -> Result<()> {
    fs::create_dir_all(field.path("dir/inner"))?;
    for (link, target) in [("inside", "dir"), ("up", "../outside"), ("etc", "/etc"), ("loop", "loop")] {
        symlink(target, field.path(link))?;
    }
    fs::create_dir_all(field.export.with_file_name("outside"))?;
    let me = user(USER);
    let mut mount = |path: &str| field.client.mount(&me, &format!("/export/{path}"));
    let inner = mount("dir/inner")?;
    ensure!(inner.is_ok() && mount("inside/inner")? == inner, "a link within the export is not followed");
    for path in ["up", "etc", "loop", "../outside", "inside/../../outside"] {
        ensure!(mount(path)?.is_err(), "{path} can be mounted");
    }
    Ok(())
}

/// An unprivileged user on an allowed host cannot make calls at all.
fn ports(field: &mut Field) -> Result<()> {
    fs::write(PORTS, "32768 60999")?;
    let mut client = Attacker::connect(field.address)?;
    let denied = client.ping(&user(USER), &field.root)?;
    ensure!(denied == Reply::Denied(wire::TOO_WEAK), "a call from an unprivileged port is accepted");
    let mounted = client.mount(&user(USER), "/export")?;
    ensure!(mounted == Err(wire::ACCES), "a MOUNT from an unprivileged port is accepted");
    let others = field.client.ping(&user(USER), &field.root)?;
    ensure!(matches!(others, Reply::Results(_)), "others are refused, too");
    Ok(())
}
