//! What is asked of every server.

use crate::compare::load::short_size;

/// A program that puts a load on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadProgram {
    /// fio with its engine for NBD: a connection for each job.
    Fio,
    /// nbdcopy, from a device to nowhere, or from a file: four connections.
    Nbdcopy,
    /// `qemu-img bench` on a disk by vhost-user: one queue, requests that are not neighbours.
    QemuImg,
}

impl LoadProgram {
    /// What it speaks to the server.
    pub(super) fn protocol(self) -> &'static str {
        match self {
            Self::Fio | Self::Nbdcopy => "nbd",
            Self::QemuImg => "vhost-user",
        }
    }
}

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NbdLoad {
    pub(super) client: LoadProgram,
    pub(super) rw: &'static str,
    pub(super) block_size: u64,
    pub(super) jobs: u32,
    pub(super) io_depth: u32,
}

const fn fio(rw: &'static str, block_size: u64, io_depth: u32) -> NbdLoad {
    NbdLoad { client: LoadProgram::Fio, rw, block_size, jobs: 1, io_depth }
}

/// nbdcopy's defaults.
const fn nbdcopy(rw: &'static str) -> NbdLoad {
    NbdLoad { client: LoadProgram::Nbdcopy, rw, block_size: 256 << 10, jobs: 4, io_depth: 16 }
}

const fn qemu_img(rw: &'static str, block_size: u64, io_depth: u32) -> NbdLoad {
    NbdLoad { client: LoadProgram::QemuImg, rw, block_size, jobs: 1, io_depth }
}

/// What servers of a disk by vhost-user do, on an image.
pub(super) const ON_DISK: [NbdLoad; 5] = [
    qemu_img("read", 4 << 10, 1),
    qemu_img("read", 4 << 10, 32),
    qemu_img("write", 4 << 10, 32),
    qemu_img("read", 64 << 10, 16),
    qemu_img("write", 64 << 10, 16),
];

/// What servers of memory do.
pub(super) const ON_MEMORY: [NbdLoad; 10] = [
    fio("randread", 4 << 10, 1),
    fio("randwrite", 4 << 10, 1),
    fio("randread", 4 << 10, 32),
    fio("randwrite", 4 << 10, 32),
    fio("randread", 64 << 10, 16),
    fio("randwrite", 64 << 10, 16),
    fio("read", 1 << 20, 8),
    fio("write", 1 << 20, 8),
    nbdcopy("read"),
    nbdcopy("write"),
];

/// What servers of an image do.
pub(super) const ON_IMAGE: [NbdLoad; 8] = [
    fio("randread", 4 << 10, 1),
    fio("randread", 4 << 10, 32),
    fio("randwrite", 4 << 10, 32),
    fio("randread", 64 << 10, 16),
    fio("randwrite", 64 << 10, 16),
    fio("read", 1 << 20, 8),
    NbdLoad { jobs: 2, ..fio("randread", 4 << 10, 32) },
    NbdLoad { jobs: 2, ..fio("randwrite", 4 << 10, 32) },
];

impl std::fmt::Display for NbdLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { client, rw, block_size, jobs, io_depth } = self;
        let size = short_size(*block_size);
        match client {
            LoadProgram::Nbdcopy => write!(f, "nbdcopy, {rw}"),
            LoadProgram::QemuImg => write!(f, "{size} {rw}, depth {io_depth}, vhost-user"),
            LoadProgram::Fio if *jobs > 1 => write!(f, "{size} {rw}, depth {io_depth}, {jobs} clients"),
            LoadProgram::Fio => write!(f, "{size} {rw}, depth {io_depth}"),
        }
    }
}
