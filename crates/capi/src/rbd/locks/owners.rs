//! The owner of the exclusive lock, which is named by its address.

use super::exclusive::{EXCLUSIVE, lockable};
use crate::border::{Errno, Handle, In, Out, Text, call, copied_text, done, free};
use crate::rbd::image::RbdImage;
use crate::rbd::lists::give;
use crate::rbd::settings::is_true;
use crate::runtime::block_on;
use onego::ceph::EntityName;
use onego::rados::LockHolder;
use onego_buf::List;
use onego_wire::text::to_bytes;
use serde_json::json;
use std::ffi::{c_char, c_int};

/// The lock of the header that the owner has (`RBD_LOCK_NAME`).
const LOCK: &str = "rbd_lock";

/// What cookies of owners begin with; users' own do not.
const OWNERS_COOKIE: &str = "auto ";

/// The owner; ENOENT without one.
fn owner(image: &RbdImage) -> Result<LockHolder, Errno> {
    let header = image.header_object();
    let holders = block_on(image.pool().lock_info(&header, LOCK))?.holders;
    let mut owners = holders.into_iter().filter(|holder| holder.cookie.starts_with(OWNERS_COOKIE));
    owners.next().ok_or(Errno::NOENT)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_lock_get_owners(
    image: Handle<RbdImage>,
    mode: Out<c_int>,
    owners: Out<*mut c_char>,
    most: Out<usize>,
) -> c_int {
    done(|| {
        let image = lockable(&image)?;
        let found = match owner(image) {
            Err(Errno::NOENT) => {
                most.set(0)?;
                return Err(Errno::NOENT);
            }
            found => found?,
        };
        give(owners, most, &[found], |holder| copied_text(&to_bytes(&holder.addr.to_string())))?;
        mode.set(EXCLUSIVE)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_lock_get_owners_cleanup(owners: In<*mut c_char>, count: usize) {
    call(|| {
        for owner in owners.slice(count)? {
            free(owner.cast());
        }
        Ok(())
    });
}

/// Takes the lock away from its owner, whom the cluster refuses from then on, unless the configuration says otherwise. An owner that
/// shares this handle's connection is refused here.
#[unsafe(no_mangle)]
extern "C" fn rbd_lock_break(image: Handle<RbdImage>, mode: c_int, address: Text) -> c_int {
    done(|| {
        if mode != EXCLUSIVE {
            return Err(Errno::NOTSUP);
        }
        let image = lockable(&image)?;
        let (owner, address) = (owner(image)?, address.text()?);
        if owner.addr.to_string() != address {
            return Err(Errno(libc::EBUSY));
        }
        if is_own(image, owner.client)? {
            fence(image)?;
        } else {
            cut_off(image, &owner)?;
        }
        let header = image.header_object();
        match block_on(image.pool().break_lock(&header, LOCK, owner.client, &owner.cookie)) {
            Err(onego::ceph::Error::NotFound { .. }) => Ok(()),
            other => Ok(other?),
        }
    })
}

/// Is this the client of the image's handle?
pub(super) fn is_own(image: &RbdImage, client: EntityName) -> Result<bool, Errno> {
    Ok(client.num == block_on(image.client().cluster().global_id())? as i64)
}

/// Is the former owner of a lock to be refused?
fn is_refused(image: &RbdImage) -> bool {
    image.setting("rbd_blocklist_on_break_lock").is_none_or(|value| is_true(&value))
}

/// Has all I/O of the owner fail, which is another handle of the same client, unless the configuration says otherwise.
fn fence(image: &RbdImage) -> Result<(), Errno> {
    match image.lock_owner().filter(|_| is_refused(image)) {
        Some(owner) => Ok(block_on(owner.fence())?),
        None => Ok(()),
    }
}

/// Has the cluster refuse a client from now on, unless the configuration says otherwise.
pub(super) fn cut_off(image: &RbdImage, holder: &LockHolder) -> Result<(), Errno> {
    if !is_refused(image) {
        return Ok(());
    }
    let address = holder.addr.to_string();
    let command = json!({"prefix": "osd blocklist", "blocklistop": "add", "addr": address}).to_string();
    block_on(image.client().cluster().command(&command, List::new()))?;
    Ok(())
}

/// Is the owner of the lock another handle or client, which is alive?
pub(in crate::rbd) fn is_owned_elsewhere(image: &RbdImage) -> Result<bool, Errno> {
    let holder = match owner(image) {
        Err(Errno::NOENT) => return Ok(false),
        found => found?,
    };
    let watchers = block_on(image.pool().watchers(&image.header_object()))?;
    let cookie = holder.cookie.trim_start_matches(OWNERS_COOKIE).parse();
    Ok(watchers.iter().any(|watcher| watcher.name == holder.client && Ok(watcher.cookie) == cookie))
}
