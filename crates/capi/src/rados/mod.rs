//! librados: clusters, pools, and objects.

mod aio;
mod cluster;
mod command;
mod conf;
mod data;
mod exec;
mod flush;
mod ioctx;
mod list;
mod lock;
mod ops;
mod pairs;
mod pool;
mod request;
mod snap;
mod watch;
mod xattr;

pub(crate) use ioctx::IoCtx;
pub(crate) use watch::Watches;
