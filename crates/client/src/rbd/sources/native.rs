use super::json::{SpecMembers, invalid};
use super::source::SourceImage;
use crate::ceph::error::{Errno, Error};
use crate::rados::Cluster;
use crate::rbd::header::Header;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NativeSpec {
    pool: PoolName,
    namespace: String,
    image_name: String,
    /// Id of an image in the trash, which cannot be found by name.
    image_id: Option<String>,
    snapshot: SnapshotRef,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PoolName {
    Name(String),
    Id(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SnapshotRef {
    Name(String),
    Id(u64),
}

impl NativeSpec {
    pub(super) fn of(members: &SpecMembers<'_>) -> Result<Self, Error> {
        let pool = match (members.text("pool_name")?, members.number("pool_id")?) {
            (Some(name), None) => PoolName::Name(name.to_owned()),
            (None, Some(id)) => PoolName::Id(id),
            _ => return Err(invalid("specify either \"pool_name\" or \"pool_id\", and not both")),
        };
        let snap_name = members.text("snap_name")?.filter(|name| !name.is_empty());
        let snapshot = match (snap_name, members.number("snap_id")?) {
            (Some(name), None) => SnapshotRef::Name(name.to_owned()),
            (None, Some(id)) => SnapshotRef::Id(id),
            (Some(_), Some(_)) => {
                return Err(invalid("\"snap_name\" and \"snap_id\" are exclusive: leave one out"));
            }
            (None, None) => {
                return Err(invalid(
                    "\"snap_name\" or \"snap_id\" is required, because the image itself may change",
                ));
            }
        };
        Ok(Self {
            pool,
            namespace: members.text("pool_namespace")?.unwrap_or_default().to_owned(),
            image_name: members.needed_text("image_name")?.to_owned(),
            image_id: members.text("image_id")?.filter(|id| !id.is_empty()).map(str::to_owned),
            snapshot,
        })
    }

    pub(super) async fn find(&self, cluster: &Cluster) -> Result<SourceImage, Error> {
        let pool = match &self.pool {
            PoolName::Name(name) => cluster.pool(name).await?,
            PoolName::Id(id) => cluster.pool_by_id(*id).await?,
        };
        let pool = pool.in_namespace(&self.namespace);
        let header = match &self.image_id {
            Some(id) => Header::v2(&pool, id, &self.image_name),
            None => Header::named(&pool, &self.image_name).await?,
        };
        header.needs_v2("the id that an import requires", Errno::OPNOTSUPP)?;
        let head = match &self.snapshot {
            SnapshotRef::Name(name) => header.snapshot_id(name).await?,
            SnapshotRef::Id(id) => *id,
        };
        Ok(SourceImage { header, head })
    }
}
