//! Disks of guests that are served on the stage, and guests whose root file system is on one.

use super::{Archive, Guest, MEMORY, Running, find, read};
use crate::cluster::Stage;
use crate::sh;
use anyhow::Result;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// The first program of a guest whose root file system is on its disk.
const ROOT_INIT: &str = include_str!("root.sh");

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
    /// What QEMU is told of it.
    fn arguments(self, queues: u16) -> String {
        match self {
            Self::VhostUser { socket } => format!(
                "-object memory-backend-memfd,id=memory,size={MEMORY}M,share=on -machine memory-backend=memory \
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

impl Guest {
    /// Starts a guest with a disk, by that many queues.
    pub(crate) fn start_with_disk(
        &self,
        stage: &Stage,
        script: &str,
        programs: &[&str],
        disk: ServedDisk,
        queues: u16,
    ) -> Result<Running> {
        let archive = self.file_system(stage, script, programs)?;
        self.start_archive(stage, &archive, disk, queues)
    }

    /// Makes an image of a root file system with a script and its programs, of that many bytes.
    pub(crate) fn make_root(
        &self,
        stage: &Stage,
        script: &str,
        programs: &[&str],
        image: &Path,
        size: u64,
    ) -> Result<()> {
        let tree = stage.path("root");
        self.files(stage, script, programs)?.write_tree(&tree)?;
        File::create_new(image)?.set_len(size)?;
        sh::text(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4", "-d"]).arg(&tree).arg(image))?;
        Ok(fs::remove_dir_all(&tree)?)
    }

    /// Starts a guest whose root file system is on its disk, which it reaches by that many queues.
    pub(crate) fn start_from_disk(&self, stage: &Stage, disk: ServedDisk, queues: u16) -> Result<Running> {
        let mut archive = Archive::default();
        ["dev", "mnt", "bin"].into_iter().for_each(|folder| archive.folder(folder));
        archive.program("init", ROOT_INIT.into());
        archive.program("bin/busybox", read(&find("busybox")?)?);
        self.add_modules(&mut archive)?;
        self.start_archive(stage, &archive, disk, queues)
    }

    fn start_archive(
        &self,
        stage: &Stage,
        archive: &Archive,
        disk: ServedDisk,
        queues: u16,
    ) -> Result<Running> {
        Self::spawn(stage, "guest", archive, |initial| {
            let mut command = self.qemu(stage, initial, &[]);
            command.args(disk.arguments(queues).split_whitespace());
            command
        })
    }
}
