//! The monitor: maps, subscriptions to them, commands. Without I/O: messages go in and out.
//!
//! There is one monitor, so what it decides is decided: no Paxos, no elections, and every change of the map is a
//! new epoch at once. Source: ceph `src/mon/{Monitor,OSDMonitor}.cc`.
//!
//! The monitor's state and its changes are in `monitor`; messages to it (`messages`, `manager`) and commands (`command`)
//! are above that, and what maps say is below it.

mod cluster_log;
mod command;
mod first_map;
mod fullness;
mod manager;
mod maps;
mod messages;
mod monitor;
mod osd_flags;
mod osds;
mod refusal;
mod services;
mod session;
mod settings;
mod space;
mod stats;
mod text;
mod usage;

pub(crate) use cluster_log::MAX_ENTRIES as MAX_LOG_ENTRIES;
pub(crate) use command::version_json;
pub(crate) use first_map::{FirstOsd, MGR_GLOBAL_ID};
pub(crate) use fullness::{Fullness, Marks, OSD_BITS, POOL_FLAGS};
pub(crate) use maps::{MapBytes, MapHistory};
pub(crate) use messages::MAX_INPUT;
pub use monitor::NewPool;
pub(crate) use monitor::{Identity, Mon, Outgoing, default_size};
pub(crate) use osds::Order;
pub(crate) use session::Role;
pub(crate) use settings::MonSettings;
pub(crate) use usage::{GroupReport, GroupState};
pub use usage::{OsdUsage, Usage};
