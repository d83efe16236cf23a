//! Object classes: methods that run next to an object.
//!
//! Sources: ceph `src/osd/ClassHandler.cc`, `src/osd/objclass.cc`.

mod context;
mod directory;
mod header;
mod hello;
mod lock;
mod object_map;
mod snapshot;
#[cfg(test)]
mod tests;

pub(super) use context::{Context, Entry};

use super::errno::{Errno, Outcome};
use onego_ceph::cls::{Method, lock as lock_class, rbd};
use onego_msgr::encoding::Encode as _;
use onego_wire::Reader;

/// The method of that name. What is not found is refused with EOPNOTSUPP before anything is done, like a class that is
/// not installed (ceph `src/osd/osd_op_util.cc`).
pub(super) fn find(class: &str, name: &str) -> Option<&'static Entry> {
    let mut all = METHODS.iter().chain(hello::METHODS);
    all.find(|method| method.name == name && method.class == class)
}

/// Decodes the arguments, calls the method and encodes the reply.
fn run<M: Method>(
    context: &mut Context<'_>,
    input: &[u8],
    method: fn(&mut Context<'_>, M) -> Outcome<M::Reply>,
) -> Outcome<Vec<u8>> {
    let arguments = M::decode(&mut Reader::new(input)).map_err(|_| Errno::INVAL)?;
    method(context, arguments).map(|reply| reply.to_bytes())
}

macro_rules! method {
    (read $arguments:ty => $function:path) => {
        method!(false, $arguments, $function)
    };
    (write $arguments:ty => $function:path) => {
        method!(true, $arguments, $function)
    };
    ($writes:literal, $arguments:ty, $function:path) => {
        Entry {
            class: <$arguments as Method>::CLASS,
            name: <$arguments as Method>::NAME,
            writes: $writes,
            run: |context, input| run::<$arguments>(context, input, $function),
        }
    };
}

/// A method that answers as it does where what it is about (mirroring, groups, migration) was never used.
macro_rules! unused {
    ($name:literal => $reply:expr) => {
        Entry { class: "rbd", name: $name, writes: false, run: |_, _| $reply }
    };
}

static METHODS: &[Entry] = &[
    method!(write lock_class::Lock => lock::lock),
    method!(write lock_class::Unlock => lock::unlock),
    method!(write lock_class::BreakLock => lock::break_lock),
    method!(read lock_class::GetInfo => lock::get_info),
    method!(read lock_class::ListLocks => lock::list_locks),
    method!(read lock_class::AssertLocked => lock::assert_locked),
    method!(write lock_class::SetCookie => lock::set_cookie),
    method!(write rbd::Create => header::create),
    method!(read rbd::GetFeatures => header::get_features),
    method!(write rbd::SetFeatures => header::set_features),
    method!(read rbd::GetAllFeatures => header::get_all_features),
    method!(read rbd::GetSize => header::get_size),
    method!(write rbd::SetSize => header::set_size),
    method!(read rbd::GetObjectPrefix => header::get_object_prefix),
    method!(read rbd::GetDataPool => header::get_data_pool),
    method!(read rbd::GetFlags => header::get_flags),
    method!(write rbd::SetFlags => header::set_flags),
    method!(read rbd::OpFeaturesGet => header::op_features_get),
    method!(write rbd::OpFeaturesSet => header::op_features_set),
    method!(read rbd::GetSnapContext => header::get_snapcontext),
    method!(read rbd::GetStripeUnitCount => header::get_stripe_unit_count),
    method!(write rbd::SetStripeUnitCount => header::set_stripe_unit_count),
    method!(read rbd::GetCreateTimestamp => header::get_create_timestamp),
    method!(read rbd::GetAccessTimestamp => header::get_access_timestamp),
    method!(read rbd::GetModifyTimestamp => header::get_modify_timestamp),
    method!(write rbd::SetAccessTimestamp => header::set_access_timestamp),
    method!(write rbd::SetModifyTimestamp => header::set_modify_timestamp),
    method!(read rbd::GetParent => header::get_parent),
    method!(read rbd::ParentGet => header::parent_get),
    method!(read rbd::ParentOverlapGet => header::parent_overlap_get),
    method!(read rbd::ImageGroupGet => header::image_group_get),
    method!(read rbd::MetadataList => header::metadata_list),
    method!(read rbd::MetadataGet => header::metadata_get),
    method!(write rbd::MetadataSet => header::metadata_set),
    method!(write rbd::MetadataRemove => header::metadata_remove),
    method!(read rbd::GetId => header::get_id),
    method!(write rbd::SetId => header::set_id),
    method!(write rbd::CopyUp => header::copyup),
    method!(write rbd::Sparsify => header::sparsify),
    method!(read rbd::SnapshotGet => snapshot::get),
    method!(read rbd::GetSnapshotName => snapshot::get_name),
    method!(read rbd::GetSnapshotTimestamp => snapshot::get_timestamp),
    method!(read rbd::GetProtectionStatus => snapshot::get_protection_status),
    method!(read rbd::SnapshotGetLimit => snapshot::get_limit),
    method!(write rbd::SnapshotSetLimit => snapshot::set_limit),
    method!(read rbd::ChildrenList => snapshot::children_list),
    method!(read rbd::GetChildren => snapshot::get_children),
    method!(read rbd::DirGetId => directory::get_id),
    method!(read rbd::DirGetName => directory::get_name),
    method!(read rbd::DirList => directory::list),
    method!(write rbd::DirAddImage => directory::add_image),
    method!(write rbd::DirRemoveImage => directory::remove_image),
    method!(write rbd::DirRenameImage => directory::rename_image),
    method!(read rbd::DirStateAssert => directory::state_assert),
    method!(write rbd::DirStateSet => directory::state_set),
    method!(read rbd::TrashList => directory::trash_list),
    method!(read rbd::TrashGet => directory::trash_get),
    method!(write rbd::TrashAdd => directory::trash_add),
    method!(write rbd::TrashRemove => directory::trash_remove),
    method!(write rbd::TrashStateSet => directory::trash_state_set),
    method!(read rbd::NamespaceList => directory::namespace_list),
    method!(write rbd::NamespaceAdd => directory::namespace_add),
    method!(write rbd::NamespaceRemove => directory::namespace_remove),
    Entry { class: "rbd", name: rbd::ObjectMapLoad::NAME, writes: false, run: object_map::load },
    method!(write rbd::ObjectMapSave => object_map::save),
    method!(write rbd::ObjectMapResize => object_map::resize),
    method!(write rbd::ObjectMapUpdate => object_map::update),
    method!(write rbd::ObjectMapSnapAdd => object_map::snap_add),
    method!(write rbd::ObjectMapSnapRemove => object_map::snap_remove),
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
    unused!("group_dir_list" => Ok(vec![0; 4])),
    unused!("migration_get" => Err(Errno::INVAL)),
    Entry { class: "rbd", name: "mirror_image_remove", writes: true, run: |_, _| Err(Errno::NOENT) },
];
