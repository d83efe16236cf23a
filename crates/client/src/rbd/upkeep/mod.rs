//! Maintenance of images: features, object maps, locks, sparsification, copies.

mod copy;
mod deep_copy;
mod features;
mod locks;
mod object_map;
mod sparsify;
mod users;

pub use copy::copy;
pub use deep_copy::{CopyKind, deep_copy};
pub(super) use features::update_features;
pub use features::{disable_features, enable_features};
pub use locks::{add_lock, locks, remove_lock};
pub(super) use object_map::rebuild_all;
pub use object_map::{check_object_map, rebuild_object_map};
pub use sparsify::sparsify;
pub(super) use sparsify::sparsify_in;
pub use users::{watch, watchers};
