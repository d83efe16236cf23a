//! The arguments and results of every procedure (RFC 1813, section 3.3).

use super::answer::Answer;
use super::program::{PROGRAM, VERSION};
use super::types::{
    Attributes, Change, Device, FileType, Handle, Name, PATH_MAX, Place, SetAttributes, Stability, Time,
    Verifier,
};
use crate::rpc::procedures;
use crate::xdr::{
    Body, Reader, Writer, Xdr, decode_chain, decode_payload, encode_chain, encode_payload, xdr_struct,
};
use onego_buf::List;
use onego_wire::{DecodeError, Decoded};

/// Maximum directory entries in one reply: more than fit the largest.
const ENTRIES_MAX: usize = 1 << 16;

procedures! {
    /// Does nothing; used to check that the server responds.
    Null = 0: () => ();
    /// Returns the attributes of a file.
    Getattr = 1: Handle => Answer<Attributes, ()>;
    /// Sets attributes of a file.
    Setattr = 2: SetattrArgs => Answer<Change, Change>;
    /// Looks up a name in a directory.
    Lookup = 3: Place => Answer<LookupOk, Option<Attributes>>;
    /// Checks the caller's permissions.
    Access = 4: AccessArgs => Answer<AccessOk, Option<Attributes>>;
    /// Reads a symbolic link.
    Readlink = 5: Handle => Answer<ReadlinkOk, Option<Attributes>>;
    /// Reads from a file.
    Read = 6: ReadArgs => Answer<ReadOk, Option<Attributes>>;
    /// Writes to a file.
    Write = 7: WriteArgs => Answer<WriteOk, Change>;
    /// Creates a regular file.
    Create = 8: CreateArgs => Answer<CreateOk, Change>;
    /// Creates a directory.
    Mkdir = 9: MkdirArgs => Answer<CreateOk, Change>;
    /// Creates a symbolic link.
    Symlink = 10: SymlinkArgs => Answer<CreateOk, Change>;
    /// Creates a device, a socket or a named pipe.
    Mknod = 11: MknodArgs => Answer<CreateOk, Change>;
    /// Removes a file that is not a directory.
    Remove = 12: Place => Answer<Change, Change>;
    /// Removes an empty directory.
    Rmdir = 13: Place => Answer<Change, Change>;
    /// Renames a file.
    Rename = 14: RenameArgs => Answer<RenameChange, RenameChange>;
    /// Creates a hard link.
    Link = 15: LinkArgs => Answer<LinkChange, LinkChange>;
    /// Lists the names in a directory.
    Readdir = 16: ReaddirArgs => Answer<ReaddirOk, Option<Attributes>>;
    /// Lists the names in a directory, with attributes and handles.
    Readdirplus = 17: ReaddirplusArgs => Answer<ReaddirplusOk, Option<Attributes>>;
    /// Returns the space and file usage of the file system.
    Fsstat = 18: Handle => Answer<FsstatOk, Option<Attributes>>;
    /// Returns limits and properties of the file system and the server.
    Fsinfo = 19: Handle => Answer<FsinfoOk, Option<Attributes>>;
    /// Returns POSIX information about the file system.
    Pathconf = 20: Handle => Answer<PathconfOk, Option<Attributes>>;
    /// Commits unstable writes to stable storage.
    Commit = 21: CommitArgs => Answer<CommitOk, Change>;
}

xdr_struct! {
    /// Arguments of SETATTR.
    pub struct SetattrArgs {
        /// The file.
        pub file: Handle,
        /// New attributes.
        pub attributes: SetAttributes,
        /// Set the attributes only if the file's ctime has this value.
        pub guard: Option<Time>,
    }

    /// Results of LOOKUP.
    pub struct LookupOk {
        /// The file.
        pub file: Handle,
        /// Attributes of the file.
        pub attributes: Option<Attributes>,
        /// Attributes of the directory.
        pub dir: Option<Attributes>,
    }

    /// Arguments of ACCESS.
    pub struct AccessArgs {
        /// The file.
        pub file: Handle,
        /// Requested permissions (see [`access`](super::access)).
        pub wanted: u32,
    }

    /// Results of ACCESS.
    pub struct AccessOk {
        /// Attributes of the file.
        pub attributes: Option<Attributes>,
        /// The granted subset of the requested permissions.
        pub granted: u32,
    }

    /// Arguments of READ.
    pub struct ReadArgs {
        /// The file.
        pub file: Handle,
        /// Offset of the first byte.
        pub offset: u64,
        /// Maximum number of bytes to read.
        pub count: u32,
    }

    /// Arguments of CREATE.
    pub struct CreateArgs {
        /// Location of the new file.
        pub place: Place,
        /// Creation mode.
        pub how: CreateHow,
    }

    /// Results of CREATE, MKDIR, SYMLINK and MKNOD.
    pub struct CreateOk {
        /// Handle of the new file.
        pub file: Option<Handle>,
        /// Attributes of the new file.
        pub attributes: Option<Attributes>,
        /// Change of the directory.
        pub dir: Change,
    }

    /// Arguments of MKDIR.
    pub struct MkdirArgs {
        /// Location of the new directory.
        pub place: Place,
        /// Attributes of the new directory.
        pub attributes: SetAttributes,
    }

    /// Arguments of MKNOD.
    pub struct MknodArgs {
        /// Location of the new file.
        pub place: Place,
        /// Type of the new file.
        pub what: Node,
    }

    /// Arguments of RENAME.
    pub struct RenameArgs {
        /// Old location.
        pub from: Place,
        /// New location.
        pub to: Place,
    }

    /// Changes that RENAME made to the directories.
    #[derive(Copy, Default)]
    pub struct RenameChange {
        /// The old directory.
        pub from: Change,
        /// The new directory.
        pub to: Change,
    }

    /// Arguments of LINK.
    pub struct LinkArgs {
        /// The file.
        pub file: Handle,
        /// Location of the new link.
        pub link: Place,
    }

    /// Results of LINK.
    #[derive(Copy, Default)]
    pub struct LinkChange {
        /// Attributes of the file.
        pub file: Option<Attributes>,
        /// Change of the directory.
        pub dir: Change,
    }

    /// Arguments of READDIR.
    pub struct ReaddirArgs {
        /// The directory.
        pub dir: Handle,
        /// Position to continue from; 0 for the start.
        pub cookie: u64,
        /// Verifier that the server returned with the cookie.
        pub verifier: Verifier,
        /// Maximum size of the reply's results in bytes.
        pub count: u32,
    }

    /// A directory entry of READDIR.
    pub struct Entry {
        /// Number of the file in its file system.
        pub fileid: u64,
        /// Name.
        pub name: Name,
        /// Position after this entry.
        pub cookie: u64,
    }

    /// Arguments of READDIRPLUS.
    pub struct ReaddirplusArgs {
        /// The directory.
        pub dir: Handle,
        /// Position to continue from; 0 for the start.
        pub cookie: u64,
        /// Verifier that the server returned with the cookie.
        pub verifier: Verifier,
        /// Maximum size of names, file numbers and cookies, in bytes.
        pub dir_count: u32,
        /// Maximum size of the reply's results in bytes.
        pub max_count: u32,
    }

    /// A directory entry of READDIRPLUS.
    pub struct EntryPlus {
        /// Number of the file in its file system.
        pub fileid: u64,
        /// Name.
        pub name: Name,
        /// Position after this entry.
        pub cookie: u64,
        /// Attributes of the file.
        pub attributes: Option<Attributes>,
        /// Handle of the file.
        pub file: Option<Handle>,
    }

    /// Results of FSSTAT: the usage of the file system.
    pub struct FsstatOk {
        /// Attributes of the root.
        pub attributes: Option<Attributes>,
        /// Total size in bytes.
        pub total_bytes: u64,
        /// Free space in bytes.
        pub free_bytes: u64,
        /// Free space for the caller in bytes.
        pub available_bytes: u64,
        /// Total number of files.
        pub total_files: u64,
        /// Number of free files.
        pub free_files: u64,
        /// Number of free files for the caller.
        pub available_files: u64,
        /// Number of seconds for which these values are not expected to change.
        pub invariant_seconds: u32,
    }

    /// Results of FSINFO. Sizes are in bytes.
    pub struct FsinfoOk {
        /// Attributes of the root.
        pub attributes: Option<Attributes>,
        /// Maximum size of a READ.
        pub read_max: u32,
        /// Preferred size of a READ.
        pub read_preferred: u32,
        /// Suggested multiple for the size of READs.
        pub read_multiple: u32,
        /// Maximum size of a WRITE.
        pub write_max: u32,
        /// Preferred size of a WRITE.
        pub write_preferred: u32,
        /// Suggested multiple for the size of WRITEs.
        pub write_multiple: u32,
        /// Preferred size of a READDIR.
        pub readdir_preferred: u32,
        /// Maximum size of a file.
        pub file_max: u64,
        /// Granularity of file times.
        pub time_delta: Time,
        /// See [`properties`].
        pub properties: u32,
    }

    /// Results of PATHCONF.
    pub struct PathconfOk {
        /// Attributes of the file.
        pub attributes: Option<Attributes>,
        /// Maximum number of hard links to a file.
        pub link_max: u32,
        /// Maximum length of a name in bytes.
        pub name_max: u32,
        /// Set if the server rejects overlong names instead of truncating them.
        pub no_trunc: bool,
        /// Set if only a privileged user may change a file's owner.
        pub chown_restricted: bool,
        /// Set if names are case-insensitive.
        pub case_insensitive: bool,
        /// Set if the case of names is preserved.
        pub case_preserving: bool,
    }

    /// Arguments of COMMIT.
    pub struct CommitArgs {
        /// The file.
        pub file: Handle,
        /// Offset of the first byte.
        pub offset: u64,
        /// Number of bytes; 0 for everything from `offset`.
        pub count: u32,
    }

    /// Results of COMMIT.
    pub struct CommitOk {
        /// Change of the file.
        pub file: Change,
        /// Write verifier. If it differs from that of a WRITE, the server has restarted and may have lost the data.
        pub verifier: Verifier,
    }
}

/// Properties of a file system (FSINFO).
pub mod properties {
    /// Supports hard links.
    pub const LINK: u32 = 0x01;
    /// Supports symbolic links.
    pub const SYMLINK: u32 = 0x02;
    /// PATHCONF returns the same for all files.
    pub const HOMOGENEOUS: u32 = 0x08;
    /// SETATTR can set times.
    pub const CAN_SET_TIME: u32 = 0x10;
}

/// Results of READLINK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadlinkOk {
    /// Attributes of the link.
    pub attributes: Option<Attributes>,
    /// Target of the link.
    pub path: Vec<u8>,
}

/// Results of READ without the attributes that precede them and the data that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadFront {
    /// Set if the data reaches the end of the file.
    pub eof: bool,
    /// Number of bytes read.
    pub count: u32,
}

impl ReadFront {
    /// Reads the results after their status; skips the attributes.
    pub fn read(r: &mut Reader<'_>) -> Decoded<Self> {
        Attributes::skip(r)?;
        Self::decode(r)
    }
}

/// The last word is the length of the payload.
impl Xdr for ReadFront {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let (count, eof) = (r.u32("count")?, r.bool("end of file")?);
        match r.u32("length of the data read")? {
            len if len == count => Ok(Self { eof, count }),
            _ => Err(DecodeError::Invalid { what: "count of bytes read", value: count.into() }),
        }
    }

    fn encode(&self, w: &mut Writer) {
        w.u32(self.count);
        w.bool(self.eof);
        w.u32(self.count);
    }
}

/// Results of READ.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOk {
    /// Attributes of the file.
    pub attributes: Option<Attributes>,
    /// Set if the data reaches the end of the file.
    pub eof: bool,
    /// The data.
    pub data: List,
}

/// Arguments of WRITE.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteArgs {
    /// The file.
    pub file: Handle,
    /// Offset of the first byte.
    pub offset: u64,
    /// Required durability.
    pub stable: Stability,
    /// The data.
    pub data: List,
}

xdr_struct! {
    /// Results of WRITE.
    pub struct WriteOk {
        /// Change of the file.
        pub file: Change,
        /// Number of bytes written.
        pub count: u32,
        /// Durability of the data.
        pub committed: Stability,
        /// Write verifier. It changes when the server restarts.
        pub verifier: Verifier,
    }
}

/// Creation mode of CREATE, which determines the treatment of an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow {
    /// Use an existing file.
    Unchecked(SetAttributes),
    /// Fail if the file exists.
    Guarded(SetAttributes),
    /// Use an existing file only if it was created with this verifier.
    Exclusive(Verifier),
}

/// The type of file that MKNOD creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// Character device.
    Character(SetAttributes, Device),
    /// Block device.
    Block(SetAttributes, Device),
    /// Socket.
    Socket(SetAttributes),
    /// Named pipe.
    Fifo(SetAttributes),
    /// A type that MKNOD cannot create; servers reject it.
    Other(FileType),
}

/// Arguments of SYMLINK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymlinkArgs {
    /// Location of the new link.
    pub place: Place,
    /// Attributes of the new link.
    pub attributes: SetAttributes,
    /// Target of the link.
    pub path: Vec<u8>,
}

/// Results of READDIR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaddirOk {
    /// Attributes of the directory.
    pub attributes: Option<Attributes>,
    /// Verifier to send with cookies.
    pub verifier: Verifier,
    /// Directory entries.
    pub entries: Vec<Entry>,
    /// Set if the listing is complete.
    pub eof: bool,
}

/// Results of READDIRPLUS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaddirplusOk {
    /// Attributes of the directory.
    pub attributes: Option<Attributes>,
    /// Verifier to send with cookies.
    pub verifier: Verifier,
    /// Directory entries.
    pub entries: Vec<EntryPlus>,
    /// Set if the listing is complete.
    pub eof: bool,
}

impl Body for WriteArgs {
    fn read(r: &mut Reader<'_>, payload: &mut List) -> Decoded<Self> {
        let (file, offset) = (Handle::decode(r)?, r.u64("offset")?);
        let (count, stable) = (r.u32("count")?, Stability::decode(r)?);
        let mut data = decode_payload(r, payload, "data to write")?;
        let count = count as usize;
        if count > data.len() {
            return Err(DecodeError::Truncated { what: "data to write", needed: count, left: data.len() });
        }
        Ok(Self { file, offset, stable, data: data.split_to(count) })
    }

    fn write(&self, w: &mut Writer, payload: &mut List) {
        self.file.encode(w);
        w.u64(self.offset);
        w.len_of(self.data.len());
        self.stable.encode(w);
        encode_payload(&self.data, w, payload);
    }
}

impl Body for ReadOk {
    fn read(r: &mut Reader<'_>, payload: &mut List) -> Decoded<Self> {
        let (attributes, ReadFront { eof, count }) = (Option::decode(r)?, ReadFront::decode(r)?);
        match payload.len() {
            len if len == count as usize => Ok(Self { attributes, eof, data: std::mem::take(payload) }),
            _ => Err(DecodeError::Invalid { what: "count of bytes read", value: count.into() }),
        }
    }

    fn write(&self, w: &mut Writer, payload: &mut List) {
        let count = u32::try_from(self.data.len()).expect("lengths on the wire are 32 bits");
        self.attributes.encode(w);
        ReadFront { eof: self.eof, count }.encode(w);
        payload.append(self.data.clone());
    }
}

fn decode_path(r: &mut Reader<'_>, payload: &mut List) -> Decoded<Vec<u8>> {
    let path = decode_payload(r, payload, "text of a symbolic link")?;
    match path.len() {
        0..=PATH_MAX => Ok(path.to_vec()),
        len => Err(DecodeError::OverBound {
            what: "text of a symbolic link",
            value: len as u64,
            bound: PATH_MAX as u64,
        }),
    }
}

fn encode_path(path: &[u8], w: &mut Writer, payload: &mut List) {
    w.len_of(path.len());
    payload.push(path.to_vec());
}

impl Body for ReadlinkOk {
    fn read(r: &mut Reader<'_>, payload: &mut List) -> Decoded<Self> {
        Ok(Self { attributes: Option::decode(r)?, path: decode_path(r, payload)? })
    }

    fn write(&self, w: &mut Writer, payload: &mut List) {
        self.attributes.encode(w);
        encode_path(&self.path, w, payload);
    }
}

impl Body for SymlinkArgs {
    fn read(r: &mut Reader<'_>, payload: &mut List) -> Decoded<Self> {
        Ok(Self {
            place: Place::decode(r)?,
            attributes: SetAttributes::decode(r)?,
            path: decode_path(r, payload)?,
        })
    }

    fn write(&self, w: &mut Writer, payload: &mut List) {
        self.place.encode(w);
        self.attributes.encode(w);
        encode_path(&self.path, w, payload);
    }
}

impl Xdr for CreateHow {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        match r.u32("how to create")? {
            0 => Ok(Self::Unchecked(Xdr::decode(r)?)),
            1 => Ok(Self::Guarded(Xdr::decode(r)?)),
            2 => Ok(Self::Exclusive(Xdr::decode(r)?)),
            other => Err(DecodeError::Invalid { what: "how to create", value: other.into() }),
        }
    }

    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Unchecked(attributes) => {
                w.u32(0);
                attributes.encode(w);
            }
            Self::Guarded(attributes) => {
                w.u32(1);
                attributes.encode(w);
            }
            Self::Exclusive(verifier) => {
                w.u32(2);
                w.array(verifier);
            }
        }
    }
}

impl Xdr for Node {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        match FileType::decode(r)? {
            FileType::CharacterDevice => Ok(Self::Character(Xdr::decode(r)?, Xdr::decode(r)?)),
            FileType::BlockDevice => Ok(Self::Block(Xdr::decode(r)?, Xdr::decode(r)?)),
            FileType::Socket => Ok(Self::Socket(Xdr::decode(r)?)),
            FileType::Fifo => Ok(Self::Fifo(Xdr::decode(r)?)),
            other => Ok(Self::Other(other)),
        }
    }

    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Character(attributes, device) => {
                FileType::CharacterDevice.encode(w);
                attributes.encode(w);
                device.encode(w);
            }
            Self::Block(attributes, device) => {
                FileType::BlockDevice.encode(w);
                attributes.encode(w);
                device.encode(w);
            }
            Self::Socket(attributes) => {
                FileType::Socket.encode(w);
                attributes.encode(w);
            }
            Self::Fifo(attributes) => {
                FileType::Fifo.encode(w);
                attributes.encode(w);
            }
            Self::Other(file_type) => file_type.encode(w),
        }
    }
}

macro_rules! listing {
    ($($name:ident: $what:literal)*) => {$(
        impl Xdr for $name {
            fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
                Ok(Self {
                    attributes: Option::decode(r)?,
                    verifier: Xdr::decode(r)?,
                    entries: decode_chain(r, ENTRIES_MAX, $what)?,
                    eof: r.bool("end of directory")?,
                })
            }

            fn encode(&self, w: &mut Writer) {
                self.attributes.encode(w);
                self.verifier.encode(w);
                encode_chain(w, &self.entries);
                w.bool(self.eof);
            }
        }
    )*};
}
listing!(ReaddirOk: "entries of a directory" ReaddirplusOk: "entries with attributes");
