//! CRUSH: the map of the cluster's devices, and the placement function.
//!
//! A [`CrushMap`] is a forest of [`Bucket`]s over devices (OSDs) and a list of [`Rule`]s. [`CrushMap::do_rule`] maps
//! a number (a placement group's hash) to a list of devices, bit for bit like every Ceph client and daemon.
//!
//! Sources: ceph `src/crush/crush.h` (the structures), `src/crush/CrushWrapper.cc` (the encoding),
//! `src/crush/mapper.c` (the function).

mod bucket;
mod build;
mod choose_args;
mod codec;
mod edit;
mod ln;
mod map;
mod mapper;
mod rule;
mod tunables;

pub use bucket::{Bucket, Weights};
pub use build::Layout;
pub use choose_args::{ChooseArg, ChooseArgs};
pub use edit::{EditError, Location};
pub use map::{CrushMap, DEFAULT_CHOOSE_ARGS, ITEM_NONE, WEIGHT_ONE};
pub use mapper::{MAX_RESULT, Workspace};
pub use rule::{Rule, Step, StepOp};
pub use tunables::{MsrTunables, Tunables};
