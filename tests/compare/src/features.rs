//! Cost of image features in the RBD client and in librbd, on the embedded cluster.

use crate::clients::{Fio, IMAGE_MIB, run_measured};
use crate::rbd::{Mode, fill_image, librbd_row, onego_rbd};
use crate::report::{self, CLIENT, IOPS};
use crate::row::{Load, Row};
use crate::{Session, embedded_cluster};
use anyhow::Result;
use onego_sandbox::{Release, Sandbox};
use std::time::Instant;

/// Features of images that are created without options.
const ALL: &str = "layering,exclusive-lock,object-map,fast-diff,deep-flatten";

const PLAIN: &str = "onego, layering only";
const FEATURES: &str = "onego, default features";
const CLONE: &str = "onego, clone";
const LIBRBD_PLAIN: &str = "librbd, layering only";
const LIBRBD_FEATURES: &str = "librbd, default features";
const LIBRBD_CLONE: &str = "librbd, clone";

/// Random writes to objects that exist.
const WRITES: &str = "randwrite 4 128, randwrite 4 1";

/// First writes to a clone: each object is written twice in a row, and the first write copies the parent's bytes.
const CLONE_WRITES: &str = "write 64 16";
const CLONE_OBJECT: &str = "128K";

/// Short enough that the load does not reach the end of the clone.
const CLONE_SECONDS: u32 = 1;

pub(crate) fn compare(session: &Session) -> Result<Vec<Row>> {
    let sandbox = |name| session.sandbox(name, Release::Reef);
    let (onego, librbd) = (sandbox("onego")?, sandbox("librbd")?);
    let mut cluster = embedded_cluster(&librbd, &format!("--memory {}M --auth none", 8 * IMAGE_MIB))?;
    fill_image(&librbd, "plain", "--image-feature layering")?;
    fill_image(&librbd, "features", &format!("--image-feature {ALL}"))?;
    fill_image(&librbd, "parent", &format!("--image-feature {ALL} --object-size {CLONE_OBJECT}"))?;
    librbd.ceph("rbd snap create rbd/parent@full")?;
    let onego =
        |who, load: &Load, more: &str| onego_rbd(&onego, who, load, Mode::Crc, &format!("--no-floor {more}"));
    let mut fio = |who, image: &str, load: &Load| {
        let row = librbd_row(who, load, Mode::Crc);
        Fio::rbd(&librbd, image).measure(row, load, || cluster.daemon().cpu_seconds())
    };
    let features = format!("--image-feature {ALL}");
    let rows = session.rounds(|round| {
        let writes = session.measure(round, "", &session.loads(WRITES), |load| {
            let mut rows = onego(PLAIN, load, "")?;
            rows.extend(onego(FEATURES, load, &features)?);
            rows.push(fio(LIBRBD_PLAIN, "plain", load)?);
            rows.push(fio(LIBRBD_FEATURES, "features", load)?);
            Ok(rows)
        })?;
        let clones = session.measure(round, "clone, ", &Load::list(CLONE_WRITES, CLONE_SECONDS), |load| {
            let options = format!("{features} --object-size {CLONE_OBJECT}");
            let mut rows = onego(CLONE, load, &format!("--clone {options}"))?;
            let (clone, format) = (format!("clone{round}"), "--rbd-default-clone-format 2");
            librbd.ceph(&format!("rbd clone {options} {format} rbd/parent@full rbd/{clone}"))?;
            rows.push(fio(LIBRBD_CLONE, &clone, load)?);
            Ok(rows)
        })?;
        Ok([writes, clones].concat())
    })?;
    report::print(&rows, |table| {
        for (one, other) in [
            (FEATURES, PLAIN),
            (LIBRBD_FEATURES, LIBRBD_PLAIN),
            (FEATURES, LIBRBD_FEATURES),
            (CLONE, LIBRBD_CLONE),
        ] {
            let label = format!("IOPS, {one} to {other}");
            table.ratios(&[(&label, IOPS, one, other), ("client CPU an I/O, the same", CLIENT, one, other)]);
        }
    });
    measure_large_image(&librbd)?;
    Ok(rows)
}

/// Prints how long `onego` and `rbd` take to report usage of a sparse image of 1 TiB, and its changes between two
/// snapshots. Both follow from its object map.
fn measure_large_image(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph(&format!("rbd create --size 1T --image-feature {ALL} rbd/large"))?;
    let bench = "rbd bench --io-type write --io-size 4M --io-threads 4 --io-total 256M --io-pattern rand";
    for snapshot in ["one", "two"] {
        sandbox.ceph(&format!("{bench} rbd/large"))?;
        sandbox.ceph(&format!("rbd snap create --no-progress rbd/large@{snapshot}"))?;
    }
    println!("\n{:34}{:>10}{:>14}", "1 TiB, by its object map", "ms", "client ms");
    for line in ["du rbd/large", "diff --whole-object --from-snap one rbd/large@two"] {
        let name = line.split(' ').next().unwrap_or_default();
        let onego = sandbox.onego_daemon(&format!("--conf ceph.conf rbd {line}"));
        for (who, command) in [("onego rbd", onego), ("rbd", sandbox.ceph_daemon(&format!("rbd {line}")))] {
            let start = Instant::now();
            let cpu = run_measured(sandbox, command)? * 1e3;
            let elapsed = start.elapsed().as_secs_f64() * 1e3;
            println!("{:34}{elapsed:>10.1}{cpu:>14.1}", format!("{who} {name}"));
        }
    }
    Ok(())
}
