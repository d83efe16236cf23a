//! Our client and server of NFS with those of others.

pub(super) mod ganesha;
pub(super) mod kernel;
pub(super) mod libnfs;
pub(super) mod pjdfstest;
pub(super) mod tshark;
pub(super) mod verbs;
