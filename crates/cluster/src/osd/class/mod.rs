//! Object classes: methods that run next to an object.
//!
//! Sources: ceph `src/osd/ClassHandler.cc`, `src/osd/objclass.cc`.

mod directory;
mod header;
mod hello;
mod lock;
mod object_map;
mod snapshot;
#[cfg(test)]
mod tests;

use super::errno::{Errno, Outcome};
use super::transaction::Editor;
use super::watch::Origin;
use onego_buf::{List, Segment};
use onego_ceph::cls::{Method, lock as lock_class, rbd};
use onego_ceph::types::Utime;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::Reader;
use std::ops::Bound::{Excluded, Unbounded};

/// What a method sees: its object and its caller.
pub(super) struct Context<'a> {
    pub(super) state: Editor<'a>,
    pub(super) now: Utime,
    pub(super) origin: &'a Origin,
    pub(super) zeros: &'a Segment,
    pub(super) changed: bool,
    pub(super) removed: bool,
    /// What the method returns beside its reply, as a number that is not negative.
    pub(super) number: i32,
}

/// A method that can be called.
pub(super) struct Entry {
    class: &'static str,
    name: &'static str,
    /// May it change the object? Then it may be called on one that does not exist.
    pub(super) writes: bool,
    pub(super) run: fn(&mut Context<'_>, &[u8]) -> Outcome<Vec<u8>>,
}

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

impl Context<'_> {
    fn changes(&mut self) {
        self.state.create();
        self.changed = true;
    }

    fn must_exist(&self) -> Outcome<()> {
        if self.state.exists { Ok(()) } else { Err(Errno::NOENT) }
    }

    /// The value of a key of the object's map.
    fn raw(&self, key: &str) -> Outcome<&[u8]> {
        self.state.meta().omap().get(key.as_bytes()).map(Vec::as_slice).ok_or(Errno::NOENT)
    }

    /// The value of a key, decoded. EIO: it is something else.
    fn get<T: Decode>(&self, key: &str) -> Outcome<T> {
        T::decode(&mut Reader::new(self.raw(key)?)).map_err(|_| Errno::IO)
    }

    /// The value of a key, if it is there.
    fn get_opt<T: Decode>(&self, key: &str) -> Outcome<Option<T>> {
        match self.get(key) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn set<T: Encode>(&mut self, key: &str, value: &T) {
        self.set_raw(key, value.to_bytes());
    }

    fn set_raw(&mut self, key: &str, value: Vec<u8>) {
        self.changes();
        self.state.omap_set(key.into(), value);
    }

    /// Removes a key. ENOENT: the object does not exist; a key that does not is no error.
    fn unset(&mut self, key: &str) -> Outcome<()> {
        self.must_exist()?;
        self.changes();
        self.state.omap_remove(key.as_bytes());
        Ok(())
    }

    /// Keys that start with `prefix` behind `prefix` + `after`, without the prefix, and their values.
    fn entries<'a>(
        &'a self,
        prefix: &'static str,
        after: &str,
    ) -> impl Iterator<Item = (String, &'a [u8])> + use<'a> {
        let start = [prefix, after].concat().into_bytes();
        let range = self.state.meta().omap().range::<[u8], _>((Excluded(&start[..]), Unbounded));
        range.map_while(move |(key, value)| {
            let name = key.strip_prefix(prefix.as_bytes())?;
            Some((String::from_utf8_lossy(name).into_owned(), value.as_slice()))
        })
    }

    /// The object is gone.
    fn remove(&mut self) {
        self.state.delete();
        self.changed = true;
        self.removed = true;
    }

    /// The object's data.
    fn read_all(&self) -> Vec<u8> {
        self.state.read(0, self.state.size, self.zeros).to_vec()
    }

    /// Makes `data` the object's data.
    fn write_all(&mut self, data: Vec<u8>) {
        self.changes();
        self.state.truncate(0);
        self.state.write(0, List::from(data));
    }
}
