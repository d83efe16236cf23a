//! The types that procedures share (RFC 1813, sections 2.5 and 2.6).

use crate::xdr::{Reader, Writer, Xdr, xdr_enum, xdr_struct};
use onego_wire::Decoded;
use std::fmt;

/// The most bytes of a file handle (`NFS3_FHSIZE`).
pub const HANDLE_MAX: usize = 64;
/// The most bytes of a name that are read. Servers refuse what is longer than their file system's names long before.
pub const NAME_MAX: usize = 4096;
/// The most bytes of the text of a symbolic link that are read.
pub const PATH_MAX: usize = 4096;

/// A number that somebody chooses to know something again by.
pub type Verifier = [u8; 8];

/// Names a file to its server: opaque to clients.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    len: u8,
    // Zeros behind `len`, so that equal handles are equal.
    bytes: [u8; HANDLE_MAX],
}

impl Handle {
    /// The handle with these bytes; `None` if there are more than [`HANDLE_MAX`].
    pub fn new(handle: &[u8]) -> Option<Self> {
        let mut bytes = [0; HANDLE_MAX];
        bytes.get_mut(..handle.len())?.copy_from_slice(handle);
        Some(Self { len: handle.len() as u8, bytes })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

impl Xdr for Handle {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let bytes = r.opaque(HANDLE_MAX, "file handle")?;
        Ok(Self::new(bytes).expect("the length is within its bound"))
    }

    fn encode(&self, w: &mut Writer) {
        w.opaque(self.as_bytes());
    }
}

/// The name of a file in its directory: any bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Name(pub Vec<u8>);

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl Xdr for Name {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self(r.opaque(NAME_MAX, "name of a file")?.to_vec()))
    }

    fn encode(&self, w: &mut Writer) {
        w.opaque(&self.0);
    }
}

xdr_enum! {
    /// Why a procedure failed (`nfsstat3`). Success is not among them.
    pub enum Status {
        /// Not the owner.
        Perm = 1,
        /// No such file or directory.
        Noent = 2,
        /// A hard error of the disk.
        Io = 5,
        /// No such device.
        Nxio = 6,
        /// The caller may not do that.
        Access = 13,
        /// The file is there already.
        Exist = 17,
        /// A hard link across file systems.
        Xdev = 18,
        /// No such device.
        Nodev = 19,
        /// Not a directory.
        Notdir = 20,
        /// A directory where there must be none.
        Isdir = 21,
        /// An argument without a meaning.
        Inval = 22,
        /// The file would be too large.
        Fbig = 27,
        /// No space is left.
        Nospc = 28,
        /// The file system is read-only.
        Rofs = 30,
        /// Too many hard links.
        Mlink = 31,
        /// The name is too long.
        Nametoolong = 63,
        /// The directory is not empty.
        Notempty = 66,
        /// The quota is used up.
        Dquot = 69,
        /// The handle names no file any more.
        Stale = 70,
        /// The file is not on this server.
        Remote = 71,
        /// The handle is none of this server's.
        Badhandle = 10001,
        /// The attributes have changed in between.
        NotSync = 10002,
        /// The place in the directory is not known any more.
        BadCookie = 10003,
        /// The procedure is not there.
        Notsupp = 10004,
        /// The buffer or the request is too small.
        Toosmall = 10005,
        /// The server failed in a way that has no other name.
        Serverfault = 10006,
        /// No file of that type can be made.
        Badtype = 10007,
        /// The server has begun and is not done: ask again later.
        Jukebox = 10008,
    }

    /// What a file is (`ftype3`).
    pub enum FileType {
        /// A regular file.
        Regular = 1,
        /// A directory.
        Directory = 2,
        /// A block device.
        BlockDevice = 3,
        /// A character device.
        CharacterDevice = 4,
        /// A symbolic link.
        Symlink = 5,
        /// A socket.
        Socket = 6,
        /// A named pipe.
        Fifo = 7,
    }

    /// How durable written data has to be before the reply (`stable_how`).
    pub enum Stability {
        /// It may be lost until it is committed.
        Unstable = 0,
        /// The data, and what is needed to find it, is durable.
        DataSync = 1,
        /// The data and all attributes are durable.
        FileSync = 2,
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Perm => "not the owner",
            Self::Noent => "no such file or directory",
            Self::Io => "a hard error of the server's disk",
            Self::Nxio => "no such device",
            Self::Access => "permission denied",
            Self::Exist => "the file exists already",
            Self::Xdev => "a hard link across file systems",
            Self::Nodev => "no such device",
            Self::Notdir => "not a directory",
            Self::Isdir => "is a directory",
            Self::Inval => "invalid argument",
            Self::Fbig => "the file would be too large",
            Self::Nospc => "no space is left",
            Self::Rofs => "the file system is read-only",
            Self::Mlink => "too many hard links",
            Self::Nametoolong => "the name is too long",
            Self::Notempty => "the directory is not empty",
            Self::Dquot => "the quota is used up",
            Self::Stale => "the file is not there any more (stale handle)",
            Self::Remote => "the file is not on this server",
            Self::Badhandle => "the handle is none of this server's",
            Self::NotSync => "the attributes have changed in between",
            Self::BadCookie => "the place in the directory is not known any more",
            Self::Notsupp => "the server does not support that",
            Self::Toosmall => "the request is too small",
            Self::Serverfault => "the server has failed",
            Self::Badtype => "no file of that type can be made",
            Self::Jukebox => "the server is not done yet",
        })
    }
}

xdr_struct! {
    /// A time since 1970, in seconds and nanoseconds (`nfstime3`).
    #[derive(Copy, PartialOrd, Ord, Default)]
    pub struct Time {
        /// Seconds.
        pub seconds: u32,
        /// Nanoseconds of a second.
        pub nanoseconds: u32,
    }

    /// The number of a device (`specdata3`).
    #[derive(Copy, Default)]
    pub struct Device {
        /// The major number.
        pub major: u32,
        /// The minor number.
        pub minor: u32,
    }

    /// What is known of a file (`fattr3`).
    #[derive(Copy)]
    pub struct Attributes {
        /// What it is.
        pub file_type: FileType,
        /// Permission bits.
        pub mode: u32,
        /// Hard links to it.
        pub links: u32,
        /// Its owner.
        pub uid: u32,
        /// Its group.
        pub gid: u32,
        /// Bytes in it.
        pub size: u64,
        /// Bytes that it takes.
        pub used: u64,
        /// Which device it is, if it is one.
        pub device: Device,
        /// Which file system it is in.
        pub fsid: u64,
        /// Which file of the file system it is.
        pub fileid: u64,
        /// When it was read.
        pub atime: Time,
        /// When it was written.
        pub mtime: Time,
        /// When its attributes changed.
        pub ctime: Time,
    }

    /// What tells a client whether a file has changed before its own change (`wcc_attr`).
    #[derive(Copy)]
    pub struct Before {
        /// Bytes in it.
        pub size: u64,
        /// When it was written.
        pub mtime: Time,
        /// When its attributes changed.
        pub ctime: Time,
    }

    /// A file before and after a change (`wcc_data`).
    #[derive(Copy, Default)]
    pub struct Change {
        /// Before it.
        pub before: Option<Before>,
        /// After it.
        pub after: Option<Attributes>,
    }

    /// Attributes to be set (`sattr3`).
    #[derive(Copy, Default)]
    pub struct SetAttributes {
        /// Permission bits.
        pub mode: Option<u32>,
        /// The owner.
        pub uid: Option<u32>,
        /// The group.
        pub gid: Option<u32>,
        /// Bytes in the file.
        pub size: Option<u64>,
        /// When it was read.
        pub atime: SetTime,
        /// When it was written.
        pub mtime: SetTime,
    }

    /// A name in a directory (`diropargs3`).
    pub struct Place {
        /// The directory.
        pub dir: Handle,
        /// The name in it.
        pub name: Name,
    }
}

impl Attributes {
    /// Bytes of them on the wire.
    pub const LEN: usize = 84;

    /// Passes over them, if they are there, whatever they say.
    pub(super) fn skip(r: &mut Reader<'_>) -> Decoded<()> {
        if r.bool("whether there are attributes")? {
            r.array::<{ Self::LEN }>("attributes")?;
        }
        Ok(())
    }

    /// What tells whether the file changes from here on.
    pub fn before(&self) -> Before {
        Before { size: self.size, mtime: self.mtime, ctime: self.ctime }
    }
}

/// How a time is set (`set_atime`, `set_mtime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// It stays.
    #[default]
    Leave,
    /// To the server's time.
    ServerTime,
    /// To this one.
    To(Time),
}

impl Xdr for SetTime {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        match r.u32("how a time is set")? {
            0 => Ok(Self::Leave),
            1 => Ok(Self::ServerTime),
            2 => Ok(Self::To(Time::decode(r)?)),
            other => Err(onego_wire::DecodeError::Invalid { what: "how a time is set", value: other.into() }),
        }
    }

    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Leave => w.u32(0),
            Self::ServerTime => w.u32(1),
            Self::To(time) => {
                w.u32(2);
                time.encode(w);
            }
        }
    }
}

/// Bits of what a client asks whether it may (ACCESS; RFC 1813, section 3.3.4).
pub mod access {
    /// Read the file or the directory.
    pub const READ: u32 = 0x01;
    /// Look up a name in the directory.
    pub const LOOKUP: u32 = 0x02;
    /// Rewrite the file, or change what the directory has.
    pub const MODIFY: u32 = 0x04;
    /// Write behind the file's end, or add to the directory.
    pub const EXTEND: u32 = 0x08;
    /// Delete from the directory.
    pub const DELETE: u32 = 0x10;
    /// Execute the file.
    pub const EXECUTE: u32 = 0x20;
    /// All of them.
    pub const ALL: u32 = 0x3f;
}
