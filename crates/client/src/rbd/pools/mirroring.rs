//! Mirroring settings of a pool, and its peers. Ceph's `rbd-mirror` does the mirroring; this module configures it.
//!
//! Source: ceph `src/librbd/api/Mirror.cc`.

use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use crate::rbd::header::time;
use onego_ceph::cls::Method;
use onego_ceph::cls::rbd::{
    MirrorImage, MirrorImageGet, MirrorImageList, MirrorImageStatusGetSummary, MirrorModeGet, MirrorModeSet,
    MirrorPeer, MirrorPeerAdd, MirrorPeerList, MirrorPeerRemove, MirrorRemoteNamespaceGet,
    MirrorRemoteNamespaceSet, MirrorUuidGet, MirrorUuidSet, mirror_mode,
};
use onego_ceph::types::Utime;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Object with a pool's mirroring settings (`RBD_MIRRORING`).
const MIRRORING: &str = "rbd_mirroring";

const PAGE: u64 = 1024;

/// Scope of mirroring in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MirrorMode {
    /// No images.
    Disabled,
    /// Images with mirroring enabled individually.
    Image,
    /// All images with a journal.
    Pool,
}

/// Returns the scope of mirroring in a pool.
pub async fn mode(pool: &Pool) -> Result<MirrorMode, Error> {
    match pool.call(MIRRORING, &MirrorModeGet {}).await {
        Ok(mirror_mode::IMAGE) => Ok(MirrorMode::Image),
        Ok(mirror_mode::POOL) => Ok(MirrorMode::Pool),
        Ok(_) | Err(Error::NotFound { .. }) => Ok(MirrorMode::Disabled),
        Err(error) => Err(error),
    }
}

/// Sets the scope of mirroring in a pool. Mirroring of images must first be disabled by the program that enabled it.
pub async fn set_mode(pool: &Pool, wanted: MirrorMode) -> Result<(), Error> {
    let now = mode(pool).await?;
    if now == wanted {
        return Ok(());
    }
    if wanted == MirrorMode::Disabled && !images(pool).await?.is_empty() {
        let what = format!(
            "pool {} has mirrored images: disable their mirroring with Ceph's \"rbd mirror\"",
            pool.name()
        );
        return Err(Error::Unmet { what, errno: Errno::OPNOTSUPP });
    }
    if now == MirrorMode::Disabled {
        name_pool(pool).await?;
    }
    let mode = match wanted {
        MirrorMode::Disabled => mirror_mode::DISABLED,
        MirrorMode::Image => mirror_mode::IMAGE,
        MirrorMode::Pool => mirror_mode::POOL,
    };
    // Disabling must not wait for space.
    let pool = if wanted == MirrorMode::Disabled { &pool.with_full_try() } else { pool };
    change_mirroring(pool, &MirrorModeSet { mode }).await
}

/// Gives a pool a UUID for its peers, if it has none.
async fn name_pool(pool: &Pool) -> Result<(), Error> {
    match uuid(pool).await {
        Err(Error::NotFound { .. }) => change_mirroring(pool, &MirrorUuidSet { uuid: new_uuid(pool)? }).await,
        other => other.map(drop),
    }
}

/// Returns a random UUID (RFC 9562, version 4).
fn new_uuid(pool: &Pool) -> Result<String, Error> {
    let [high, low] = [pool.cluster().random()?, pool.cluster().random()?];
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0xc000 << 48) | 0x8000 << 48;
    Ok(format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    ))
}

/// Returns the pool's UUID for its peers.
pub async fn uuid(pool: &Pool) -> Result<String, Error> {
    pool.call(MIRRORING, &MirrorUuidGet {}).await
}

/// Returns the namespace of the peers' pools that images of this pool are mirrored to; defaults to the same name.
pub async fn remote_namespace(pool: &Pool) -> Result<String, Error> {
    match pool.call(MIRRORING, &MirrorRemoteNamespaceGet {}).await {
        // Clusters before version 20 do not have this setting.
        Err(error) if [Errno::NOENT, Errno::OPNOTSUPP].contains(&error.errno()) => {
            Ok(pool.namespace().to_owned())
        }
        other => other,
    }
}

/// Sets the namespace of the peers' pools. Fails with EINVAL if this namespace is already mirrored, and with
/// EOPNOTSUPP if the cluster lacks the setting.
pub async fn set_remote_namespace(pool: &Pool, namespace: &str) -> Result<(), Error> {
    change_mirroring(pool, &MirrorRemoteNamespaceSet { namespace: namespace.to_owned() }).await
}

/// Lists a pool's peers.
pub async fn peers(pool: &Pool) -> Result<Vec<MirrorPeer>, Error> {
    match pool.call(MIRRORING, &MirrorPeerList {}).await {
        Err(Error::NotFound { .. }) => Ok(Vec::new()),
        other => other,
    }
}

/// Returns the time of the last contact with a peer.
pub fn last_seen(peer: &MirrorPeer) -> SystemTime {
    time(peer.last_seen)
}

/// Adds a peer, and returns its UUID in this pool. For `direction` see `onego_ceph::cls::rbd::mirror_direction`.
pub async fn add_peer(
    pool: &Pool,
    site_name: &str,
    client_name: &str,
    direction: u8,
) -> Result<String, Error> {
    let uuid = new_uuid(pool)?;
    let peer = MirrorPeer {
        uuid: uuid.clone(),
        site_name: site_name.to_owned(),
        client_name: client_name.to_owned(),
        pool: -1,
        direction,
        mirror_uuid: String::new(),
        last_seen: Utime::default(),
    };
    change_mirroring(pool, &MirrorPeerAdd { peer }).await?;
    Ok(uuid)
}

/// Removes a peer if it exists, even if the pool is full.
pub async fn remove_peer(pool: &Pool, uuid: &str) -> Result<(), Error> {
    change_mirroring(&pool.with_full_try(), &MirrorPeerRemove { uuid: uuid.to_owned() }).await
}

/// Changes the pool's mirroring settings.
pub async fn change_mirroring<M: Method>(pool: &Pool, method: &M) -> Result<(), Error> {
    pool.operate_write(MIRRORING, WriteOp::new().call(method)).await.map(drop)
}

/// Returns a pool's mirrored images by id.
pub async fn images(pool: &Pool) -> Result<BTreeMap<String, MirrorImage>, Error> {
    let (mut all, mut after) = (BTreeMap::new(), String::new());
    loop {
        let page = match pool.call(MIRRORING, &MirrorImageList { after, max: PAGE }).await {
            Err(Error::NotFound { .. }) => return Ok(all),
            other => other?,
        };
        let last = page.last_key_value().map(|(id, _)| id.clone()).filter(|_| page.len() as u64 == PAGE);
        for id in page.into_keys() {
            if let Some(found) = image(pool, &id).await? {
                all.insert(id, found);
            }
        }
        match last {
            Some(last) => after = last,
            None => return Ok(all),
        }
    }
}

/// Returns whether a mirrored image with an id after `after` exists.
pub async fn has_images(pool: &Pool, after: &str) -> Result<bool, Error> {
    match pool.call(MIRRORING, &MirrorImageList { after: after.to_owned(), max: 1 }).await {
        Ok(page) => Ok(!page.is_empty()),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Counts mirrored images by state (`MirrorImageStatusState`).
pub async fn status_summary(pool: &Pool) -> Result<BTreeMap<u8, i32>, Error> {
    // All namespaces share the peers of the pool.
    let peers = peers(&pool.in_namespace("")).await?;
    match pool.call(MIRRORING, &MirrorImageStatusGetSummary { peers }).await {
        Err(Error::NotFound { .. }) => Ok(BTreeMap::new()),
        other => other,
    }
}

/// Returns the mirroring state of an image; `None` if it is not mirrored.
pub async fn image(pool: &Pool, id: &str) -> Result<Option<MirrorImage>, Error> {
    match pool.call(MIRRORING, &MirrorImageGet { image_id: id.to_owned() }).await {
        Ok(image) => Ok(Some(image)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
