//! The upkeep of images: what we do Ceph's own `rbd` sees, what it does we see, and both end in the same way.

use crate::cluster::process::Daemon;
use crate::cluster::{RealCeph, Stage, Store};
use crate::interop::steps::{self, TRIMMED_IN, json, says};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// Bytes of the images: enough for several objects, of which some are not there.
const SIZE: &str = "10M";

/// How long a client of Ceph's may take to own an image.
const PATIENCE: Duration = Duration::from_secs(30);

/// Our program by the name of Ceph's, beside Ceph's.
struct Pair<'a> {
    stage: &'a Stage,
}

/// How a line ended, and what it printed.
struct Ended {
    code: Option<i32>,
    said: String,
}

impl Ended {
    fn of(output: &Output) -> Self {
        Self { code: output.status.code(), said: String::from_utf8_lossy(&output.stdout).into_owned() }
    }
}

impl Pair<'_> {
    fn ours_command(&self, line: &str) -> Command {
        self.stage.program(Path::new("timeout"), &format!("60 ./rbd {line}"))
    }

    /// Runs a line of ours that is to succeed.
    fn ours(&self, line: &str) -> Result<String> {
        let output = crate::sh::output(&mut self.ours_command(line))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "our `rbd {line}` failed: {}: {said}", output.status);
        Ok(Ended::of(&output).said)
    }

    /// Runs a line of Ceph's that is to succeed.
    fn theirs(&self, line: &str) -> Result<String> {
        self.stage.ceph(&format!("rbd {line}"))
    }

    /// Runs a line on both sides: Ceph's first. Both must fail, with the same code.
    fn both_fail(&self, line: &str) -> Result<()> {
        let theirs = Ended::of(&self.stage.ceph_fails(&format!("rbd {line}"))?);
        let output = crate::sh::output(&mut self.ours_command(line))?;
        let ours = Ended::of(&output);
        ensure!(
            ours.code == theirs.code,
            "`rbd {line}` ends with {:?}, and ours with {:?}: {}",
            theirs.code,
            ours.code,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Both sides print the same, byte for byte.
    fn same_text(&self, line: &str) -> Result<String> {
        let (ours, theirs) = (self.ours(line)?, self.theirs(line)?);
        ensure!(ours == theirs, "`rbd {line}` prints\n{theirs}and ours\n{ours}");
        Ok(ours)
    }

    /// Both sides print the same for programs, and for people too.
    fn same(&self, line: &str) -> Result<Value> {
        self.same_text(line)?;
        self.same_text(&format!("{line} --format json --pretty-format"))?;
        self.same_json(line)
    }

    /// Both sides print the same for programs.
    fn same_json(&self, line: &str) -> Result<Value> {
        let line = format!("{line} --format json");
        let (ours, theirs) = (json(&self.ours(&line)?)?, json(&self.theirs(&line)?)?);
        ensure!(ours == theirs, "`rbd {line}` prints\n{theirs}\nand ours\n{ours}");
        Ok(ours)
    }

    /// What Ceph exports of an image, or of a snapshot.
    fn export(&self, image: &str, file: &str) -> Result<Vec<u8>> {
        let path = self.stage.path(file);
        self.theirs(&format!("export --no-progress {image} {file}"))?;
        let bytes = fs::read(&path).with_context(|| format!("no {file}"))?;
        fs::remove_file(path)?;
        Ok(bytes)
    }

    /// An image, or a snapshot, has these bytes.
    fn has(&self, image: &str, bytes: &[u8]) -> Result<()> {
        ensure!(self.export(image, "exported.raw")? == bytes, "{image} has other bytes than it should have");
        Ok(())
    }

    /// Has Ceph write to an image.
    fn write(&self, image: &str, total: &str) -> Result<()> {
        self.theirs(&format!(
            "bench --io-type write --io-pattern rand --io-size 64K --io-threads 4 --io-total {total} {image}"
        ))
        .map(drop)
    }

    /// The map of an image's objects is right, as Ceph sees it.
    fn map_is_right(&self, image: &str) -> Result<()> {
        self.theirs(&format!("object-map check --no-progress {image}"))?;
        let info = json(&self.theirs(&format!("info --format json {image}"))?)?;
        ensure!(info["flags"] == Value::Array(Vec::new()), "the map of {image} is wrong: {info}");
        Ok(())
    }
}

pub(crate) fn run(stage: &Stage) -> Result<()> {
    // What removed snapshots held goes at once, and not after a rest for each object.
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    symlink(stage.onego_program(), stage.path("rbd"))?;
    stage.ceph("rbd pool init rbd")?;
    let pair = Pair { stage };
    snapshots(&pair)?;
    clones(&pair)?;
    trash(&pair)?;
    names(&pair)?;
    groups(&pair)?;
    switches(&pair)?;
    copies(&pair)?;
    owner(&pair)?;
    nothing_is_left(&pair)
}

fn snapshots(pair: &Pair<'_>) -> Result<()> {
    pair.ours(&format!("create --size {SIZE} disk"))?;
    pair.same("info disk")?;
    pair.write("disk", "2M")?;
    pair.ours("snap create disk@one")?;
    let first = pair.export("disk", "first.raw")?;
    pair.write("disk", "4M")?;
    pair.theirs("snap create --no-progress disk@two")?;
    pair.ours("snap create --image disk --snap three")?;
    pair.has("disk@one", &first)?;
    pair.both_fail("snap create disk@one --no-progress")?;
    pair.both_fail("snap create missing@one --no-progress")?;
    pair.both_fail("snap create disk")?;
    let listed = pair.same("snap ls disk")?;
    ensure!(listed.as_array().is_some_and(|all| all.len() == 3), "{listed}");
    pair.same("snap ls disk --all")?;

    pair.ours("snap rename disk@three disk@last")?;
    pair.both_fail("snap rename disk@last disk@one")?;
    pair.both_fail("snap rename disk@last other@one")?;
    pair.ours("snap protect disk@one")?;
    pair.both_fail("snap protect disk@one")?;
    pair.both_fail("snap unprotect disk@last")?;
    pair.both_fail("snap rm disk@one --no-progress")?;
    pair.both_fail("snap rm disk@missing --no-progress")?;
    pair.same("snap ls disk")?;
    pair.same("info disk@one")?;
    pair.same("ls --long")?;

    pair.ours("snap limit set disk --limit 3")?;
    pair.both_fail("snap create disk@fourth --no-progress")?;
    pair.ours("snap limit clear disk")?;
    pair.both_fail("snap rollback disk@missing --no-progress")?;
    pair.ours("resize --size 6M --allow-shrink disk")?;
    pair.map_is_right("disk")?;
    pair.ours("snap rollback disk@one")?;
    pair.has("disk", &first)?;
    pair.map_is_right("disk")?;
    pair.both_fail("rm disk --no-progress")?;
    pair.ours("snap rm disk@last")?;
    pair.has("disk@one", &first)?;
    pair.map_is_right("disk")?;
    says(&pair.same_text("snap ls disk")?, "two")
}

fn clones(pair: &Pair<'_>) -> Result<()> {
    let parent = pair.export("disk@one", "parent.raw")?;
    pair.both_fail("clone disk@two refused")?;
    pair.ours("clone disk@one listed")?;
    pair.both_fail("clone disk@one listed")?;
    pair.ours("clone --rbd-default-clone-format 2 disk@two counted")?;
    let second = pair.export("disk@two", "second.raw")?;
    pair.has("listed", &parent)?;
    pair.has("counted", &second)?;
    pair.same("info listed")?;
    pair.same("info counted")?;
    pair.same("children disk@one")?;
    pair.same("children disk")?;
    pair.same("ls --long")?;
    pair.both_fail("snap unprotect disk@one")?;

    // A snapshot that a clone counts goes out of sight, and then with the clone.
    pair.ours("snap rm disk@two")?;
    pair.same("snap ls disk --all")?;
    pair.has("counted", &second)?;
    pair.write("listed", "1M")?;
    pair.theirs("snap create --no-progress listed@before")?;
    let listed = pair.export("listed", "listed.raw")?;
    pair.ours("flatten listed")?;
    pair.has("listed", &listed)?;
    pair.has("listed@before", &listed)?;
    pair.map_is_right("listed")?;
    pair.map_is_right("listed@before")?;
    pair.both_fail("flatten listed --no-progress")?;
    pair.ours("flatten counted")?;
    pair.has("counted", &second)?;
    pair.same("snap ls disk --all")?;
    pair.same("info counted")?;
    pair.ours("snap unprotect disk@one")?;
    pair.theirs("clone --rbd-default-clone-format 2 disk@one theirs")?;
    pair.ours("rm theirs")?;
    let left = pair.ours("snap purge listed")?;
    ensure!(left.is_empty(), "`snap purge` says {left}");
    for image in ["listed", "counted"] {
        pair.ours(&format!("rm {image}"))?;
    }
    Ok(())
}

fn trash(pair: &Pair<'_>) -> Result<()> {
    let bytes = pair.export("disk", "disk.raw")?;
    pair.ours("trash mv disk")?;
    pair.both_fail("trash mv disk")?;
    let listed = pair.same("trash ls")?;
    pair.same("trash ls --long")?;
    let id = listed[0]["id"].as_str().context("nothing in the trash")?.to_owned();
    pair.both_fail("info disk")?;
    pair.theirs(&format!("trash restore {id}"))?;
    pair.has("disk", &bytes)?;
    pair.theirs("trash mv disk")?;
    pair.ours(&format!("trash restore {id} --image back"))?;
    pair.both_fail(&format!("trash restore {id}"))?;
    pair.ours("rename back disk")?;
    pair.has("disk", &bytes)?;

    pair.theirs("create --size 1M kept")?;
    pair.ours("trash mv kept --expires-at 2040-01-01")?;
    let listed = pair.same("trash ls --long")?;
    let id = listed[0]["id"].as_str().context("nothing in the trash")?;
    pair.both_fail(&format!("trash rm {id} --no-progress"))?;
    pair.ours("trash purge")?;
    pair.ours("trash purge --threshold 1")?;
    pair.both_fail("trash purge --threshold 2 --no-progress")?;
    pair.ours(&format!("trash rm --force {id}"))?;
    pair.both_fail(&format!("trash rm {id} --no-progress"))?;
    pair.same("trash ls").map(drop)
}

fn names(pair: &Pair<'_>) -> Result<()> {
    pair.ours("namespace create rbd/tenant")?;
    pair.both_fail("namespace create rbd/tenant")?;
    pair.same("namespace ls")?;
    pair.ours("create --size 1M rbd/tenant/inner")?;
    pair.theirs("snap create --no-progress rbd/tenant/inner@s")?;
    pair.ours("snap protect rbd/tenant/inner@s")?;
    pair.ours("clone rbd/tenant/inner@s rbd/tenant/clone")?;
    pair.both_fail("clone rbd/tenant/inner@s rbd/outside --rbd-default-clone-format 1")?;
    pair.same("children rbd/tenant/inner@s")?;
    pair.same("ls --long rbd/tenant")?;
    pair.both_fail("namespace rm rbd/tenant")?;
    pair.ours("rm rbd/tenant/clone")?;
    pair.ours("snap unprotect rbd/tenant/inner@s")?;
    pair.ours("snap purge rbd/tenant/inner")?;
    pair.ours("rm rbd/tenant/inner")?;
    pair.ours("namespace rm rbd/tenant")?;
    pair.both_fail("namespace rm rbd/tenant")?;
    pair.same("namespace ls")?;

    pair.theirs("create --size 1M other")?;
    pair.both_fail("rename disk other")?;
    pair.both_fail("rename missing else")?;
    pair.ours("mv other another")?;
    pair.same("ls")?;
    pair.ours("rm another")?;
    pair.both_fail("rm another --no-progress")
}

fn groups(pair: &Pair<'_>) -> Result<()> {
    let bytes = pair.export("disk", "disk.raw")?;
    pair.theirs("create --size 1M member")?;
    pair.ours("group create web")?;
    pair.both_fail("group create web")?;
    pair.ours("group image add web disk")?;
    pair.theirs("group image add web member")?;
    pair.same("group ls")?;
    pair.same("group image ls web")?;
    pair.same("info disk")?;
    pair.both_fail("rm member --no-progress")?;
    pair.ours("group snap create web@ours")?;
    pair.both_fail("group snap create web@ours")?;
    pair.theirs("group snap create web@theirs")?;
    pair.same("group snap ls web")?;
    pair.same("snap ls disk --all")?;
    pair.write("disk", "1M")?;
    pair.ours("group snap rollback web@theirs")?;
    pair.has("disk", &bytes)?;
    pair.write("disk", "1M")?;
    pair.theirs("group snap rollback --no-progress web@ours")?;
    pair.has("disk", &bytes)?;
    pair.ours("group snap rename web@ours first")?;
    pair.both_fail("group snap rm web@ours")?;
    pair.ours("group snap rm web@theirs")?;
    pair.theirs("group snap rm web@first")?;
    pair.ours("group image rm web member")?;
    pair.ours("group rename web www")?;
    pair.same("group image ls www")?;
    pair.ours("group rm www")?;
    pair.same("info disk")?;
    pair.ours("rm member").map(drop)
}

fn switches(pair: &Pair<'_>) -> Result<()> {
    pair.ours("image-meta set disk owner web")?;
    pair.theirs("image-meta set disk colour red")?;
    pair.same("image-meta list disk")?;
    pair.same_text("image-meta get disk owner")?;
    pair.both_fail("image-meta get disk missing")?;
    pair.ours("image-meta remove disk owner")?;
    pair.both_fail("image-meta remove disk owner")?;
    pair.same("image-meta list disk")?;

    pair.ours("config image set disk rbd_cache false")?;
    pair.same_text("config image get disk rbd_cache")?;
    pair.ours("config image rm disk rbd_cache")?;
    pair.both_fail("config image get disk rbd_cache")?;
    pair.ours("config pool set rbd rbd_cache true")?;
    pair.same_text("config pool get rbd rbd_cache")?;
    pair.ours("config pool rm rbd rbd_cache")?;

    pair.ours("feature disable disk object-map")?;
    pair.both_fail("feature disable disk object-map")?;
    pair.both_fail("feature disable disk layering")?;
    pair.same("info disk")?;
    pair.ours("feature enable disk object-map")?;
    pair.both_fail("feature enable disk object-map")?;
    pair.both_fail("feature disable disk exclusive-lock")?;
    pair.same("info disk")?;
    pair.ours("object-map rebuild disk@one")?;
    pair.map_is_right("disk@one")?;
    pair.ours("object-map rebuild disk")?;
    pair.map_is_right("disk")?;
    pair.map_is_right("disk@one")?;
    pair.ours("object-map check disk")?;
    pair.same("info disk")?;

    pair.ours("lock add disk mine")?;
    pair.same("lock ls disk")?;
    pair.both_fail("lock add disk another")?;
    pair.both_fail("lock rm disk mine client.1")?;
    let locks = pair.same_json("lock ls disk")?;
    let locker = locks[0]["locker"].as_str().context("no locker")?;
    pair.ours(&format!("lock rm disk mine {locker}"))?;
    pair.theirs("lock add --shared us disk theirs")?;
    pair.same("lock ls disk")?;
    let locks = pair.same_json("lock ls disk")?;
    let locker = locks[0]["locker"].as_str().context("no locker")?;
    pair.ours(&format!("lock rm disk theirs {locker}"))?;
    pair.same("lock ls disk")?;
    pair.same("status disk").map(drop)
}

fn copies(pair: &Pair<'_>) -> Result<()> {
    let (now, one) = (pair.export("disk", "now.raw")?, pair.export("disk@one", "one.raw")?);
    pair.ours("cp disk copy")?;
    pair.both_fail("cp disk copy --no-progress")?;
    pair.has("copy", &now)?;
    pair.map_is_right("copy")?;
    pair.ours("cp disk@one old")?;
    pair.has("old", &one)?;
    pair.write("disk", "1M")?;
    let now = pair.export("disk", "now.raw")?;
    pair.ours("deep cp disk whole")?;
    pair.has("whole", &now)?;
    pair.has("whole@one", &one)?;
    pair.map_is_right("whole")?;
    pair.map_is_right("whole@one")?;

    pair.ours("sparsify old")?;
    pair.has("old", &one)?;
    pair.both_fail("resize --size 1M old --no-progress")?;
    pair.both_fail("resize --size 1M missing --no-progress")?;
    pair.ours("resize --size 20M old")?;
    pair.map_is_right("old")?;
    pair.same("info old")?;
    pair.ours(&format!(
        "create --size {SIZE} --object-size 1M --stripe-unit 64K --stripe-count 4 --image-feature layering,exclusive-lock,object-map striped"
    ))?;
    pair.same("info striped")?;
    pair.write("striped", "4M")?;
    pair.ours("create --size 1M --image-shared --pool rbd --image shared")?;
    pair.same("info shared").map(drop)
}

/// A client of Ceph's owns an image and keeps its lock: it does for us what changes the image.
fn owner(pair: &Pair<'_>) -> Result<()> {
    pair.theirs("snap create --no-progress copy@parent")?;
    pair.theirs("clone --rbd-default-clone-format 2 copy@parent owned")?;
    let bytes = pair.export("owned", "owned.raw")?;
    fs::write(pair.stage.path("owner.py"), include_str!("owner.py"))?;
    let log = pair.stage.path("owner.out");
    let command = pair.stage.ceph_daemon("python3 owner.py owned");
    let mut owner = Daemon::spawn("owner.py", command, &log)?;
    owner.wait_until("an exclusive lock", PATIENCE, || {
        fs::read_to_string(&log).is_ok_and(|said| said.contains("locked"))
    })?;
    pair.ours("snap create owned@one")?;
    pair.both_fail("snap create owned@one --no-progress")?;
    pair.ours("snap rename owned@one owned@two")?;
    pair.ours("snap protect owned@two")?;
    pair.same("snap ls owned")?;
    pair.ours("snap unprotect owned@two")?;
    pair.ours("resize --size 12M owned")?;
    pair.ours("flatten owned")?;
    pair.ours("snap rm owned@two")?;
    pair.ours("feature disable owned object-map")?;
    pair.ours("feature enable owned object-map")?;
    pair.ours("object-map rebuild owned")?;
    pair.ours("sparsify owned")?;
    pair.same("info owned")?;
    pair.same("status owned")?;
    pair.ours("resize --size 10M --allow-shrink owned")?;
    pair.both_fail("rm owned --no-progress")?;
    owner.stop()?;
    pair.has("owned", &bytes)?;
    pair.map_is_right("owned")?;
    pair.ours("snap purge copy")?;
    pair.ours("rm owned").map(drop)
}

/// What is removed leaves no data behind.
fn nothing_is_left(pair: &Pair<'_>) -> Result<()> {
    for image in ["disk", "whole"] {
        pair.ours(&format!("snap purge {image}"))?;
    }
    for image in ["disk", "whole", "copy", "old", "striped", "shared"] {
        pair.ours(&format!("rm {image}"))?;
    }
    pair.same("ls --long")?;
    let parts = ["rbd_data.", "rbd_header.", "rbd_id.", "rbd_object_map."];
    steps::nothing_is_left(pair.stage, &["rbd"], &parts, TRIMMED_IN)
}
