//! Types that several procedures share (RFC 1813, sections 2.5 and 2.6).

use crate::xdr::{Reader, Writer, Xdr, xdr_enum, xdr_struct};
use onego_wire::Decoded;
use std::fmt;

/// Maximum length of a file handle in bytes (`NFS3_FHSIZE`).
pub const HANDLE_MAX: usize = 64;
/// Maximum length of a name in bytes when decoding. File systems reject far shorter names.
pub const NAME_MAX: usize = 4096;
/// Maximum length of a symbolic link's target in bytes when decoding.
pub const PATH_MAX: usize = 4096;

/// An opaque value whose change signals a restart or an invalid cookie.
pub type Verifier = [u8; 8];

/// A file handle, opaque to clients.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    len: u8,
    // Zeros after `len` make equal handles compare equal.
    bytes: [u8; HANDLE_MAX],
}

impl Handle {
    /// Creates a handle; `None` if there are more than [`HANDLE_MAX`] bytes.
    pub fn new(handle: &[u8]) -> Option<Self> {
        let mut bytes = [0; HANDLE_MAX];
        bytes.get_mut(..handle.len())?.copy_from_slice(handle);
        Some(Self { len: handle.len() as u8, bytes })
    }

    /// Returns the bytes of the handle.
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

/// The name of a file in its directory; may contain any bytes.
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
    /// The reason that a procedure failed (`nfsstat3`). Success is not included.
    pub enum Status {
        /// Not the owner.
        Perm = 1,
        /// No such file or directory.
        Noent = 2,
        /// I/O error.
        Io = 5,
        /// No such device.
        Nxio = 6,
        /// Permission denied.
        Access = 13,
        /// The file exists.
        Exist = 17,
        /// A hard link across file systems.
        Xdev = 18,
        /// No such device.
        Nodev = 19,
        /// Not a directory.
        Notdir = 20,
        /// Is a directory.
        Isdir = 21,
        /// Invalid argument.
        Inval = 22,
        /// The file is too large.
        Fbig = 27,
        /// No space left on the device.
        Nospc = 28,
        /// Read-only file system.
        Rofs = 30,
        /// Too many hard links.
        Mlink = 31,
        /// Name too long.
        Nametoolong = 63,
        /// Directory not empty.
        Notempty = 66,
        /// Quota exceeded.
        Dquot = 69,
        /// Stale file handle.
        Stale = 70,
        /// Too many levels of remote access.
        Remote = 71,
        /// Invalid file handle.
        Badhandle = 10001,
        /// The attributes have changed since.
        NotSync = 10002,
        /// Stale directory cookie.
        BadCookie = 10003,
        /// Operation not supported.
        Notsupp = 10004,
        /// Buffer or request too small.
        Toosmall = 10005,
        /// Another server failure.
        Serverfault = 10006,
        /// File type not supported.
        Badtype = 10007,
        /// The server has started the operation and asks to retry later.
        Jukebox = 10008,
    }

    /// The type of a file (`ftype3`).
    pub enum FileType {
        /// Regular file.
        Regular = 1,
        /// Directory.
        Directory = 2,
        /// Block device.
        BlockDevice = 3,
        /// Character device.
        CharacterDevice = 4,
        /// Symbolic link.
        Symlink = 5,
        /// Socket.
        Socket = 6,
        /// Named pipe.
        Fifo = 7,
    }

    /// Required durability of written data at the time of the reply (`stable_how`).
    pub enum Stability {
        /// The data may be lost until a commit.
        Unstable = 0,
        /// The data is durable, with the metadata needed to retrieve it.
        DataSync = 1,
        /// The data and all metadata are durable.
        FileSync = 2,
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Perm => "not the owner",
            Self::Noent => "no such file or directory",
            Self::Io => "I/O error on the server",
            Self::Nxio => "no such device",
            Self::Access => "permission denied",
            Self::Exist => "the file exists",
            Self::Xdev => "a hard link across file systems",
            Self::Nodev => "no such device",
            Self::Notdir => "not a directory",
            Self::Isdir => "is a directory",
            Self::Inval => "invalid argument",
            Self::Fbig => "the file would be too large",
            Self::Nospc => "no space left",
            Self::Rofs => "the file system is read-only",
            Self::Mlink => "too many hard links",
            Self::Nametoolong => "the name is too long",
            Self::Notempty => "the directory is not empty",
            Self::Dquot => "quota exceeded",
            Self::Stale => "stale file handle",
            Self::Remote => "the file is not on this server",
            Self::Badhandle => "invalid file handle",
            Self::NotSync => "the attributes have changed",
            Self::BadCookie => "stale directory cookie",
            Self::Notsupp => "operation not supported",
            Self::Toosmall => "the request is too small",
            Self::Serverfault => "server failure",
            Self::Badtype => "file type not supported",
            Self::Jukebox => "the server asks to retry later",
        })
    }
}

xdr_struct! {
    /// Seconds and nanoseconds since the Unix epoch (`nfstime3`).
    #[derive(Copy, PartialOrd, Ord, Default)]
    pub struct Time {
        /// Seconds.
        pub seconds: u32,
        /// Nanoseconds.
        pub nanoseconds: u32,
    }

    /// Device number (`specdata3`).
    #[derive(Copy, Default)]
    pub struct Device {
        /// Major number.
        pub major: u32,
        /// Minor number.
        pub minor: u32,
    }

    /// Attributes of a file (`fattr3`).
    #[derive(Copy)]
    pub struct Attributes {
        /// File type.
        pub file_type: FileType,
        /// Permission bits.
        pub mode: u32,
        /// Number of hard links.
        pub links: u32,
        /// Owner's user ID.
        pub uid: u32,
        /// Group ID.
        pub gid: u32,
        /// Size in bytes.
        pub size: u64,
        /// Disk space used, in bytes.
        pub used: u64,
        /// Device number of a device file.
        pub device: Device,
        /// ID of the file system.
        pub fsid: u64,
        /// Number of the file in its file system.
        pub fileid: u64,
        /// Time of the last read.
        pub atime: Time,
        /// Time of the last write.
        pub mtime: Time,
        /// Time of the last attribute change.
        pub ctime: Time,
    }

    /// Attributes before an operation, by which clients detect changes by others (`wcc_attr`).
    #[derive(Copy)]
    pub struct Before {
        /// Size in bytes.
        pub size: u64,
        /// Time of the last write.
        pub mtime: Time,
        /// Time of the last attribute change.
        pub ctime: Time,
    }

    /// Attributes of a file before and after an operation (`wcc_data`).
    #[derive(Copy, Default)]
    pub struct Change {
        /// Attributes before the operation.
        pub before: Option<Before>,
        /// Attributes after the operation.
        pub after: Option<Attributes>,
    }

    /// Attributes to set (`sattr3`).
    #[derive(Copy, Default)]
    pub struct SetAttributes {
        /// Permission bits.
        pub mode: Option<u32>,
        /// Owner's user ID.
        pub uid: Option<u32>,
        /// Group ID.
        pub gid: Option<u32>,
        /// Size in bytes.
        pub size: Option<u64>,
        /// Time of the last read.
        pub atime: SetTime,
        /// Time of the last write.
        pub mtime: SetTime,
    }

    /// A name in a directory (`diropargs3`).
    pub struct Place {
        /// The directory.
        pub dir: Handle,
        /// Name in the directory.
        pub name: Name,
    }
}

impl Attributes {
    /// Encoded length in bytes.
    pub const LEN: usize = 84;

    pub(super) fn skip(r: &mut Reader<'_>) -> Decoded<()> {
        if r.bool("whether there are attributes")? {
            r.array::<{ Self::LEN }>("attributes")?;
        }
        Ok(())
    }

    /// Returns the attributes by which a later change can be detected.
    pub fn before(&self) -> Before {
        Before { size: self.size, mtime: self.mtime, ctime: self.ctime }
    }
}

/// The new value of a time (`set_atime`, `set_mtime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// Leave unchanged.
    #[default]
    Leave,
    /// Use the server's time.
    ServerTime,
    /// Use this time.
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

/// Permissions that clients ask for (ACCESS; RFC 1813, section 3.3.4).
pub mod access {
    /// Read the file or the directory.
    pub const READ: u32 = 0x01;
    /// Look up a name in the directory.
    pub const LOOKUP: u32 = 0x02;
    /// Rewrite the file, or modify the entries of the directory.
    pub const MODIFY: u32 = 0x04;
    /// Write past the end of the file, or add entries to the directory.
    pub const EXTEND: u32 = 0x08;
    /// Delete an entry of the directory.
    pub const DELETE: u32 = 0x10;
    /// Execute the file.
    pub const EXECUTE: u32 = 0x20;
    /// All permissions.
    pub const ALL: u32 = 0x3f;
}
