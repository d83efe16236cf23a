//! Disks of guests that are served on the stage.

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
}

impl ServedDisk {
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
        }
    }
}
