//! NBD server next to nbdkit, qemu-nbd and a bare server, on memory and on images; vhost-user server next to
//! qemu-storage-daemon.

use crate::clients::{Fio, IMAGE, onego_bench, qemu_img_bench, repeated};
use crate::rbd::{LIBRBD_CEPH, Mode, fill_image, librbd_row};
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
/// Moves bytes only: the hop from an NBD client to a server.
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

const ON_MEMORY: &str = "randread 4 1, randwrite 4 1, randread 4 32, randwrite 4 32, randread 64 16, randwrite 64 16, \
    read 1024 8, write 1024 8";
const COPIES: &str = "read 256 16, write 256 16";
const ON_IMAGE: &str =
    "randread 4 1, randread 4 32, randwrite 4 32, randread 64 16, randwrite 64 16, read 1024 8";
const BY_TWO_JOBS: &str = "randread 4 32, randwrite 4 32";
const ON_DISK: &str = "read 4 1, read 4 32, write 4 32, read 64 16, write 64 16";

pub(crate) fn compare(session: &Session) -> Result<Vec<Row>> {
    let peers = !session.options.no_peers;
    let bare = "--release --package onego-export --example nbd_bare";
    let bare = peers.then(|| build(bare, "release/examples/nbd_bare")).transpose()?;
    let on = |device, rows: Vec<Row>| {
        rows.into_iter().map(move |row| Row { device: Some(device), ..row }).collect()
    };
    let memory: Vec<Row> = on("memory", on_memory(session, bare.as_deref())?);
    let image: Vec<Row> = on("rbd", on_image(session, bare.as_deref())?);
    let disk: Vec<Row> = on("rbd", on_disk(session)?);
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
}

impl<'a> Export<'a> {
    /// Starts a line in which `SOCKET` stands for the socket's path. A program with a path is ours.
    fn start(sandbox: &'a Sandbox, who: &str, line: &str) -> Result<Self> {
        let name = who.replace([' ', ',', '(', ')'], "-");
        let socket = sandbox.path(format!("{name}.sock"));
        let line = line.replace("SOCKET", &socket.to_string_lossy());
        let command = match line.split_once(' ') {
            Some((program, arguments)) if program.contains('/') => sandbox.host_command(program, arguments),
            _ => sandbox.ceph_daemon(&line),
        };
        let mut daemon = Daemon::spawn(who, command, &sandbox.path(format!("{name}.out")))?;
        daemon.wait_until("socket", PATIENCE, || socket.exists())?;
        Ok(Self { who: who.to_owned(), sandbox, socket, daemon })
    }

    /// Starts this line of `onego` in all builds, the newest first.
    fn ours(session: &Session, sandbox: &'a Sandbox, who: &str, line: &str) -> Result<Vec<Self>> {
        let builds = session.builds(who)?.into_iter();
        builds
            .map(|(who, program)| Self::start(sandbox, &who, &format!("{} {line}", program.display())))
            .collect()
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

    fn measure(&self, client: Client, load: &Load) -> Result<Row> {
        let protocol = if client == Client::QemuImg { "vhost-user" } else { "nbd" };
        let row = load.row(&self.who, "block", protocol, &self.who);
        let server_cpu = || self.daemon.cpu_seconds();
        let (line, ios) = match client {
            Client::Fio => return self.fio().measure(row, load, server_cpu),
            Client::Nbdcopy => {
                let (uri, ios) = (self.uri(), SIZE / load.block_size);
                // Without `--no-extents`, nothing is read where a device reports zeros.
                match load.rw {
                    "read" => (format!("nbdcopy --no-extents {uri} null:"), ios),
                    _ => (format!("nbdcopy --no-extents --sparse=0 {FILE} {uri}"), ios),
                }
            }
            Client::QemuImg => qemu_img_bench(load, &self.disk()),
        };
        repeated(self.sandbox, row, load, (&line, ios), server_cpu)
    }
}

/// Measures loads on servers that take turns at being first.
fn measure(
    session: &Session,
    round: usize,
    client: Client,
    loads: &[Load],
    servers: &[Export<'_>],
) -> Result<Vec<Row>> {
    let prefix = match client {
        Client::Fio => "",
        Client::Nbdcopy => "nbdcopy, ",
        Client::QemuImg => "vhost-user, ",
    };
    session.measure(round, prefix, loads, |load| {
        // A client's connection is served by one reactor.
        let fits = |server: &&Export<'_>| load.jobs > 1 || server.who != TWO_REACTORS;
        let servers: Vec<_> = servers.iter().filter(fits).collect();
        in_turn(&servers, round).map(|server| server.measure(client, load)).collect()
    })
}

fn on_memory(session: &Session, bare: Option<&Path>) -> Result<Vec<Row>> {
    // nbdkit is in the same root as this release.
    let sandbox = &session.sandbox("memory", Release::Pacific)?;
    sandbox.ceph(&format!("truncate --size={SIZE} {FILE}"))?;
    let mut servers =
        Export::ours(session, sandbox, OURS, &format!("export nbd mem:{SIZE} --socket SOCKET"))?;
    if let Some(bare) = bare {
        let bare = format!("{} SOCKET {}", bare.display(), SIZE >> 20);
        servers.push(Export::start(sandbox, NBDKIT, &format!("nbdkit -f -U SOCKET memory {SIZE}"))?);
        servers.push(Export::start(sandbox, FLOOR, &bare)?);
        servers.push(Export::start(sandbox, QEMU, &format!("qemu-nbd -t -e 8 -f raw -k SOCKET {FILE}"))?);
    }
    servers.iter().try_for_each(|server| server.fio().fill())?;
    let copies: Vec<_> = session.loads(COPIES).into_iter().map(|load| Load { jobs: 4, ..load }).collect();
    session.rounds(|round| {
        let by_fio = measure(session, round, Client::Fio, &session.loads(ON_MEMORY), &servers)?;
        Ok([by_fio, measure(session, round, Client::Nbdcopy, &copies, &servers)?].concat())
    })
}

fn on_image(session: &Session, bare: Option<&Path>) -> Result<Vec<Row>> {
    let sandbox = &session.sandbox("image", Release::Pacific)?;
    let with_ceph = &session.sandbox("ceph", Release::Pacific)?;
    let ceph = bare.map(|_| start_ceph(with_ceph)).transpose()?;
    // `bench rbd` adds a second image, and objects may occupy up to twice their size.
    let _cluster = Server::cluster(sandbox, &format!("--memory {}", 6 * SIZE))?;
    sandbox.ceph(&format!("rbd create --size {SIZE}B --image-feature layering rbd/disk"))?;
    let line = "-c ceph.conf export nbd rbd:disk --socket SOCKET --reactors";
    let mut servers = Export::ours(session, sandbox, OURS_IMAGE, &format!("{line} 1"))?;
    servers[0].fio().fill()?;
    if let Some(bare) = bare {
        let two_reactors = format!("{} {line} 2", session.onego.display());
        servers.push(Export::start(sandbox, TWO_REACTORS, &two_reactors)?);
        servers.push(Export::start(sandbox, QEMU_LIBRBD, &qemu_nbd("disk"))?);
        let bare = Export::start(sandbox, BARE, &format!("{} SOCKET {}", bare.display(), SIZE >> 20))?;
        bare.fio().fill()?;
        servers.push(bare);
    }
    let by_two_jobs: Vec<_> =
        session.loads(BY_TWO_JOBS).into_iter().map(|load| Load { jobs: 2, ..load }).collect();
    session.rounds(|round| {
        let mut rows = Vec::new();
        for load in session.loads(ON_IMAGE) {
            rows.extend(measure(session, round, Client::Fio, &[load], &servers)?);
            let Some((served, ceph)) = &ceph else { continue };
            rows.extend(session.measure(round, "", &[load], |load| {
                let (librbd, row) = (Fio::rbd(with_ceph, IMAGE), librbd_row(LIBRBD_CEPH, load, Mode::Crc));
                let mut rows = vec![
                    served.measure(Client::Fio, load)?,
                    // The server of this row is the OSD.
                    librbd.measure(row, load, || ceph.osd_cpu_seconds())?,
                ];
                let line = format!("bench rbd --cluster ceph.conf {} --size {SIZE}", load.options());
                rows.extend(onego_bench(sandbox, DIRECT, &line)?);
                Ok(rows)
            })?);
        }
        rows.extend(measure(session, round, Client::Fio, &by_two_jobs, &servers)?);
        Ok(rows)
    })
}

/// Starts a Ceph cluster with an image, and qemu-nbd for it.
fn start_ceph(sandbox: &Sandbox) -> Result<(Export<'_>, RealCeph<'_>)> {
    let ceph = RealCeph::start(sandbox, Store::Memory)?;
    fill_image(sandbox, IMAGE, "--image-feature layering")?;
    Ok((Export::start(sandbox, QEMU_CEPH, &qemu_nbd(IMAGE))?, ceph))
}

/// Returns a line of qemu-nbd for an image in the pool `rbd`.
fn qemu_nbd(image: &str) -> String {
    format!("qemu-nbd -t -e 8 -f raw -k SOCKET rbd:rbd/{image}:conf=ceph.conf:id=admin")
}

/// The client is QEMU of Debian 13: that of Debian 12 has no driver for vhost-user disks.
fn on_disk(session: &Session) -> Result<Vec<Row>> {
    let sandbox = &session.sandbox("disk", Release::Reef)?;
    let _cluster = Server::cluster(sandbox, &format!("--memory {}", 4 * SIZE))?;
    sandbox.onego(&format!("-c ceph.conf rbd create rbd/disk --size {}M", SIZE >> 20))?;
    let line = "-c ceph.conf export vhost-user rbd:disk --socket SOCKET";
    let mut servers = Export::ours(session, sandbox, OURS_DISK, line)?;
    if !session.options.no_peers {
        let line = "qemu-storage-daemon \
            --blockdev driver=rbd,node-name=disk,pool=rbd,image=disk,conf=ceph.conf,user=admin --export \
            type=vhost-user-blk,id=disk,addr.type=unix,addr.path=SOCKET,node-name=disk,writable=on";
        servers.push(Export::start(sandbox, QEMU_DISK, line)?);
    }
    let blocks = format!("-c {} -d 8 -s 1048576 --pattern=7", SIZE >> 20);
    sandbox.ceph(&format!("qemu-img bench -w {blocks} -t none {}", servers[0].disk()))?;
    session.rounds(|round| measure(session, round, Client::QemuImg, &session.loads(ON_DISK), &servers))
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
