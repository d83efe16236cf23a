//! What clusters are called, and the tokens by which one becomes the peer of another.
//!
//! Source: ceph `src/librbd/api/Mirror.cc`.

use super::config_key;
use crate::border::{Errno, Handle, Out, Text, done, fill};
use crate::missing::no_mirroring;
use crate::rados::{IoCtx, Rados};
use crate::rbd::image::pool_of;
use crate::runtime::block_on;
use base64ct::{Base64, Encoding as _};
use onego::rados::{Cluster, Pool};
use onego::rbd::pools::mirroring::{MirrorMode, mode};
use onego_ceph::cls::rbd::mirror_direction;
use serde_json::Value;
use std::ffi::c_int;

/// The key under which the monitors keep what the cluster is called.
const SITE_NAME: &str = "rbd/mirror/site_name";

/// What the cluster is called; its id, where nobody has given it a name.
async fn site_name(cluster: &Cluster) -> Result<Vec<u8>, Errno> {
    match config_key::get(cluster, SITE_NAME).await? {
        Some(name) if !name.is_empty() => Ok(name),
        _ => Ok(cluster.fsid().await?.into_bytes()),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_site_name_get(cluster: Handle<Rados>, name: Out<u8>, len: Out<usize>) -> c_int {
    done(|| {
        let client = cluster.get()?.client()?;
        let mut text = block_on(site_name(client.cluster()))?;
        text.push(0);
        fill(name, len, &text)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_site_name_set(cluster: Handle<Rados>, name: Text) -> c_int {
    done(|| {
        let (client, name) = (cluster.get()?.client()?, name.text()?);
        Ok(block_on(config_key::set(client.cluster(), SITE_NAME, &name))?)
    })
}

/// To make a token, a user is made for the peer; Ceph's own programs do that. EINVAL: the pool is not mirrored.
#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_bootstrap_create(
    ioctx: Handle<IoCtx>,
    _token: Out<u8>,
    _len: Out<usize>,
) -> c_int {
    done(|| match block_on(mode(&pool_of(ioctx)?))? {
        MirrorMode::Disabled => Err(Errno::INVAL),
        _ => Err(no_mirroring("rbd_mirror_peer_bootstrap_create")),
    })
}

/// The cluster that a token is of; EINVAL if it is no token.
fn cluster_of(token: &[u8]) -> Option<String> {
    let token = Base64::decode_vec(str::from_utf8(token).ok()?).ok()?;
    let token: Value = serde_json::from_slice(&token).ok()?;
    ["client_id", "key", "mon_host"].iter().all(|key| token[*key].is_string()).then_some(())?;
    token["fsid"].as_str().map(str::to_owned)
}

fn import(pool: &Pool, direction: c_int, token: &[u8]) -> Result<(), Errno> {
    let known = [mirror_direction::RECEIVE, mirror_direction::BOTH].map(c_int::from);
    if !known.contains(&direction) {
        return Err(Errno::INVAL);
    }
    let peer = cluster_of(token).ok_or(Errno::INVAL)?;
    if peer == block_on(pool.cluster().fsid())? {
        return Err(Errno::INVAL);
    }
    Err(no_mirroring("rbd_mirror_peer_bootstrap_import"))
}

/// EINVAL: the token is none, or of this cluster, or images would be sent alone.
#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_bootstrap_import(ioctx: Handle<IoCtx>, direction: c_int, token: Text) -> c_int {
    done(|| import(&pool_of(ioctx)?, direction, token.bytes()?))
}
