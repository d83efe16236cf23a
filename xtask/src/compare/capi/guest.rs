//! A guest of QEMU whose disk is an image: what the whole machine takes for a block that a program in the guest reads or writes.
//!
//! QEMU emulates the guest's processor, which takes most of it. What a disk without content takes is measured too, and taken away.

use super::libraries::{LIBRBD, OURS};
use crate::cluster::Stage;
use crate::compare::fio;
use crate::compare::load::Load;
use crate::compare::mode::Mode;
use crate::compare::report::{Figures, ratio};
use crate::compare::row::{Row, Sides, Taken};
use crate::guest::{Guest, ServedDisk};
use crate::sh;
use anyhow::{Context as _, Result};

/// Pattern and depth of fio's loads in the guest.
const LOADS: [(&str, u32); 4] = [("randread", 1), ("randread", 32), ("randwrite", 1), ("randwrite", 32)];

const BLOCK: u64 = 4 << 10;

/// Seconds of each load, at least: to start fio in the guest takes tenths of one.
const SECONDS: u32 = 5;

/// Queues of the disk.
const QUEUES: u16 = 1;

/// What the rows name as their engine.
const ENGINE: &str = "guest librbd";

const NO_CONTENT: &str = "a disk without content";

/// The disks, and whose they are. In the second folder there is no library, so that QEMU takes Ceph's.
const DISKS: [(&str, ServedDisk); 3] = [
    (OURS, ServedDisk::Rbd { library: "onego/lib", image: fio::IMAGE }),
    (LIBRBD, ServedDisk::Rbd { library: "none", image: fio::IMAGE }),
    (NO_CONTENT, ServedDisk::Null),
];

/// What is done in the guest before the lines that say the loads.
const SCRIPT: &str = r#"
until [ -b /dev/vda ]; do sleep 0.1; done
load() { # load PATTERN DEPTH SECONDS
    echo "begin: $1 $2"
    /host/fio --name=load --filename=/dev/vda --rw="$1" --bs=4k --iodepth="$2" --ioengine=libaio --direct=1 \
        --thread --time_based --runtime="$3" --output=/tmp/fio --output-format=json --eta=never || exit 1
    awk -v load="$1 $2" '/"total_ios"/ { sub(",", ""); n += $3 } END { print "end: " load " " n }' /tmp/fio
}
"#;

/// The machine stays until what the last load took is looked at.
const STAY: &str = "sleep 3\n";

fn load((rw, io_depth): (&'static str, u32)) -> Load {
    Load { mode: Mode::Crc, rw, block_size: BLOCK, jobs: 1, io_depth }
}

/// Measures all loads on all disks once.
pub(super) fn measure(stage: &Stage, guest: &Guest, seconds: u32) -> Result<Vec<Taken>> {
    let mut taken = Vec::new();
    for (who, disk) in DISKS {
        sh::step(&format!("a guest, {who}"));
        let rows = run(stage, guest, disk, seconds.max(SECONDS));
        let rows = rows.with_context(|| format!("a guest, {who}"))?;
        taken.extend(LOADS.into_iter().zip(rows).map(|(which, row)| Taken {
            who: who.to_owned(),
            load: load(which),
            row,
        }));
    }
    Ok(taken)
}

/// Runs all loads in a guest.
fn run(stage: &Stage, guest: &Guest, disk: ServedDisk, seconds: u32) -> Result<Vec<Row>> {
    let lines: String = LOADS.iter().map(|(rw, depth)| format!("load {rw} {depth} {seconds}\n")).collect();
    let mut running =
        guest.start_with_disk(stage, &format!("{SCRIPT}{lines}{STAY}"), &["fio"], disk, QUEUES)?;
    let mut rows = Vec::new();
    for (rw, io_depth) in LOADS {
        running.wait_for(&format!("begin: {rw} {io_depth}"))?;
        let before = running.cpu_seconds()?;
        let ios = running.wait_for_beginning(&format!("end: {rw} {io_depth} "))?;
        let client = running.cpu_seconds()? - before;
        let ios: u64 = ios.parse().context("fio does not say how much it did")?;
        let seconds = f64::from(seconds);
        rows.push(Row {
            bench: "rbd".into(),
            engine: ENGINE.into(),
            mode: Mode::Crc.to_string(),
            rw: rw.into(),
            block_size: BLOCK,
            jobs: 1,
            io_depth,
            seconds,
            ios,
            iops: ios as f64 / seconds,
            bytes_per_second: (ios * BLOCK) as f64 / seconds,
            cpu_seconds: Sides { client: Some(client), server: None },
            cpu_us_per_io: Sides { client: Some(client * 1e6 / ios as f64), server: None },
            ..Row::default()
        });
    }
    running.end()?;
    Ok(rows)
}

/// Prints the medians of all rounds.
pub(super) fn print(taken: &[Taken]) {
    for load in LOADS.map(load) {
        Figures::head(&format!("guest, {load}"));
        let [ours, librbd, null] = DISKS.map(|(who, _)| {
            let of = |taken: &&Taken| taken.load == load && taken.who == who && taken.row.engine == ENGINE;
            let figures = Figures::median(taken.iter().filter(of).map(|taken| &taken.row));
            figures.print(who);
            figures
        });
        let beyond = |figures: &Figures| Some(figures.client? - null.client?);
        ratio("IOPS, our library to librbd", ours.iops, librbd.iops);
        ratio("QEMU's CPU an I/O, the same", ours.client, librbd.client);
        ratio("the same beyond a disk without content", beyond(&ours), beyond(&librbd));
    }
}
