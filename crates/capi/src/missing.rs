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
    rbd_aio_compare_and_write
    rbd_aio_compare_and_writev rbd_aio_mirror_image_create_snapshot rbd_aio_mirror_image_demote
    rbd_aio_mirror_image_get_global_status rbd_aio_mirror_image_get_info rbd_aio_mirror_image_get_mode
    rbd_aio_mirror_image_get_status rbd_aio_mirror_image_promote rbd_aio_open_by_id
    rbd_aio_open_by_id_read_only rbd_aio_write_with_crc32c rbd_break_lock rbd_clone rbd_clone2 rbd_clone3
    rbd_clone4 rbd_compare_and_write rbd_config_image_list rbd_config_image_list_cleanup rbd_config_pool_list
    rbd_config_pool_list_cleanup rbd_copy rbd_copy2 rbd_copy3 rbd_copy4 rbd_copy_with_progress
    rbd_copy_with_progress2 rbd_copy_with_progress3 rbd_copy_with_progress4 rbd_deep_copy
    rbd_deep_copy_with_progress rbd_diff_iterate3 rbd_encryption_format rbd_encryption_load
    rbd_encryption_load2 rbd_flatten rbd_flatten_with_progress rbd_get_access_timestamp rbd_get_group
    rbd_get_migration_source_spec rbd_get_modify_timestamp rbd_get_parent rbd_get_parent_info2
    rbd_group_create rbd_group_get_id rbd_group_image_add rbd_group_image_list rbd_group_image_list_cleanup
    rbd_group_image_remove rbd_group_image_remove_by_id rbd_group_info_cleanup rbd_group_list rbd_group_remove
    rbd_group_rename rbd_group_snap_create rbd_group_snap_create2 rbd_group_snap_get_info
    rbd_group_snap_get_info_cleanup rbd_group_snap_list rbd_group_snap_list2 rbd_group_snap_list2_cleanup
    rbd_group_snap_list_cleanup rbd_group_snap_remove rbd_group_snap_rename rbd_group_snap_rollback
    rbd_group_snap_rollback_with_progress rbd_linked_image_spec_cleanup rbd_linked_image_spec_list_cleanup
    rbd_list_child_cleanup rbd_list_children rbd_list_children2 rbd_list_children3 rbd_list_children_cleanup
    rbd_list_descendants rbd_list_lockers rbd_lock_break rbd_lock_exclusive rbd_lock_get_owners
    rbd_lock_get_owners_cleanup rbd_lock_shared rbd_migration_abort rbd_migration_abort_with_progress
    rbd_migration_commit rbd_migration_commit_with_progress rbd_migration_execute
    rbd_migration_execute_with_progress rbd_migration_prepare rbd_migration_prepare_import
    rbd_migration_status rbd_migration_status_cleanup rbd_mirror_image_create_snapshot
    rbd_mirror_image_create_snapshot2 rbd_mirror_image_demote rbd_mirror_image_disable rbd_mirror_image_enable
    rbd_mirror_image_enable2 rbd_mirror_image_get_global_status rbd_mirror_image_get_info
    rbd_mirror_image_get_info_cleanup rbd_mirror_image_get_instance_id rbd_mirror_image_get_mode
    rbd_mirror_image_get_status rbd_mirror_image_global_status_cleanup rbd_mirror_image_global_status_list
    rbd_mirror_image_global_status_list_cleanup rbd_mirror_image_info_list rbd_mirror_image_info_list_cleanup
    rbd_mirror_image_instance_id_list rbd_mirror_image_instance_id_list_cleanup rbd_mirror_image_promote
    rbd_mirror_image_resync rbd_mirror_image_status_list rbd_mirror_image_status_list_cleanup
    rbd_mirror_image_status_summary rbd_mirror_mode_get rbd_mirror_mode_set rbd_mirror_peer_add
    rbd_mirror_peer_bootstrap_create rbd_mirror_peer_bootstrap_import rbd_mirror_peer_get_attributes
    rbd_mirror_peer_list rbd_mirror_peer_list_cleanup rbd_mirror_peer_remove rbd_mirror_peer_set_attributes
    rbd_mirror_peer_set_client rbd_mirror_peer_set_cluster rbd_mirror_peer_site_add
    rbd_mirror_peer_site_get_attributes rbd_mirror_peer_site_list rbd_mirror_peer_site_list_cleanup
    rbd_mirror_peer_site_remove rbd_mirror_peer_site_set_attributes rbd_mirror_peer_site_set_client_name
    rbd_mirror_peer_site_set_direction rbd_mirror_peer_site_set_name rbd_mirror_remote_namespace_get
    rbd_mirror_remote_namespace_set rbd_mirror_site_name_get rbd_mirror_site_name_set rbd_mirror_uuid_get
    rbd_namespace_create rbd_namespace_remove rbd_open_by_id rbd_open_by_id_read_only rbd_pool_init
    rbd_pool_metadata_get rbd_pool_metadata_list rbd_pool_metadata_remove rbd_pool_metadata_set
    rbd_pool_stats_create rbd_pool_stats_destroy rbd_pool_stats_get rbd_pool_stats_option_add_uint64
    rbd_quiesce_complete rbd_quiesce_unwatch rbd_quiesce_watch rbd_read_iterate rbd_read_iterate2
    rbd_rebuild_object_map rbd_rename rbd_snap_create rbd_snap_create2 rbd_snap_get_group_namespace
    rbd_snap_get_limit rbd_snap_get_mirror_namespace rbd_snap_get_namespace_type rbd_snap_get_timestamp
    rbd_snap_get_trash_namespace rbd_snap_get_trash_namespace2 rbd_snap_group_namespace_cleanup
    rbd_snap_is_protected rbd_snap_mirror_namespace_cleanup rbd_snap_protect rbd_snap_remove rbd_snap_remove2
    rbd_snap_remove_by_id rbd_snap_rename rbd_snap_rollback rbd_snap_rollback_with_progress rbd_snap_set_by_id
    rbd_snap_set_limit rbd_snap_spec_cleanup rbd_snap_trash_namespace_cleanup rbd_snap_unprotect rbd_sparsify
    rbd_sparsify_with_progress rbd_trash_get rbd_trash_get_cleanup rbd_trash_list rbd_trash_list_cleanup
    rbd_trash_move rbd_trash_purge rbd_trash_purge_with_progress rbd_trash_remove
    rbd_trash_remove_with_progress rbd_trash_restore rbd_unlock rbd_update_features rbd_update_unwatch
    rbd_update_watch
}
