//! Image administration of a pool: names, trash, namespaces, groups, settings.

mod group;
mod group_images;
mod group_snapshots;
mod groups;
mod init;
pub mod mirroring;
mod names;
mod namespaces;
mod settings;
mod trash;

pub use group_images::{GroupImage, add_to_group, group_images, remove_from_group};
pub use group_snapshots::{
    create_group_snapshot, group_snapshot_names, group_snapshots, remove_group_snapshot,
    rename_group_snapshot, rollback_group,
};
pub use groups::{create_group, groups, remove_group, rename_group};
pub use init::init;
pub(super) use init::validate;
pub use names::rename;
pub(super) use names::take_name;
pub use namespaces::{create_namespace, namespace_exists, namespaces, remove_namespace};
pub use settings::{pool_setting, pool_settings, remove_pool_setting, set_pool_setting};
pub(super) use trash::{MIGRATION, hide};
pub use trash::{
    TrashEntry, TrashPurge, TrashSource, move_to_trash, purge_trash, remove_from_trash, restore, trash,
};
