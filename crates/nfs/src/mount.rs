//! The MOUNT protocol, version 3 (RFC 1813, appendix I): program 100005. It returns the root handles of exports.

use crate::rpc::procedures;
use crate::v3::Handle;
use crate::xdr::{Body, OK, Reader, Writer, Xdr, decode_chain, encode_chain, xdr_enum, xdr_struct};
use onego_buf::List;
use onego_wire::Decoded;
use std::fmt;

/// RPC program number.
pub const PROGRAM: u32 = 100_005;
/// Program version.
pub const VERSION: u32 = 3;

/// Maximum length of a path in bytes (`MNTPATHLEN`).
pub const PATH_MAX: usize = 1024;
/// Maximum length of a host or group name in bytes (`MNTNAMLEN`).
pub const NAME_MAX: usize = 255;
const FLAVORS_MAX: usize = 64;
const LIST_MAX: usize = 1 << 16;

procedures! {
    /// Does nothing.
    Null = 0: () => ();
    /// Returns the handle of an export's root, or of a directory in it.
    Mnt = 1: Path => Result<Mounted, MountStatus>;
    /// Lists the mounts that the server knows of.
    Dump = 2: () => Mounts;
    /// Removes a mount from the server's list.
    Umnt = 3: Path => ();
    /// Removes all of the client's mounts from the server's list.
    Umntall = 4: () => ();
    /// Lists the exports and the groups that may mount them.
    Export = 5: () => Exports;
}

xdr_enum! {
    /// The reason that a mount failed (`mountstat3`). Success is not included.
    pub enum MountStatus {
        /// Not the owner.
        Perm = 1,
        /// No such directory.
        Noent = 2,
        /// I/O error.
        Io = 5,
        /// Permission denied.
        Access = 13,
        /// Not a directory.
        Notdir = 20,
        /// Invalid argument.
        Inval = 22,
        /// The path is too long.
        Nametoolong = 63,
        /// Operation not supported.
        Notsupp = 10004,
        /// Another server failure.
        Serverfault = 10006,
    }
}

impl fmt::Display for MountStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Perm => "not the owner",
            Self::Noent => "no such directory",
            Self::Io => "I/O error on the server",
            Self::Access => "permission denied",
            Self::Notdir => "not a directory",
            Self::Inval => "invalid argument",
            Self::Nametoolong => "path too long",
            Self::Notsupp => "operation not supported",
            Self::Serverfault => "server failure",
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
    /// Path of an export.
    Path: PATH_MAX, "path of an export";
    /// Name of a host or of a group of hosts.
    Host: NAME_MAX, "name of a host";
}

/// The root of a mounted export, with its authentication flavors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Handle of the root.
    pub root: Handle,
    /// Authentication flavors in the server's order of preference (see [`crate::rpc::flavor`]).
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
    /// A mount: a client and the directory it has mounted.
    pub struct Mount {
        /// The client.
        pub host: Host,
        /// The directory.
        pub path: Path,
    }
}

/// An export and the groups that may mount it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The directory.
    pub path: Path,
    /// Hosts, networks or groups; empty means everyone.
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
    /// The server's list of mounts.
    Mounts: Mount, "mounts";
    /// The server's list of exports.
    Exports: Exported, "exports";
}
