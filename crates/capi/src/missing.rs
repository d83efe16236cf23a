//! Names of Ceph's libraries that are not here yet: programs need them to start. Each answers EOPNOTSUPP, and says once on
//! standard error which function was called.

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

numbers! {
    rbd_aio_mirror_image_create_snapshot rbd_aio_mirror_image_demote
    rbd_aio_mirror_image_get_global_status rbd_aio_mirror_image_get_status
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
