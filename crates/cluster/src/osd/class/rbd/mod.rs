//! The class `rbd`.

mod children;
mod data;
mod directory;
mod groups;
mod header;
mod migration;
mod object_map;
mod parent;
mod snapshots;

use super::method::{Entry, method};
use crate::osd::errno::Errno;
use onego_ceph::cls::Method as _;
use onego_ceph::cls::rbd::*;

/// A method that answers as it does where what it is about (mirroring, groups, migration) was never used.
macro_rules! unused {
    ($name:literal => $reply:expr) => {
        Entry { class: "rbd", name: $name, writes: false, run: |_, _| $reply }
    };
}

pub(super) static METHODS: &[Entry] = &[
    method!(write Create => header::create),
    method!(read GetFeatures => header::get_features),
    method!(write SetFeatures => header::set_features),
    method!(read GetAllFeatures => header::get_all_features),
    method!(read GetSize => header::get_size),
    method!(write SetSize => header::set_size),
    method!(read GetObjectPrefix => header::get_object_prefix),
    method!(read GetDataPool => header::get_data_pool),
    method!(read GetFlags => header::get_flags),
    method!(write SetFlags => header::set_flags),
    method!(read OpFeaturesGet => header::op_features_get),
    method!(write OpFeaturesSet => header::op_features_set),
    method!(read GetSnapContext => header::get_snapcontext),
    method!(read GetStripeUnitCount => header::get_stripe_unit_count),
    method!(write SetStripeUnitCount => header::set_stripe_unit_count),
    method!(read GetCreateTimestamp => header::get_create_timestamp),
    method!(read GetAccessTimestamp => header::get_access_timestamp),
    method!(read GetModifyTimestamp => header::get_modify_timestamp),
    method!(write SetAccessTimestamp => header::set_access_timestamp),
    method!(write SetModifyTimestamp => header::set_modify_timestamp),
    method!(read GetParent => parent::get_parent),
    method!(read ParentGet => parent::parent_get),
    method!(read ParentOverlapGet => parent::parent_overlap_get),
    method!(read ImageGroupGet => groups::of_image),
    method!(read MetadataList => header::metadata_list),
    method!(read MetadataGet => header::metadata_get),
    method!(write MetadataSet => header::metadata_set),
    method!(write MetadataRemove => header::metadata_remove),
    method!(read GetId => header::get_id),
    method!(write SetId => header::set_id),
    method!(write CopyUp => data::copyup),
    method!(write Sparsify => data::sparsify),
    method!(read SnapshotGet => snapshots::get),
    method!(read GetSnapshotName => snapshots::get_name),
    method!(read GetSnapshotTimestamp => snapshots::get_timestamp),
    method!(read GetProtectionStatus => snapshots::get_protection_status),
    method!(read SnapshotGetLimit => snapshots::get_limit),
    method!(write SnapshotSetLimit => snapshots::set_limit),
    method!(read ChildrenList => children::children_list),
    method!(read GetChildren => children::get_children),
    method!(read DirGetId => directory::get_id),
    method!(read DirGetName => directory::get_name),
    method!(read DirList => directory::list),
    method!(write DirAddImage => directory::add_image),
    method!(write DirRemoveImage => directory::remove_image),
    method!(write DirRenameImage => directory::rename_image),
    method!(read DirStateAssert => directory::state_assert),
    method!(write DirStateSet => directory::state_set),
    method!(read TrashList => directory::trash_list),
    method!(read TrashGet => directory::trash_get),
    method!(write TrashAdd => directory::trash_add),
    method!(write TrashRemove => directory::trash_remove),
    method!(write TrashStateSet => directory::trash_state_set),
    method!(read NamespaceList => directory::namespace_list),
    method!(write NamespaceAdd => directory::namespace_add),
    method!(write NamespaceRemove => directory::namespace_remove),
    Entry { class: "rbd", name: ObjectMapLoad::NAME, writes: false, run: object_map::load },
    method!(write ObjectMapSave => object_map::save),
    method!(write ObjectMapResize => object_map::resize),
    method!(write ObjectMapUpdate => object_map::update),
    method!(write ObjectMapSnapAdd => object_map::snap_add),
    method!(write ObjectMapSnapRemove => object_map::snap_remove),
    unused!("mirror_uuid_get" => Err(Errno::NOENT)),
    unused!("mirror_mode_get" => Err(Errno::NOENT)),
    unused!("mirror_peer_list" => Ok(vec![0; 4])),
    unused!("mirror_image_list" => Ok(vec![0; 4])),
    unused!("mirror_image_get" => Err(Errno::NOENT)),
    unused!("mirror_image_get_image_id" => Err(Errno::NOENT)),
    unused!("mirror_image_status_get" => Err(Errno::NOENT)),
    unused!("mirror_image_instance_get" => Err(Errno::NOENT)),
    unused!("mirror_image_status_list" => Ok(vec![0; 8])),
    unused!("mirror_image_instance_list" => Ok(vec![0; 4])),
    unused!("mirror_instances_list" => Ok(vec![0; 4])),
    Entry { class: "rbd", name: "mirror_image_remove", writes: true, run: |_, _| Err(Errno::NOENT) },
    method!(write SnapshotAdd => snapshots::add),
    method!(write SnapshotRemove => snapshots::remove),
    method!(write SnapshotRename => snapshots::rename),
    method!(write SnapshotTrashAdd => snapshots::trash_add),
    method!(write SetProtectionStatus => snapshots::set_protection_status),
    method!(write ParentAttach => parent::parent_attach),
    method!(write ParentDetach => parent::parent_detach),
    method!(write SetParent => parent::set_parent),
    method!(write RemoveParent => parent::remove_parent),
    method!(write ChildAttach => children::child_attach),
    method!(write ChildDetach => children::child_detach),
    method!(write AddChild => children::add_child),
    method!(write RemoveChild => children::remove_child),
    method!(write SparseCopyUp => data::sparse_copyup),
    method!(write AssertSnapcSeq => data::assert_snapc_seq),
    method!(read GroupDirList => groups::dir_list),
    method!(write GroupDirAdd => groups::dir_add),
    method!(write GroupDirRename => groups::dir_rename),
    method!(write GroupDirRemove => groups::dir_remove),
    method!(write GroupImageSet => groups::image_set),
    method!(write GroupImageRemove => groups::image_remove),
    method!(read GroupImageList => groups::image_list),
    method!(write ImageGroupAdd => groups::add_to_image),
    method!(write ImageGroupRemove => groups::remove_from_image),
    method!(write GroupSnapSet => groups::snap_set),
    method!(write GroupSnapRemove => groups::snap_remove),
    method!(read GroupSnapGetById => groups::snap_get_by_id),
    method!(read GroupSnapList => groups::snap_list),
    method!(write MigrationSet => migration::set),
    method!(write MigrationSetState => migration::set_state),
    method!(read MigrationGet => migration::get),
    method!(write MigrationRemove => migration::remove),
];
