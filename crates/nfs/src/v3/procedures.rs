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

/// The most entries of a directory that are read from one reply: more than fit the largest.
const ENTRIES_MAX: usize = 1 << 16;

procedures! {
    /// Does nothing: tells that the server is there.
    Null = 0: () => ();
    /// Tells the attributes of a file.
    Getattr = 1: Handle => Answer<Attributes, ()>;
    /// Sets attributes of a file.
    Setattr = 2: SetattrArgs => Answer<Change, Change>;
    /// Finds a name in a directory.
    Lookup = 3: Place => Answer<LookupOk, Option<Attributes>>;
    /// Tells what the caller may do.
    Access = 4: AccessArgs => Answer<AccessOk, Option<Attributes>>;
    /// Reads a symbolic link.
    Readlink = 5: Handle => Answer<ReadlinkOk, Option<Attributes>>;
    /// Reads from a file.
    Read = 6: ReadArgs => Answer<ReadOk, Option<Attributes>>;
    /// Writes to a file.
    Write = 7: WriteArgs => Answer<WriteOk, Change>;
    /// Makes a regular file.
    Create = 8: CreateArgs => Answer<CreateOk, Change>;
    /// Makes a directory.
    Mkdir = 9: MkdirArgs => Answer<CreateOk, Change>;
    /// Makes a symbolic link.
    Symlink = 10: SymlinkArgs => Answer<CreateOk, Change>;
    /// Makes a device, a socket or a named pipe.
    Mknod = 11: MknodArgs => Answer<CreateOk, Change>;
    /// Removes a file that is no directory.
    Remove = 12: Place => Answer<Change, Change>;
    /// Removes an empty directory.
    Rmdir = 13: Place => Answer<Change, Change>;
    /// Gives a file another place.
    Rename = 14: RenameArgs => Answer<RenameChange, RenameChange>;
    /// Gives a file one more name.
    Link = 15: LinkArgs => Answer<LinkChange, LinkChange>;
    /// Lists names of a directory.
    Readdir = 16: ReaddirArgs => Answer<ReaddirOk, Option<Attributes>>;
    /// Lists names of a directory, with attributes and handles.
    Readdirplus = 17: ReaddirplusArgs => Answer<ReaddirplusOk, Option<Attributes>>;
    /// Tells how full the file system is.
    Fsstat = 18: Handle => Answer<FsstatOk, Option<Attributes>>;
    /// Tells what the file system and the server can.
    Fsinfo = 19: Handle => Answer<FsinfoOk, Option<Attributes>>;
    /// Tells what POSIX wants to know of the file system.
    Pathconf = 20: Handle => Answer<PathconfOk, Option<Attributes>>;
    /// Makes what was written durable.
    Commit = 21: CommitArgs => Answer<CommitOk, Change>;
}

xdr_struct! {
    /// Arguments of SETATTR.
    pub struct SetattrArgs {
        /// The file.
        pub file: Handle,
        /// What to set.
        pub attributes: SetAttributes,
        /// Only if this is its ctime.
        pub guard: Option<Time>,
    }

    /// What LOOKUP finds.
    pub struct LookupOk {
        /// The file.
        pub file: Handle,
        /// Its attributes.
        pub attributes: Option<Attributes>,
        /// Those of the directory.
        pub dir: Option<Attributes>,
    }

    /// Arguments of ACCESS.
    pub struct AccessArgs {
        /// The file.
        pub file: Handle,
        /// What is asked about (see [`access`](super::access)).
        pub wanted: u32,
    }

    /// What ACCESS tells.
    pub struct AccessOk {
        /// The file's attributes.
        pub attributes: Option<Attributes>,
        /// What of the wanted is granted.
        pub granted: u32,
    }

    /// Arguments of READ.
    pub struct ReadArgs {
        /// The file.
        pub file: Handle,
        /// Offset of the first byte.
        pub offset: u64,
        /// Most bytes to read.
        pub count: u32,
    }

    /// Arguments of CREATE.
    pub struct CreateArgs {
        /// Where.
        pub place: Place,
        /// How.
        pub how: CreateHow,
    }

    /// What CREATE, MKDIR, SYMLINK and MKNOD have made.
    pub struct CreateOk {
        /// The file.
        pub file: Option<Handle>,
        /// Its attributes.
        pub attributes: Option<Attributes>,
        /// The directory.
        pub dir: Change,
    }

    /// Arguments of MKDIR.
    pub struct MkdirArgs {
        /// Where.
        pub place: Place,
        /// Its attributes.
        pub attributes: SetAttributes,
    }

    /// Arguments of MKNOD.
    pub struct MknodArgs {
        /// Where.
        pub place: Place,
        /// What.
        pub what: Node,
    }

    /// Arguments of RENAME.
    pub struct RenameArgs {
        /// The place that the file has.
        pub from: Place,
        /// The place that it gets.
        pub to: Place,
    }

    /// What RENAME does to the directories.
    #[derive(Copy, Default)]
    pub struct RenameChange {
        /// The one that the file leaves.
        pub from: Change,
        /// The one that it comes to.
        pub to: Change,
    }

    /// Arguments of LINK.
    pub struct LinkArgs {
        /// The file.
        pub file: Handle,
        /// Its further place.
        pub link: Place,
    }

    /// What LINK does.
    #[derive(Copy, Default)]
    pub struct LinkChange {
        /// The file.
        pub file: Option<Attributes>,
        /// The directory.
        pub dir: Change,
    }

    /// Arguments of READDIR.
    pub struct ReaddirArgs {
        /// The directory.
        pub dir: Handle,
        /// Where to go on; 0: at the start.
        pub cookie: u64,
        /// What came with the cookie.
        pub verifier: Verifier,
        /// Most bytes of the reply's results.
        pub count: u32,
    }

    /// A name that READDIR lists.
    pub struct Entry {
        /// Which file of the file system it is.
        pub fileid: u64,
        /// Its name.
        pub name: Name,
        /// Where to go on behind it.
        pub cookie: u64,
    }

    /// Arguments of READDIRPLUS.
    pub struct ReaddirplusArgs {
        /// The directory.
        pub dir: Handle,
        /// Where to go on; 0: at the start.
        pub cookie: u64,
        /// What came with the cookie.
        pub verifier: Verifier,
        /// Most bytes of names, numbers and cookies.
        pub dir_count: u32,
        /// Most bytes of the reply's results.
        pub max_count: u32,
    }

    /// A name that READDIRPLUS lists.
    pub struct EntryPlus {
        /// Which file of the file system it is.
        pub fileid: u64,
        /// Its name.
        pub name: Name,
        /// Where to go on behind it.
        pub cookie: u64,
        /// Its attributes.
        pub attributes: Option<Attributes>,
        /// The file.
        pub file: Option<Handle>,
    }

    /// How full the file system is: bytes, and numbers of files.
    pub struct FsstatOk {
        /// The root's attributes.
        pub attributes: Option<Attributes>,
        /// Bytes that it has.
        pub total_bytes: u64,
        /// Bytes that are free.
        pub free_bytes: u64,
        /// Bytes that are free for the caller.
        pub available_bytes: u64,
        /// Files that it may have.
        pub total_files: u64,
        /// Files that may be made.
        pub free_files: u64,
        /// Files that the caller may make.
        pub available_files: u64,
        /// Seconds for which all of this is expected to stay as it is.
        pub invariant_seconds: u32,
    }

    /// What the file system and the server can, in bytes.
    pub struct FsinfoOk {
        /// The root's attributes.
        pub attributes: Option<Attributes>,
        /// Most bytes of a READ.
        pub read_max: u32,
        /// Bytes of a READ that suit best.
        pub read_preferred: u32,
        /// Reads are best a multiple of it.
        pub read_multiple: u32,
        /// Most bytes of a WRITE.
        pub write_max: u32,
        /// Bytes of a WRITE that suit best.
        pub write_preferred: u32,
        /// Writes are best a multiple of it.
        pub write_multiple: u32,
        /// Bytes of a READDIR that suit best.
        pub readdir_preferred: u32,
        /// Most bytes of a file.
        pub file_max: u64,
        /// How exact times are.
        pub time_delta: Time,
        /// See [`properties`].
        pub properties: u32,
    }

    /// What POSIX wants to know.
    pub struct PathconfOk {
        /// The file's attributes.
        pub attributes: Option<Attributes>,
        /// Most hard links to a file.
        pub link_max: u32,
        /// Most bytes of a name.
        pub name_max: u32,
        /// Are names that are too long refused, and not cut?
        pub no_trunc: bool,
        /// May only a privileged user give files away?
        pub chown_restricted: bool,
        /// Is there no difference between upper and lower case?
        pub case_insensitive: bool,
        /// Is the case of names kept?
        pub case_preserving: bool,
    }

    /// Arguments of COMMIT.
    pub struct CommitArgs {
        /// The file.
        pub file: Handle,
        /// Offset of the first byte.
        pub offset: u64,
        /// How many bytes; 0: all that follow.
        pub count: u32,
    }

    /// What COMMIT has done.
    pub struct CommitOk {
        /// The file.
        pub file: Change,
        /// Another than a WRITE had: the server has started anew in between, and may have lost what it wrote.
        pub verifier: Verifier,
    }
}

/// Bits of what a file system can (FSINFO).
pub mod properties {
    /// It has hard links.
    pub const LINK: u32 = 0x01;
    /// It has symbolic links.
    pub const SYMLINK: u32 = 0x02;
    /// PATHCONF tells the same of all files.
    pub const HOMOGENEOUS: u32 = 0x08;
    /// SETATTR can set times.
    pub const CAN_SET_TIME: u32 = 0x10;
}

/// The text of a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadlinkOk {
    /// The link's attributes.
    pub attributes: Option<Attributes>,
    /// Where it leads.
    pub path: Vec<u8>,
}

/// What READ has read, without the file's attributes, which come first, and the bytes, which come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadFront {
    /// Do the bytes reach the file's end?
    pub eof: bool,
    /// How many there are.
    pub count: u32,
}

impl ReadFront {
    /// Reads it behind the status of results, whose attributes are skipped.
    pub fn read(r: &mut Reader<'_>) -> Decoded<Self> {
        Attributes::skip(r)?;
        Self::decode(r)
    }
}

/// Its last word is the length of the payload.
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

/// What READ has read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOk {
    /// The file's attributes.
    pub attributes: Option<Attributes>,
    /// Do the bytes reach the file's end?
    pub eof: bool,
    /// The bytes.
    pub data: List,
}

/// Arguments of WRITE.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteArgs {
    /// The file.
    pub file: Handle,
    /// Where the first byte goes.
    pub offset: u64,
    /// How durable it has to be.
    pub stable: Stability,
    /// The bytes.
    pub data: List,
}

xdr_struct! {
    /// What WRITE has done.
    pub struct WriteOk {
        /// The file.
        pub file: Change,
        /// Bytes that were written.
        pub count: u32,
        /// How durable they are.
        pub committed: Stability,
        /// Another than before: the server has started anew in between.
        pub verifier: Verifier,
    }
}

/// How CREATE treats a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow {
    /// It is used.
    Unchecked(SetAttributes),
    /// It is refused.
    Guarded(SetAttributes),
    /// It is used if it was made with this number, and refused otherwise.
    Exclusive(Verifier),
}

/// What MKNOD makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A character device.
    Character(SetAttributes, Device),
    /// A block device.
    Block(SetAttributes, Device),
    /// A socket.
    Socket(SetAttributes),
    /// A named pipe.
    Fifo(SetAttributes),
    /// What other procedures make: it is refused.
    Other(FileType),
}

/// Arguments of SYMLINK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymlinkArgs {
    /// Where.
    pub place: Place,
    /// Its attributes.
    pub attributes: SetAttributes,
    /// Where it leads.
    pub path: Vec<u8>,
}

/// Names of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaddirOk {
    /// The directory's attributes.
    pub attributes: Option<Attributes>,
    /// To be given with cookies.
    pub verifier: Verifier,
    /// The names.
    pub entries: Vec<Entry>,
    /// Are these the last?
    pub eof: bool,
}

/// Names of a directory with attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaddirplusOk {
    /// The directory's attributes.
    pub attributes: Option<Attributes>,
    /// To be given with cookies.
    pub verifier: Verifier,
    /// The names.
    pub entries: Vec<EntryPlus>,
    /// Are these the last?
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
