//! Programs that were built for librbd, on Ceph's library and on ours, with the same cluster: ours.

mod guest;
mod libraries;

use super::fio;
use super::load::{IMAGE_MIB, Load};
use super::mode::Mode;
use super::options::Options;
use super::repeated::repeated;
use super::report::{Figures, ratio};
use super::row::{Row, Taken};
use crate::capi;
use crate::cluster::{Embedded, Home, Install, Release, Stage};
use crate::guest::{Guest, VIRTIO_BLK};
use crate::interop::ensure_pool;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use libraries::{LIBRBD, OURS};
use std::fs;
use std::path::Path;

/// Pattern, block size and depth of fio's loads, each with one job and with several.
const LOADS: [(&str, u64, u32); 10] = [
    ("randread", 4 << 10, 1),
    ("randwrite", 4 << 10, 1),
    ("randread", 4 << 10, 32),
    ("randwrite", 4 << 10, 32),
    ("randread", 4 << 10, 128),
    ("randwrite", 4 << 10, 128),
    ("randread", 64 << 10, 16),
    ("randwrite", 64 << 10, 16),
    ("read", 1 << 20, 8),
    ("write", 1 << 20, 8),
];
const JOBS: [u32; 2] = [1, 8];

/// The same of `qemu-img bench`.
const QEMU_LOADS: [(&str, u64, u32); 5] = [
    ("read", 4 << 10, 1),
    ("read", 4 << 10, 32),
    ("write", 4 << 10, 32),
    ("read", 64 << 10, 16),
    ("write", 64 << 10, 16),
];

/// What fio's rows name as its engine, and what those of `qemu-img` do.
const FIO: &str = "fio librbd";
const QEMU: &str = "qemu-img librbd";

/// Opens images, each by a handle of its own as a machine with as many disks would have them, and says what the process takes.
const HANDLES: &str = r#"
import sys, rados, rbd

def connected():
    cluster = rados.Rados(conffile='ceph.conf', rados_id='admin')
    cluster.connect()
    return cluster, cluster.open_ioctx('rbd')

what, count = sys.argv[1], int(sys.argv[2])
if what == 'make':
    _, ioctx = connected()
    for number in range(count):
        rbd.RBD().create(ioctx, f'disk{number}', 4 << 20, old_format=False, features=1)
    sys.exit()
images = []
for number in range(count):
    cluster, ioctx = connected()
    image = rbd.Image(ioctx, f'disk{number}')
    image.read(0, 4096)
    images.append((cluster, ioctx, image))
with open('/proc/self/status') as file:
    status = dict(line.split(':', 1) for line in file)
print(status['Threads'].strip(), status['VmRSS'].split()[0])
"#;

/// Images that are opened at once.
const IMAGES: [u32; 2] = [1, 100];

/// Measures all rows, and prints them with their ratios.
pub(super) fn compare(options: &Options, home: &Home, onego: &Path) -> Result<Vec<Taken>> {
    let stage = Stage::new(home, "compare-capi", &Install::find(Release::Pacific, home)?, onego)?;
    let workspace = Workspace::load()?;
    capi::install(&workspace, &capi::build(&workspace)?, &stage.path("onego"))?;
    let mut cluster = Embedded::start(&stage, &format!("--memory {}M --auth none", 3 * IMAGE_MIB))?;
    ensure_pool(&stage)?;
    fio::fill(&stage)?;
    let path = format!("env LD_LIBRARY_PATH={} ", stage.path("onego/lib").display());
    let libraries = [(OURS, path.as_str()), (LIBRBD, "")];
    let load =
        |jobs| move |(rw, block_size, io_depth)| Load { mode: Mode::Crc, rw, block_size, jobs, io_depth };
    let loads: Vec<_> = JOBS.iter().flat_map(|jobs| LOADS.map(load(*jobs))).collect();
    let machine = Guest::prepare(&stage, &VIRTIO_BLK)?;
    let mut taken = Vec::new();
    for round in 1..=options.repeat {
        for load in &loads {
            sh::step(&format!("round {round} of {}: {load}", options.repeat));
            for (who, library) in libraries {
                let (image, seconds) = (fio::IMAGE, options.seconds);
                let peer = fio::Peer { stage: &stage, who, prefix: library, image, seconds };
                taken.push(peer.measure(load, || cluster.server().cpu_seconds())?);
            }
        }
        for load in QEMU_LOADS.map(load(1)) {
            sh::step(&format!("round {round} of {}: qemu-img, {load}", options.repeat));
            for (who, library) in libraries {
                let server_cpu = || cluster.server().cpu_seconds();
                taken.push(qemu_img(&stage, who, library, &load, options.seconds, server_cpu)?);
            }
        }
        taken.extend(guest::measure(&stage, &machine, options.seconds)?);
    }
    for load in &loads {
        print(&taken, FIO, load);
    }
    for load in QEMU_LOADS.map(load(1)) {
        print(&taken, QEMU, &load);
    }
    guest::print(&taken);
    handles(&stage, &libraries)?;
    drop(cluster);
    stage.clear()?;
    Ok(taken)
}

/// Reads or writes blocks that are not neighbours, over and over.
fn qemu_img(
    stage: &Stage,
    who: &str,
    library: &str,
    load: &Load,
    seconds: u32,
    server_cpu: impl FnMut() -> Result<f64>,
) -> Result<Taken> {
    let Load { rw, block_size, io_depth, .. } = load;
    // Tenths of a second with our library: to start the program takes hundredths.
    let ios = if *io_depth == 1 { 10_000 } else { (1 << 30) / block_size.max(&(32 << 10)) };
    let (write, step) = (if *rw == "write" { "-w" } else { "" }, (1 << 20) + block_size);
    let line = format!(
        "{library}qemu-img bench {write} -c {ios} -d {io_depth} -s {block_size} -S {step} -t none -f raw \
         rbd:rbd/{}:conf=ceph.conf:id=admin",
        fio::IMAGE
    );
    let what = Row {
        bench: "rbd".into(),
        engine: QEMU.into(),
        mode: load.mode.to_string(),
        rw: load.rw.into(),
        block_size: *block_size,
        jobs: 1,
        io_depth: *io_depth,
        ..Row::default()
    };
    let row = repeated(stage, what, &line, ios, seconds, server_cpu)?;
    Ok(Taken { who: who.to_owned(), load: *load, row })
}

fn print(taken: &[Taken], engine: &str, load: &Load) {
    let program = engine.split(' ').next().unwrap_or_default();
    Figures::head(&format!("{program}, {load}"));
    let [ours, librbd] = [OURS, LIBRBD].map(|who| {
        let of = |taken: &&Taken| taken.load == *load && taken.who == who && taken.row.engine == engine;
        let figures = Figures::median(taken.iter().filter(of).map(|taken| &taken.row));
        figures.print(who);
        figures
    });
    ratio("IOPS, our library to librbd", ours.iops, librbd.iops);
    ratio("client CPU an I/O, the same", ours.client, librbd.client);
}

/// Threads and memory of a process that has images open.
fn handles(stage: &Stage, libraries: &[(&str, &str)]) -> Result<()> {
    fs::write(stage.path("handles.py"), HANDLES)?;
    let most = IMAGES.iter().max().context("there are counts of images")?;
    stage.ceph(&format!("python3 handles.py make {most}"))?;
    println!("\n{:34}{:>10}{:>12}", "images open, a handle each", "threads", "memory MiB");
    for (who, library) in libraries {
        for count in IMAGES {
            let said = stage.ceph(&format!("{library}python3 handles.py open {count}"))?;
            let (threads, kib) = said.trim().split_once(' ').context("the script says two numbers")?;
            let mib = kib.parse::<f64>()? / 1024.0;
            println!("{:34}{threads:>10}{mib:>12.1}", format!("{who}, {count}"));
        }
    }
    Ok(())
}
