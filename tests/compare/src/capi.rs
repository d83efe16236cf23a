//! Programs built for librbd, with Onego's library and with Ceph's, on the embedded cluster.

use crate::clients::{Fio, IMAGE, IMAGE_MIB, qemu_img_bench, repeated};
use crate::rbd::{Mode, fill_image, librbd_row};
use crate::report::{self, CLIENT, IOPS, ratio};
use crate::row::{Load, Row, Sides};
use crate::{Session, build, embedded_cluster};
use anyhow::{Context as _, Result};
use onego_sandbox::{Boot, Disk, Release, Sandbox, VIRTIO_BLK, sh};
use std::fs;
use std::os::unix::fs::symlink;

const OURS: &str = "our library";
const LIBRBD: &str = "librbd";

/// Loads of fio, each with one job and with several.
const FIO: [Load; 10] = [
    Load::new("randread", 4 << 10, 1),
    Load::new("randwrite", 4 << 10, 1),
    Load::new("randread", 4 << 10, 32),
    Load::new("randwrite", 4 << 10, 32),
    Load::new("randread", 4 << 10, 128),
    Load::new("randwrite", 4 << 10, 128),
    Load::new("randread", 64 << 10, 16),
    Load::new("randwrite", 64 << 10, 16),
    Load::new("read", 1 << 20, 8),
    Load::new("write", 1 << 20, 8),
];
const JOBS: [u32; 2] = [1, 8];

/// Loads of `qemu-img bench`.
const QEMU_IMG: [Load; 5] = [
    Load::new("read", 4 << 10, 1),
    Load::new("read", 4 << 10, 32),
    Load::new("write", 4 << 10, 32),
    Load::new("read", 64 << 10, 16),
    Load::new("write", 64 << 10, 16),
];

/// Loads of fio in a guest.
const GUEST: [Load; 4] = [
    Load::new("randread", 4 << 10, 1),
    Load::new("randread", 4 << 10, 32),
    Load::new("randwrite", 4 << 10, 1),
    Load::new("randwrite", 4 << 10, 32),
];

/// Least seconds of a load in a guest, where starting fio takes tenths of one.
const GUEST_SECONDS: u32 = 5;

const NO_CONTENT: &str = "disk without content";

/// Disks of guests. QEMU finds no library in the second one's folder and loads Ceph's.
const DISKS: [(&str, Disk); 3] = [
    (OURS, Disk::Rbd { library: "lib", image: IMAGE }),
    (LIBRBD, Disk::Rbd { library: "none", image: IMAGE }),
    (NO_CONTENT, Disk::Null),
];

const LOAD: &str = include_str!("load.sh");
const HANDLES: &str = include_str!("handles.py");

/// Numbers of images that one process opens.
const IMAGES: [u32; 2] = [1, 100];

pub(crate) fn compare(session: &Session) -> Result<Vec<Row>> {
    let seconds = session.options.seconds;
    let sandbox = &session.sandbox("capi", Release::Pacific)?;
    install_library(sandbox)?;
    let mut cluster = embedded_cluster(sandbox, &format!("--memory {}M --auth none", 3 * IMAGE_MIB))?;
    fill_image(sandbox, IMAGE, "--image-feature layering")?;
    let prefix = format!("env LD_LIBRARY_PATH={} ", sandbox.path("lib").display());
    let libraries = [(OURS, prefix.as_str()), (LIBRBD, "")];
    let fio_loads: Vec<_> = JOBS.iter().flat_map(|jobs| FIO.map(|load| load.jobs(*jobs))).collect();
    let mut rows = Vec::new();
    for round in session.round_numbers() {
        let title = |load: &Load| format!("fio, {load}");
        rows.extend(session.round(round, &fio_loads, title, |_, load| {
            let measure = |(who, prefix)| {
                let fio = Fio::rbd(sandbox, IMAGE).with_prefix(prefix);
                let row = librbd_row(who, load, Mode::Crc);
                fio.measure(row, load, seconds, || cluster.daemon().cpu_seconds())
            };
            libraries.into_iter().map(measure).collect()
        })?);
        let title = |load: &Load| format!("qemu-img, {load}");
        rows.extend(session.round(round, &QEMU_IMG, title, |_, load| {
            let disk = format!("-f raw rbd:rbd/{IMAGE}:conf=ceph.conf:id=admin");
            let (line, ios) = qemu_img_bench(load, &disk);
            let measure = |(who, prefix)| {
                let row = load.row(who, "rbd", "qemu-img librbd", "crc");
                let line = format!("{prefix}{line}");
                repeated(sandbox, row, &line, ios, seconds, || cluster.daemon().cpu_seconds())
            };
            libraries.into_iter().map(measure).collect()
        })?);
        rows.extend(measure_guests(sandbox, seconds.max(GUEST_SECONDS))?);
    }
    report::print(&rows, |table| {
        let Some(no_content) = table.median(NO_CONTENT, CLIENT) else {
            return table.ratios(&[
                ("IOPS, our library to librbd", IOPS, OURS, LIBRBD),
                ("client CPU an I/O, the same", CLIENT, OURS, LIBRBD),
            ]);
        };
        table.ratios(&[
            ("IOPS, our library to librbd", IOPS, OURS, LIBRBD),
            ("QEMU's CPU an I/O, the same", CLIENT, OURS, LIBRBD),
        ]);
        let [ours, librbd] = [OURS, LIBRBD].map(|who| Some(table.median(who, CLIENT)? - no_content));
        ratio("the same beyond a disk without content", ours, librbd);
    });
    print_handles(sandbox, libraries)?;
    Ok(rows)
}

/// Builds the C library and copies it to `lib` in the sandbox, with the names that programs load.
fn install_library(sandbox: &Sandbox) -> Result<()> {
    let library = build("--profile capi --package onego-capi", "capi/libonego_capi.so")?;
    let folder = sandbox.path("lib");
    fs::create_dir(&folder)?;
    fs::copy(&library, folder.join("librados.so.2"))?;
    symlink("librados.so.2", folder.join("librbd.so.1"))?;
    Ok(())
}

/// Measures loads in guests whose disk is an image: the CPU time of the whole machine for each request.
///
/// The guest's own work is most of it, and a disk without content shows how much.
fn measure_guests(sandbox: &Sandbox, seconds: u32) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (who, disk) in DISKS {
        sh::step(&format!("guest, {who}"));
        let name = |load: &Load| format!("{}-{}", load.rw, load.io_depth);
        let mut boot = Boot::new(sandbox, &VIRTIO_BLK)?.programs(&["fio"]).disk(disk, 1);
        for load in &GUEST {
            let script = format!("{LOAD}\nload {} {} {seconds}\n", load.rw, load.io_depth);
            boot = boot.check(&name(load), &script);
        }
        let mut guest = boot.start("guest").with_context(|| format!("guest, {who}"))?;
        for load in &GUEST {
            let before = guest.cpu_seconds()?;
            let said = guest.check(&name(load)).with_context(|| format!("guest, {who}"))?;
            let client = guest.cpu_seconds()? - before;
            let ios = said.lines().find_map(|line| line.strip_prefix("ios: "));
            let ios = ios.context("the guest printed no number of requests")?.parse()?;
            let row = load.row(who, "rbd", "guest librbd", "crc");
            let row = row.counted(seconds.into(), ios, Sides { client: Some(client), server: None });
            rows.push(Row { table: format!("guest, {load}"), ..row });
        }
        guest.power_off()?;
    }
    Ok(rows)
}

/// Prints threads and memory of a process that has images open.
fn print_handles(sandbox: &Sandbox, libraries: [(&str, &str); 2]) -> Result<()> {
    sandbox.write("handles.py", HANDLES)?;
    sandbox.ceph(&format!("python3 handles.py make {}", IMAGES[1]))?;
    println!("\n{:34}{:>10}{:>12}", "open images, a handle each", "threads", "memory MiB");
    for (who, prefix) in libraries {
        for count in IMAGES {
            let said = sandbox.ceph(&format!("{prefix}python3 handles.py open {count}"))?;
            let (threads, kib) = said.trim().split_once(' ').context("handles.py prints two numbers")?;
            let mib = kib.parse::<f64>()? / 1024.0;
            println!("{:34}{threads:>10}{mib:>12.1}", format!("{who}, {count}"));
        }
    }
    Ok(())
}
