//! What the features of images cost, in our client and in librbd, on our cluster.

use super::builds::ours;
use super::fio;
use super::load::{IMAGE_MIB, Load};
use super::mode::Mode;
use super::options::Options;
use super::report::{Figures, ratio};
use super::row::Taken;
use crate::cluster::{Embedded, Home, Install, Release, Stage, process};
use crate::interop::ensure_pool;
use crate::sh;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The features that images have that nobody chose them for.
const ALL: &str = "layering,exclusive-lock,object-map,fast-diff,deep-flatten";

/// Objects of the clones: each is written twice in a row, and the first write brings the parent's bytes with it.
const CLONES_OBJECT: &str = "128K";
const CLONES_BLOCK: u64 = 64 << 10;

/// Seconds that a clone is measured. All of it must not be written before.
const CLONES_SECONDS: u32 = 1;

const PLAIN: &str = "onego, layering alone";
const FEATURES: &str = "onego, default features";
const CLONE: &str = "onego, clone";
const LIBRBD_PLAIN: &str = "librbd, layering alone";
const LIBRBD_FEATURES: &str = "librbd, default features";
const LIBRBD_CLONE: &str = "librbd, clone";

/// Random writes to objects that exist, with features and without.
const WRITES: [u32; 2] = [128, 1];

/// Measures all rows, and prints them with their ratios.
pub(super) fn compare(options: &Options, home: &Home, onego: &Path) -> Result<Vec<Taken>> {
    let install = Install::find(Release::Reef, home)?;
    let stage = |name: &str| Stage::new(home, name, &install, onego);
    let [here, peers] = [stage("compare-features-onego")?, stage("compare-features-librbd")?];
    let memory = 8 * IMAGE_MIB;
    let mut embedded = Embedded::start(&peers, &format!("--memory {memory}M --auth none"))?;
    ensure_pool(&peers)?;
    fio::fill_image(&peers, "plain", "--image-feature layering")?;
    fio::fill_image(&peers, "features", &format!("--image-feature {ALL}"))?;
    fio::fill_image(&peers, "parent", &format!("--image-feature {ALL} --object-size {CLONES_OBJECT}"))?;
    peers.ceph("rbd snap create rbd/parent@full")?;
    let mut taken = Vec::new();
    let loads = WRITES.map(|io_depth| load("randwrite", 4 << 10, io_depth));
    let clones = load("write", CLONES_BLOCK, 16);
    for round in 1..=options.repeat {
        for load in &loads {
            sh::step(&format!("round {round} of {}: {load}", options.repeat));
            taken.extend(ours(&here, PLAIN, load, options.seconds, "--no-floor")?);
            let features = format!("--no-floor --image-feature {ALL}");
            taken.extend(ours(&here, FEATURES, load, options.seconds, &features)?);
            for (who, image) in [(LIBRBD_PLAIN, "plain"), (LIBRBD_FEATURES, "features")] {
                let peer = fio::Peer { stage: &peers, who, prefix: "", image, seconds: options.seconds };
                taken.push(peer.measure(load, || embedded.server().cpu_seconds())?);
            }
        }
        sh::step(&format!("round {round} of {}: first writes to clones", options.repeat));
        let clone = format!("--no-floor --clone --object-size {CLONES_OBJECT} --image-feature {ALL}");
        taken.extend(ours(&here, CLONE, &clones, CLONES_SECONDS, &clone)?);
        let image = format!("clone{round}");
        let how = format!("--image-feature {ALL} --object-size {CLONES_OBJECT} --rbd-default-clone-format 2");
        peers.ceph(&format!("rbd clone {how} rbd/parent@full rbd/{image}"))?;
        let peer = fio::Peer {
            stage: &peers,
            who: LIBRBD_CLONE,
            prefix: "",
            image: &image,
            seconds: CLONES_SECONDS,
        };
        taken.push(peer.measure(&clones, || embedded.server().cpu_seconds())?);
    }
    print(&taken, &loads, &clones);
    large_image(&peers)?;
    drop(embedded);
    [here, peers].into_iter().try_for_each(Stage::clear)?;
    Ok(taken)
}

fn load(rw: &'static str, block_size: u64, io_depth: u32) -> Load {
    Load { mode: Mode::Crc, rw, block_size, jobs: 1, io_depth }
}

fn print(taken: &[Taken], loads: &[Load], clones: &Load) {
    for load in loads.iter().chain([clones]) {
        Figures::head(&load.to_string());
        let of = |name: &str| {
            Figures::median(taken.iter().filter(|t| t.load == *load && t.who == name).map(|t| &t.row))
        };
        let pairs: &[(&str, &str)] = match load == clones {
            true => &[(CLONE, LIBRBD_CLONE)],
            false => &[(FEATURES, PLAIN), (LIBRBD_FEATURES, LIBRBD_PLAIN), (FEATURES, LIBRBD_FEATURES)],
        };
        let mut shown: Vec<&str> = pairs.iter().flat_map(|(one, other)| [*other, *one]).collect();
        shown.sort_unstable();
        shown.dedup();
        shown.iter().for_each(|who| of(who).print(who));
        for (one, other) in pairs {
            ratio(&format!("IOPS, {one} to {other}"), of(one).iops, of(other).iops);
            ratio("client CPU an I/O, the same", of(one).client, of(other).client);
        }
    }
}

/// How long both programs take to say, by its object map, what an image of 1 TiB with a few objects takes, and what has changed
/// of it between two snapshots.
fn large_image(stage: &Stage) -> Result<()> {
    stage.ceph(&format!("rbd create --size 1T --image-feature {ALL} rbd/large"))?;
    let bench = "rbd bench --io-type write --io-size 4M --io-threads 4 --io-total 256M --io-pattern rand";
    for snapshot in ["one", "two"] {
        stage.ceph(&format!("{bench} rbd/large"))?;
        stage.ceph(&format!("rbd snap create --no-progress rbd/large@{snapshot}"))?;
    }
    println!("\n{:34}{:>10}{:>14}", "1 TiB, by its object map", "ms", "client ms");
    for line in ["du rbd/large", "diff --whole-object --from-snap one rbd/large@two"] {
        let ours = ("onego rbd", stage.onego_command(&format!("--conf ceph.conf rbd {line}")));
        let theirs = ("rbd", stage.ceph_command(&format!("rbd {line}")));
        for (who, mut command) in [ours, theirs] {
            let (elapsed, cpu) = time(&mut command)?;
            let what = line.split(' ').next().unwrap_or_default();
            println!("{:34}{elapsed:>10.1}{cpu:>14.1}", format!("{who} {what}"));
        }
    }
    Ok(())
}

/// Milliseconds of a program, by the clock and of CPU.
fn time(command: &mut Command) -> Result<(f64, f64)> {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn()?;
    let (status, cpu) = process::wait_measured(&mut child)?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok((start.elapsed().as_secs_f64() * 1e3, cpu * 1e3))
}
