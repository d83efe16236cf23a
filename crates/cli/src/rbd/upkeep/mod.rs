//! The commands that look after images: the names, options and output are those of Ceph's `rbd`.

mod clones;
mod config;
mod copies;
mod features;
mod group_snapshots;
mod group_word;
mod groups;
mod locks;
mod metadata;
mod migration;
mod namespaces;
mod object_maps;
mod pools;
mod snapshots;
mod status;
mod trash;

pub(super) use clones::{ChildrenOptions, CloneOptions, FlattenOptions, children, clone, flatten};
pub(super) use config::{ConfigCommand, config};
pub(super) use copies::{CopyOptions, DeepCommand, SparsifyOptions, copy, deep, sparsify};
pub(super) use features::{FeatureCommand, feature};
pub(super) use groups::{GroupCommand, group};
pub(super) use locks::{LockCommand, lock};
pub(super) use metadata::{MetadataCommand, metadata};
pub(super) use migration::{MigrationCommand, migration};
pub(super) use namespaces::{NamespaceCommand, namespace};
pub(super) use object_maps::{ObjectMapCommand, object_map};
pub(super) use pools::{RbdPoolCommand, pool};
pub(super) use snapshots::{ImageWord, SnapCommand, snap};
pub(super) use status::{RenameOptions, StatusOptions, WatchOptions, rename, status, watch};
pub(super) use trash::{TrashCommand, trash};
