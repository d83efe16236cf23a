//! The groups of a pool.

use crate::border::{Handle, Out, Text, call, done, fill};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::joined;
use crate::runtime::block_on;
use onego::rbd::pools::{create_group, groups, remove_group, rename_group};
use onego_ceph::cls::rbd::DirGetId;
use onego_wire::text::to_bytes;
use std::ffi::c_int;

/// The object that lists a pool's groups (`RBD_GROUP_DIRECTORY`).
const DIRECTORY: &str = "rbd_group_directory";

#[unsafe(no_mangle)]
extern "C" fn rbd_group_create(ioctx: Handle<IoCtx>, name: Text) -> c_int {
    done(|| Ok(block_on(create_group(&pool_of(ioctx)?, &name.text()?))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_remove(ioctx: Handle<IoCtx>, name: Text) -> c_int {
    done(|| Ok(block_on(remove_group(&pool_of(ioctx)?, &name.text()?))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_rename(ioctx: Handle<IoCtx>, from: Text, to: Text) -> c_int {
    done(|| Ok(block_on(rename_group(&pool_of(ioctx)?, &from.text()?, &to.text()?))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_list(ioctx: Handle<IoCtx>, names: Out<u8>, size: Out<usize>) -> c_int {
    call(|| {
        let all = joined(block_on(groups(&pool_of(ioctx)?))?);
        fill(names, size, &all)?;
        Ok(all.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_get_id(ioctx: Handle<IoCtx>, name: Text, id: Out<u8>, size: Out<usize>) -> c_int {
    done(|| {
        let call = DirGetId { name: name.text()?.into_owned() };
        let found = block_on(pool_of(ioctx)?.call(DIRECTORY, &call))?;
        fill(id, size, &[&*to_bytes(&found), b"\0"].concat())
    })
}
