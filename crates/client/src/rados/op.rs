//! Compound operations on an object, applied atomically.

use super::outputs::{OmapPage, Stat, Watcher};
use crate::ceph::error::{Error, undecodable};
use onego_buf::List;
use onego_ceph::cls::Method;
use onego_ceph::ops::{self, Compare, CompareWith, Omap, Op};
use onego_ceph::outputs;
use onego_ceph::types::Utime;
use onego_msgr::encoding::Decode;
use onego_wire::{Decoded, Reader, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::time::SystemTime;

/// Reads of one object that see a single state. [`Pool::operate_read`](super::Pool::operate_read) executes them in
/// order, up to the first failure, which fails the whole operation.
///
/// Each method adds an operation; one with a result returns an [`Output`], the key to that result in the reply.
///
/// ```no_run
/// # async fn f(pool: onego::rados::Pool) -> Result<(), onego::ceph::Error> {
/// let mut op = onego::rados::ReadOp::new();
/// let stat = op.stat();
/// let colour = op.xattr("colour");
/// let reply = pool.operate_read("greeting", op).await?;
/// println!("{} bytes, {:?}", reply.get(&stat)?.size, reply.get(&colour)?.to_vec());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct ReadOp {
    pub(super) ops: Vec<Op>,
}

/// Changes to one object that are applied atomically. [`Pool::operate_write`](super::Pool::operate_write) executes
/// them in order, all or, if one fails, none.
///
/// ```no_run
/// # async fn f(pool: onego::rados::Pool) -> Result<(), onego::ceph::Error> {
/// let op = onego::rados::WriteOp::new()
///     .create(true)
///     .write_full(b"hello".to_vec())
///     .set_xattr("colour", b"red".to_vec());
/// let version = pool.operate_write("greeting", op).await?;
/// # drop(version); Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct WriteOp {
    pub(super) ops: Vec<Op>,
    /// Modification time of the change; `None` means the time of submission.
    pub(super) mtime: Option<Utime>,
}

/// Key to the result of an operation in a [`ReadOp`]; [`ReadReply::get`] reads it.
pub struct Output<T> {
    index: usize,
    read: fn(&List) -> Decoded<T>,
    kind: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Output<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("index", &self.index).finish_non_exhaustive()
    }
}

/// Reply to a [`ReadOp`].
#[derive(Debug, Clone)]
pub struct ReadReply {
    what: String,
    outputs: Vec<List>,
    version: u64,
}

impl ReadReply {
    pub(super) fn new(what: String, outputs: Vec<List>, version: u64) -> Self {
        Self { what, outputs, version }
    }

    /// Returns the version of the object that was read.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns an operation's result. Fails if the output belongs to another [`ReadOp`], or cannot be decoded.
    pub fn get<T>(&self, output: &Output<T>) -> Result<T, Error> {
        let bytes = self.outputs.get(output.index);
        let bytes = bytes.ok_or_else(|| Error::Invalid("the output belongs to another ReadOp".into()))?;
        (output.read)(bytes).map_err(|error| undecodable(self.what.clone(), error))
    }
}

fn decode<T>(output: &List, read: impl FnOnce(&mut Reader<'_>) -> Decoded<T>) -> Decoded<T> {
    read(&mut Reader::new(&output.to_segment()))
}

pub(super) fn read_stat(output: &List) -> Decoded<Stat> {
    decode(output, ops::Stat::decode).map(Stat::from)
}

pub(super) fn read_xattrs(output: &List) -> Decoded<BTreeMap<String, Vec<u8>>> {
    decode(output, |r| {
        let n = r.count(8, "xattrs")?;
        (0..n).map(|_| Ok((r.string("xattr name")?, r.blob("xattr value")?.to_vec()))).collect()
    })
}

pub(super) fn read_omap_page(output: &List) -> Decoded<OmapPage> {
    decode(output, |r| Ok(OmapPage { entries: ops::decode_omap(r)?, more: r.bool("more")? }))
}

pub(super) fn read_extents(output: &List) -> Decoded<Vec<(u64, List)>> {
    decode(output, |r| {
        let extents = BTreeMap::<u64, u64>::decode(r)?;
        let mut bytes = Reader::new(r.blob("extents' bytes")?);
        let piece = |(offset, length): (u64, u64)| {
            Ok((offset, bytes.take(length as usize, "extent")?.to_vec().into()))
        };
        extents.into_iter().map(piece).collect()
    })
}

pub(super) fn read_watchers(output: &List) -> Decoded<Vec<Watcher>> {
    let watchers = decode(output, outputs::Watchers::decode)?;
    Ok(watchers.0.into_iter().map(Watcher::from).collect())
}

impl ReadOp {
    /// Creates an empty operation.
    pub fn new() -> Self {
        Self::default()
    }

    fn add<T>(&mut self, op: Op, read: fn(&List) -> Decoded<T>) -> Output<T> {
        self.ops.push(op);
        Output { index: self.ops.len() - 1, read, kind: PhantomData }
    }

    pub(crate) fn raw(&mut self, op: Op) -> Output<List> {
        self.add(op, |output| Ok(output.clone()))
    }

    /// Reads up to `length` bytes at byte `offset`, fewer at the object's end; a length of 0 reads to the end.
    pub fn read(&mut self, offset: u64, length: u64) -> Output<List> {
        self.add(Op::Read { offset, length }, |output| Ok(output.clone()))
    }

    /// Reads the allocated extents of a byte range: offset and data of each.
    pub fn sparse_read(&mut self, offset: u64, length: u64) -> Output<Vec<(u64, List)>> {
        self.add(Op::SparseRead { offset, length }, read_extents)
    }

    /// Returns size and modification time.
    pub fn stat(&mut self) -> Output<Stat> {
        self.add(Op::Stat, read_stat)
    }

    /// Returns an extended attribute. The whole operation fails with ENODATA if it does not exist.
    pub fn xattr(&mut self, name: &str) -> Output<List> {
        self.add(Op::GetXattr { name: text::to_bytes(name).into_owned() }, |output| Ok(output.clone()))
    }

    /// Returns all extended attributes.
    pub fn xattrs(&mut self) -> Output<BTreeMap<String, Vec<u8>>> {
        self.add(Op::GetXattrs, read_xattrs)
    }

    /// Returns at most `max` omap entries after the key `after`.
    pub fn omap(&mut self, after: &[u8], max: u64) -> Output<OmapPage> {
        self.add(Op::OmapGetVals { after: after.to_vec(), max, prefix: Vec::new() }, read_omap_page)
    }

    /// Returns the omap entries with these keys, omitting absent ones.
    pub fn omap_by_keys(&mut self, keys: BTreeSet<Vec<u8>>) -> Output<Omap> {
        self.add(Op::OmapGetValsByKeys { keys }, |output| decode(output, ops::decode_omap))
    }

    /// Returns the omap header.
    pub fn omap_header(&mut self) -> Output<List> {
        self.add(Op::OmapGetHeader, |output| Ok(output.clone()))
    }

    /// Calls a read-only method of an object class by name.
    pub fn exec(&mut self, class: &str, method: &str, input: impl Into<List>) -> Output<List> {
        let op = Op::Call { class: class.to_owned(), method: method.to_owned(), input: input.into() };
        self.add(op, |output| Ok(output.clone()))
    }

    /// Calls a read-only method of an object class.
    pub fn call<M: Method>(&mut self, method: &M) -> Output<M::Reply> {
        self.add(method.call(), M::reply)
    }

    /// Lists the clients that watch the object.
    pub fn watchers(&mut self) -> Output<Vec<Watcher>> {
        self.add(Op::ListWatchers, read_watchers)
    }
}

impl WriteOp {
    /// Creates an empty operation.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn and(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    /// Creates the object. With `exclusive`, the whole operation fails with [`Error::Exists`] if the object exists.
    pub fn create(self, exclusive: bool) -> Self {
        self.and(Op::Create { exclusive })
    }

    /// Writes at byte `offset`; creates the object if it does not exist.
    pub fn write(self, offset: u64, data: impl Into<List>) -> Self {
        self.and(Op::Write { offset, data: data.into() })
    }

    /// Replaces the object's content with `data`.
    pub fn write_full(self, data: impl Into<List>) -> Self {
        self.and(Op::WriteFull { data: data.into() })
    }

    /// Repeats `data` over `length` bytes from byte `offset` on; `length` must be a multiple of the data's length.
    pub fn write_same(self, offset: u64, length: u64, data: impl Into<List>) -> Self {
        self.and(Op::WriteSame { offset, length, data: data.into() })
    }

    /// Writes at the object's end.
    pub fn append(self, data: impl Into<List>) -> Self {
        self.and(Op::Append { data: data.into() })
    }

    /// Truncates the object to `size` bytes, or extends it with zeros.
    pub fn truncate(self, size: u64) -> Self {
        self.and(Op::Truncate { size })
    }

    /// Zeroes `length` bytes from byte `offset` on.
    pub fn zero(self, offset: u64, length: u64) -> Self {
        self.and(Op::Zero { offset, length })
    }

    /// Removes the object.
    pub fn remove(self) -> Self {
        self.and(Op::Delete)
    }

    /// Sets an extended attribute.
    pub fn set_xattr(self, name: &str, value: impl Into<List>) -> Self {
        self.and(Op::SetXattr { name: text::to_bytes(name).into_owned(), value: value.into() })
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(self, name: &str) -> Self {
        self.and(Op::RmXattr { name: text::to_bytes(name).into_owned() })
    }

    /// Sets omap entries.
    pub fn set_omap(self, entries: Omap) -> Self {
        self.and(Op::OmapSetVals { entries })
    }

    /// Sets the omap header.
    pub fn set_omap_header(self, header: impl Into<List>) -> Self {
        self.and(Op::OmapSetHeader { header: header.into() })
    }

    /// Removes omap entries.
    pub fn remove_omap(self, keys: BTreeSet<Vec<u8>>) -> Self {
        self.and(Op::OmapRmKeys { keys })
    }

    /// Removes the object's omap.
    pub fn clear_omap(self) -> Self {
        self.and(Op::OmapClear)
    }

    /// Calls a method of an object class that may change the object, by name. Ceph returns no output for such calls.
    pub fn exec(self, class: &str, method: &str, input: impl Into<List>) -> Self {
        self.and(Op::Call { class: class.to_owned(), method: method.to_owned(), input: input.into() })
    }

    /// Calls a method of an object class that may change the object.
    pub fn call<M: Method>(self, method: &M) -> Self {
        self.and(method.call())
    }

    /// Sets the object's modification time, instead of the time of submission. Times before 1970 and after 2106 are
    /// clamped to that range.
    pub fn modified(mut self, time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let sec = u32::try_from(since.as_secs()).unwrap_or(u32::MAX);
        self.mtime = Some(Utime { sec, nsec: since.subsec_nanos() });
        self
    }

    /// Fails the whole operation with ERANGE or EOVERFLOW unless the object has this version.
    pub fn assert_version(self, version: u64) -> Self {
        self.and(Op::AssertVer { version })
    }

    /// Fails the whole operation with ECANCELED unless the comparison with an extended attribute holds. With bytes,
    /// the given value is the left operand of `compare` and the attribute's the right one.
    pub fn compare_xattr(self, name: &str, compare: Compare, with: CompareWith) -> Self {
        self.and(Op::CmpXattr { name: text::to_bytes(name).into_owned(), compare, with })
    }

    /// Fails the whole operation unless the object contains `data` at byte `offset`.
    pub fn compare_bytes(self, offset: u64, data: impl Into<List>) -> Self {
        self.and(Op::CmpExt { offset, data: data.into() })
    }
}
