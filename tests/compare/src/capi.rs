//! Programs built for librbd, with Onego's library and with Ceph's, on the embedded cluster.

use crate::clients::{Fio, IMAGE, IMAGE_MIB, qemu_img_bench, repeated};
use crate::rbd::{Mode, fill_image, librbd_row};
use crate::report::{self, CLIENT, IOPS, ratio};
use crate::row::{Load, Row, Sides};
use crate::{Session, build, embedded_cluster};
use anyhow::{Context as _, Result};
use onego_sandbox::{Boot, Disk, Guest, Release, Sandbox, VIRTIO_BLK};
use std::fs;
use std::os::unix::fs::symlink;

const OURS: &str = "our library";
const LIBRBD: &str = "librbd";

/// Loads of fio, each with one job and with several.
const FIO: &str = "randread 4 1, randwrite 4 1, randread 4 32, randwrite 4 32, randread 4 128, randwrite 4 128, \
    randread 64 16, randwrite 64 16, read 1024 8, write 1024 8";

/// Loads of `qemu-img bench`, and of fio in a guest.
const QEMU_IMG: &str = "read 4 1, read 4 32, write 4 32, read 64 16, write 64 16";
const GUEST: &str = "randread 4 1, randread 4 32, randwrite 4 1, randwrite 4 32";

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
    let sandbox = &session.sandbox("capi", Release::Pacific)?;
    install_library(sandbox)?;
    let mut cluster = embedded_cluster(sandbox, &format!("--memory {}M --auth none", 3 * IMAGE_MIB))?;
    fill_image(sandbox, IMAGE, "--image-feature layering")?;
    let prefix = format!("env LD_LIBRARY_PATH={} ", sandbox.path("lib").display());
    let libraries = [(OURS, prefix.as_str()), (LIBRBD, "")];
    let of_jobs = |jobs| session.loads(FIO).into_iter().map(move |load| Load { jobs, ..load });
    let fio_loads: Vec<_> = [1, 8].into_iter().flat_map(of_jobs).collect();
    let rows = session.rounds(|round| {
        let by_fio = session.measure(round, "fio, ", &fio_loads, |load| {
            let measure = |(who, prefix)| {
                let fio = Fio { prefix, ..Fio::rbd(sandbox, IMAGE) };
                let row = librbd_row(who, load, Mode::Crc);
                fio.measure(row, load, || cluster.daemon().cpu_seconds())
            };
            libraries.into_iter().map(measure).collect()
        })?;
        let by_qemu_img = session.measure(round, "qemu-img, ", &session.loads(QEMU_IMG), |load| {
            let disk = format!("-f raw rbd:rbd/{IMAGE}:conf=ceph.conf:id=admin");
            let (line, ios) = qemu_img_bench(load, &disk);
            let measure = |(who, prefix)| {
                let row = load.row(who, "rbd", "qemu-img librbd", "crc");
                let line = format!("{prefix}{line}");
                repeated(sandbox, row, load, (&line, ios), || cluster.daemon().cpu_seconds())
            };
            libraries.into_iter().map(measure).collect()
        })?;
        let guest_loads = Load::list(GUEST, session.options.seconds.max(GUEST_SECONDS));
        let mut guests = start_guests(sandbox, &guest_loads)?;
        let in_guests = session.measure(round, "guest, ", &guest_loads, |load| {
            guests.iter_mut().map(|(who, guest)| measure_in(guest, who, load)).collect()
        })?;
        guests.into_iter().try_for_each(|(_, guest)| guest.power_off())?;
        Ok([by_fio, by_qemu_img, in_guests].concat())
    })?;
    report::print(&rows, |table| {
        table.ratios(&[
            ("IOPS, our library to librbd", IOPS, OURS, LIBRBD),
            ("client CPU an I/O, the same", CLIENT, OURS, LIBRBD),
        ]);
        let beyond = |who| Some(table.median(who, CLIENT)? - table.median(NO_CONTENT, CLIENT)?);
        ratio("the same beyond a disk without content", beyond(OURS), beyond(LIBRBD));
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

/// Boots guests with each of the disks.
fn start_guests(sandbox: &Sandbox, loads: &[Load]) -> Result<Vec<(&'static str, Guest)>> {
    let start = |(at, (who, disk))| {
        let mut boot = Boot::new(sandbox, &VIRTIO_BLK)?.programs(&["fio"]).disk(disk, 1);
        for load in loads {
            let script = format!("{LOAD}\nload {} {} {}\n", load.rw, load.io_depth, load.seconds);
            boot = boot.check(&check_name(load), &script);
        }
        let guest = boot.start(&format!("guest-{at}"));
        Ok((who, guest.with_context(|| format!("guest with {who}"))?))
    };
    DISKS.into_iter().enumerate().map(start).collect()
}

fn check_name(load: &Load) -> String {
    format!("{}-{}", load.rw, load.io_depth)
}

/// Measures a load in a guest: the client's CPU time is that of the whole machine.
///
/// The guest's own work is most of it, and a disk without content shows how much.
fn measure_in(guest: &mut Guest, who: &str, load: &Load) -> Result<Row> {
    let before = guest.cpu_seconds()?;
    let said = guest.check(&check_name(load)).with_context(|| format!("guest with {who}"))?;
    let cpu = Sides { client: Some(guest.cpu_seconds()? - before), server: None };
    let ios = said.lines().find_map(|line| line.strip_prefix("ios: "));
    let ios = ios.context("the guest printed no number of requests")?.parse()?;
    Ok(load.row(who, "rbd", "guest librbd", "crc").counted(load.seconds.into(), ios, cpu))
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
