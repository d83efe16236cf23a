//! librados: clusters, pools, and objects.

mod cluster;
mod command;
mod conf;
mod ioctx;
mod objects;
mod pool;
mod settings;
mod snap;
mod watches;

pub(crate) use ioctx::IoCtx;
