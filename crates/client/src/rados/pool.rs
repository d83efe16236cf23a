use super::Cluster;
use crate::Error;
use crate::core::{Command, RequestOutcome};
use crate::error::check;
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_ceph::client::{ALL_NAMESPACES, Outcome, Request};
use onego_ceph::cls::Method;
use onego_ceph::encoding::Decode;
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::{self, Omap, Op, flag};
use onego_ceph::outputs::{Listed, Listing};
use onego_ceph::types::HObject;
use onego_wire::{DecodeError, Reader};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, SystemTime};

/// A pool of objects. Cheap to clone.
///
/// ```no_run
/// # async fn f(cluster: onego::rados::Cluster) -> Result<(), onego::Error> {
/// let pool = cluster.pool("rbd").await?;
/// pool.write_full("greeting", b"hello".to_vec()).await?;
/// let bytes = pool.read("greeting", 0, 100).await?;
/// assert_eq!(bytes.to_vec(), b"hello");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Pool {
    cluster: Cluster,
    id: i64,
    name: String,
    namespace: String,
    /// Flags of all requests.
    flags: u32,
}

/// What operations on an object gave, one result each.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Results (0 or more, or a negative errno) and outputs of the operations.
    pub ops: Vec<(i32, List)>,
    /// Version of the object.
    pub version: u64,
}

/// What is known of an object without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes.
    pub size: u64,
    /// When it was last written.
    pub modified: SystemTime,
}

/// Entries of an object's map, and whether there are more behind them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OmapPage {
    /// Keys and values.
    pub entries: Omap,
    /// There are more: ask again behind the last key.
    pub more: bool,
}

/// An object, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectEntry {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its locator key; empty: none.
    pub key: String,
}

impl Pool {
    pub(crate) fn new(cluster: Cluster, id: i64, name: &str) -> Self {
        Self { cluster, id, name: name.to_owned(), namespace: String::new(), flags: 0 }
    }

    /// The same pool, seen from within a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self.clone() }
    }

    /// The same pool, to which nothing waits for room: while it is full, writes that make objects, or make them longer,
    /// fail ([`Error::Refused`] with ENOSPC or EDQUOT), and all others are done. So things can be removed. Without it they
    /// wait, as they do with librados, where this is `rados_set_pool_full_try`.
    pub fn with_full_try(&self) -> Self {
        Self { flags: self.flags | flag::FULL_TRY, ..self.clone() }
    }

    /// Flags of all requests.
    pub(crate) fn flags(&self) -> u32 {
        self.flags
    }

    /// The pool's number.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn request(&self, object: &str, ops: impl IntoIterator<Item = Op>) -> Request {
        let mut request = Request::new(self.id, ObjectName::from(object)).in_namespace(&self.namespace);
        request.ops.extend(ops.into_iter().map(|op| (op, 0)));
        request.with_flags(self.flags)
    }

    async fn submit(&self, request: Request) -> Result<RequestOutcome, Error> {
        let (done, answer) = oneshot::channel();
        self.cluster.send(Command::Request { request: Box::new(request), done }).await?;
        self.cluster.answer(answer).await
    }

    fn describe(&self, object: &str) -> String {
        format!("object {object} in pool {}", self.name)
    }

    async fn execute(&self, object: &str, request: Request) -> Result<Reply, Error> {
        match self.submit(request).await?.0? {
            Outcome::Reply(reply) => {
                check(reply.result, || self.describe(object))?;
                let ops = reply.ops.into_iter().map(|op| (op.result, op.output)).collect();
                Ok(Reply { ops, version: reply.user_version })
            }
            _ => Err(Error::Closed),
        }
    }

    /// Applies operations to an object: in order, all of them or none.
    pub async fn operate(&self, object: &str, ops: impl IntoIterator<Item = Op>) -> Result<Reply, Error> {
        self.execute(object, self.request(object, ops)).await
    }

    /// One operation, and its output.
    async fn output(&self, object: &str, op: Op) -> Result<List, Error> {
        let reply = self.operate(object, [op]).await?;
        Ok(reply.ops.into_iter().next().map(|(_, output)| output).unwrap_or_default())
    }

    async fn decoded<T>(
        &self,
        object: &str,
        op: Op,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let output = self.output(object, op).await?.to_segment();
        decode(&mut Reader::new(&output))
            .map_err(|error| Error::Answer { what: self.describe(object), reason: error.to_string() })
    }

    /// Reads at most `length` bytes from `offset` on; fewer at the object's end.
    pub async fn read(&self, object: &str, offset: u64, length: u64) -> Result<List, Error> {
        self.output(object, Op::Read { offset, length }).await
    }

    /// Reads into a buffer, which comes back with the number of bytes read.
    pub async fn read_into(
        &self,
        object: &str,
        offset: u64,
        buffer: impl Into<SegmentMut>,
    ) -> Result<(SegmentMut, usize), Error> {
        let buffer = buffer.into();
        let request =
            self.request(object, [Op::Read { offset, length: buffer.len() as u64 }]).read_into(buffer);
        match self.submit(request).await? {
            (Ok(Outcome::Reply(reply)), Some(buffer)) => {
                check(reply.result, || self.describe(object))?;
                Ok((buffer, reply.filled))
            }
            (Err(error), _) => Err(error.into()),
            _ => Err(Error::Closed),
        }
    }

    /// Reads what is allocated of a range: offsets and bytes of each extent.
    pub async fn sparse_read(
        &self,
        object: &str,
        offset: u64,
        length: u64,
    ) -> Result<Vec<(u64, List)>, Error> {
        self.decoded(object, Op::SparseRead { offset, length }, |r| {
            let extents = BTreeMap::<u64, u64>::decode(r)?;
            let mut bytes = Reader::new(r.blob("extents' bytes")?);
            let piece = |(offset, length): (u64, u64)| {
                Ok((offset, bytes.take(length as usize, "extent")?.to_vec().into()))
            };
            extents.into_iter().map(piece).collect()
        })
        .await
    }

    /// Writes at `offset`; the object is created if it is not there.
    pub async fn write(&self, object: &str, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        self.operate(object, [Op::Write { offset, data: data.into() }]).await.map(drop)
    }

    /// Makes the object hold these bytes alone.
    pub async fn write_full(&self, object: &str, data: impl Into<List>) -> Result<(), Error> {
        self.operate(object, [Op::WriteFull { data: data.into() }]).await.map(drop)
    }

    /// Writes behind the object's end.
    pub async fn append(&self, object: &str, data: impl Into<List>) -> Result<(), Error> {
        self.operate(object, [Op::Append { data: data.into() }]).await.map(drop)
    }

    /// Cuts the object, or extends it with zeros.
    pub async fn truncate(&self, object: &str, size: u64) -> Result<(), Error> {
        self.operate(object, [Op::Truncate { size }]).await.map(drop)
    }

    /// Makes a range zeros.
    pub async fn zero(&self, object: &str, offset: u64, length: u64) -> Result<(), Error> {
        self.operate(object, [Op::Zero { offset, length }]).await.map(drop)
    }

    /// Creates an empty object. If it must be new and is not: [`Error::Exists`].
    pub async fn create(&self, object: &str, exclusive: bool) -> Result<(), Error> {
        self.operate(object, [Op::Create { exclusive }]).await.map(drop)
    }

    /// Removes an object.
    pub async fn remove(&self, object: &str) -> Result<(), Error> {
        self.operate(object, [Op::Delete]).await.map(drop)
    }

    /// Size and age of an object.
    pub async fn stat(&self, object: &str) -> Result<Stat, Error> {
        let stat = self.decoded(object, Op::Stat, ops::Stat::decode).await?;
        let age = Duration::new(stat.mtime.sec.into(), stat.mtime.nsec);
        Ok(Stat { size: stat.size, modified: SystemTime::UNIX_EPOCH + age })
    }

    /// An extended attribute.
    pub async fn get_xattr(&self, object: &str, name: &str) -> Result<List, Error> {
        self.output(object, Op::GetXattr { name: name.to_owned() }).await
    }

    /// All extended attributes.
    pub async fn xattrs(&self, object: &str) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        self.decoded(object, Op::GetXattrs, |r| {
            let n = r.count(8, "xattrs")?;
            (0..n).map(|_| Ok((r.string("xattr name")?, r.blob("xattr value")?.to_vec()))).collect()
        })
        .await
    }

    /// Sets an extended attribute.
    pub async fn set_xattr(&self, object: &str, name: &str, value: impl Into<List>) -> Result<(), Error> {
        self.operate(object, [Op::SetXattr { name: name.to_owned(), value: value.into() }]).await.map(drop)
    }

    /// Removes an extended attribute.
    pub async fn remove_xattr(&self, object: &str, name: &str) -> Result<(), Error> {
        self.operate(object, [Op::RmXattr { name: name.to_owned() }]).await.map(drop)
    }

    /// At most `max` entries of the object's map behind the key `after`.
    pub async fn omap(&self, object: &str, after: &[u8], max: u64) -> Result<OmapPage, Error> {
        let op = Op::OmapGetVals { after: after.to_vec(), max, prefix: Vec::new() };
        self.decoded(object, op, |r| Ok(OmapPage { entries: ops::decode_omap(r)?, more: r.bool("more")? }))
            .await
    }

    /// Sets entries of the object's map.
    pub async fn set_omap(&self, object: &str, entries: Omap) -> Result<(), Error> {
        self.operate(object, [Op::OmapSetVals { entries }]).await.map(drop)
    }

    /// Removes entries of the object's map.
    pub async fn remove_omap(&self, object: &str, keys: BTreeSet<Vec<u8>>) -> Result<(), Error> {
        self.operate(object, [Op::OmapRmKeys { keys }]).await.map(drop)
    }

    /// Calls a method of an object class that only reads, by name.
    pub async fn exec(
        &self,
        object: &str,
        class: &str,
        method: &str,
        input: impl Into<List>,
    ) -> Result<List, Error> {
        let op = Op::Call { class: class.to_owned(), method: method.to_owned(), input: input.into() };
        self.output(object, op).await
    }

    /// Calls a method of an object class that only reads.
    pub async fn call<M: Method>(&self, object: &str, method: &M) -> Result<M::Reply, Error> {
        let output = self.output(object, method.call()).await?;
        self.parse::<M>(object, &output)
    }

    /// Reads what a method gave.
    pub(crate) fn parse<M: Method>(&self, object: &str, output: &List) -> Result<M::Reply, Error> {
        M::reply(output)
            .map_err(|error| Error::Answer { what: self.describe(object), reason: error.to_string() })
    }

    /// Applies operations among which are methods that change the object: in order, all of them or none.
    pub async fn operate_mut(&self, object: &str, ops: impl IntoIterator<Item = Op>) -> Result<Reply, Error> {
        self.execute(object, self.request(object, ops).with_flags(flag::WRITE)).await
    }
}

/// Objects asked for at a time when a pool is listed.
const LIST_PAGE: u64 = 1000;

/// A listing of a pool's objects, in no order that means anything to people.
pub struct Objects {
    pool: Pool,
    namespace: String,
    cursor: HObject,
}

impl Pool {
    /// Lists the objects of this namespace.
    pub fn objects(&self) -> Objects {
        self.list(self.namespace.clone())
    }

    /// Lists the objects of all namespaces.
    pub fn all_objects(&self) -> Objects {
        self.list(ALL_NAMESPACES.to_owned())
    }

    fn list(&self, namespace: String) -> Objects {
        Objects { pool: self.clone(), namespace, cursor: HObject::min() }
    }
}

impl Objects {
    /// The next objects; `None` after the last. A page may be empty.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ObjectEntry>>, Error> {
        if self.cursor == HObject::max() {
            return Ok(None);
        }
        let request = Listing::request(self.pool.id, &self.namespace, &self.cursor, LIST_PAGE);
        let reply = self.pool.execute("", request).await?;
        let output = reply.ops.into_iter().next().map(|(_, output)| output.to_segment());
        let page =
            Listing::decode(&mut Reader::new(output.as_deref().unwrap_or_default())).map_err(|error| {
                Error::Answer {
                    what: format!("the objects of pool {}", self.pool.name),
                    reason: error.to_string(),
                }
            })?;
        self.cursor = page.cursor;
        let entry = |listed: Listed| ObjectEntry {
            namespace: listed.namespace,
            name: String::from_utf8_lossy(&listed.name).into_owned(),
            key: listed.key,
        };
        Ok(Some(page.objects.into_iter().map(entry).collect()))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
