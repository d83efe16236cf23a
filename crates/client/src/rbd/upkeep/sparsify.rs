use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use crate::rbd::header::{Header, ImageInfo};
use crate::rbd::objects::for_each_object;
use crate::rbd::owner::Progress;
use onego_ceph::cls::rbd::Sparsify;
use onego_rbd::notify::Operation;

/// Frees blocks of `block_size` bytes that contain only zeros, even if the pool is full. Calls `progress` with (done,
/// total) in objects.
pub async fn sparsify(
    pool: &Pool,
    image: &str,
    block_size: u64,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let header = &Header::named(pool, image).await?;
    let ask = |id| Operation::Sparsify { id, sparse_size: block_size };
    let progress = &Progress::new(progress);
    header
        .owned_or_asked(ask, progress, |details| async move {
            sparsify_in(header, &details.info, block_size, |done, all| progress.report(done, all)).await
        })
        .await
}

pub(in crate::rbd) async fn sparsify_in(
    header: &Header,
    info: &ImageInfo,
    block_size: u64,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    if !block_size.is_power_of_two() || !(4096..=info.layout.object_size()).contains(&block_size) {
        return Err(Error::Invalid(format!(
            "block size {block_size} must be a power of two from 4096 to {}",
            info.layout.object_size()
        )));
    }
    let data = header.data_pool(info).await?.with_full_try().with_snap_context(&info.state.snap_context);
    let names = info.data_names();
    // Keep empty objects: without them parent data could show, and object maps would be wrong.
    let sparsify = Sparsify { block_size, remove_empty: false };
    for_each_object(info.objects(), progress, |object| {
        let (data, sparsify, name) = (&data, &sparsify, names.name(object).to_string());
        async move {
            match data.operate_write(&name, WriteOp::new().call(sparsify)).await {
                Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
                Err(Error::Refused { errno: Errno::OPNOTSUPP, .. }) => Err(Error::Refused {
                    what: "the cluster does not support sparsifying objects".into(),
                    errno: Errno::OPNOTSUPP,
                }),
                Err(error) => Err(error),
            }
        }
    })
    .await
}
