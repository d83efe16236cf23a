//! The peers of a pool: other clusters.

use crate::border::{Errno, Handle, In, Out, Text, call, copied_text, done, free};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::give;
use crate::runtime::block_on;
use onego::rados::Pool;
use onego::rbd::pools::mirroring::{add_peer, change_mirroring, last_seen, peers, remove_peer};
use onego_ceph::cls::rbd::{
    MirrorPeer, MirrorPeerSetClient, MirrorPeerSetCluster, MirrorPeerSetDirection, mirror_direction,
};
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};
use std::time::SystemTime;

/// A peer (`rbd_mirror_peer_site_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct PeerSite {
    uuid: *mut c_char,
    direction: c_int,
    site_name: *mut c_char,
    mirror_uuid: *mut c_char,
    client_name: *mut c_char,
    last_seen: libc::time_t,
}

fn direction(number: c_int) -> Result<u8, Errno> {
    let number = u8::try_from(number).map_err(|_| Errno::INVAL)?;
    let known = [mirror_direction::RECEIVE, mirror_direction::SEND, mirror_direction::BOTH];
    if known.contains(&number) { Ok(number) } else { Err(Errno::INVAL) }
}

/// Adds a peer. To send alone, it is the peer that adds this cluster.
pub(super) fn add(
    pool: &Pool,
    (uuid, room): (Out<u8>, usize),
    towards: c_int,
    site: Text,
    client: Text,
) -> Result<(), Errno> {
    let towards = direction(towards)?;
    if towards == mirror_direction::SEND {
        return Err(Errno::INVAL);
    }
    let (site, client) = (site.text()?, client.text()?);
    let added = block_on(add_peer(pool, &site, &client, towards))?;
    uuid.copy_text(&to_bytes(&added), room).map_err(|_| Errno::TOOBIG)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_site_add(
    ioctx: Handle<IoCtx>,
    uuid: Out<u8>,
    uuid_len: usize,
    direction: c_int,
    site: Text,
    client: Text,
) -> c_int {
    done(|| add(&pool_of(ioctx)?, (uuid, uuid_len), direction, site, client))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn rbd_mirror_peer_site_remove(ioctx: Handle<IoCtx>, uuid: Text) -> c_int {
    done(|| Ok(block_on(remove_peer(&pool_of(ioctx)?, &uuid.text()?))?))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn rbd_mirror_peer_site_set_name(
    ioctx: Handle<IoCtx>,
    uuid: Text,
    site: Text,
) -> c_int {
    done(|| {
        let (uuid, site_name) = (uuid.text()?.into_owned(), site.text()?.into_owned());
        Ok(block_on(change_mirroring(&pool_of(ioctx)?, &MirrorPeerSetCluster { uuid, site_name }))?)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn rbd_mirror_peer_site_set_client_name(
    ioctx: Handle<IoCtx>,
    uuid: Text,
    client: Text,
) -> c_int {
    done(|| {
        let (uuid, client_name) = (uuid.text()?.into_owned(), client.text()?.into_owned());
        Ok(block_on(change_mirroring(&pool_of(ioctx)?, &MirrorPeerSetClient { uuid, client_name }))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_site_set_direction(ioctx: Handle<IoCtx>, uuid: Text, towards: c_int) -> c_int {
    done(|| {
        let (uuid, direction) = (uuid.text()?.into_owned(), direction(towards)?);
        Ok(block_on(change_mirroring(&pool_of(ioctx)?, &MirrorPeerSetDirection { uuid, direction }))?)
    })
}

fn seconds(at: SystemTime) -> libc::time_t {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as libc::time_t)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_site_list(
    ioctx: Handle<IoCtx>,
    sites: Out<PeerSite>,
    most: Out<c_int>,
) -> c_int {
    call(|| {
        let all = block_on(peers(&pool_of(ioctx)?))?;
        give(sites, most, &all, |peer: &MirrorPeer| {
            Ok(PeerSite {
                uuid: copied_text(&to_bytes(&peer.uuid))?,
                direction: peer.direction.into(),
                site_name: copied_text(&to_bytes(&peer.site_name))?,
                mirror_uuid: copied_text(&to_bytes(&peer.mirror_uuid))?,
                client_name: copied_text(&to_bytes(&peer.client_name))?,
                last_seen: seconds(last_seen(peer)),
            })
        })?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_site_list_cleanup(sites: In<PeerSite>, count: c_int) {
    call(|| {
        for site in sites.slice(usize::try_from(count).map_err(|_| Errno::INVAL)?)? {
            for text in [site.uuid, site.site_name, site.mirror_uuid, site.client_name] {
                free(text.cast());
            }
        }
        Ok(())
    });
}
