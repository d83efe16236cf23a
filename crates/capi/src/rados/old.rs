//! What has ended in Ceph before this library began: owners of pools, maps in objects, and lists without namespaces. Ceph's
//! library has the names, too, and refuses.

use crate::border::{Errno, Handle, In, Out, Text};
use crate::rados::ioctx::IoCtx;
use std::ffi::{c_char, c_int};

/// A list that no program can have.
struct NoList;

/// Functions that are refused.
macro_rules! refused {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> c_int {
            Errno::NOTSUP.negative()
        }
    )* };
}

refused! {
    rados_ioctx_pool_set_auid(_ioctx: Handle<IoCtx>, _auid: u64);
    rados_ioctx_pool_get_auid(_ioctx: Handle<IoCtx>, _auid: Out<u64>);
    rados_tmap_update(_ioctx: Handle<IoCtx>, _oid: Text, _commands: In<u8>, _len: usize);
    rados_tmap_put(_ioctx: Handle<IoCtx>, _oid: Text, _buf: In<u8>, _len: usize);
    rados_tmap_get(_ioctx: Handle<IoCtx>, _oid: Text, _buf: Out<u8>, _len: usize);
    rados_objects_list_open(_ioctx: Handle<IoCtx>, _list: Out<Handle<NoList>>);
    rados_objects_list_next(_list: Handle<NoList>, _entry: Out<*const c_char>, _key: Out<*const c_char>);
}

#[unsafe(no_mangle)]
extern "C" fn rados_objects_list_get_pg_hash_position(_list: Handle<NoList>) -> u32 {
    0
}

#[unsafe(no_mangle)]
extern "C" fn rados_objects_list_seek(_list: Handle<NoList>, _position: u32) -> u32 {
    0
}

#[unsafe(no_mangle)]
extern "C" fn rados_objects_list_close(_list: Handle<NoList>) {}
