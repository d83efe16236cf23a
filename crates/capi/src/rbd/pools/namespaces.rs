//! The namespaces of a pool.

use crate::border::{Errno, Handle, Out, Text, call, done, fill};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::joined;
use crate::runtime::block_on;
use onego::rbd::pools::{create_namespace, namespace_exists, namespaces, remove_namespace};
use std::ffi::c_int;

/// The name of a namespace. The pool itself is none.
fn name(name: Text) -> Result<String, Errno> {
    Some(name.text()?.into_owned()).filter(|name| !name.is_empty()).ok_or(Errno::INVAL)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_namespace_create(ioctx: Handle<IoCtx>, namespace: Text) -> c_int {
    done(|| Ok(block_on(create_namespace(&pool_of(ioctx)?, &name(namespace)?))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_namespace_remove(ioctx: Handle<IoCtx>, namespace: Text) -> c_int {
    done(|| Ok(block_on(remove_namespace(&pool_of(ioctx)?, &name(namespace)?))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_namespace_list(ioctx: Handle<IoCtx>, names: Out<u8>, size: Out<usize>) -> c_int {
    call(|| {
        if names.is_null() {
            return Err(Errno::INVAL);
        }
        let all = joined(block_on(namespaces(&pool_of(ioctx)?))?);
        fill(names, size, &all)?;
        Ok(all.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_namespace_exists(ioctx: Handle<IoCtx>, namespace: Text, exists: Out<bool>) -> c_int {
    done(|| {
        let name = name(namespace)?;
        exists.set(block_on(namespace_exists(&pool_of(ioctx)?, &name))?)
    })
}
