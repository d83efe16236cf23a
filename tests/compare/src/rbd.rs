//! RBD client and embedded cluster next to librbd and Ceph's OSD, and in each of the messenger's modes.

use crate::clients::{Fio, IMAGE, IMAGE_MIB, onego_bench};
use crate::report::{self, BOTH_ENDS, CLIENT, IOPS, MIB, SERVER, column, median};
use crate::row::{FLOOR, Load, Row, short_size};
use crate::{Session, embedded_cluster, in_turn};
use anyhow::{Result, bail, ensure};
use clap::ValueEnum as _;
use onego_sandbox::{RealCeph, Release, Sandbox, Server, Store};
use std::fmt;

const OURS: &str = "onego, embedded cluster";
const LIBRBD_OURS: &str = "librbd, embedded cluster";
pub(crate) const LIBRBD_CEPH: &str = "librbd, Ceph memstore OSD";

const LOADS: [Load; 6] = [
    Load::new("randread", 4 << 10, 128),
    Load::new("randwrite", 4 << 10, 128),
    Load::new("randread", 64 << 10, 32),
    Load::new("randwrite", 64 << 10, 32),
    Load::new("read", 1 << 20, 16),
    Load::new("write", 1 << 20, 16),
];

/// The modes of the kernel client (`ms_mode`) that differ in cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Messenger version 2.1 with checksums
    Crc,
    /// Messenger version 2.1, encrypted, with cephx
    Secure,
    /// Messenger version 1 with checksums
    Legacy,
    /// Messenger version 1 without checksums of payloads
    LegacyNocrc,
}

impl Mode {
    /// Returns options for `onego`. The default needs none, so that builds without these options can be baselines.
    fn options(self) -> &'static str {
        match self {
            Self::Crc => "",
            Self::Secure => "--ms-mode secure",
            Self::Legacy => "--messenger v1",
            Self::LegacyNocrc => "--messenger v1 --no-data-crc",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Crc => "crc",
            Self::Secure => "secure",
            Self::Legacy => "legacy",
            Self::LegacyNocrc => "legacy,nocrc",
        })
    }
}

pub(crate) fn compare(session: &Session) -> Result<Vec<Row>> {
    let modes = match session.options.modes.as_slice() {
        [] => &[Mode::Crc],
        modes => modes,
    };
    let earlier_builds = !session.options.baseline.is_empty();
    ensure!(!earlier_builds || modes == [Mode::Crc], "--baseline requires crc mode: omit --modes");
    let mut rows = Vec::new();
    for mode in modes {
        rows.extend(compare_in(*mode, session)?);
    }
    Ok(rows)
}

fn compare_in(mode: Mode, session: &Session) -> Result<Vec<Row>> {
    let options = &session.options;
    let builds = session.sandboxes_of_builds(OURS)?;
    let sandbox = |name| session.sandbox(name, Release::Pacific);
    let (with_ours, with_ceph) = (sandbox("librbd-embedded")?, sandbox("librbd-ceph")?);
    let mut peers = match mode {
        _ if options.no_peers => None,
        Mode::Crc | Mode::Secure => Some(Peers::start(mode, &with_ours, &with_ceph)?),
        // librbd prefers version 2 wherever the cluster offers it.
        Mode::Legacy | Mode::LegacyNocrc => None,
    };
    let title = |load: &Load| format!("{load}, {mode}");
    let rows = session.rounds(&LOADS, title, |round, load| {
        let mut rows = Vec::new();
        for (who, sandbox) in in_turn(&builds, round) {
            let floor = if who == OURS && !options.no_peers { "" } else { "--no-floor" };
            rows.extend(onego_rbd(sandbox, who, load, mode, options.seconds, floor)?);
        }
        if let Some(peers) = &mut peers {
            rows.extend(peers.measure(load, mode, options.seconds)?);
        }
        Ok(rows)
    })?;
    report::print(&rows, |table| {
        table.ratios(&[
            ("IOPS, ours to librbd with Ceph's OSD", IOPS, OURS, LIBRBD_CEPH),
            ("client CPU an I/O, the same", CLIENT, OURS, LIBRBD_CEPH),
            ("server CPU an I/O, the same", SERVER, OURS, LIBRBD_CEPH),
            ("client CPU an I/O, ours to librbd on our server", CLIENT, OURS, LIBRBD_OURS),
            ("IOPS, ours to the floor", IOPS, OURS, FLOOR),
        ]);
    });
    Ok(rows)
}

/// Runs `onego bench rbd` with an embedded cluster as its child process.
pub(crate) fn onego_rbd(
    sandbox: &Sandbox,
    who: &str,
    load: &Load,
    mode: Mode,
    seconds: u32,
    more: &str,
) -> Result<Vec<Row>> {
    let (protection, load) = (mode.options(), load.options());
    let line = format!("bench rbd --cluster embedded {load} --size {IMAGE_MIB}M --seconds {seconds} {more}");
    let mut rows = onego_bench(sandbox, who, &format!("{protection} {line}"))?;
    rows.iter_mut().filter(|row| row.who == who).for_each(|row| row.mode = mode.to_string());
    Ok(rows)
}

/// librbd with an embedded cluster and with Ceph's.
struct Peers<'a> {
    with_ours: &'a Sandbox,
    embedded: Server,
    with_ceph: &'a Sandbox,
    ceph: RealCeph<'a>,
}

impl<'a> Peers<'a> {
    /// Starts both clusters and fills their images.
    fn start(mode: Mode, with_ours: &'a Sandbox, with_ceph: &'a Sandbox) -> Result<Self> {
        let (auth, ceph) = match mode {
            Mode::Crc => ("none", RealCeph::start(with_ceph, Store::Memory)?),
            Mode::Secure => ("cephx", RealCeph::start_with_cephx(with_ceph, "")?),
            Mode::Legacy | Mode::LegacyNocrc => bail!("librbd cannot be measured in {mode} mode"),
        };
        // Objects may occupy up to twice their size.
        let memory = 2 * IMAGE_MIB;
        let embedded = embedded_cluster(with_ours, &format!("--memory {memory}M --auth {auth}"))?;
        for sandbox in [with_ours, with_ceph] {
            let client = format!("\n[client]\nms client mode = {mode}\nms mon client mode = {mode}\n");
            sandbox.write("ceph.conf", sandbox.read("ceph.conf")? + &client)?;
            fill_image(sandbox, IMAGE, "--image-feature layering")?;
        }
        Ok(Self { with_ours, embedded, with_ceph, ceph })
    }

    fn measure(&mut self, load: &Load, mode: Mode, seconds: u32) -> Result<[Row; 2]> {
        let row = |who| librbd_row(who, load, mode);
        let [ours, ceph] = [self.with_ours, self.with_ceph].map(|sandbox| Fio::rbd(sandbox, IMAGE));
        Ok([
            ours.measure(row(LIBRBD_OURS), load, seconds, || self.embedded.daemon().cpu_seconds())?,
            ceph.measure(row(LIBRBD_CEPH), load, seconds, || self.ceph.osd_cpu_seconds())?,
        ])
    }
}

/// Returns an empty row of fio with librbd.
pub(crate) fn librbd_row(who: &str, load: &Load, mode: Mode) -> Row {
    load.row(who, "rbd", "fio librbd", &mode.to_string())
}

/// Creates an image in the pool `rbd` and writes all of it.
pub(crate) fn fill_image(sandbox: &Sandbox, image: &str, options: &str) -> Result<()> {
    sandbox.ceph(&format!("rbd create --size {IMAGE_MIB}M {options} rbd/{image}"))?;
    Fio::rbd(sandbox, image).fill()
}

/// Patterns of the comparison of modes. The load is that of the patches that made the kernel's messenger send data at
/// once: its writes were discarded by the OSD.
const MODES_RW: [&str; 2] = ["randwrite", "randread"];
const MODES_JOBS: u32 = 32;
const MODES_IO_DEPTH: u32 = 32;

/// Logarithms of block sizes, 4 KiB to 1 MiB.
const MODES_BLOCK_SIZES: std::ops::RangeInclusive<u32> = 12..=20;

pub(crate) fn compare_modes(session: &Session) -> Result<Vec<Row>> {
    let options = &session.options;
    ensure!(options.baseline.is_empty(), "--baseline is not supported by this comparison");
    let modes = match options.modes.as_slice() {
        [] => Mode::value_variants(),
        modes => modes,
    };
    let sandbox = session.sandbox("onego", Release::Pacific)?;
    let load = |rw, bits: u32| Load::new(rw, 1 << bits, MODES_IO_DEPTH).jobs(MODES_JOBS);
    let loads = MODES_RW.into_iter().flat_map(|rw| MODES_BLOCK_SIZES.map(move |bits| load(rw, bits)));
    let loads: Vec<_> = loads.flat_map(|load| modes.iter().map(move |mode| (load, *mode))).collect();
    let title = |(load, mode): &(Load, Mode)| format!("{load}, {mode}");
    let rows = session.rounds(&loads, title, |_, (load, mode)| {
        // Discarded writes cannot be read back.
        let more = if load.rw == "randwrite" { "--no-floor --null-writes" } else { "--no-floor" };
        onego_rbd(&sandbox, OURS, load, *mode, options.seconds, more)
    })?;
    MODES_RW.iter().for_each(|rw| print_modes(&rows, modes, rw));
    Ok(rows)
}

/// Prints a line for each block size, with three columns for each mode.
fn print_modes(rows: &[Row], modes: &[Mode], rw: &str) {
    println!("\n{rw}, numjobs={MODES_JOBS} iodepth={MODES_IO_DEPTH}: IOPS, MiB/s, CPU us/IO of both ends\n");
    let heads = modes.iter().map(|mode| format!("{mode:>33}"));
    println!("{:>5}{}", "", heads.collect::<String>());
    for block_size in MODES_BLOCK_SIZES.map(|bits| 1 << bits) {
        let columns = modes.iter().map(|mode| {
            let of =
                |row: &&Row| row.mode == mode.to_string() && row.rw == rw && row.block_size == block_size;
            let column = |(figure, width, decimals): (report::Figure, _, _)| {
                column(median(rows.iter().filter(of).filter_map(figure).collect()), width, decimals)
            };
            [(IOPS, 13, 0), (MIB, 10, 0), (BOTH_ENDS, 10, 2)].map(column).concat()
        });
        println!("{:>5}{}", short_size(block_size), columns.collect::<String>());
    }
}
