use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::admin::remove;
use crate::rbd::clones::copy_metadata;
use crate::rbd::create::{CreateOptions, create};
use crate::rbd::header::Header;
use crate::rbd::maps::change_map;
use crate::rbd::objects::for_each_object;
use crate::rbd::view::{View, refuse_own_key};
use onego_ceph::cls::rbd::{ObjectMapUpdate, state};
use onego_ceph::rbd::{DataNames, Features};
use onego_ceph::types::NOSNAP;

/// Advice for a clone with its own key, which cannot be copied together with its parent's data.
pub(super) const ONLY_WITH_PARENT: &str = "a copy with the parent's bytes could not be read: \"rbd deep cp\" without --flatten copies the clone, \"rbd export\" with \
     passphrases its data";

/// Copies the data of an image, or of a snapshot, to a new image of the same size. Calls `progress` with (done,
/// total) in objects.
pub async fn copy(
    (pool, image, snapshot): (&Pool, &str, Option<&str>),
    (to_pool, to): (&Pool, &str),
    options: &CreateOptions,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let header = Header::named(pool, image).await?;
    let details = header.details().await?;
    let snap = match snapshot {
        Some(name) => details.snapshot(name)?.id,
        None => NOSNAP,
    };
    refuse_own_key(&header, &[snap], ONLY_WITH_PARENT).await?;
    let view = View::of(&header, snap).await?;
    create(to_pool, to, &CreateOptions { size: view.size(), ..options.clone() }).await?;
    let copied = async {
        let target = CopyTarget::open(to_pool, to).await?;
        copy_metadata(&header, &target.header).await?;
        let layout = target.layout;
        for_each_object(layout.objects(view.size()), progress, |object| {
            let (view, target) = (&view, &target);
            async move {
                let ranges = layout.ranges(object, 0, layout.object_end(object, view.size()));
                let bytes = view.read_ranges(&ranges).await?;
                if bytes.iter().all(|byte| *byte == 0) { Ok(()) } else { target.write(object, bytes).await }
            }
        })
        .await
    };
    let copied = copied.await;
    if copied.is_err() {
        // A partial copy would block the name. The first error is the one to report.
        let _ = remove(to_pool, to, |_, _| {}).await;
    }
    copied
}

pub(super) struct CopyTarget {
    pub(super) header: Header,
    pub(super) layout: onego_ceph::rbd::Layout,
    features: Features,
    data: Pool,
    names: DataNames,
}

impl CopyTarget {
    pub(super) async fn open(pool: &Pool, name: &str) -> Result<Self, Error> {
        let header = Header::named(pool, name).await?;
        let info = header.details().await?.info;
        let data = header.data_pool(&info).await?.with_snap_context(&info.state.snap_context);
        let names = info.data_names();
        Ok(Self { layout: info.layout, features: info.features, data, names, header })
    }

    pub(super) async fn write(&self, object: u64, bytes: Vec<u8>) -> Result<(), Error> {
        self.mark(object, state::EXISTS).await?;
        self.data.write_full(&self.names.name(object).to_string(), bytes).await
    }

    pub(super) async fn remove(&self, object: u64) -> Result<(), Error> {
        self.data.remove(&self.names.name(object).to_string()).await?;
        self.mark(object, state::NONEXISTENT).await
    }

    async fn mark(&self, object: u64, state: u8) -> Result<(), Error> {
        if !self.features.contains(Features::OBJECT_MAP) {
            return Ok(());
        }
        let update = ObjectMapUpdate { start: object, end: object + 1, state, current: None };
        change_map(&self.header, NOSNAP, WriteOp::new().call(&update)).await
    }
}
