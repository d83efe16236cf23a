//! Our block client and cluster beside librbd and Ceph's OSD.

use super::builds::{baselines, in_turn, ours};
use super::load::{IMAGE_MIB, Load};
use super::mode::Mode;
use super::options::Options;
use super::row::Taken;
use super::subject::{LIBRBD_CEPH, LIBRBD_OURS, OURS};
use super::{fio, report};
use crate::cluster::{Embedded, Home, Install, RealCeph, Release, Stage, Store};
use crate::interop::ensure_pool;
use crate::sh;
use anyhow::{Result, bail, ensure};
use std::fs;
use std::path::Path;

/// Pattern, block size and depth.
const LOADS: [(&str, u64, u32); 6] = [
    ("randread", 4 << 10, 128),
    ("randwrite", 4 << 10, 128),
    ("randread", 64 << 10, 32),
    ("randwrite", 64 << 10, 32),
    ("read", 1 << 20, 16),
    ("write", 1 << 20, 16),
];

/// Measures every load in every mode.
///
/// What is compared is measured right after each other, load by load and round by round: the machine may be twice as
/// fast a minute later.
pub(super) fn compare(options: &Options, home: &Home, onego: &Path) -> Result<Vec<Taken>> {
    let modes = if options.modes.is_empty() { &[Mode::Crc] } else { options.modes.as_slice() };
    ensure!(
        options.baseline.is_empty() || modes == [Mode::Crc],
        "a program from before is measured in crc mode alone: leave out --modes"
    );
    let install = Install::find(Release::Pacific, home)?;
    let mut taken = Vec::new();
    for mode in modes {
        taken.extend(in_mode(*mode, options, home, &install, onego)?);
    }
    Ok(taken)
}

fn in_mode(
    mode: Mode,
    options: &Options,
    home: &Home,
    install: &Install,
    onego: &Path,
) -> Result<Vec<Taken>> {
    let stage = |name: &str, onego: &Path| Stage::new(home, name, install, onego);
    let here = stage("compare-onego", onego)?;
    let [librbd_onego, librbd_ceph] =
        [stage("compare-librbd-onego", onego)?, stage("compare-librbd-ceph", onego)?];
    let mut builds = vec![(OURS.to_owned(), here)];
    builds.extend(baselines(options, home, install, "compare")?);
    let mut peers = match mode {
        _ if options.no_peers => None,
        Mode::Crc | Mode::Secure => Some(Peers::start(mode, &librbd_onego, &librbd_ceph)?),
        // librbd speaks version 2 wherever the cluster does.
        Mode::Legacy | Mode::LegacyNocrc => None,
    };

    let loads = LOADS.map(|(rw, block_size, io_depth)| Load { mode, rw, block_size, jobs: 1, io_depth });
    let mut taken = Vec::new();
    for round in 1..=options.repeat {
        for load in &loads {
            sh::step(&format!("round {round} of {}: {load}", options.repeat));
            for (who, stage) in in_turn(&builds, round) {
                let more = if who == OURS && !options.no_peers { "" } else { "--no-floor" };
                taken.extend(ours(stage, who, load, options.seconds, more)?);
            }
            if let Some(peers) = &mut peers {
                taken.extend(peers.measure(load, options.seconds)?);
            }
        }
    }
    drop(peers);
    let mut stages = builds.into_iter().map(|(_, stage)| stage).chain([librbd_onego, librbd_ceph]);
    stages.try_for_each(Stage::clear)?;
    report::print(&taken, &loads);
    Ok(taken)
}

/// librbd, with our cluster and with Ceph's.
struct Peers<'a> {
    librbd_onego: &'a Stage,
    embedded: Embedded,
    librbd_ceph: &'a Stage,
    ceph: RealCeph<'a>,
}

impl<'a> Peers<'a> {
    /// Starts both clusters and fills their images.
    fn start(mode: Mode, librbd_onego: &'a Stage, librbd_ceph: &'a Stage) -> Result<Self> {
        let (auth, ceph) = match mode {
            Mode::Crc => ("none", RealCeph::start(librbd_ceph, Store::Memory)?),
            Mode::Secure => ("cephx", RealCeph::start_with_cephx(librbd_ceph, "")?),
            Mode::Legacy | Mode::LegacyNocrc => bail!("librbd is not measured in {mode} mode"),
        };
        // Room for the image twice: objects are not as tight as their data.
        let embedded = Embedded::start(librbd_onego, &format!("--memory {}M --auth {auth}", 2 * IMAGE_MIB))?;
        ensure_pool(librbd_onego)?;
        for stage in [librbd_onego, librbd_ceph] {
            set_mode(stage, mode)?;
            fio::fill(stage)?;
        }
        Ok(Self { librbd_onego, embedded, librbd_ceph, ceph })
    }

    fn measure(&mut self, load: &Load, seconds: u32) -> Result<[Taken; 2]> {
        let peer = |stage, who| fio::Peer { stage, who, prefix: "", image: fio::IMAGE, seconds };
        Ok([
            peer(self.librbd_onego, LIBRBD_OURS).measure(load, || self.embedded.server().cpu_seconds())?,
            peer(self.librbd_ceph, LIBRBD_CEPH).measure(load, || self.ceph.osd_cpu_seconds())?,
        ])
    }
}

/// Has clients on a stage insist on a mode.
fn set_mode(stage: &Stage, mode: Mode) -> Result<()> {
    let path = stage.path("ceph.conf");
    let conf = fs::read_to_string(&path)?;
    let client = format!("\n[client]\nms client mode = {mode}\nms mon client mode = {mode}\n");
    Ok(fs::write(path, conf + &client)?)
}
