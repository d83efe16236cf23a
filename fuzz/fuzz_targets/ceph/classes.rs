//! Arguments and replies of every method of the object classes, and the outputs of operations.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_ceph::cls::{Method, lock, rbd};
use onego_ceph::ops::Stat;
use onego_ceph::outputs;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::Reader;

/// Reads a value of which more may follow; what was read is written, and reads as the same again.
fn check<T: Decode + Encode>(bytes: &[u8]) {
    let Ok(value) = T::decode(&mut Reader::new(bytes)) else { return };
    let written = value.to_bytes();
    let again = T::decode(&mut Reader::new(&written)).expect("what was written can be read");
    assert!(again.to_bytes() == written, "what was read is written in the same way");
}

/// Checks the structure of this number, counting on from the arguments and the reply of the first method.
macro_rules! check_one {
    ($number:expr, $bytes:expr; $($method:ty),* $(,)?) => {
        let mut left = usize::from($number);
        $(
            match left {
                0 => return check::<$method>($bytes),
                1 => return check::<<$method as Method>::Reply>($bytes),
                _ => left -= 2,
            }
        )*
        match left % 4 {
            0 => check::<outputs::Watchers>($bytes),
            1 => check::<outputs::Listing>($bytes),
            2 => check::<rbd::Format1Header>($bytes),
            _ => check::<Stat>($bytes),
        }
    };
}

fuzz_target!(|input: (u8, &[u8])| {
    let (number, bytes) = input;
    check_one!(
        number, bytes;
        lock::Lock, lock::Unlock, lock::BreakLock, lock::GetInfo, lock::ListLocks, lock::AssertLocked,
        lock::SetCookie,
        rbd::DirGetId, rbd::DirGetName, rbd::DirList, rbd::DirAddImage, rbd::DirRemoveImage,
        rbd::DirRenameImage, rbd::DirStateAssert, rbd::DirStateSet, rbd::TrashList, rbd::TrashGet,
        rbd::TrashAdd, rbd::TrashRemove, rbd::TrashStateSet, rbd::NamespaceList, rbd::NamespaceAdd,
        rbd::NamespaceRemove, rbd::Create, rbd::GetFeatures, rbd::SetFeatures, rbd::GetAllFeatures,
        rbd::GetSize, rbd::SetSize, rbd::GetObjectPrefix, rbd::GetDataPool, rbd::GetFlags, rbd::SetFlags,
        rbd::OpFeaturesGet, rbd::OpFeaturesSet, rbd::GetSnapContext, rbd::GetStripeUnitCount,
        rbd::SetStripeUnitCount, rbd::GetCreateTimestamp, rbd::GetAccessTimestamp, rbd::GetModifyTimestamp,
        rbd::SetAccessTimestamp, rbd::SetModifyTimestamp, rbd::GetParent, rbd::ParentGet,
        rbd::ParentOverlapGet, rbd::ImageGroupGet, rbd::MetadataList, rbd::MetadataGet, rbd::MetadataSet,
        rbd::MetadataRemove, rbd::GetId, rbd::SetId, rbd::CopyUp, rbd::ObjectMapLoad, rbd::ObjectMapSave,
        rbd::ObjectMapResize, rbd::ObjectMapUpdate, rbd::ObjectMapSnapAdd, rbd::ObjectMapSnapRemove,
        rbd::SnapshotGet, rbd::GetSnapshotName, rbd::GetSnapshotTimestamp, rbd::GetProtectionStatus,
        rbd::SnapshotGetLimit, rbd::SnapshotSetLimit, rbd::ChildrenList, rbd::GetChildren,
        rbd::Format1SnapshotList, rbd::Format1SnapshotAdd, rbd::Format1SnapshotRemove, rbd::Format1SnapshotRename,
    );
});
