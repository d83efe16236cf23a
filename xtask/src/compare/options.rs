//! What a comparison is told.

use super::mode::Mode;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to compare
    #[arg(value_enum)]
    pub(super) what: What,
    /// Seconds for each load
    #[arg(long, default_value_t = 5)]
    pub(super) seconds: u32,
    /// Measure everything this many times, in turn, and report medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(super) repeat: u32,
    /// How connections are protected [default: crc alone for "rbd", all for "modes"]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub(super) modes: Vec<Mode>,
    /// Measure this program instead of building it
    #[arg(long, value_name = "PROGRAM")]
    pub(super) onego: Option<PathBuf>,
    /// Measure an earlier build of the program, too (rbd in crc mode, nfs and block); may be given several times
    #[arg(long, value_name = "PROGRAM")]
    pub(super) baseline: Vec<PathBuf>,
    /// Measure this program and earlier builds alone: neither other programs nor the floor
    #[arg(long, requires = "baseline")]
    pub(super) no_peers: bool,
    /// Write every row to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum What {
    /// Our RBD client and embedded cluster, and fio's librbd with Ceph's memstore OSD
    Rbd,
    /// Our RBD client and librbd on our embedded cluster: writes with an image's features and without, first writes to clones, and
    /// disk usage of a large image
    RbdFeatures,
    /// Our RBD client in each mode, 32 clients with 32 requests each, writes that the cluster forgets
    Modes,
    /// Our server of NBD on memory and on an image, nbdkit, and qemu-nbd, also through librbd, with Ceph's OSD, too; our server of a disk by vhost-user, and
    /// qemu-storage-daemon through librbd
    Block,
    /// fio, qemu-img and Python on our library in place of librbd, and on librbd itself, with our embedded cluster
    Capi,
    /// Our clients and servers while they are asked for metrics each second, and while nobody asks
    Metrics,
    /// Our client and server of NFS over TCP, libnfs, and nfs-ganesha with its file system in memory
    Nfs,
}
