//! Everything the tests against real peers run in and run against.
//!
//! A [`Sandbox`] is a folder with namespaces of its own (network, mounts, process ids). Ceph's programs and all other
//! tools come from private roots below `target/roots`: Debian systems that [`root`] unpacks there and never installs on
//! the host. In a sandbox run our servers ([`Server`]), a real Ceph cluster ([`RealCeph`]), nfs-ganesha
//! ([`Ganesha`]) and virtual machines with Debian's kernels ([`Guest`]).
//!
//! It all works as an ordinary user where the kernel lets users make namespaces, and as root.
#![forbid(unsafe_code)]

mod apt;
mod cache;
mod ceph;
pub mod disk;
mod ganesha;
mod guest;
mod process;
pub mod root;
mod sandbox;
mod server;
pub mod sh;
pub mod workspace;

pub use apt::{Apt, mirror};
pub use cache::cached;
pub use ceph::{RealCeph, Store};
pub use ganesha::Ganesha;
pub use guest::{
    Boot, Disk, Guest, Kind, NBD, NFS, NFSD, NFSD_PORTS, NFSD_PROGRAMS, RBD, RDMA, TCMU, UBLK, VIRTIO_BLK,
    prepare_guests,
};
pub use process::{Daemon, Memory, wait_measured};
pub use root::Release;
pub use sandbox::{ADDRESS, Sandbox};
pub use server::Server;
