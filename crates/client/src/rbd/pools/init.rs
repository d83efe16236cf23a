use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use onego_buf::List;
use serde_json::json;

/// Object that marks a pool as validated (`RBD_INFO`), and its content.
const POOL_INFO: &str = "rbd_info";
const VALIDATED: &[u8] = b"overwrite validated";

/// Initializes a pool for images: enables the application `rbd`, and validates the pool as the first image does.
/// `force` does so even if another application is enabled.
/// another application.
///
/// Source: ceph `src/librbd/api/Pool.cc`.
pub async fn init(pool: &Pool, force: bool) -> Result<(), Error> {
    let mut enable = json!({"prefix": "osd pool application enable", "pool": pool.name(), "app": "rbd"});
    if force {
        enable["yes_i_really_mean_it"] = true.into();
    }
    pool.cluster().command(&enable.to_string(), List::new()).await?;
    validate(pool).await
}

/// Validates that clients may manage a pool's snapshots and overwrite its objects, and marks the pool. The monitors
/// then refuse snapshots of the whole pool, which are incompatible with those of images.
///
/// Source: ceph `src/librbd/image/ValidatePoolRequest.cc`.
pub(in crate::rbd) async fn validate(pool: &Pool) -> Result<(), Error> {
    let pool = pool.in_namespace("");
    match pool.read(POOL_INFO, 0, 0).await {
        Ok(content) if content == VALIDATED => return Ok(()),
        Ok(_) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let refused =
        |errno, reason: &str| Error::Unmet { what: format!("pool {} {reason}", pool.name()), errno };
    let snap = pool.new_snap_id().await.map_err(|error| match error.errno() {
        Errno::INVAL => refused(
            Errno::INVAL,
            "has snapshots of the whole pool, which are incompatible with those of images: remove them with \"ceph osd pool rmsnap\", or \
             use another pool",
        ),
        _ => error,
    })?;
    pool.remove_snap_id(snap).await?;
    // The second write tests overwriting.
    pool.write(POOL_INFO, 0, b"validate".to_vec()).await?;
    pool.write(POOL_INFO, 0, VALIDATED.to_vec()).await.map_err(|error| match error.errno() {
        Errno::OPNOTSUPP => refused(
            Errno::OPNOTSUPP,
            "does not support overwriting objects: set its allow_ec_overwrites, or use another pool",
        ),
        _ => error,
    })
}
