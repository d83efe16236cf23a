//! The MOUNT protocol, version 3 (RFC 1813, appendix I): program 100005. It gives out the handles of roots.

use crate::rpc::procedures;
use crate::v3::Handle;
use crate::xdr::{Body, OK, Reader, Writer, Xdr, decode_chain, encode_chain, xdr_enum, xdr_struct};
use onego_buf::List;
use onego_wire::Decoded;
use std::fmt;

/// The program's number.
pub const PROGRAM: u32 = 100_005;
/// Its version.
pub const VERSION: u32 = 3;

/// The most bytes of a path (`MNTPATHLEN`).
pub const PATH_MAX: usize = 1024;
/// The most bytes of a name of a host or a group (`MNTNAMLEN`).
pub const NAME_MAX: usize = 255;
/// The most flavors of authentication that a server may name to be understood.
const FLAVORS_MAX: usize = 64;
/// The most exports, mounts, or groups of an export that are read.
const LIST_MAX: usize = 1 << 16;

procedures! {
    /// Does nothing.
    Null = 0: () => ();
    /// Gives the handle of an export's root, or of a directory in it.
    Mnt = 1: Path => Result<Mounted, MountStatus>;
    /// Tells who has mounted what, as far as the server knows.
    Dump = 2: () => Mounts;
    /// Tells that an export is not used any more.
    Umnt = 3: Path => ();
    /// The same of all exports.
    Umntall = 4: () => ();
    /// Tells what is exported to whom.
    Export = 5: () => Exports;
}

xdr_enum! {
    /// Why a directory cannot be mounted (`mountstat3`). Success is not among them.
    pub enum MountStatus {
        /// Not the owner.
        Perm = 1,
        /// No such directory.
        Noent = 2,
        /// A hard error.
        Io = 5,
        /// The caller may not do that.
        Access = 13,
        /// Not a directory.
        Notdir = 20,
        /// An argument without a meaning.
        Inval = 22,
        /// The path is too long.
        Nametoolong = 63,
        /// It is not there.
        Notsupp = 10004,
        /// The server failed in a way that has no other name.
        Serverfault = 10006,
    }
}

impl fmt::Display for MountStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Perm => "not the owner",
            Self::Noent => "no such directory",
            Self::Io => "a hard error of the server's disk",
            Self::Access => "permission denied",
            Self::Notdir => "not a directory",
            Self::Inval => "an argument without a meaning",
            Self::Nametoolong => "the path is too long",
            Self::Notsupp => "the server does not do that",
            Self::Serverfault => "the server has failed",
        })
    }
}

macro_rules! text {
    ($($(#[$doc:meta])* $name:ident: $bound:ident, $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub Vec<u8>);

        impl Xdr for $name {
            fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
                Ok(Self(r.opaque($bound, $what)?.to_vec()))
            }

            fn encode(&self, w: &mut Writer) {
                w.opaque(&self.0);
            }
        }
    )*};
}

text! {
    /// The path of an export.
    Path: PATH_MAX, "path of an export";
    /// The name of a host, or of a group of hosts.
    Host: NAME_MAX, "name of a host";
}

/// A root, and how its users may say who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The root.
    pub root: Handle,
    /// Flavors of authentication, in the server's order (see [`crate::rpc::flavor`]).
    pub flavors: Vec<u32>,
}

impl Xdr for Mounted {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let root = Handle::decode(r)?;
        let count = r.len(FLAVORS_MAX, "flavors of authentication")?;
        let flavors = (0..count).map(|_| r.u32("flavor of authentication")).collect::<Decoded<_>>()?;
        Ok(Self { root, flavors })
    }

    fn encode(&self, w: &mut Writer) {
        self.root.encode(w);
        w.len_of(self.flavors.len());
        self.flavors.iter().for_each(|flavor| w.u32(*flavor));
    }
}

impl Body for Result<Mounted, MountStatus> {
    fn read(r: &mut Reader<'_>, _: &mut List) -> Decoded<Self> {
        Ok(if r.take_ok()? { Ok(Mounted::decode(r)?) } else { Err(MountStatus::decode(r)?) })
    }

    fn write(&self, w: &mut Writer, _: &mut List) {
        match self {
            Ok(mounted) => {
                w.u32(OK);
                mounted.encode(w);
            }
            Err(status) => status.encode(w),
        }
    }
}

xdr_struct! {
    /// A client, and what it has mounted.
    pub struct Mount {
        /// The client.
        pub host: Host,
        /// The directory.
        pub path: Path,
    }
}

/// What is exported, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The directory.
    pub path: Path,
    /// Hosts, networks or groups; none: everybody.
    pub groups: Vec<Host>,
}

impl Xdr for Exported {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { path: Path::decode(r)?, groups: decode_chain(r, LIST_MAX, "groups of an export")? })
    }

    fn encode(&self, w: &mut Writer) {
        self.path.encode(w);
        encode_chain(w, &self.groups);
    }
}

macro_rules! chain {
    ($($(#[$doc:meta])* $name:ident: $of:ident, $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(pub Vec<$of>);

        impl Xdr for $name {
            fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
                Ok(Self(decode_chain(r, LIST_MAX, $what)?))
            }

            fn encode(&self, w: &mut Writer) {
                encode_chain(w, &self.0);
            }
        }
    )*};
}

chain! {
    /// All that the server knows to be mounted.
    Mounts: Mount, "mounts";
    /// All that is exported.
    Exports: Exported, "exports";
}
