use super::cluster::{Cluster, WeakCluster};
use super::op::{self, ReadOp, ReadReply, WriteOp};
use super::outputs::{OmapPage, Stat};
use crate::ceph::commands::CephCommand;
use crate::ceph::done::{OTHER_KIND, RequestOutcome};
use crate::ceph::error::{Error, check, undecodable};
use crate::listing::{Listing, NextPage, Page};
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_ceph::client::{ALL_NAMESPACES, Outcome, Request};
use onego_ceph::cls::Method;
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::{Omap, Op, flag};
use onego_ceph::outputs::{CloneInfos, Listed};
use onego_ceph::types::{HObject, NOSNAP, SNAPDIR, SnapContext};
use onego_msgr::encoding::Decode as _;
use onego_wire::{Decoded, Reader, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A pool of objects. Cheap to clone.
///
/// ```no_run
/// # async fn f(cluster: onego::rados::Cluster) -> Result<(), onego::ceph::Error> {
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
    /// Hashed instead of the objects' names unless it is empty.
    locator: String,
    /// Flags of all requests.
    flags: u32,
    /// The snapshot that reads see.
    snap: u64,
    /// The snapshots that writes keep.
    snap_context: SnapContext,
    /// An image whose name stands for its id here.
    known_image: Option<Arc<KnownImage>>,
}

/// An image by what it was called when it was opened, and by its id.
struct KnownImage {
    name: String,
    id: String,
}

/// A pool, without keeping the connection to its cluster.
#[derive(Clone)]
pub(crate) struct WeakPool {
    cluster: WeakCluster,
    id: i64,
    name: String,
    namespace: String,
    flags: u32,
}

impl WeakPool {
    /// The pool, unless the connection has ended.
    pub(crate) fn upgrade(&self) -> Option<Pool> {
        let pool = Pool::new(self.cluster.upgrade()?, self.id, &self.name);
        Some(Pool { namespace: self.namespace.clone(), flags: self.flags, ..pool })
    }
}

/// An object, as it is listed. Names may be any bytes: [`text::to_bytes`](crate::text::to_bytes) gives them back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectEntry {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its locator key; empty: none.
    pub key: String,
}

impl Cluster {
    /// The pool called `name`.
    pub async fn pool(&self, name: &str) -> Result<Pool, Error> {
        let known = self.map(1).await?.pool_id(name);
        let id = match known {
            Some(id) => Some(id),
            None => self.newest_map().await?.pool_id(name),
        };
        match id {
            Some(id) => Ok(Pool::new(self.clone(), id, name)),
            None => Err(Error::NotFound { what: format!("pool {name}") }),
        }
    }

    /// The pool with this number.
    pub async fn pool_by_id(&self, id: i64) -> Result<Pool, Error> {
        let name = |map: &onego_ceph::osdmap::OsdMap| map.pool_names.get(&id).cloned();
        let known = name(&*self.map(1).await?);
        let found = match known {
            Some(found) => Some(found),
            None => name(&*self.newest_map().await?),
        };
        match found {
            Some(found) => Ok(Pool::new(self.clone(), id, &found)),
            None => Err(Error::NotFound { what: format!("pool {id}") }),
        }
    }

    /// Creates a pool with as many placement groups (0: as many as the cluster thinks right), and waits until this
    /// client knows it.
    pub async fn create_pool(&self, name: &str, groups: u32) -> Result<Pool, Error> {
        if self.newest_map().await?.pool_id(name).is_some() {
            return Err(Error::Exists { what: format!("pool {name}") });
        }
        let mut command = serde_json::json!({ "prefix": "osd pool create", "pool": name });
        if groups > 0 {
            command["pg_num"] = groups.into();
        }
        self.command(&command.to_string(), List::new()).await?;
        self.pool(name).await
    }
}

impl Pool {
    pub(crate) fn new(cluster: Cluster, id: i64, name: &str) -> Self {
        Self {
            cluster,
            id,
            name: name.to_owned(),
            namespace: String::new(),
            locator: String::new(),
            flags: 0,
            snap: NOSNAP,
            snap_context: SnapContext::default(),
            known_image: None,
        }
    }

    /// The pool and its namespace, without keeping the connection.
    pub(crate) fn downgrade(&self) -> WeakPool {
        WeakPool {
            cluster: self.cluster.downgrade(),
            id: self.id,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            flags: self.flags,
        }
    }

    /// The same pool, seen from within a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), known_image: None, ..self.clone() }
    }

    /// The same pool, in which objects are placed by this key instead of their names; an empty one is none. An object
    /// has its key for life, and is not found without it.
    pub fn with_locator(&self, key: &str) -> Self {
        Self { locator: key.to_owned(), ..self.clone() }
    }

    /// The same pool, to which nothing waits for room: while it is full, writes that make objects, or make them longer,
    /// fail ([`Error::Refused`] with ENOSPC or EDQUOT), and all others are done. So things can be removed. Without it they
    /// wait, as they do with librados, where this is `rados_set_pool_full_try`.
    pub fn with_full_try(&self) -> Self {
        Self { flags: self.flags | flag::FULL_TRY, ..self.clone() }
    }

    /// The same pool, to which requests wait for room, or not, as they do to another one.
    pub(crate) fn with_flags_of(&self, other: &Self) -> Self {
        Self { flags: other.flags, ..self.clone() }
    }

    /// The same pool, in which a name stands for the image with this id, whatever else is called so: also for an image in the
    /// trash. So what is open of an image can be changed by functions that take names.
    pub fn with_image(&self, name: &str, id: &str) -> Self {
        let known = KnownImage { name: name.to_owned(), id: id.to_owned() };
        Self { known_image: Some(Arc::new(known)), ..self.clone() }
    }

    /// The id of the image that a name [stands for](Self::with_image).
    pub(crate) fn known_image(&self, name: &str) -> Option<&str> {
        let known = self.known_image.as_ref().filter(|known| known.name == name)?;
        Some(&known.id)
    }

    /// The same pool as it was at a snapshot of this number; `u64::MAX - 1` (NOSNAP) stands for now. It can only be read.
    pub fn at_snapshot(&self, snap: u64) -> Self {
        Self { snap, ..self.clone() }
    }

    /// The same pool, where what is written first keeps what these snapshots hold.
    pub(crate) fn with_snap_context(&self, snap_context: &SnapContext) -> Self {
        Self { snap_context: snap_context.clone(), ..self.clone() }
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

    /// The key by which objects are placed; empty: by their names.
    pub fn locator(&self) -> &str {
        &self.locator
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn request(&self, object: &str, ops: impl IntoIterator<Item = Op>) -> Request {
        let mut request =
            Request::new(self.id, ObjectName::from(object)).in_namespace(text::to_bytes(&self.namespace));
        request.key = text::to_bytes(&self.locator).into_owned();
        request.ops.extend(ops.into_iter().map(|op| (op, 0)));
        request.snap = self.snap;
        request.snap_context = self.snap_context.clone();
        request.with_flags(self.flags)
    }

    async fn submit(&self, request: Request) -> Result<RequestOutcome, Error> {
        let (done, answer) = oneshot::channel();
        self.cluster.send(CephCommand::Request { request: Box::new(request), done }).await?;
        Ok(self.cluster.answer(answer).await?)
    }

    fn describe(&self, object: &str) -> String {
        format!("object {object} in pool {}", self.name)
    }

    /// Makes a request, and gives what its operations gave and the object's version.
    async fn execute(&self, object: &str, request: Request) -> Result<(Vec<List>, u64), Error> {
        let Outcome::Reply(reply) = self.submit(request).await?.0? else { return Err(OTHER_KIND.into()) };
        check(reply.result, || self.describe(object))?;
        Ok((reply.ops.into_iter().map(|op| op.output).collect(), reply.user_version))
    }

    /// Applies operations that change the object: in order, all of them or none. Gives the object's version after it.
    ///
    /// Fails with [`Error::NotFound`] or [`Error::Exists`] if an operation demands otherwise, and with [`Error::Refused`] if
    /// one fails in another way. If the future is dropped, they may have been applied.
    pub async fn operate_write(&self, object: &str, op: WriteOp) -> Result<u64, Error> {
        let mut request = self.request(object, op.ops).with_flags(flag::WRITE);
        request.mtime = op.mtime;
        Ok(self.execute(object, request).await?.1)
    }

    /// Reads an object by several operations, which see it in one state. Fails as the first of them that fails.
    pub async fn operate_read(&self, object: &str, op: ReadOp) -> Result<ReadReply, Error> {
        let (outputs, version) = self.execute(object, self.request(object, op.ops)).await?;
        Ok(ReadReply::new(self.describe(object), outputs, version))
    }

    /// One operation that changes the object.
    pub(crate) async fn change(&self, object: &str, op: Op) -> Result<(), Error> {
        self.execute(object, self.request(object, [op])).await.map(drop)
    }

    /// One operation, and its output.
    async fn output(&self, object: &str, op: Op) -> Result<List, Error> {
        let (outputs, _) = self.execute(object, self.request(object, [op])).await?;
        Ok(outputs.into_iter().next().unwrap_or_default())
    }

    pub(super) async fn decoded<T>(
        &self,
        object: &str,
        op: Op,
        read: fn(&List) -> Decoded<T>,
    ) -> Result<T, Error> {
        let output = self.output(object, op).await?;
        read(&output).map_err(|error| undecodable(self.describe(object), error))
    }

    /// Reads at most `length` bytes from byte `offset` on; fewer at the object's end, none behind it.
    ///
    /// A length of 0 means no bound: `read(object, 0, 0)` reads the whole object, as Ceph's OSDs have it. Fails with
    /// [`Error::NotFound`] if there is no such object.
    pub async fn read(&self, object: &str, offset: u64, length: u64) -> Result<List, Error> {
        self.output(object, Op::Read { offset, length }).await
    }

    /// Fills a buffer with the bytes from `offset` on, as far as the object goes, and gives it back with the number of
    /// bytes read. An empty buffer is not filled, and nobody is asked for it. If it fails, or if the future is dropped, the
    /// buffer is gone.
    pub async fn read_into(
        &self,
        object: &str,
        offset: u64,
        buffer: impl Into<SegmentMut>,
    ) -> Result<(SegmentMut, usize), Error> {
        let buffer = buffer.into();
        if buffer.is_empty() {
            // On the wire a length of 0 would mean all that there is.
            return Ok((buffer, 0));
        }
        let request =
            self.request(object, [Op::Read { offset, length: buffer.len() as u64 }]).read_into(buffer);
        match self.submit(request).await? {
            (Ok(Outcome::Reply(reply)), Some(buffer)) => {
                check(reply.result, || self.describe(object))?;
                Ok((buffer, reply.filled))
            }
            (Err(error), _) => Err(error.into()),
            (Ok(_), _) => Err(OTHER_KIND.into()),
        }
    }

    /// Reads what is allocated of a range: offsets and bytes of each extent.
    pub async fn sparse_read(
        &self,
        object: &str,
        offset: u64,
        length: u64,
    ) -> Result<Vec<(u64, List)>, Error> {
        self.decoded(object, Op::SparseRead { offset, length }, op::read_extents).await
    }

    /// Writes at `offset`; the object is created if it is not there.
    pub async fn write(&self, object: &str, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        self.change(object, Op::Write { offset, data: data.into() }).await
    }

    /// Makes the object hold these bytes alone.
    pub async fn write_full(&self, object: &str, data: impl Into<List>) -> Result<(), Error> {
        self.change(object, Op::WriteFull { data: data.into() }).await
    }

    /// Writes behind the object's end.
    pub async fn append(&self, object: &str, data: impl Into<List>) -> Result<(), Error> {
        self.change(object, Op::Append { data: data.into() }).await
    }

    /// Cuts the object, or extends it with zeros.
    pub async fn truncate(&self, object: &str, size: u64) -> Result<(), Error> {
        self.change(object, Op::Truncate { size }).await
    }

    /// Makes a range zeros.
    pub async fn zero(&self, object: &str, offset: u64, length: u64) -> Result<(), Error> {
        self.change(object, Op::Zero { offset, length }).await
    }

    /// Creates an empty object. If it must be new and is not: [`Error::Exists`].
    pub async fn create(&self, object: &str, exclusive: bool) -> Result<(), Error> {
        self.change(object, Op::Create { exclusive }).await
    }

    /// Removes an object.
    pub async fn remove(&self, object: &str) -> Result<(), Error> {
        self.change(object, Op::Delete).await
    }

    /// Size and age of an object.
    pub async fn stat(&self, object: &str) -> Result<Stat, Error> {
        self.decoded(object, Op::Stat, op::read_stat).await
    }

    /// An extended attribute.
    pub async fn get_xattr(&self, object: &str, name: &str) -> Result<List, Error> {
        self.output(object, Op::GetXattr { name: text::to_bytes(name).into_owned() }).await
    }

    /// All extended attributes.
    pub async fn xattrs(&self, object: &str) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        self.decoded(object, Op::GetXattrs, op::read_xattrs).await
    }

    /// Sets an extended attribute.
    pub async fn set_xattr(&self, object: &str, name: &str, value: impl Into<List>) -> Result<(), Error> {
        self.change(object, Op::SetXattr { name: text::to_bytes(name).into_owned(), value: value.into() })
            .await
    }

    /// Removes an extended attribute.
    pub async fn remove_xattr(&self, object: &str, name: &str) -> Result<(), Error> {
        self.change(object, Op::RmXattr { name: text::to_bytes(name).into_owned() }).await
    }

    /// At most `max` entries of the object's map behind the key `after`.
    pub async fn omap(&self, object: &str, after: &[u8], max: u64) -> Result<OmapPage, Error> {
        let op = Op::OmapGetVals { after: after.to_vec(), max, prefix: Vec::new() };
        self.decoded(object, op, op::read_omap_page).await
    }

    /// Sets entries of the object's map.
    pub async fn set_omap(&self, object: &str, entries: Omap) -> Result<(), Error> {
        self.change(object, Op::OmapSetVals { entries }).await
    }

    /// Removes entries of the object's map.
    pub async fn remove_omap(&self, object: &str, keys: BTreeSet<Vec<u8>>) -> Result<(), Error> {
        self.change(object, Op::OmapRmKeys { keys }).await
    }

    /// What an object was for its snapshots. Fails with [`Error::NotFound`] if there is no such object, and never was for
    /// any of them.
    pub(crate) async fn clones(&self, object: &str) -> Result<CloneInfos, Error> {
        let read = |output: &List| CloneInfos::decode(&mut Reader::new(&output.to_segment()));
        self.at_snapshot(SNAPDIR).decoded(object, Op::ListSnaps, read).await
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

    /// Calls a method of an object class that only reads. One that changes the object is called by
    /// [`WriteOp::call`].
    pub async fn call<M: Method>(&self, object: &str, method: &M) -> Result<M::Reply, Error> {
        self.decoded(object, method.call(), M::reply).await
    }
}

/// Objects asked for at a time when a pool is listed.
const LIST_PAGE: u64 = 1000;

impl Pool {
    /// Lists the objects of this namespace, in no order that means anything to people.
    pub fn objects(&self) -> Listing<ObjectEntry, Error> {
        Listing::new(page(self.clone(), self.namespace.clone(), HObject::min()))
    }

    /// Lists the objects of all namespaces.
    pub fn all_objects(&self) -> Listing<ObjectEntry, Error> {
        Listing::new(page(self.clone(), ALL_NAMESPACES.to_owned(), HObject::min()))
    }
}

/// The objects of a pool from `cursor` on.
fn page(pool: Pool, namespace: String, cursor: HObject) -> NextPage<ObjectEntry, Error> {
    Box::pin(async move {
        let listed = pool.in_namespace(&namespace).list_page(&cursor, LIST_PAGE, &[]).await?;
        let entry = |listed: Listed| ObjectEntry {
            namespace: text::from_bytes(&listed.namespace).into_owned(),
            name: text::from_bytes(&listed.name).into_owned(),
            key: text::from_bytes(&listed.key).into_owned(),
        };
        let items = listed.objects.into_iter().map(entry).collect();
        let next = (listed.cursor != HObject::max()).then(|| page(pool, namespace, listed.cursor));
        Ok(Page { items, next })
    })
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
