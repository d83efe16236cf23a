//! librados: clusters, pools, and objects.

mod cluster;
mod command;
mod conf;
mod context;
mod daemons;
mod ioctx;
mod log;
mod monitor_log;
mod names;
mod objects;
mod old;
mod pool;
mod settings;
mod snap;
mod watches;

pub(crate) use cluster::Rados;
pub(crate) use ioctx::IoCtx;
