//! Images of format 1: Ceph's `rbd` and ours make them, and each reads, changes and removes what the other made.

use crate::cluster::Stage;
use crate::interop::disk;
use crate::interop::steps::{TRIMMED_IN, nothing_is_left};
use crate::sh;
use anyhow::{Result, ensure};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Without it, neither program makes such an image.
const ALLOW: &str = "RBD_FORCE_ALLOW_V1=1";

/// Where an image is cut, and made longer again.
const CUT: u64 = 42 << 20;

/// Bytes of a header without snapshots, and where it has the prefix of data objects, which differs from image to image.
const HEADER: usize = 112;
const PREFIX: std::ops::Range<usize> = 40..64;

/// Lines that both programs refuse, with the same code.
const REFUSED: &[&str] = &[
    "create --image-format 1 --size 8M --image-feature layering refused",
    "create --image-format 1 --size 8M --stripe-unit 65536 --stripe-count 3 refused",
    "create --image-format 1 --size 8M --data-pool data refused",
    "create --image-format 1 --size 8M old",
    "create --size 8M old",
    "create --image-format 1 --size 8M rbd/apart/refused",
    "snap rollback old@none",
    "snap create old@before",
    "snap rm old@none",
    "snap protect old@before",
    "clone old@before child",
    "flatten old",
    "feature enable old exclusive-lock",
    "object-map rebuild old",
    "group image add group old",
    "trash mv old",
    "rename old other",
    "rm old",
];

/// Both sides, and the images that they make.
struct Sides<'a> {
    stage: &'a Stage,
}

/// Runs a line of a side's `rbd` that is to succeed.
type RbdLine<'a> = &'a dyn Fn(&str) -> Result<String>;

impl Sides<'_> {
    fn ours(&self, line: &str) -> Result<String> {
        self.stage.host(&format!("env {ALLOW} timeout 120 ./rbd {line}"))
    }

    fn theirs(&self, line: &str) -> Result<String> {
        self.stage.ceph(&format!("env {ALLOW} rbd {line}"))
    }

    /// Both sides print the same.
    fn same(&self, line: &str) -> Result<()> {
        let (ours, theirs) = (self.ours(line)?, self.theirs(line)?);
        ensure!(ours == theirs, "`rbd {line}` prints\n{theirs}and ours\n{ours}");
        Ok(())
    }

    /// Both sides refuse a line, with the same code.
    fn refused(&self, line: &str) -> Result<()> {
        let theirs = self.stage.ceph_fails(&format!("env {ALLOW} rbd {line}"))?.status.code();
        let ours = sh::output(&mut self.stage.program(Path::new("env"), &format!("{ALLOW} ./rbd {line}")))?;
        let (code, said) = (ours.status.code(), String::from_utf8_lossy(&ours.stderr).into_owned());
        ensure!(code == theirs, "`rbd {line}` ends with {theirs:?}, and ours with {code:?}: {said}");
        Ok(())
    }

    /// What both sides export is what a file has.
    fn exports(&self, image: &str, expected: &str) -> Result<()> {
        let both: [(&str, RbdLine<'_>); 2] =
            [("ours", &|line| self.ours(line)), ("theirs", &|line| self.theirs(line))];
        for (side, run) in both {
            let file = format!("{side}.exported");
            run(&format!("export --no-progress {image} {file}"))?;
            disk::compare(&self.stage.path(expected), &self.stage.path(&file))?;
            fs::remove_file(self.stage.path(&file))?;
        }
        Ok(())
    }

    /// The header of an image without snapshots, but for the prefix of its objects.
    fn header(&self, image: &str) -> Result<Vec<u8>> {
        self.stage.ceph(&format!("rados -p rbd get {image}.rbd header"))?;
        let mut bytes = fs::read(self.stage.path("header"))?;
        ensure!(bytes.len() == HEADER, "the header of {image} has {} bytes", bytes.len());
        ensure!(bytes[PREFIX].starts_with(b"rb.0."), "the header of {image} has another prefix");
        bytes[PREFIX].fill(0);
        Ok(bytes)
    }

    /// What `maker` has made `other` reads, changes and removes, and `maker` sees it.
    fn exchange(&self, image: &str, maker: RbdLine<'_>, other: RbdLine<'_>) -> Result<()> {
        maker(&format!("import --no-progress --image-format 1 disk.raw {image}"))?;
        self.exports(image, "disk.raw")?;
        other(&format!("snap create --no-progress {image}@before"))?;
        maker(&format!("resize --no-progress --allow-shrink --size {CUT}B {image}"))?;
        other(&format!("resize --no-progress --size {}B {image}", disk::SIZE))?;
        self.exports(image, "cut.raw")?;
        self.exports(&format!("{image}@before"), "disk.raw")?;
        maker(&format!("snap create --no-progress {image}@cut"))?;
        other(&format!("snap rename {image}@cut {image}@behind"))?;
        for line in ["info --format json", "snap ls --format json", "diff --format json --from-snap before"] {
            self.same(&format!("{line} {image}"))?;
        }
        self.same(&format!("info {image}@before"))?;
        maker(&format!("snap rollback --no-progress {image}@before"))?;
        self.exports(image, "disk.raw")?;
        maker(&format!("lock add {image} mine"))?;
        self.same(&format!("lock ls --format json {image}"))?;
        other(&format!("snap rm --no-progress {image}@behind"))?;
        maker(&format!("snap purge --no-progress {image}"))?;
        other(&format!("rename {image} {image}-renamed"))?;
        self.same("ls")?;
        self.same("ls --long --format json")?;
        self.exports(&format!("{image}-renamed"), "disk.raw")?;
        other(&format!("rm --no-progress {image}-renamed"))?;
        nothing_is_left(self.stage, &["rbd"], &["rb.0.", ".rbd"], TRIMMED_IN)
    }
}

/// Images go from one side to the other.
pub(super) fn shared(stage: &Stage) -> Result<()> {
    let sides = Sides { stage };
    symlink(stage.onego_program(), stage.path("rbd"))?;
    disk::make(&stage.path("disk.raw"), 1)?;
    fs::copy(stage.path("disk.raw"), stage.path("cut.raw"))?;
    let cut = File::options().write(true).open(stage.path("cut.raw"))?;
    cut.set_len(CUT)?;
    cut.set_len(disk::SIZE)?;

    sides.ours("create --image-format 1 --size 8M ours")?;
    sides.theirs("create --image-format 1 --size 8M theirs")?;
    let (ours, theirs) = (sides.header("ours")?, sides.header("theirs")?);
    ensure!(ours == theirs, "a header of ours is\n{ours:?}\nand one of theirs\n{theirs:?}");
    sides.theirs("rm --no-progress ours")?;
    sides.ours("rm --no-progress theirs")?;

    sides.exchange("ours", &|line| sides.ours(line), &|line| sides.theirs(line))?;
    sides.exchange("theirs", &|line| sides.theirs(line), &|line| sides.ours(line))?;
    sides.ours("create --image-format 1 --size 8M old")?;
    sides.ours("create --size 8M other")?;
    sides.ours("snap create old@before")?;
    sides.theirs("group create group")?;
    sides.theirs("namespace create rbd/apart")?;
    REFUSED.iter().try_for_each(|line| sides.refused(line))
}
