//! librados: clusters, pools, and objects.

mod aio;
mod cluster;
mod conf;
mod data;
mod ioctx;
mod request;

pub(crate) use cluster::Rados;
pub(crate) use ioctx::IoCtx;
