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

const LOADS: &str =
    "randread 4 128, randwrite 4 128, randread 64 32, randwrite 64 32, read 1024 16, write 1024 16";

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
    /// Returns its name and the options of `onego` that select it. The default needs none, so that builds without
    /// these options can be baselines.
    fn name_and_options(self) -> (&'static str, &'static str) {
        match self {
            Self::Crc => ("crc", ""),
            Self::Secure => ("secure", "--ms-mode secure"),
            Self::Legacy => ("legacy", "--messenger v1"),
            Self::LegacyNocrc => ("legacy,nocrc", "--messenger v1 --no-data-crc"),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name_and_options().0)
    }
}

pub(crate) fn compare(session: &Session) -> Result<Vec<Row>> {
    let modes = session.modes(&[Mode::Crc]);
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
        Mode::Crc | Mode::Secure => Some(start_peers(mode, &with_ours, &with_ceph)?),
        // librbd prefers version 2 wherever the cluster offers it.
        Mode::Legacy | Mode::LegacyNocrc => None,
    };
    let rows = session.rounds(|round| {
        session.measure(round, &format!("{mode}, "), &session.loads(LOADS), |load| {
            let mut rows = Vec::new();
            for (who, sandbox) in in_turn(&builds, round) {
                let floor = if who == OURS && !options.no_peers { "" } else { "--no-floor" };
                rows.extend(onego_rbd(sandbox, who, load, mode, floor)?);
            }
            if let Some((embedded, ceph)) = &mut peers {
                let [with_ours, with_ceph] = [&with_ours, &with_ceph].map(|sandbox| Fio::rbd(sandbox, IMAGE));
                let [on_ours, on_ceph] = [LIBRBD_OURS, LIBRBD_CEPH].map(|who| librbd_row(who, load, mode));
                let ours = with_ours.measure(on_ours, load, || embedded.daemon().cpu_seconds());
                rows.push(ours?);
                rows.push(with_ceph.measure(on_ceph, load, || ceph.osd_cpu_seconds())?);
            }
            Ok(rows)
        })
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
    more: &str,
) -> Result<Vec<Row>> {
    let (protection, load) = (mode.name_and_options().1, load.options());
    let line = format!("bench rbd --cluster embedded {load} --size {IMAGE_MIB}M {more}");
    let mut rows = onego_bench(sandbox, who, &format!("{protection} {line}"))?;
    rows.iter_mut().filter(|row| row.who == who).for_each(|row| row.mode = mode.to_string());
    Ok(rows)
}

/// Starts an embedded cluster and Ceph's, and fills their images.
fn start_peers<'a>(
    mode: Mode,
    with_ours: &Sandbox,
    with_ceph: &'a Sandbox,
) -> Result<(Server, RealCeph<'a>)> {
    let (auth, ceph) = match mode {
        Mode::Crc => ("none", RealCeph::start(with_ceph, Store::Memory)?),
        Mode::Secure => ("cephx", RealCeph::start_with_cephx(with_ceph, "")?),
        Mode::Legacy | Mode::LegacyNocrc => bail!("librbd cannot be measured in {mode} mode"),
    };
    // Objects may occupy up to twice their size.
    let embedded = embedded_cluster(with_ours, &format!("--memory {}M --auth {auth}", 2 * IMAGE_MIB))?;
    for sandbox in [with_ours, with_ceph] {
        let client = format!("\n[client]\nms client mode = {mode}\nms mon client mode = {mode}\n");
        sandbox.write("ceph.conf", sandbox.read("ceph.conf")? + &client)?;
        fill_image(sandbox, IMAGE, "--image-feature layering")?;
    }
    Ok((embedded, ceph))
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

/// Measures the load of a patch series after which the kernel's messenger sends data at once: 32 clients with 32
/// requests each, writes discarded by the OSD.
pub(crate) fn compare_modes(session: &Session) -> Result<Vec<Row>> {
    let options = &session.options;
    ensure!(options.baseline.is_empty(), "--baseline is not supported by this comparison");
    let modes = session.modes(Mode::value_variants());
    let sandbox = session.sandbox("onego", Release::Pacific)?;
    let seconds = options.seconds;
    let load = |rw, bits| Load { rw, block_size: 1u64 << bits, io_depth: 32, jobs: 32, seconds };
    // 4 KiB to 1 MiB.
    let of_pattern = |rw| (12..=20).map(move |bits| load(rw, bits)).collect::<Vec<_>>();
    let loads = ["randwrite", "randread"].map(of_pattern);
    let rows = session.rounds(|round| {
        session.measure(round, "", &loads.concat(), |load| {
            // Discarded writes cannot be read back.
            let more = if load.rw == "randwrite" { "--no-floor --null-writes" } else { "--no-floor" };
            let measure = |mode: &Mode| onego_rbd(&sandbox, OURS, load, *mode, more);
            Ok(modes.iter().map(measure).collect::<Result<Vec<_>>>()?.concat())
        })
    })?;
    loads.iter().for_each(|loads| print_modes(&rows, modes, loads));
    Ok(rows)
}

/// Prints a line for each block size, with three columns for each mode.
fn print_modes(rows: &[Row], modes: &[Mode], loads: &[Load]) {
    let Load { rw, io_depth, jobs, .. } = loads[0];
    println!("\n{rw}, numjobs={jobs} iodepth={io_depth}: IOPS, MiB/s, CPU us/IO of both ends\n");
    println!("{:>5}{}", "", modes.iter().map(|mode| format!("{mode:>33}")).collect::<String>());
    for load in loads {
        let columns = modes.iter().map(|mode| {
            let of = |row: &&Row| row.mode == mode.to_string() && row.table == load.to_string();
            let column = |(figure, width, decimals): (report::Figure, _, _)| {
                column(median(rows.iter().filter(of).filter_map(figure).collect()), width, decimals)
            };
            [(IOPS, 13, 0), (MIB, 10, 0), (BOTH_ENDS, 10, 2)].map(column).concat()
        });
        println!("{:>5}{}", short_size(load.block_size), columns.collect::<String>());
    }
}
