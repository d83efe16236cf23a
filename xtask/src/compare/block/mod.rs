//! Our server of NBD beside nbdkit, qemu-nbd and a bare one, on memory and on an image, and our server of a disk by vhost-user beside
//! qemu-storage-daemon.

mod direct;
mod load;
mod on_ceph;
mod report;
mod server;
mod subject;

use super::builds::in_turn;
use super::options::Options;
use super::subject::{BASELINE, FLOOR};
use crate::cluster::{Embedded, Home, Install, Release, Stage};
use crate::sh;
use anyhow::{Context as _, Result};
use load::{NbdLoad, ON_DISK, ON_IMAGE, ON_MEMORY};
use on_ceph::OnCeph;
use server::{FILE, NbdServer, SIZE, TMPFS};
use std::path::{Path, PathBuf};
pub(super) use subject::TakenNbd;
use subject::{
    BARE, DIRECT, NBDKIT, OURS, OURS_DISK, OURS_IMAGE, QEMU, QEMU_DISK, QEMU_LIBRBD, TWO_REACTORS,
};

/// Measures every load on every server, and on a `bare` one, server by server and round by round: the machine may be twice as fast a minute later.
pub(super) fn compare(
    options: &Options,
    home: &Home,
    onego: &Path,
    bare: Option<&Path>,
) -> Result<Vec<TakenNbd>> {
    let install = Install::find(Release::Pacific, home)?;
    let stage = |name: &str| Stage::new(home, name, &install, onego);
    let [stage, ceph] = [stage("compare-block")?, stage("compare-block-ceph")?];
    let builds = builds(options, onego)?;
    let memory = on_memory(options, &stage, &builds, bare)?;
    let image = on_image(options, &stage, &ceph, &builds, bare)?;
    [stage, ceph].into_iter().try_for_each(Stage::clear)?;
    let disk = on_disk(options, home, onego, &builds)?;
    report::print("memory", &memory, &ON_MEMORY, OURS);
    report::print("an image of the embedded cluster", &image, &ON_IMAGE, OURS_IMAGE);
    report::print("an image of the embedded cluster, by vhost-user", &disk, &ON_DISK, OURS_DISK);
    Ok(memory.into_iter().chain(image).chain(disk).collect())
}

/// This program and the earlier ones, with what follows our server's name.
fn builds(options: &Options, onego: &Path) -> Result<Vec<(Option<String>, PathBuf)>> {
    let earlier = options.baseline.iter().map(|program| {
        let program = program.canonicalize().with_context(|| format!("no program {}", program.display()))?;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        Ok((Some(format!("{BASELINE} {name}")), program))
    });
    std::iter::once(Ok((None, onego.to_owned()))).chain(earlier).collect()
}

/// Our servers, the newest first; `line` is what follows `onego`.
fn ours<'a>(
    stage: &'a Stage,
    builds: &[(Option<String>, PathBuf)],
    who: &str,
    line: &str,
) -> Result<Vec<NbdServer<'a>>> {
    let start = |(name, program): &(Option<String>, PathBuf)| {
        NbdServer::start(stage, name.as_deref().unwrap_or(who), program, line)
    };
    builds.iter().map(start).collect()
}

fn on_memory(
    options: &Options,
    stage: &Stage,
    builds: &[(Option<String>, PathBuf)],
    bare: Option<&Path>,
) -> Result<Vec<TakenNbd>> {
    stage.host(&format!("mkdir {TMPFS}"))?;
    stage.host(&format!("mount -t tmpfs tmpfs {TMPFS}"))?;
    stage.host(&format!("truncate --size={SIZE} {FILE}"))?;
    let mut servers = ours(stage, builds, OURS, &format!("export nbd mem:{SIZE} --socket SOCKET"))?;
    if !options.no_peers {
        let start = |who, program: &str, line: &str| NbdServer::start(stage, who, Path::new(program), line);
        servers.push(start(NBDKIT, "nbdkit", &format!("-f -U SOCKET memory {SIZE}"))?);
        if let Some(bare) = bare {
            servers.push(NbdServer::start(stage, FLOOR, bare, &format!("SOCKET {}", SIZE >> 20))?);
        }
        servers.push(start(QEMU, "qemu-nbd", &format!("-t -e 8 -f raw -k SOCKET {FILE}"))?);
    }
    servers.iter().try_for_each(NbdServer::fill)?;
    measure(options, &ON_MEMORY, |round, load| {
        let rows =
            in_turn(&servers, round).map(|server| TakenNbd::on(server, "memory", load, options.seconds));
        rows.collect()
    })
}

fn on_image(
    options: &Options,
    stage: &Stage,
    ceph: &Stage,
    builds: &[(Option<String>, PathBuf)],
    bare: Option<&Path>,
) -> Result<Vec<TakenNbd>> {
    let ceph = (!options.no_peers).then(|| OnCeph::start(ceph)).transpose()?;
    // Room for two images, both twice: objects are not as tight as their data.
    let _cluster = Embedded::start(stage, &format!("--memory {}", 6 * SIZE))?;
    stage.ceph(&format!("rbd create --size {SIZE}B --image-feature layering rbd/disk"))?;
    let export = "-c ceph.conf export nbd rbd:disk --socket SOCKET --reactors";
    let mut servers = ours(stage, builds, OURS_IMAGE, &format!("{export} 1"))?;
    if !options.no_peers {
        let line = format!("{export} 2");
        servers.push(NbdServer::start(stage, TWO_REACTORS, &builds[0].1, &line)?);
        let line = "-t -e 8 -f raw -k SOCKET rbd:rbd/disk:conf=ceph.conf:id=admin";
        servers.push(NbdServer::start(stage, QEMU_LIBRBD, Path::new("qemu-nbd"), line)?);
        if let Some(bare) = bare {
            let server = NbdServer::start(stage, BARE, bare, &format!("SOCKET {}", SIZE >> 20))?;
            server.fill()?;
            servers.push(server);
        }
    }
    servers[0].fill()?;
    // One client has one connection, which one reactor serves.
    let serves = |server: &NbdServer<'_>, load: &NbdLoad| load.jobs > 1 || server.who != TWO_REACTORS;
    measure(options, &ON_IMAGE, |round, load| {
        let servers: Vec<_> = servers.iter().filter(|server| serves(server, load)).collect();
        let rows = in_turn(&servers, round).map(|server| TakenNbd::on(server, "rbd", load, options.seconds));
        let mut rows = rows.collect::<Result<Vec<_>>>()?;
        if let Some(ceph) = ceph.as_ref().filter(|_| load.jobs == 1) {
            rows.extend(ceph.measure(load, options.seconds)?);
            for row in direct::measure(stage, load, options.seconds)? {
                let who = if row.is_floor() { FLOOR } else { DIRECT };
                rows.push(TakenNbd { who: who.to_owned(), device: "rbd", load: *load, row });
            }
        }
        Ok(rows)
    })
}

/// An image as a disk by vhost-user. The client is QEMU of Debian 13: that of Debian 12 has no driver for such disks.
fn on_disk(
    options: &Options,
    home: &Home,
    onego: &Path,
    builds: &[(Option<String>, PathBuf)],
) -> Result<Vec<TakenNbd>> {
    let stage = &Stage::new(home, "compare-disk", &Install::find(Release::Reef, home)?, onego)?;
    let cluster = Embedded::start(stage, &format!("--memory {}", 4 * SIZE))?;
    stage.onego(&format!("-c ceph.conf rbd create rbd/disk --size {}M", SIZE >> 20))?;
    let export = "-c ceph.conf export vhost-user rbd:disk --socket SOCKET";
    let mut servers = ours(stage, builds, OURS_DISK, export)?;
    if !options.no_peers {
        let line = "--blockdev driver=rbd,node-name=disk,pool=rbd,image=disk,conf=ceph.conf,user=admin --export \
                    type=vhost-user-blk,id=disk,addr.type=unix,addr.path=SOCKET,node-name=disk,writable=on";
        servers.push(NbdServer::start(stage, QEMU_DISK, Path::new("qemu-storage-daemon"), line)?);
    }
    servers[0].fill_disk()?;
    let rows = measure(options, &ON_DISK, |round, load| {
        let rows = in_turn(&servers, round).map(|server| TakenNbd::on(server, "rbd", load, options.seconds));
        rows.collect()
    })?;
    drop((servers, cluster));
    Ok(rows)
}

/// Measures the loads round by round.
fn measure(
    options: &Options,
    loads: &[NbdLoad],
    mut measure: impl FnMut(u32, &NbdLoad) -> Result<Vec<TakenNbd>>,
) -> Result<Vec<TakenNbd>> {
    let mut all = Vec::new();
    for round in 1..=options.repeat {
        for load in loads {
            sh::step(&format!("round {round} of {}: {load}", options.repeat));
            all.extend(measure(round, load)?);
        }
    }
    Ok(all)
}
