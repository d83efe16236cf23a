//! Disks of guests that are served on the stage.

use crate::cluster::Stage;
use std::path::Path;
use std::process::Command;

/// The program that is a guest's machine.
pub(super) const QEMU: &str = "qemu-system-x86_64";

/// How a guest reaches its disk. Sockets are files on the stage.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServedDisk {
    /// By vhost-user: the server has the guest's memory.
    VhostUser {
        /// Where the server listens.
        socket: &'static str,
    },
    /// QEMU is a client of NBD, and has a disk of its own for the guest.
    Nbd {
        /// Where the server listens.
        socket: &'static str,
        /// The name of the export.
        export: &'static str,
    },
    /// Reads give anything, and writes go nowhere.
    Null,
    /// QEMU of the stage's Ceph is a client of the cluster there, by a library in that folder of the stage.
    Rbd {
        /// The folder with `librbd.so.1`.
        library: &'static str,
        /// The image in the pool `rbd`.
        image: &'static str,
    },
}

impl ServedDisk {
    /// The QEMU that has the disk.
    pub(super) fn qemu(self, stage: &Stage) -> Command {
        match self {
            Self::VhostUser { .. } | Self::Nbd { .. } | Self::Null => stage.program(Path::new(QEMU), ""),
            Self::Rbd { library, .. } => {
                let library = stage.path(library);
                stage.ceph_daemon(&format!("env LD_LIBRARY_PATH={} {QEMU}", library.display()))
            }
        }
    }

    /// What QEMU is told of it, for a guest with that many MiB of memory.
    pub(super) fn arguments(self, memory: u32, queues: u16) -> String {
        match self {
            Self::VhostUser { socket } => format!(
                "-object memory-backend-memfd,id=memory,size={memory}M,share=on -machine memory-backend=memory \
                 -chardev socket,id=disk,path={socket},reconnect=1 \
                 -device vhost-user-blk-pci,chardev=disk,num-queues={queues}"
            ),
            Self::Nbd { socket, export } => format!(
                "-blockdev driver=nbd,node-name=disk,server.type=unix,server.path={socket},export={export},\
                 discard=unmap,reconnect-delay=30 -device virtio-blk-pci,drive=disk,num-queues={queues}"
            ),
            Self::Null => format!(
                "-blockdev driver=null-co,node-name=disk,size=1073741824 -device virtio-blk-pci,drive=disk,num-queues={queues}"
            ),
            Self::Rbd { image, .. } => format!(
                "-blockdev driver=rbd,node-name=disk,pool=rbd,image={image},conf=ceph.conf,discard=unmap \
                 -device virtio-blk-pci,drive=disk,num-queues={queues}"
            ),
        }
    }
}
