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
    /// Locator key, hashed instead of the objects' names unless empty.
    locator: String,
    flags: u32,
    snap: u64,
    snap_context: SnapContext,
    /// Image addressed by name and resolved to a known id.
    known_image: Option<Arc<KnownImage>>,
}

struct KnownImage {
    name: String,
    id: String,
}

#[derive(Clone)]
pub(crate) struct WeakPool {
    cluster: WeakCluster,
    id: i64,
    name: String,
    namespace: String,
    flags: u32,
}

impl WeakPool {
    pub(crate) fn upgrade(&self) -> Option<Pool> {
        let pool = Pool::new(self.cluster.upgrade()?, self.id, &self.name);
        Some(Pool { namespace: self.namespace.clone(), flags: self.flags, ..pool })
    }
}

/// An object in a listing. Names may be arbitrary bytes: [`text::to_bytes`](crate::text::to_bytes) restores them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectEntry {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Locator key; empty if it has none.
    pub key: String,
}

impl Cluster {
    /// Returns the pool called `name`.
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

    /// Returns the pool with this number.
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

    /// Creates a pool with `groups` placement groups (0 lets the cluster choose), and waits until this client's map
    /// has it.
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

    pub(crate) fn downgrade(&self) -> WeakPool {
        WeakPool {
            cluster: self.cluster.downgrade(),
            id: self.id,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            flags: self.flags,
        }
    }

    /// Returns this pool restricted to a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), known_image: None, ..self.clone() }
    }

    /// Returns this pool with a locator key, which replaces the objects' names in placement; an empty key means none.
    /// An object keeps its key for life and cannot be found without it.
    pub fn with_locator(&self, key: &str) -> Self {
        Self { locator: key.to_owned(), ..self.clone() }
    }

    /// Returns this pool with requests that never wait for space. While the pool is full, writes that create or
    /// extend objects fail ([`Error::Refused`] with ENOSPC or EDQUOT) and all others succeed, so that data can be
    /// removed. By default writes wait, as with librados, where `rados_set_pool_full_try` sets this.
    pub fn with_full_try(&self) -> Self {
        Self { flags: self.flags | flag::FULL_TRY, ..self.clone() }
    }

    /// Returns this pool with the full-pool behaviour of `other`.
    pub(crate) fn with_flags_of(&self, other: &Self) -> Self {
        Self { flags: other.flags, ..self.clone() }
    }

    /// Returns this pool with `name` bound to the image with this id, even if the image is in the trash or another
    /// image has the name. Functions that take names can thereby change an open image.
    pub fn with_image(&self, name: &str, id: &str) -> Self {
        let known = KnownImage { name: name.to_owned(), id: id.to_owned() };
        Self { known_image: Some(Arc::new(known)), ..self.clone() }
    }

    /// Returns the id of the image that a name is [bound to](Self::with_image).
    pub(crate) fn known_image(&self, name: &str) -> Option<&str> {
        let known = self.known_image.as_ref().filter(|known| known.name == name)?;
        Some(&known.id)
    }

    /// Returns a read-only view of this pool at the snapshot with this number; `u64::MAX - 1` (NOSNAP) means the
    /// present.
    pub fn at_snapshot(&self, snap: u64) -> Self {
        Self { snap, ..self.clone() }
    }

    /// Returns this pool with a snapshot context: writes first preserve the data of its snapshots.
    pub(crate) fn with_snap_context(&self, snap_context: &SnapContext) -> Self {
        Self { snap_context: snap_context.clone(), ..self.clone() }
    }

    pub(crate) fn flags(&self) -> u32 {
        self.flags
    }

    /// Returns the pool's number.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns the pool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the locator key; empty if objects are placed by name.
    pub fn locator(&self) -> &str {
        &self.locator
    }

    /// Returns the cluster.
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

    async fn execute(&self, object: &str, request: Request) -> Result<(Vec<List>, u64), Error> {
        let Outcome::Reply(reply) = self.submit(request).await?.0? else { return Err(OTHER_KIND.into()) };
        check(reply.result, || self.describe(object))?;
        Ok((reply.ops.into_iter().map(|op| op.output).collect(), reply.user_version))
    }

    /// Applies operations that change the object in order, all or none. Returns the object's new version.
    ///
    /// Fails with [`Error::NotFound`] or [`Error::Exists`] if an operation requires the opposite, and with
    /// [`Error::Refused`] if one fails otherwise. Dropping the future does not undo an applied operation.
    pub async fn operate_write(&self, object: &str, op: WriteOp) -> Result<u64, Error> {
        let mut request = self.request(object, op.ops).with_flags(flag::WRITE);
        request.mtime = op.mtime;
        Ok(self.execute(object, request).await?.1)
    }

    /// Reads a single state of an object by several operations. Fails with the error of the first that fails.
    pub async fn operate_read(&self, object: &str, op: ReadOp) -> Result<ReadReply, Error> {
        let (outputs, version) = self.execute(object, self.request(object, op.ops)).await?;
        Ok(ReadReply::new(self.describe(object), outputs, version))
    }

    pub(crate) async fn change(&self, object: &str, op: Op) -> Result<(), Error> {
        self.execute(object, self.request(object, [op])).await.map(drop)
    }

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

    /// Reads at most `length` bytes from byte `offset` on: fewer at the object's end, none past it.
    ///
    /// A length of 0 means no limit, as for Ceph's OSDs: `read(object, 0, 0)` reads the whole object. Fails with
    /// [`Error::NotFound`] if the object does not exist.
    pub async fn read(&self, object: &str, offset: u64, length: u64) -> Result<List, Error> {
        self.output(object, Op::Read { offset, length }).await
    }

    /// Reads into a buffer from byte `offset` on, as far as the object extends, and returns the buffer with the
    /// number of bytes read. Returns an empty buffer at once, without a request. The buffer is lost if the call fails
    /// or the future is dropped.
    pub async fn read_into(
        &self,
        object: &str,
        offset: u64,
        buffer: impl Into<SegmentMut>,
    ) -> Result<(SegmentMut, usize), Error> {
        let buffer = buffer.into();
        if buffer.is_empty() {
            // On the wire a length of 0 would mean the whole object.
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

    /// Reads the allocated extents of a byte range: offset and data of each.
    pub async fn sparse_read(
        &self,
        object: &str,
        offset: u64,
        length: u64,
    ) -> Result<Vec<(u64, List)>, Error> {
        self.decoded(object, Op::SparseRead { offset, length }, op::read_extents).await
    }

    /// Writes at byte `offset`; creates the object if it does not exist.
    pub async fn write(&self, object: &str, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        self.change(object, Op::Write { offset, data: data.into() }).await
    }

    /// Replaces the object's content with `data`.
    pub async fn write_full(&self, object: &str, data: impl Into<List>) -> Result<(), Error> {
        self.change(object, Op::WriteFull { data: data.into() }).await
    }

    /// Writes at the object's end.
    pub async fn append(&self, object: &str, data: impl Into<List>) -> Result<(), Error> {
        self.change(object, Op::Append { data: data.into() }).await
    }

    /// Truncates the object to `size` bytes, or extends it with zeros.
    pub async fn truncate(&self, object: &str, size: u64) -> Result<(), Error> {
        self.change(object, Op::Truncate { size }).await
    }

    /// Zeroes a byte range.
    pub async fn zero(&self, object: &str, offset: u64, length: u64) -> Result<(), Error> {
        self.change(object, Op::Zero { offset, length }).await
    }

    /// Creates an empty object. With `exclusive`, fails with [`Error::Exists`] if it exists.
    pub async fn create(&self, object: &str, exclusive: bool) -> Result<(), Error> {
        self.change(object, Op::Create { exclusive }).await
    }

    /// Removes an object.
    pub async fn remove(&self, object: &str) -> Result<(), Error> {
        self.change(object, Op::Delete).await
    }

    /// Returns an object's size and modification time.
    pub async fn stat(&self, object: &str) -> Result<Stat, Error> {
        self.decoded(object, Op::Stat, op::read_stat).await
    }

    /// Returns an extended attribute.
    pub async fn get_xattr(&self, object: &str, name: &str) -> Result<List, Error> {
        self.output(object, Op::GetXattr { name: text::to_bytes(name).into_owned() }).await
    }

    /// Returns all extended attributes.
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

    /// Returns at most `max` omap entries after the key `after`.
    pub async fn omap(&self, object: &str, after: &[u8], max: u64) -> Result<OmapPage, Error> {
        let op = Op::OmapGetVals { after: after.to_vec(), max, prefix: Vec::new() };
        self.decoded(object, op, op::read_omap_page).await
    }

    /// Sets omap entries.
    pub async fn set_omap(&self, object: &str, entries: Omap) -> Result<(), Error> {
        self.change(object, Op::OmapSetVals { entries }).await
    }

    /// Removes omap entries.
    pub async fn remove_omap(&self, object: &str, keys: BTreeSet<Vec<u8>>) -> Result<(), Error> {
        self.change(object, Op::OmapRmKeys { keys }).await
    }

    /// Returns an object's clones for snapshots. Fails with [`Error::NotFound`] if neither the object nor a clone
    /// exists.
    pub(crate) async fn clones(&self, object: &str) -> Result<CloneInfos, Error> {
        let read = |output: &List| CloneInfos::decode(&mut Reader::new(&output.to_segment()));
        self.at_snapshot(SNAPDIR).decoded(object, Op::ListSnaps, read).await
    }

    /// Calls a read-only method of an object class by name.
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

    /// Calls a read-only method of an object class. To call one that changes the object use [`WriteOp::call`].
    pub async fn call<M: Method>(&self, object: &str, method: &M) -> Result<M::Reply, Error> {
        self.decoded(object, method.call(), M::reply).await
    }
}

const LIST_PAGE: u64 = 1000;

impl Pool {
    /// Lists the objects of this namespace, in unspecified order.
    pub fn objects(&self) -> Listing<ObjectEntry, Error> {
        Listing::new(page(self.clone(), self.namespace.clone(), HObject::min()))
    }

    /// Lists the objects of all namespaces.
    pub fn all_objects(&self) -> Listing<ObjectEntry, Error> {
        Listing::new(page(self.clone(), ALL_NAMESPACES.to_owned(), HObject::min()))
    }
}

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
