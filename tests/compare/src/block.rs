//! NBD server next to nbdkit, qemu-nbd and a bare server, on memory and on images; vhost-user server next to
//! qemu-storage-daemon.

use crate::clients::{Fio, IMAGE, onego_bench, qemu_img_bench, repeated};
use crate::rbd::{LIBRBD_CEPH, fill_image};
use crate::report::{self, CLIENT, IOPS, SERVER, ratio};
use crate::row::{FLOOR, Load, Row};
use crate::{Session, build, in_turn};
use anyhow::Result;
use onego_sandbox::{Daemon, RealCeph, Release, Sandbox, Server, Store};
use std::path::{Path, PathBuf};
use std::time::Duration;

const OURS: &str = "onego";
const OURS_IMAGE: &str = "onego, image";
const TWO_REACTORS: &str = "onego, image, two reactors";
const OURS_DISK: &str = "onego, vhost-user";
const NBDKIT: &str = "nbdkit";
const QEMU: &str = "qemu-nbd";
const QEMU_LIBRBD: &str = "qemu-nbd through librbd";
const QEMU_CEPH: &str = "qemu-nbd, Ceph memstore OSD";
const QEMU_DISK: &str = "qemu-storage-daemon";
/// The hop from an NBD client to a server, next to servers of images.
const BARE: &str = "bare server, memory";
const DIRECT: &str = "onego, image without NBD";

/// Bytes of every device, all written before anything is measured.
const SIZE: u64 = 256 << 20;

/// A file of that size in memory: /tmp of a private root is a tmpfs.
const FILE: &str = "/tmp/disk.raw";

/// Time a server gets to create its socket.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that puts a load on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    /// fio's NBD engine: a connection a job.
    Fio,
    /// nbdcopy with its defaults: four connections.
    Nbdcopy,
    /// `qemu-img bench` on a vhost-user disk: one queue.
    QemuImg,
}

const fn fio(rw: &'static str, block_size: u64, io_depth: u32) -> (Client, Load) {
    (Client::Fio, Load::new(rw, block_size, io_depth))
}

const fn nbdcopy(rw: &'static str) -> (Client, Load) {
    (Client::Nbdcopy, Load::new(rw, 256 << 10, 16).jobs(4))
}

const fn qemu_img(rw: &'static str, block_size: u64, io_depth: u32) -> (Client, Load) {
    (Client::QemuImg, Load::new(rw, block_size, io_depth))
}

const ON_MEMORY: [(Client, Load); 10] = [
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

const ON_IMAGE: [(Client, Load); 8] = [
    fio("randread", 4 << 10, 1),
    fio("randread", 4 << 10, 32),
    fio("randwrite", 4 << 10, 32),
    fio("randread", 64 << 10, 16),
    fio("randwrite", 64 << 10, 16),
    fio("read", 1 << 20, 8),
    (Client::Fio, Load::new("randread", 4 << 10, 32).jobs(2)),
    (Client::Fio, Load::new("randwrite", 4 << 10, 32).jobs(2)),
];

const ON_DISK: [(Client, Load); 5] = [
    qemu_img("read", 4 << 10, 1),
    qemu_img("read", 4 << 10, 32),
    qemu_img("write", 4 << 10, 32),
    qemu_img("read", 64 << 10, 16),
    qemu_img("write", 64 << 10, 16),
];

pub(crate) fn compare(session: &Session) -> Result<Vec<Row>> {
    let peers = !session.options.no_peers;
    let bare = "--release --package onego-export --example nbd_bare";
    let bare = peers.then(|| build(bare, "release/examples/nbd_bare")).transpose()?;
    let memory = on_memory(session, bare.as_deref())?;
    let image = on_image(session, bare.as_deref())?;
    let disk = on_disk(session)?;
    print("memory", &memory, OURS);
    print("an image of the embedded cluster", &image, OURS_IMAGE);
    print("an image of the embedded cluster, by vhost-user", &disk, OURS_DISK);
    Ok([memory, image, disk].concat())
}

/// A server on a Unix socket.
struct Export<'a> {
    who: String,
    sandbox: &'a Sandbox,
    socket: PathBuf,
    daemon: Daemon,
    /// Device that rows name.
    device: &'static str,
}

impl<'a> Export<'a> {
    /// Starts a line in which `SOCKET` stands for the socket's path. A program with a path is ours.
    fn start(sandbox: &'a Sandbox, who: &str, device: &'static str, line: &str) -> Result<Self> {
        let name = who.replace([' ', ',', '(', ')'], "-");
        let socket = sandbox.path(format!("{name}.sock"));
        let line = line.replace("SOCKET", &socket.to_string_lossy());
        let command = match line.split_once(' ') {
            Some((program, arguments)) if program.contains('/') => sandbox.host_command(program, arguments),
            _ => sandbox.ceph_daemon(&line),
        };
        let mut daemon = Daemon::spawn(who, command, &sandbox.path(format!("{name}.out")))?;
        daemon.wait_until("socket", PATIENCE, || socket.exists())?;
        Ok(Self { who: who.to_owned(), sandbox, socket, daemon, device })
    }

    /// Starts this line of `onego` in all builds, the newest first.
    fn ours(
        session: &Session,
        sandbox: &'a Sandbox,
        who: &str,
        device: &'static str,
        line: &str,
    ) -> Result<Vec<Self>> {
        let start = |(who, program): (String, PathBuf)| {
            Self::start(sandbox, &who, device, &format!("{} {line}", program.display()))
        };
        session.builds(who)?.into_iter().map(start).collect()
    }

    /// Starts the bare server.
    fn bare(sandbox: &'a Sandbox, who: &str, device: &'static str, program: &Path) -> Result<Self> {
        Self::start(sandbox, who, device, &format!("{} SOCKET {}", program.display(), SIZE >> 20))
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    fn fio(&self) -> Fio<'a> {
        Fio::nbd(self.sandbox, &self.uri(), SIZE)
    }

    /// Returns the options of `qemu-img` for a vhost-user disk.
    fn disk(&self) -> String {
        let socket = self.socket.display();
        format!("--image-opts driver=virtio-blk-vhost-user,path={socket},cache.direct=on")
    }

    fn measure(&self, (client, load): &(Client, Load), seconds: u32) -> Result<Row> {
        let protocol = if *client == Client::QemuImg { "vhost-user" } else { "nbd" };
        let row = Row { device: Some(self.device), ..load.row(&self.who, "block", protocol, &self.who) };
        let (line, ios) = match client {
            Client::Fio => return self.fio().measure(row, load, seconds, || self.daemon.cpu_seconds()),
            // Without `--no-extents`, nothing is read where a device reports zeros.
            Client::Nbdcopy if load.rw == "read" => {
                (format!("nbdcopy --no-extents {} null:", self.uri()), SIZE / load.block_size)
            }
            Client::Nbdcopy => {
                let line = format!("nbdcopy --no-extents --sparse=0 {FILE} {}", self.uri());
                (line, SIZE / load.block_size)
            }
            Client::QemuImg => qemu_img_bench(load, &self.disk()),
        };
        repeated(self.sandbox, row, &line, ios, seconds, || self.daemon.cpu_seconds())
    }
}

/// Measures one load on these servers, which take turns at being first.
fn measure_all(
    servers: &[&Export<'_>],
    round: usize,
    load: &(Client, Load),
    seconds: u32,
) -> Result<Vec<Row>> {
    in_turn(servers, round).map(|server| server.measure(load, seconds)).collect()
}

fn title((client, load): &(Client, Load)) -> String {
    match client {
        Client::Fio => load.to_string(),
        Client::Nbdcopy => format!("nbdcopy, {}", load.rw),
        Client::QemuImg => format!("{load}, vhost-user"),
    }
}

fn on_memory(session: &Session, bare: Option<&Path>) -> Result<Vec<Row>> {
    // nbdkit is in the same root as this release.
    let sandbox = &session.sandbox("memory", Release::Pacific)?;
    sandbox.ceph(&format!("truncate --size={SIZE} {FILE}"))?;
    let line = format!("export nbd mem:{SIZE} --socket SOCKET");
    let mut servers = Export::ours(session, sandbox, OURS, "memory", &line)?;
    if let Some(bare) = bare {
        let start = |who, line: &str| Export::start(sandbox, who, "memory", line);
        servers.push(start(NBDKIT, &format!("nbdkit -f -U SOCKET memory {SIZE}"))?);
        servers.push(Export::bare(sandbox, FLOOR, "memory", bare)?);
        servers.push(start(QEMU, &format!("qemu-nbd -t -e 8 -f raw -k SOCKET {FILE}"))?);
    }
    servers.iter().try_for_each(|server| server.fio().fill())?;
    let servers: Vec<_> = servers.iter().collect();
    let seconds = session.options.seconds;
    session.rounds(&ON_MEMORY, title, |round, load| measure_all(&servers, round, load, seconds))
}

fn on_image(session: &Session, bare: Option<&Path>) -> Result<Vec<Row>> {
    let [sandbox, with_ceph] = ["image", "ceph"].map(|name| session.sandbox(name, Release::Pacific));
    let (sandbox, with_ceph) = (&sandbox?, &with_ceph?);
    let ceph = bare.map(|_| OnCeph::start(with_ceph)).transpose()?;
    // `bench rbd` adds a second image, and objects may occupy up to twice their size.
    let _cluster = Server::cluster(sandbox, &format!("--memory {}", 6 * SIZE))?;
    sandbox.ceph(&format!("rbd create --size {SIZE}B --image-feature layering rbd/disk"))?;
    let line = "-c ceph.conf export nbd rbd:disk --socket SOCKET --reactors";
    let mut servers = Export::ours(session, sandbox, OURS_IMAGE, "rbd", &format!("{line} 1"))?;
    servers[0].fio().fill()?;
    if let Some(bare) = bare {
        let start = |who, line: &str| Export::start(sandbox, who, "rbd", line);
        servers.push(start(TWO_REACTORS, &format!("{} {line} 2", session.onego.display()))?);
        servers.push(start(QEMU_LIBRBD, &qemu_nbd("disk"))?);
        servers.push(Export::bare(sandbox, BARE, "rbd", bare)?);
        servers[servers.len() - 1].fio().fill()?;
    }
    let seconds = session.options.seconds;
    session.rounds(&ON_IMAGE, title, |round, which| {
        let (_, load) = which;
        // A client's connection is served by one reactor.
        let servers: Vec<_> =
            servers.iter().filter(|server| load.jobs > 1 || server.who != TWO_REACTORS).collect();
        let mut rows = measure_all(&servers, round, which, seconds)?;
        if let Some(ceph) = ceph.as_ref().filter(|_| load.jobs == 1) {
            rows.extend(ceph.measure(which, seconds)?);
            let time = format!("--size {SIZE} --seconds {seconds}");
            let line = format!("bench rbd --cluster ceph.conf {} {time}", load.options());
            rows.extend(onego_bench(sandbox, DIRECT, &line)?);
        }
        Ok(rows.into_iter().map(|row| Row { device: Some("rbd"), ..row }).collect())
    })
}

/// Returns a line of qemu-nbd for an image in the pool `rbd`.
fn qemu_nbd(image: &str) -> String {
    format!("qemu-nbd -t -e 8 -f raw -k SOCKET rbd:rbd/{image}:conf=ceph.conf:id=admin")
}

/// librbd with Ceph's OSD, by qemu-nbd and without NBD.
struct OnCeph<'a> {
    sandbox: &'a Sandbox,
    // Dropped before the cluster, without which it would not end.
    server: Export<'a>,
    ceph: RealCeph<'a>,
}

impl<'a> OnCeph<'a> {
    fn start(sandbox: &'a Sandbox) -> Result<Self> {
        let ceph = RealCeph::start(sandbox, Store::Memory)?;
        fill_image(sandbox, IMAGE, "--image-feature layering")?;
        let server = Export::start(sandbox, QEMU_CEPH, "rbd", &qemu_nbd(IMAGE))?;
        Ok(Self { sandbox, server, ceph })
    }

    /// Measures a load on both. The first row's server is qemu-nbd, the second's is the OSD.
    fn measure(&self, which: &(Client, Load), seconds: u32) -> Result<[Row; 2]> {
        let row = which.1.row(LIBRBD_CEPH, "rbd", "fio librbd", "crc");
        let librbd = Fio::rbd(self.sandbox, IMAGE);
        Ok([
            self.server.measure(which, seconds)?,
            librbd.measure(row, &which.1, seconds, || self.ceph.osd_cpu_seconds())?,
        ])
    }
}

/// The client is QEMU of Debian 13: that of Debian 12 has no driver for vhost-user disks.
fn on_disk(session: &Session) -> Result<Vec<Row>> {
    let sandbox = &session.sandbox("disk", Release::Reef)?;
    let _cluster = Server::cluster(sandbox, &format!("--memory {}", 4 * SIZE))?;
    sandbox.onego(&format!("-c ceph.conf rbd create rbd/disk --size {}M", SIZE >> 20))?;
    let line = "-c ceph.conf export vhost-user rbd:disk --socket SOCKET";
    let mut servers = Export::ours(session, sandbox, OURS_DISK, "rbd", line)?;
    if !session.options.no_peers {
        let line = "qemu-storage-daemon \
            --blockdev driver=rbd,node-name=disk,pool=rbd,image=disk,conf=ceph.conf,user=admin --export \
            type=vhost-user-blk,id=disk,addr.type=unix,addr.path=SOCKET,node-name=disk,writable=on";
        servers.push(Export::start(sandbox, QEMU_DISK, "rbd", line)?);
    }
    let blocks = format!("-c {} -d 8 -s 1048576 --pattern=7", SIZE >> 20);
    sandbox.ceph(&format!("qemu-img bench -w {blocks} -t none {}", servers[0].disk()))?;
    let servers: Vec<_> = servers.iter().collect();
    let seconds = session.options.seconds;
    session.rounds(&ON_DISK, title, |round, load| measure_all(&servers, round, load, seconds))
}

/// Prints the tables of one device. `ours` is the name of the build under test.
fn print(device: &str, rows: &[Row], ours: &str) {
    println!("\n==== {device} ====");
    report::print(rows, |table| {
        let label = |peer| format!("operations, ours to {peer}");
        for peer in [NBDKIT, QEMU, QEMU_LIBRBD, QEMU_DISK] {
            table.ratios(&[
                (&label(peer), IOPS, ours, peer),
                ("operations a CPU second of the server, the same", SERVER, peer, ours),
            ]);
        }
        for peer in [QEMU_CEPH, LIBRBD_CEPH] {
            table.ratios(&[(&label(peer), IOPS, ours, peer)]);
        }
        let (our, direct) = (table.median(ours, SERVER), table.median(DIRECT, CLIENT));
        if direct.is_none() {
            table.ratios(&[("CPU of the server, ours to a bare one", SERVER, ours, FLOOR)]);
        }
        for (hop, name) in [(FLOOR, "a bare hop"), (BARE, "a bare NBD server")] {
            let both = direct.zip(table.median(hop, SERVER)).map(|(client, hop)| client + hop);
            ratio(&format!("CPU of the server, ours to {DIRECT} + {name}"), our, both);
        }
        table.ratios(&[("operations a CPU second, two reactors to one", SERVER, ours, TWO_REACTORS)]);
    });
}
