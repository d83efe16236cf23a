//! Servers of NBD and of vhost-user on a stage, and loads on them.

use super::super::fio;
use super::super::repeated::repeated;
use super::super::row::{Row, Sides};
use super::load::{LoadProgram, NbdLoad};
use crate::cluster::Stage;
use crate::cluster::process::Daemon;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of every device, which are written before anything is measured.
pub(super) const SIZE: u64 = 256 << 20;

/// A file system in memory on the stage, and in it a file of as many bytes as the devices have.
pub(super) const TMPFS: &str = "memory";
pub(super) const FILE: &str = "memory/disk.raw";

/// How long a server may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server, on a Unix socket.
pub(super) struct NbdServer<'a> {
    pub(super) who: String,
    stage: &'a Stage,
    socket: PathBuf,
    daemon: Daemon,
}

impl<'a> NbdServer<'a> {
    /// Starts a program of the host with a line in which `SOCKET` stands for the socket's path.
    pub(super) fn start(stage: &'a Stage, who: &str, program: &Path, line: &str) -> Result<Self> {
        let name = who.replace([' ', ',', '(', ')'], "-");
        let socket = stage.path(&format!("{name}.sock"));
        let command = stage.program(program, &line.replace("SOCKET", &socket.to_string_lossy()));
        let mut daemon = Daemon::spawn(who, command, &stage.path(&format!("{name}.out")))?;
        daemon.wait_until("its socket", PATIENCE, || socket.exists())?;
        Ok(Self { who: who.to_owned(), stage, socket, daemon })
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    /// Writes all of the device: reads of what was never written are cheap and tell nothing.
    pub(super) fn fill(&self) -> Result<()> {
        let uri = self.uri();
        let line =
            format!("--name=fill --ioengine=nbd --uri={uri} --rw=write --bs=1m --iodepth=8 --size={SIZE}");
        fio::run(self.stage, &line).map(drop)
    }

    /// Puts a load on it.
    pub(super) fn measure(&self, load: &NbdLoad, seconds: u32) -> Result<Row> {
        let what = Row {
            bench: "block".into(),
            engine: load.client.protocol().into(),
            mode: self.who.clone(),
            rw: load.rw.into(),
            block_size: load.block_size,
            jobs: load.jobs,
            io_depth: load.io_depth,
            ..Row::default()
        };
        match load.client {
            LoadProgram::Fio => self.fio(what, load, seconds),
            LoadProgram::Nbdcopy => self.nbdcopy(what, load, seconds),
            LoadProgram::QemuImg => self.qemu_img(what, load, seconds),
        }
    }

    fn fio(&self, what: Row, load: &NbdLoad, seconds: u32) -> Result<Row> {
        let before = self.daemon.cpu_seconds()?;
        let line = format!(
            "--name=load --ioengine=nbd --uri={} --rw={} --bs={} --iodepth={} --numjobs={} --group_reporting \
             --size={SIZE} --time_based --runtime={seconds} --norandommap --randrepeat=0",
            self.uri(),
            load.rw,
            load.block_size,
            load.io_depth,
            load.jobs
        );
        let (report, client) = fio::run(self.stage, &line)?;
        let cpu = Sides { client: Some(client), server: Some(self.daemon.cpu_seconds()? - before) };
        fio::filled_in(what, &report, cpu)
    }

    /// Copies until the time is over.
    fn nbdcopy(&self, what: Row, load: &NbdLoad, seconds: u32) -> Result<Row> {
        let uri = self.uri();
        let line = match load.rw {
            // Without extents, or nothing would be read where a device says that it holds zeros.
            "read" => format!("nbdcopy --no-extents {uri} null:"),
            _ => format!("nbdcopy --no-extents --sparse=0 {FILE} {uri}"),
        };
        self.repeated(what, &line, SIZE / load.block_size, seconds)
    }

    /// Reads or writes blocks that are not neighbours, over and over.
    fn qemu_img(&self, what: Row, load: &NbdLoad, seconds: u32) -> Result<Row> {
        let NbdLoad { rw, block_size, io_depth, .. } = load;
        // A few tenths of a second: to start the program takes hundredths.
        let ios = if *io_depth == 1 { 10_000 } else { (1 << 30) / block_size.max(&(32 << 10)) };
        let step = (1 << 20) + block_size;
        let line = self.bench(*rw == "write", ios, &format!("-d {io_depth} -s {block_size} -S {step}"));
        self.repeated(what, &line, ios, seconds)
    }

    fn repeated(&self, what: Row, line: &str, ios_of_one: u64, seconds: u32) -> Result<Row> {
        repeated(self.stage, what, line, ios_of_one, seconds, || self.daemon.cpu_seconds())
    }

    /// Writes all of a disk by vhost-user.
    pub(super) fn fill_disk(&self) -> Result<()> {
        let line = self.bench(true, SIZE >> 20, "-d 8 -s 1048576 --pattern=7");
        self.stage.ceph(&line).map(drop)
    }

    fn bench(&self, writes: bool, ios: u64, how: &str) -> String {
        let (write, socket) = (if writes { "-w " } else { "" }, self.socket.display());
        let disk = format!("driver=virtio-blk-vhost-user,path={socket},cache.direct=on");
        format!("qemu-img bench {write}-c {ios} {how} -t none --image-opts {disk}")
    }
}
