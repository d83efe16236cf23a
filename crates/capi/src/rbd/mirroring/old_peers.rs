//! The peers of a pool as programs of before knew them: both sides send.

use super::sites;
use crate::border::{Errno, Handle, In, Out, Text, call, copied_text, done, free};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::give;
use crate::runtime::block_on;
use onego::rbd::pools::mirroring::peers;
use onego_ceph::cls::rbd::mirror_direction;
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

/// A peer (`rbd_mirror_peer_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct OldPeer {
    uuid: *mut c_char,
    cluster_name: *mut c_char,
    client_name: *mut c_char,
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_add(
    ioctx: Handle<IoCtx>,
    uuid: Out<u8>,
    uuid_len: usize,
    cluster: Text,
    client: Text,
) -> c_int {
    done(|| {
        let both = mirror_direction::BOTH.into();
        sites::add(&pool_of(ioctx)?, (uuid, uuid_len), both, cluster, client)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_list(ioctx: Handle<IoCtx>, found: Out<OldPeer>, most: Out<c_int>) -> c_int {
    call(|| {
        let all = block_on(peers(&pool_of(ioctx)?))?;
        give(found, most, &all, |peer| {
            Ok(OldPeer {
                uuid: copied_text(&to_bytes(&peer.uuid))?,
                cluster_name: copied_text(&to_bytes(&peer.site_name))?,
                client_name: copied_text(&to_bytes(&peer.client_name))?,
            })
        })?;
        Ok(all.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_list_cleanup(found: In<OldPeer>, count: c_int) {
    call(|| {
        for peer in found.slice(usize::try_from(count).map_err(|_| Errno::INVAL)?)? {
            for text in [peer.uuid, peer.cluster_name, peer.client_name] {
                free(text.cast());
            }
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_remove(ioctx: Handle<IoCtx>, uuid: Text) -> c_int {
    sites::rbd_mirror_peer_site_remove(ioctx, uuid)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_set_client(ioctx: Handle<IoCtx>, uuid: Text, client: Text) -> c_int {
    sites::rbd_mirror_peer_site_set_client_name(ioctx, uuid, client)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_set_cluster(ioctx: Handle<IoCtx>, uuid: Text, cluster: Text) -> c_int {
    sites::rbd_mirror_peer_site_set_name(ioctx, uuid, cluster)
}
