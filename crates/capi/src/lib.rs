//! The C interface of librados and librbd over Onego's client: one shared object under both names.
//!
//! A program that was linked with Ceph's libraries runs on this one unchanged (`LD_LIBRARY_PATH`). The functions do what the
//! comments in Ceph's `librados.h` and `librbd.h` say, and where these are silent what the libraries of Ceph 16 to 20 do.
//! Every name that those export exists; what would have to mirror an image answers EOPNOTSUPP.
#![allow(clippy::too_many_arguments, reason = "the interface has functions with many")]

mod border;
mod missing;
mod rados;
mod rbd;
mod runtime;
