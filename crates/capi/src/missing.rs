//! Names of Ceph's libraries that are not here yet: programs need them to start. Each answers EOPNOTSUPP, and says once on
//! standard error which function was called.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says that a function was called, the first time.
pub(crate) fn say(name: &str, is_said: &AtomicBool) {
    if !is_said.swap(true, Ordering::Relaxed) {
        eprintln!("onego: {name} is not supported yet");
    }
}

/// Functions that return a number, whatever its width, or nothing. Their arguments are not looked at.
macro_rules! numbers {
    ($($name:ident)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> i64 {
            static IS_SAID: AtomicBool = AtomicBool::new(false);
            say(stringify!($name), &IS_SAID);
            -i64::from(libc::EOPNOTSUPP)
        }
    )* };
}

/// Functions that return a pointer: it is null, and `errno` says why.
macro_rules! pointers {
    ($($name:ident)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> *mut c_void {
            static IS_SAID: AtomicBool = AtomicBool::new(false);
            say(stringify!($name), &IS_SAID);
            // SAFETY: it is this thread's own.
            unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
            std::ptr::null_mut()
        }
    )* };
}

numbers! {
    rados_aio_cancel rados_aio_ioctx_selfmanaged_snap_create rados_aio_ioctx_selfmanaged_snap_remove
    rados_cache_pin rados_cache_unpin rados_checksum rados_get_min_compatible_client
    rados_get_min_compatible_osd rados_getaddrs rados_inconsistent_pg_list rados_ioctx_pool_get_auid
    rados_ioctx_pool_set_auid rados_monitor_log rados_monitor_log2 rados_nobjects_list_get_cursor
    rados_nobjects_list_get_pg_hash_position rados_nobjects_list_seek rados_nobjects_list_seek_cursor
    rados_object_list rados_object_list_cursor_cmp rados_object_list_cursor_free rados_object_list_free
    rados_object_list_is_end rados_object_list_slice rados_objects_list_close
    rados_objects_list_get_pg_hash_position rados_objects_list_next rados_objects_list_open
    rados_objects_list_seek rados_ping_monitor rados_read_op_checksum rados_set_alloc_hint
    rados_set_alloc_hint2 rados_tmap_get rados_tmap_put rados_tmap_update rbd_aio_mirror_image_create_snapshot
    rbd_aio_mirror_image_demote rbd_aio_mirror_image_get_global_status rbd_aio_mirror_image_get_status
    rbd_aio_mirror_image_promote rbd_migration_prepare_import rbd_mirror_image_create_snapshot
    rbd_mirror_image_create_snapshot2 rbd_mirror_image_demote rbd_mirror_image_disable rbd_mirror_image_enable
    rbd_mirror_image_enable2 rbd_mirror_image_get_global_status rbd_mirror_image_get_instance_id
    rbd_mirror_image_get_status rbd_mirror_image_global_status_cleanup rbd_mirror_image_global_status_list
    rbd_mirror_image_global_status_list_cleanup rbd_mirror_image_info_list rbd_mirror_image_info_list_cleanup
    rbd_mirror_image_instance_id_list rbd_mirror_image_instance_id_list_cleanup rbd_mirror_image_promote
    rbd_mirror_image_resync rbd_mirror_image_status_list rbd_mirror_image_status_list_cleanup
    rbd_mirror_image_status_summary rbd_mirror_peer_bootstrap_create rbd_mirror_peer_bootstrap_import
    rbd_mirror_remote_namespace_get rbd_mirror_remote_namespace_set rbd_mirror_site_name_get
    rbd_mirror_site_name_set
}

pointers! {
    rados_object_list_begin rados_object_list_end
}
