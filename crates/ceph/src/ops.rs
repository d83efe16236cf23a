//! Operations on an object in a request.
//!
//! A request is a vector of [`Op`]s that the OSD applies to one object atomically and in order: each has a fixed 38-byte
//! descriptor in the front of the message; their inputs are concatenated in its data.
//!
//! Source: ceph `src/include/rados.h` (`ceph_osd_op`), `src/osd/osd_types.cc` (`OSDOp`).

mod tmap;

pub use tmap::{Tmap, TmapCommand};

use crate::types::{ObjectLocator, Utime};
use onego_buf::List;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer, text};
use std::collections::{BTreeMap, BTreeSet};

/// Length of an operation's descriptor on the wire.
pub const DESCRIPTOR_LEN: usize = 38;

/// Length of the operation-specific part of a descriptor.
const ARGUMENTS_LEN: usize = 28;

/// Maximum payload of a request that changes an object (`osd_max_write_size`, 90 MiB). OSDs answer EMSGSIZE to
/// larger ones.
pub const MAX_WRITE: u64 = 90 << 20;

/// Maximum number of bytes that one request reads: the limit of librados (INT_MAX). Replies have a lower one: see [`MAX_PAYLOAD`].
pub const MAX_READ: u64 = i32::MAX as u64;

/// Maximum payload of a message to or from an OSD: two of the largest objects (`osd_max_object_size`, 128 MiB).
/// Clients and the embedded cluster use the same limit.
pub const MAX_PAYLOAD: u32 = 256 << 20;

/// Longest name of a class or of its method: their lengths are single bytes on the wire.
pub const MAX_CALL_NAME: usize = u8::MAX as usize;

/// Maximum number of operations in a request, also for OSDs: the count on the wire has 16 bits.
pub const MAX_OPS: usize = u16::MAX as usize;

/// Operation codes (`CEPH_OSD_OP_*`).
#[allow(missing_docs)]
pub mod code {
    pub const READ: u16 = 0x1201;
    pub const STAT: u16 = 0x1202;
    pub const MAPEXT: u16 = 0x1203;
    pub const SPARSE_READ: u16 = 0x1205;
    pub const NOTIFY: u16 = 0x1206;
    pub const NOTIFY_ACK: u16 = 0x1207;
    pub const ASSERT_VER: u16 = 0x1208;
    pub const LIST_WATCHERS: u16 = 0x1209;
    pub const LIST_SNAPS: u16 = 0x120a;
    pub const SYNC_READ: u16 = 0x120b;
    pub const TMAP_GET: u16 = 0x120c;
    pub const OMAP_GET_KEYS: u16 = 0x1211;
    pub const OMAP_GET_VALS: u16 = 0x1212;
    pub const OMAP_GET_HEADER: u16 = 0x1213;
    pub const OMAP_GET_VALS_BY_KEYS: u16 = 0x1214;
    pub const OMAP_CMP: u16 = 0x1219;
    pub const CHECKSUM: u16 = 0x121f;
    pub const CMPEXT: u16 = 0x1220;
    pub const WRITE: u16 = 0x2201;
    pub const WRITE_FULL: u16 = 0x2202;
    pub const TRUNCATE: u16 = 0x2203;
    pub const ZERO: u16 = 0x2204;
    pub const DELETE: u16 = 0x2205;
    pub const APPEND: u16 = 0x2206;
    pub const TMAP_PUT: u16 = 0x220b;
    pub const COPY_FROM: u16 = 0x221a;
    pub const COPY_FROM2: u16 = 0x222d;
    pub const CREATE: u16 = 0x220d;
    pub const ROLLBACK: u16 = 0x220e;
    pub const WATCH: u16 = 0x220f;
    pub const OMAP_SET_VALS: u16 = 0x2215;
    pub const OMAP_SET_HEADER: u16 = 0x2216;
    pub const OMAP_CLEAR: u16 = 0x2217;
    pub const OMAP_RM_KEYS: u16 = 0x2218;
    pub const SET_ALLOC_HINT: u16 = 0x2223;
    pub const CACHE_PIN: u16 = 0x2224;
    pub const CACHE_UNPIN: u16 = 0x2225;
    pub const WRITE_SAME: u16 = 0x2226;
    pub const OMAP_RM_KEY_RANGE: u16 = 0x222c;
    pub const TMAP_UPDATE: u16 = 0x320a;
    pub const GET_XATTR: u16 = 0x1301;
    pub const GET_XATTRS: u16 = 0x1302;
    pub const CMP_XATTR: u16 = 0x1303;
    pub const SET_XATTR: u16 = 0x2301;
    pub const RM_XATTR: u16 = 0x2304;
    pub const CALL: u16 = 0x1401;
    pub const PG_NLS: u16 = 0x1505;
    pub const PG_NLS_FILTER: u16 = 0x1506;
}

/// Checksum types of [`Op::Checksum`] (`CEPH_OSD_CHECKSUM_OP_TYPE_*`).
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumKind {
    XxHash32 = 0,
    XxHash64 = 1,
    Crc32c = 2,
}

impl ChecksumKind {
    /// Returns the checksum type with this number.
    pub fn from_wire(number: u8) -> Option<Self> {
        [Self::XxHash32, Self::XxHash64, Self::Crc32c].into_iter().find(|kind| *kind as u8 == number)
    }

    /// Returns whether the checksum has 64 bits instead of 32.
    pub fn is_wide(self) -> bool {
        self == Self::XxHash64
    }
}

/// Flags of one operation (`CEPH_OSD_OP_FLAG_*`).
pub mod op_flag {
    /// Creation fails if the object exists.
    pub const EXCL: u32 = 1;
    /// The request continues if this operation fails.
    pub const FAIL_OK: u32 = 2;
}

/// Flags of a request (`CEPH_OSD_FLAG_*`).
#[allow(missing_docs)]
pub mod flag {
    pub const ACK: u32 = 0x1;
    pub const ON_NVRAM: u32 = 0x2;
    pub const ON_DISK: u32 = 0x4;
    pub const RETRY: u32 = 0x8;
    pub const READ: u32 = 0x10;
    pub const WRITE: u32 = 0x20;
    pub const ORDER_SNAP: u32 = 0x40;
    pub const BALANCE_READS: u32 = 0x100;
    pub const PARALLEL_EXEC: u32 = 0x200;
    pub const PG_OP: u32 = 0x400;
    pub const EXEC: u32 = 0x800;
    pub const LOCALIZE_READS: u32 = 0x2000;
    pub const RW_ORDERED: u32 = 0x4000;
    pub const IGNORE_CACHE: u32 = 0x8000;
    pub const IGNORE_OVERLAY: u32 = 0x20000;
    pub const ENFORCE_SNAPC: u32 = 0x100000;
    pub const REDIRECTED: u32 = 0x200000;
    pub const KNOWN_REDIRECT: u32 = 0x400000;
    pub const FULL_TRY: u32 = 0x800000;
    pub const FULL_FORCE: u32 = 0x1000000;
    /// Results and outputs of writing operations are wanted too.
    pub const RETURN_VEC: u32 = 0x4000000;
    /// The client itself fails operations on pools with the flag `eio`.
    pub const SUPPORTS_POOL_EIO: u32 = 0x8000000;
}

/// Returns whether a request with these flags waits while its pool is full (`Objecter::op_target_t::respects_full`).
pub fn respects_full(flags: u32) -> bool {
    flags & (flag::WRITE | flag::RW_ORDERED) != 0 && flags & (flag::FULL_TRY | flag::FULL_FORCE) == 0
}

/// Comparison of [`Op::CmpXattr`] and [`Op::OmapCmp`] (`CEPH_OSD_CMPXATTR_OP_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compare {
    Equal = 1,
    NotEqual = 2,
    Greater = 3,
    GreaterOrEqual = 4,
    Less = 5,
    LessOrEqual = 6,
}

impl Compare {
    /// Returns the comparison with that number.
    pub fn from_wire(value: u8) -> Decoded<Self> {
        Ok(match value {
            1 => Self::Equal,
            2 => Self::NotEqual,
            3 => Self::Greater,
            4 => Self::GreaterOrEqual,
            5 => Self::Less,
            6 => Self::LessOrEqual,
            _ => return Err(DecodeError::Invalid { what: "comparison", value: value.into() }),
        })
    }
}

/// Value to compare an extended attribute with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompareWith {
    /// Byte by byte.
    Bytes(Vec<u8>),
    /// As numbers: the attribute consists of decimal digits.
    Number(u64),
}

/// Kind of [`Op::Watch`] (`CEPH_OSD_WATCH_OP_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WatchOp {
    Unwatch = 0,
    LegacyWatch = 1,
    Watch = 3,
    Reconnect = 5,
    Ping = 7,
}

impl WatchOp {
    fn from_wire(value: u8) -> Decoded<Self> {
        Ok(match value {
            0 => Self::Unwatch,
            1 => Self::LegacyWatch,
            3 => Self::Watch,
            5 => Self::Reconnect,
            7 => Self::Ping,
            _ => return Err(DecodeError::Invalid { what: "watch operation", value: value.into() }),
        })
    }
}

/// Flags of [`CopyFrom`] (`CEPH_OSD_COPY_FROM_FLAG_*`).
pub mod copy_flag {
    /// `snap` is the id of a clone instead of a snapshot.
    pub const MAP_SNAP_CLONE: u8 = 8;
    /// The input ends with a truncation.
    pub const TRUNCATE_SEQ: u8 = 32;
    /// All flags.
    pub const ALL: u8 = 63;
}

/// Source of [`Op::CopyFrom`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFrom {
    /// Name of the object.
    pub name: Vec<u8>,
    /// Pool, namespace and key of the object.
    pub locator: ObjectLocator,
    /// Snapshot to copy, or `NOSNAP` for the current object.
    pub snap: u64,
    /// Required version of the source; 0: any.
    pub version: u64,
    /// See [`copy_flag`].
    pub flags: u8,
    /// Hints for the read of the source (`CEPH_OSD_OP_FLAG_FADVISE_*`).
    pub read_hints: u32,
    /// `truncate_seq` and `truncate_size` for the copy, which CephFS sets; requires `COPY_FROM2`.
    pub truncation: Option<(u32, u64)>,
    /// `COPY_FROM2` instead of `COPY_FROM`.
    pub is_second: bool,
}

impl CopyFrom {
    fn decode(code: u16, a: &mut Reader<'_>, input: &List) -> Decoded<Self> {
        let (snap, version) = (a.u64("snapshot of a copy")?, a.u64("version of a copy")?);
        let (flags, read_hints) = (a.u8("flags of a copy")?, a.u32("read hints of a copy")?);
        let is_second = code == code::COPY_FROM2;
        if is_second && flags & !copy_flag::ALL != 0 {
            return Err(DecodeError::Invalid { what: "flags of a copy", value: flags.into() });
        }
        let input = input.to_segment();
        let mut r = Reader::new(&input);
        let (name, locator) = (r.blob("name of a copy's source")?.to_vec(), ObjectLocator::decode(&mut r)?);
        let truncation = match is_second && flags & copy_flag::TRUNCATE_SEQ != 0 {
            true => Some((r.u32("truncate_seq")?, r.u64("truncate_size")?)),
            false => None,
        };
        Ok(Self { name, locator, snap, version, flags, read_hints, truncation, is_second })
    }

    fn encode(&self, w: &mut Writer) -> List {
        w.u64(self.snap);
        w.u64(self.version);
        w.u8(self.flags);
        w.u32(self.read_hints);
        let mut input = Writer::new();
        input.blob(&self.name);
        self.locator.encode(&mut input);
        if let Some((seq, size)) = self.truncation {
            input.u32(seq);
            input.u64(size);
        }
        input.into_vec().into()
    }
}

/// Keys and values of an object's omap.
pub type Omap = BTreeMap<Vec<u8>, List>;

/// Operation on an object. Offsets and lengths are in bytes of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    /// Output: the bytes, fewer at the object's end.
    Read {
        offset: u64,
        length: u64,
    },
    /// Output: a map of (offset, length), followed by the bytes of these extents.
    SparseRead {
        offset: u64,
        length: u64,
    },
    /// Output: a map of (offset, length) of the allocated extents.
    MapExt {
        offset: u64,
        length: u64,
    },
    /// Fails with -(4095 + offset of the first difference) unless the object has these bytes.
    CmpExt {
        offset: u64,
        data: List,
    },
    /// Output: size (u64) and mtime.
    Stat,
    Write {
        offset: u64,
        data: List,
    },
    WriteFull {
        data: List,
    },
    /// Repeats `data` over `length` bytes, a multiple of its length.
    WriteSame {
        offset: u64,
        length: u64,
        data: List,
    },
    Append {
        data: List,
    },
    Zero {
        offset: u64,
        length: u64,
    },
    Truncate {
        size: u64,
    },
    Delete,
    Create {
        exclusive: bool,
    },
    /// Restores the state of the object at snapshot `snap`.
    Rollback {
        snap: u64,
    },
    SetAllocHint {
        object_size: u64,
        write_size: u64,
        flags: u32,
    },
    /// Calls `method` of an object class. Output: that of the method.
    Call {
        class: String,
        method: String,
        input: List,
    },
    /// Output: the value.
    GetXattr {
        name: Vec<u8>,
    },
    /// Output: a map of names and values.
    GetXattrs,
    CmpXattr {
        name: Vec<u8>,
        compare: Compare,
        with: CompareWith,
    },
    SetXattr {
        name: Vec<u8>,
        value: List,
    },
    RmXattr {
        name: Vec<u8>,
    },
    /// Output: a set of at most `max` keys after `after`, and whether there are more.
    OmapGetKeys {
        after: Vec<u8>,
        max: u64,
    },
    /// Output: a map of at most `max` entries after `after` whose keys start with `prefix`, and whether there are more.
    OmapGetVals {
        after: Vec<u8>,
        max: u64,
        prefix: Vec<u8>,
    },
    /// Output: the header.
    OmapGetHeader,
    /// Output: a map of the existing entries.
    OmapGetValsByKeys {
        keys: BTreeSet<Vec<u8>>,
    },
    OmapSetVals {
        entries: Omap,
    },
    OmapSetHeader {
        header: List,
    },
    OmapClear,
    OmapRmKeys {
        keys: BTreeSet<Vec<u8>>,
    },
    /// Removes the keys in `from..to`.
    OmapRmKeyRange {
        from: Vec<u8>,
        to: Vec<u8>,
    },
    /// Fails with ECANCELED unless every assertion holds.
    OmapCmp {
        assertions: BTreeMap<Vec<u8>, (List, Compare)>,
    },
    /// Output: the whole data of the object, a [`Tmap`].
    TmapGet,
    /// Replaces the object's data with this [`Tmap`].
    TmapPut {
        input: List,
    },
    /// Applies each [`TmapCommand`] of the input to the object's [`Tmap`].
    TmapUpdate {
        input: List,
    },
    /// Fails with ERANGE or EOVERFLOW unless the object has this version.
    AssertVer {
        version: u64,
    },
    Watch {
        cookie: u64,
        op: WatchOp,
        generation: u32,
        timeout: u32,
    },
    /// Output: nothing; the replies come in a watch-notify message.
    Notify {
        cookie: u64,
        timeout: u32,
        payload: List,
    },
    NotifyAck {
        notify_id: u64,
        cookie: u64,
        reply: List,
    },
    /// Output: the watchers.
    ListWatchers,
    /// Output: clones and their snapshots.
    ListSnaps,
    /// Checksums of the chunks of a range, or of all of it if the chunk size is 0. Output: their number, and the checksums.
    Checksum {
        /// See [`ChecksumKind`].
        kind: u8,
        offset: u64,
        length: u64,
        chunk: u32,
        /// Initial value of each checksum.
        init: List,
    },
    /// Replaces the object's data, attributes and omap with those of another object.
    CopyFrom(Box<CopyFrom>),
    /// Pins an object in a cache tier, or unpins it.
    CachePin {
        is_pinned: bool,
    },
    /// Lists objects of the placement group. Output: a handle and entries.
    PgNls {
        count: u64,
        epoch: u32,
        cursor: List,
    },
    /// Like `PgNls`, for the objects that pass a filter. Input: "pg", "filter", a filter's name and arguments, the cursor.
    PgNlsFilter {
        count: u64,
        epoch: u32,
        input: List,
    },
    /// Unknown operation, kept so that it can be refused by name.
    Unknown {
        code: u16,
    },
    /// Operation with invalid arguments or input, kept so that the operation can be refused (EINVAL) instead of the session.
    Malformed {
        code: u16,
    },
}

impl Op {
    /// Returns the operation's code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Read { .. } => code::READ,
            Self::SparseRead { .. } => code::SPARSE_READ,
            Self::MapExt { .. } => code::MAPEXT,
            Self::CmpExt { .. } => code::CMPEXT,
            Self::Stat => code::STAT,
            Self::Write { .. } => code::WRITE,
            Self::WriteFull { .. } => code::WRITE_FULL,
            Self::WriteSame { .. } => code::WRITE_SAME,
            Self::Append { .. } => code::APPEND,
            Self::Zero { .. } => code::ZERO,
            Self::Truncate { .. } => code::TRUNCATE,
            Self::Delete => code::DELETE,
            Self::Create { .. } => code::CREATE,
            Self::Rollback { .. } => code::ROLLBACK,
            Self::SetAllocHint { .. } => code::SET_ALLOC_HINT,
            Self::Call { .. } => code::CALL,
            Self::GetXattr { .. } => code::GET_XATTR,
            Self::GetXattrs => code::GET_XATTRS,
            Self::CmpXattr { .. } => code::CMP_XATTR,
            Self::SetXattr { .. } => code::SET_XATTR,
            Self::RmXattr { .. } => code::RM_XATTR,
            Self::OmapGetKeys { .. } => code::OMAP_GET_KEYS,
            Self::OmapGetVals { .. } => code::OMAP_GET_VALS,
            Self::OmapGetHeader => code::OMAP_GET_HEADER,
            Self::OmapGetValsByKeys { .. } => code::OMAP_GET_VALS_BY_KEYS,
            Self::OmapSetVals { .. } => code::OMAP_SET_VALS,
            Self::OmapSetHeader { .. } => code::OMAP_SET_HEADER,
            Self::OmapClear => code::OMAP_CLEAR,
            Self::OmapRmKeys { .. } => code::OMAP_RM_KEYS,
            Self::OmapRmKeyRange { .. } => code::OMAP_RM_KEY_RANGE,
            Self::OmapCmp { .. } => code::OMAP_CMP,
            Self::TmapGet => code::TMAP_GET,
            Self::TmapPut { .. } => code::TMAP_PUT,
            Self::TmapUpdate { .. } => code::TMAP_UPDATE,
            Self::AssertVer { .. } => code::ASSERT_VER,
            Self::Watch { .. } => code::WATCH,
            Self::Notify { .. } => code::NOTIFY,
            Self::NotifyAck { .. } => code::NOTIFY_ACK,
            Self::ListWatchers => code::LIST_WATCHERS,
            Self::ListSnaps => code::LIST_SNAPS,
            Self::Checksum { .. } => code::CHECKSUM,
            Self::CopyFrom(copy) if copy.is_second => code::COPY_FROM2,
            Self::CopyFrom(_) => code::COPY_FROM,
            Self::CachePin { is_pinned: true } => code::CACHE_PIN,
            Self::CachePin { is_pinned: false } => code::CACHE_UNPIN,
            Self::PgNls { .. } => code::PG_NLS,
            Self::PgNlsFilter { .. } => code::PG_NLS_FILTER,
            Self::Unknown { code } | Self::Malformed { code } => *code,
        }
    }

    /// Returns whether the operation reads. (A class method may do both; its caller sets the request's flags.)
    pub fn reads(&self) -> bool {
        self.code() & 0x1000 != 0 && !matches!(self, Self::Call { .. })
    }

    /// Returns whether the operation changes the object.
    pub fn writes(&self) -> bool {
        self.code() & 0x2000 != 0
    }

    /// Encodes the descriptor to `front` and appends the operation's input to `data`.
    pub fn encode(&self, flags: u32, front: &mut Writer, data: &mut List) {
        let at = front.len();
        front.u16(self.code());
        front.u32(flags | if matches!(self, Self::Create { exclusive: true }) { op_flag::EXCL } else { 0 });
        let input = self.encode_arguments(front);
        let pad = at + 6 + ARGUMENTS_LEN - front.len();
        front.put(&[0; ARGUMENTS_LEN][..pad]);
        front.count(input.len());
        data.append(input);
    }

    /// Encodes the arguments in the descriptor and returns the input.
    fn encode_arguments(&self, w: &mut Writer) -> List {
        match self {
            Self::Read { offset, length }
            | Self::SparseRead { offset, length }
            | Self::MapExt { offset, length }
            | Self::Zero { offset, length } => {
                extent(w, *offset, *length);
                List::new()
            }
            Self::Write { offset, data } | Self::CmpExt { offset, data } => {
                extent(w, *offset, data.len() as u64);
                data.clone()
            }
            Self::WriteFull { data } | Self::Append { data } => {
                extent(w, 0, data.len() as u64);
                data.clone()
            }
            Self::WriteSame { offset, length, data } => {
                extent(w, *offset, *length);
                w.u64(data.len() as u64);
                data.clone()
            }
            Self::Truncate { size } => {
                extent(w, *size, 0);
                List::new()
            }
            Self::Rollback { snap } => {
                w.u64(*snap);
                List::new()
            }
            Self::SetAllocHint { object_size, write_size, flags } => {
                extent(w, *object_size, *write_size);
                w.u32(*flags);
                List::new()
            }
            Self::Call { class, method, input } => {
                w.u8(class.len() as u8);
                w.u8(method.len() as u8);
                w.u8(0);
                w.count(input.len());
                let mut all = List::from([class.as_bytes(), method.as_bytes()].concat());
                all.append(input.clone());
                all
            }
            Self::GetXattr { name } | Self::RmXattr { name } => xattr(w, name, &List::new(), 0, 0),
            Self::SetXattr { name, value } => xattr(w, name, value, 0, 0),
            Self::CmpXattr { name, compare, with } => {
                let (value, mode) = match with {
                    CompareWith::Bytes(bytes) => (bytes.clone(), 1),
                    CompareWith::Number(n) => (n.to_le_bytes().to_vec(), 2),
                };
                xattr(w, name, &List::from(value), *compare as u8, mode)
            }
            Self::AssertVer { version } => {
                extent(w, 0, *version);
                List::new()
            }
            Self::Watch { cookie, op, generation, timeout } => {
                extent(w, *cookie, 0);
                w.u8(*op as u8);
                w.u32(*generation);
                w.u32(*timeout);
                List::new()
            }
            Self::Notify { cookie, timeout, payload } => {
                w.u64(*cookie);
                let mut input = Writer::new();
                input.u32(1); // protocol version
                input.u32(*timeout);
                sized_list(input, payload)
            }
            Self::NotifyAck { notify_id, cookie, reply } => {
                let mut input = Writer::new();
                input.u64(*notify_id);
                input.u64(*cookie);
                sized_list(input, reply)
            }
            Self::PgNls { count, epoch, cursor: input } | Self::PgNlsFilter { count, epoch, input } => {
                w.u64(*count);
                w.u32(*epoch);
                input.clone()
            }
            Self::Create { .. } => List::new(),
            Self::CopyFrom(copy) => copy.encode(w),
            Self::Checksum { kind, offset, length, chunk, init } => {
                extent(w, *offset, *length);
                w.u32(*chunk);
                w.u8(*kind);
                init.clone()
            }
            Self::OmapSetHeader { header: input } | Self::TmapPut { input } | Self::TmapUpdate { input } => {
                input.clone()
            }
            _ => self.encode_omap_input(),
        }
    }

    fn encode_omap_input(&self) -> List {
        let mut w = Writer::new();
        match self {
            Self::OmapGetKeys { after, max } => {
                w.blob(after);
                w.u64(*max);
            }
            Self::OmapGetVals { after, max, prefix } => {
                w.blob(after);
                w.u64(*max);
                w.blob(prefix);
            }
            Self::OmapGetValsByKeys { keys } | Self::OmapRmKeys { keys } => {
                w.count(keys.len());
                keys.iter().for_each(|key| w.blob(key));
            }
            Self::OmapSetVals { entries } => encode_omap(&mut w, entries),
            Self::OmapRmKeyRange { from, to } => {
                w.blob(from);
                w.blob(to);
            }
            Self::OmapCmp { assertions } => {
                w.count(assertions.len());
                for (key, (value, compare)) in assertions {
                    w.blob(key);
                    w.blob(&value.to_segment());
                    w.i32(*compare as i32);
                }
            }
            _ => {}
        }
        w.into_vec().into()
    }

    /// Decodes a descriptor and takes the operation's input from the front of `data`. Returns its flags too. Fails if the
    /// input is truncated; an invalid operation is [`Op::Malformed`].
    pub fn decode(front: &mut Reader<'_>, data: &mut List) -> Decoded<(Op, u32)> {
        let code = front.u16("operation")?;
        let flags = front.u32("operation's flags")?;
        let mut arguments = front.sub(ARGUMENTS_LEN, "operation's arguments")?;
        let len = front.u32("length of an operation's input")? as usize;
        if len > data.len() {
            return Err(DecodeError::Truncated { what: "operation's input", needed: len, left: data.len() });
        }
        let input = data.split_to(len);
        let op = Self::decode_arguments(code, flags, &mut arguments, input).unwrap_or_else(|error| {
            tracing::debug!(code, %error, "malformed operation");
            Op::Malformed { code }
        });
        Ok((op, flags))
    }

    /// Decodes only the code and the flags of the next operation.
    pub(crate) fn decode_code(front: &mut Reader<'_>) -> Decoded<(Op, u32)> {
        let (code, flags) = (front.u16("operation")?, front.u32("operation's flags")?);
        front.take(ARGUMENTS_LEN + 4, "operation's arguments")?;
        Ok((Op::Unknown { code }, flags))
    }

    fn decode_arguments(code: u16, flags: u32, a: &mut Reader<'_>, input: List) -> Decoded<Op> {
        let (what, second) = ("operation's arguments", |r: &Reader<'_>| {
            let mut r = *r;
            r.u64("offset").and_then(|_| r.u64("length"))
        });
        Ok(match code {
            code::READ | code::SYNC_READ => Op::Read { offset: a.u64(what)?, length: a.u64(what)? },
            code::SPARSE_READ => {
                let (offset, length, _) = (a.u64(what)?, a.u64(what)?, a.u64(what)?);
                // As Ceph's OSDs (PrimaryLogPG.cc, do_sparse_read).
                match a.u32(what)? {
                    0 => Op::SparseRead { offset, length },
                    value => return Err(DecodeError::Invalid { what: "truncation", value: value.into() }),
                }
            }
            code::MAPEXT => Op::MapExt { offset: a.u64(what)?, length: a.u64(what)? },
            code::ZERO => Op::Zero { offset: a.u64(what)?, length: a.u64(what)? },
            code::WRITE => {
                same_length(second(a)?, &input)?;
                Op::Write { offset: a.u64(what)?, data: input }
            }
            code::CMPEXT => {
                same_length(second(a)?, &input)?;
                Op::CmpExt { offset: a.u64(what)?, data: input }
            }
            code::WRITE_FULL => {
                same_length(second(a)?, &input)?;
                Op::WriteFull { data: input }
            }
            code::APPEND => {
                same_length(second(a)?, &input)?;
                Op::Append { data: input }
            }
            code::WRITE_SAME => {
                let (offset, length) = (a.u64(what)?, a.u64(what)?);
                same_length(a.u64(what)?, &input)?;
                Op::WriteSame { offset, length, data: input }
            }
            code::TRUNCATE => Op::Truncate { size: a.u64(what)? },
            code::STAT => Op::Stat,
            code::DELETE => Op::Delete,
            code::CREATE => Op::Create { exclusive: flags & op_flag::EXCL != 0 },
            code::ROLLBACK => Op::Rollback { snap: a.u64(what)? },
            code::SET_ALLOC_HINT => {
                Op::SetAllocHint { object_size: a.u64(what)?, write_size: a.u64(what)?, flags: a.u32(what)? }
            }
            code::CALL => decode_call(a, input)?,
            code::GET_XATTR | code::SET_XATTR | code::RM_XATTR | code::CMP_XATTR => {
                decode_xattr(code, a, input)?
            }
            code::GET_XATTRS => Op::GetXattrs,
            code::TMAP_GET => Op::TmapGet,
            code::TMAP_PUT => Op::TmapPut { input },
            code::TMAP_UPDATE => Op::TmapUpdate { input },
            code::ASSERT_VER => Op::AssertVer { version: second(a)? },
            code::WATCH => {
                let cookie = a.u64(what)?;
                a.u64(what)?;
                Op::Watch {
                    cookie,
                    op: WatchOp::from_wire(a.u8(what)?)?,
                    generation: a.u32(what)?,
                    timeout: a.u32(what)?,
                }
            }
            code::NOTIFY => decode_notify(a.u64(what)?, &input)?,
            code::NOTIFY_ACK => decode_notify_ack(&input)?,
            code::LIST_WATCHERS => Op::ListWatchers,
            code::LIST_SNAPS => Op::ListSnaps,
            code::CHECKSUM => {
                let (offset, length, chunk) = (a.u64(what)?, a.u64(what)?, a.u32(what)?);
                Op::Checksum { kind: a.u8(what)?, offset, length, chunk, init: input }
            }
            code::COPY_FROM | code::COPY_FROM2 => Op::CopyFrom(Box::new(CopyFrom::decode(code, a, &input)?)),
            code::CACHE_PIN | code::CACHE_UNPIN => Op::CachePin { is_pinned: code == code::CACHE_PIN },
            code::PG_NLS | code::PG_NLS_FILTER => {
                let (count, epoch) = (a.u64(what)?, a.u32(what)?);
                if code == code::PG_NLS {
                    Op::PgNls { count, epoch, cursor: input }
                } else {
                    Op::PgNlsFilter { count, epoch, input }
                }
            }
            _ => return decode_omap_op(code, input),
        })
    }
}

fn extent(w: &mut Writer, offset: u64, length: u64) {
    w.u64(offset);
    w.u64(length);
}

fn xattr(w: &mut Writer, name: &[u8], value: &List, compare: u8, mode: u8) -> List {
    w.count(name.len());
    w.count(value.len());
    w.u8(compare);
    w.u8(mode);
    let mut input = List::from(name.to_vec());
    input.append(value.clone());
    input
}

fn sized_list(mut head: Writer, list: &List) -> List {
    head.count(list.len());
    let mut all = List::from(head.into_vec());
    all.append(list.clone());
    all
}

/// Checks the length of a write, which is in the descriptor as well as that of its input.
fn same_length(length: u64, input: &List) -> Decoded<()> {
    if length == input.len() as u64 {
        Ok(())
    } else {
        Err(DecodeError::Invalid { what: "length of a write", value: length })
    }
}

fn cut(input: &mut List, len: usize, what: &'static str) -> Decoded<List> {
    if len > input.len() {
        return Err(DecodeError::Truncated { what, needed: len, left: input.len() });
    }
    Ok(input.split_to(len))
}

fn decode_call(a: &mut Reader<'_>, mut input: List) -> Decoded<Op> {
    let (class, method) = (a.u8("class length")?, a.u8("method length")?);
    a.u8("argument count")?;
    let len = a.u32("class input length")? as usize;
    let mut name =
        |len: u8, what| Ok(text::from_bytes(&cut(&mut input, len.into(), what)?.to_segment()).into_owned());
    let (class, method) = (name(class, "class name")?, name(method, "method name")?);
    let input = cut(&mut input, len, "class input")?;
    Ok(Op::Call { class, method, input })
}

fn decode_xattr(code: u16, a: &mut Reader<'_>, mut input: List) -> Decoded<Op> {
    let (name_len, value_len) = (a.u32("xattr name length")? as usize, a.u32("xattr value length")? as usize);
    let (compare, mode) = (a.u8("xattr comparison")?, a.u8("xattr comparison mode")?);
    let name = cut(&mut input, name_len, "xattr name")?.to_vec();
    Ok(match code {
        code::GET_XATTR => Op::GetXattr { name },
        code::RM_XATTR => Op::RmXattr { name },
        code::SET_XATTR => Op::SetXattr { name, value: cut(&mut input, value_len, "xattr value")? },
        _ => {
            let value = cut(&mut input, value_len, "xattr value")?.to_vec();
            let with = match mode {
                2 => CompareWith::Number(Reader::new(&value).u64("xattr number")?),
                _ => CompareWith::Bytes(value),
            };
            Op::CmpXattr { name, compare: Compare::from_wire(compare)?, with }
        }
    })
}

fn decode_notify(cookie: u64, input: &List) -> Decoded<Op> {
    let input = input.to_segment();
    let mut r = Reader::new(&input);
    r.u32("notify version")?;
    let timeout = r.u32("notify timeout")?;
    let payload = r.blob("notify payload")?;
    Ok(Op::Notify { cookie, timeout, payload: payload.to_vec().into() })
}

fn decode_notify_ack(input: &List) -> Decoded<Op> {
    let input = input.to_segment();
    let mut r = Reader::new(&input);
    let (notify_id, cookie) = (r.u64("notify id")?, r.u64("notify cookie")?);
    // Old clients send no reply at all.
    let reply = if r.is_empty() { &[][..] } else { r.blob("notify reply")? };
    Ok(Op::NotifyAck { notify_id, cookie, reply: reply.to_vec().into() })
}

fn decode_keys(r: &mut Reader<'_>) -> Decoded<BTreeSet<Vec<u8>>> {
    let n = r.count(4, "omap keys")?;
    (0..n).map(|_| Ok(r.blob("omap key")?.to_vec())).collect()
}

/// Decodes keys and values as a map on the wire.
pub fn decode_omap(r: &mut Reader<'_>) -> Decoded<Omap> {
    let n = r.count(8, "omap entries")?;
    (0..n).map(|_| Ok((r.blob("omap key")?.to_vec(), r.blob("omap value")?.to_vec().into()))).collect()
}

/// Encodes keys and values as a map on the wire.
pub fn encode_omap(w: &mut Writer, entries: &Omap) {
    w.count(entries.len());
    for (key, value) in entries {
        w.blob(key);
        w.count(value.len());
        value.segments().for_each(|segment| w.put(segment));
    }
}

fn decode_omap_op(code: u16, input: List) -> Decoded<Op> {
    if code == code::OMAP_SET_HEADER {
        return Ok(Op::OmapSetHeader { header: input });
    }
    let input = input.to_segment();
    let mut r = Reader::new(&input);
    Ok(match code {
        code::OMAP_GET_KEYS => {
            Op::OmapGetKeys { after: r.blob("omap key")?.to_vec(), max: r.u64("omap max")? }
        }
        code::OMAP_GET_VALS => Op::OmapGetVals {
            after: r.blob("omap key")?.to_vec(),
            max: r.u64("omap max")?,
            prefix: r.blob("omap prefix")?.to_vec(),
        },
        code::OMAP_GET_HEADER => Op::OmapGetHeader,
        code::OMAP_GET_VALS_BY_KEYS => Op::OmapGetValsByKeys { keys: decode_keys(&mut r)? },
        code::OMAP_SET_VALS => Op::OmapSetVals { entries: decode_omap(&mut r)? },
        code::OMAP_CLEAR => Op::OmapClear,
        code::OMAP_RM_KEYS => Op::OmapRmKeys { keys: decode_keys(&mut r)? },
        code::OMAP_RM_KEY_RANGE => {
            Op::OmapRmKeyRange { from: r.blob("omap key")?.to_vec(), to: r.blob("omap key")?.to_vec() }
        }
        code::OMAP_CMP => {
            let n = r.count(12, "omap assertions")?;
            let mut assertions = BTreeMap::new();
            for _ in 0..n {
                let key = r.blob("omap key")?.to_vec();
                let value = List::from(r.blob("omap value")?.to_vec());
                let compare = u8::try_from(r.i32("omap comparison")?).unwrap_or(u8::MAX);
                assertions.insert(key, (value, Compare::from_wire(compare)?));
            }
            Op::OmapCmp { assertions }
        }
        _ => Op::Unknown { code },
    })
}

/// Output of [`Op::Stat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change.
    pub mtime: Utime,
}

impl Decode for Stat {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { size: r.u64("size")?, mtime: Utime::decode(r)? })
    }
}

impl Encode for Stat {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.size);
        self.mtime.encode(w);
    }
}

#[cfg(test)]
mod tests;
