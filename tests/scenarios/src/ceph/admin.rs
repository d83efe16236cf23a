//! Administration of images: Ceph's `rbd` sees our changes, we see its, and both programs end in the same way.

use super::{PATIENCE, map_is_valid, same_file};
use crate::steps::{TRIMMED_IN, json, nothing_is_left};
use anyhow::{Context as _, Result, bail, ensure};
use onego_sandbox::{Daemon, Sandbox, sh};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;

/// Steps, a kind and its commands each line:
/// - `ours`, `theirs`: the program succeeds. `quiet`: ours also prints nothing.
/// - `fail`: both fail with the same code, Ceph's first.
/// - `text`: both print the same bytes. `json`: the same JSON. `same`: both of these, and pretty JSON.
/// - `list N`: the last JSON has that many entries. `{name}` is that field of its first entry.
/// - `save IMAGE FILE`, `has IMAGE FILE`: Ceph exports the image to the file, or as it is in the file.
/// - `write IMAGE BYTES`: Ceph writes at random places. `map IMAGE`: its object map is valid.
const STEPS: &str = "
# Snapshots
ours: create --size 10M disk
same: info disk
write: disk 2M
ours: snap create disk@one
save: disk first
write: disk 4M
theirs: snap create --no-progress disk@two
ours: snap create --image disk --snap three
has: disk@one first
fail: snap create disk@one --no-progress; snap create missing@one --no-progress; snap create disk
same: snap ls disk
list: 3
same: snap ls disk --all
ours: snap rename disk@three disk@last
fail: snap rename disk@last disk@one; snap rename disk@last other@one
ours: snap protect disk@one
fail: snap protect disk@one; snap unprotect disk@last
fail: snap rm disk@one --no-progress; snap rm disk@missing --no-progress
same: snap ls disk; info disk@one; ls --long
ours: snap limit set disk --limit 3
fail: snap create disk@fourth --no-progress
ours: snap limit clear disk
fail: snap rollback disk@missing --no-progress
ours: resize --size 6M --allow-shrink disk
map: disk
ours: snap rollback disk@one
has: disk first
map: disk
fail: rm disk --no-progress
ours: snap rm disk@last
has: disk@one first
map: disk
text: snap ls disk
json: snap ls disk
list: 2

# Clones
save: disk@one parent
fail: clone disk@two refused
ours: clone disk@one listed
fail: clone disk@one listed
ours: clone --rbd-default-clone-format 2 disk@two counted
save: disk@two second
has: listed parent; counted second
same: info listed; info counted; children disk@one; children disk; ls --long
fail: snap unprotect disk@one
# A removed snapshot with a clone of format 2 goes to the trash until the clone is gone.
ours: snap rm disk@two
same: snap ls disk --all
has: counted second
write: listed 1M
theirs: snap create --no-progress listed@before
save: listed listed
ours: flatten listed
has: listed listed; listed@before listed
map: listed; listed@before
fail: flatten listed --no-progress
ours: flatten counted
has: counted second
same: snap ls disk --all; info counted
ours: snap unprotect disk@one
theirs: clone --rbd-default-clone-format 2 disk@one theirs
ours: rm theirs
quiet: snap purge listed
ours: rm listed; rm counted

# Trash
save: disk disk
ours: trash mv disk
fail: trash mv disk
same: trash ls; trash ls --long
fail: info disk
theirs: trash restore {id}
has: disk disk
theirs: trash mv disk
ours: trash restore {id} --image back
fail: trash restore {id}
ours: rename back disk
has: disk disk
theirs: create --size 1M kept
ours: trash mv kept --expires-at 2040-01-01
same: trash ls --long
fail: trash rm {id} --no-progress
ours: trash purge; trash purge --threshold 1
fail: trash purge --threshold 2 --no-progress
ours: trash rm --force {id}
fail: trash rm {id} --no-progress
same: trash ls

# Namespaces and names
ours: namespace create rbd/tenant
fail: namespace create rbd/tenant
same: namespace ls
ours: create --size 1M rbd/tenant/inner
theirs: snap create --no-progress rbd/tenant/inner@s
ours: snap protect rbd/tenant/inner@s; clone rbd/tenant/inner@s rbd/tenant/clone
fail: clone rbd/tenant/inner@s rbd/outside --rbd-default-clone-format 1
same: children rbd/tenant/inner@s; ls --long rbd/tenant
fail: namespace rm rbd/tenant
ours: rm rbd/tenant/clone; snap unprotect rbd/tenant/inner@s; snap purge rbd/tenant/inner; rm rbd/tenant/inner
ours: namespace rm rbd/tenant
fail: namespace rm rbd/tenant
same: namespace ls
theirs: create --size 1M other
fail: rename disk other; rename missing else
ours: mv other another
same: ls
ours: rm another
fail: rm another --no-progress

# Groups
save: disk disk
theirs: create --size 1M member
ours: group create web
fail: group create web
ours: group image add web disk
theirs: group image add web member
same: group ls; group image ls web; info disk
fail: rm member --no-progress
ours: group snap create web@ours
fail: group snap create web@ours
theirs: group snap create web@theirs
same: group snap ls web; snap ls disk --all
write: disk 1M
ours: group snap rollback web@theirs
has: disk disk
write: disk 1M
theirs: group snap rollback --no-progress web@ours
has: disk disk
ours: group snap rename web@ours first
fail: group snap rm web@ours
ours: group snap rm web@theirs
theirs: group snap rm web@first
ours: group image rm web member; group rename web www
same: group image ls www
ours: group rm www
same: info disk
ours: rm member

# Metadata, configuration, features and locks
ours: image-meta set disk owner web
theirs: image-meta set disk colour red
same: image-meta list disk
text: image-meta get disk owner
fail: image-meta get disk missing
ours: image-meta remove disk owner
fail: image-meta remove disk owner
same: image-meta list disk
ours: config image set disk rbd_cache false
text: config image get disk rbd_cache
ours: config image rm disk rbd_cache
fail: config image get disk rbd_cache
ours: config pool set rbd rbd_cache true
text: config pool get rbd rbd_cache
ours: config pool rm rbd rbd_cache
ours: feature disable disk object-map
fail: feature disable disk object-map; feature disable disk layering
same: info disk
ours: feature enable disk object-map
fail: feature enable disk object-map; feature disable disk exclusive-lock
same: info disk
ours: object-map rebuild disk@one
map: disk@one
ours: object-map rebuild disk
map: disk; disk@one
ours: object-map check disk
same: info disk
ours: lock add disk mine
same: lock ls disk
fail: lock add disk another; lock rm disk mine client.1
json: lock ls disk
ours: lock rm disk mine {locker}
theirs: lock add --shared us disk theirs
same: lock ls disk
json: lock ls disk
ours: lock rm disk theirs {locker}
same: lock ls disk; status disk

# Copies
save: disk now; disk@one one
ours: cp disk copy
fail: cp disk copy --no-progress
has: copy now
map: copy
ours: cp disk@one old
has: old one
write: disk 1M
save: disk now
ours: deep cp disk whole
has: whole now; whole@one one
map: whole; whole@one
ours: sparsify old
has: old one
fail: resize --size 1M old --no-progress; resize --size 1M missing --no-progress
ours: resize --size 20M old
map: old
same: info old
ours: create --size 10M --object-size 1M --stripe-unit 64K --stripe-count 4 \
--image-feature layering,exclusive-lock,object-map striped
same: info striped
write: striped 4M
ours: create --size 1M --image-shared --pool rbd --image shared
same: info shared
theirs: snap create --no-progress copy@parent; clone --rbd-default-clone-format 2 copy@parent owned
save: owned owned
";

/// Steps while a client of Ceph keeps the lock of `owned`: it runs our operations.
const OWNED: &str = "
ours: snap create owned@one
fail: snap create owned@one --no-progress
ours: snap rename owned@one owned@two; snap protect owned@two
same: snap ls owned
ours: snap unprotect owned@two; resize --size 12M owned; flatten owned; snap rm owned@two
ours: feature disable owned object-map; feature enable owned object-map; object-map rebuild owned; sparsify owned
same: info owned; status owned
ours: resize --size 10M --allow-shrink owned
fail: rm owned --no-progress
";

const REMOVED: &str = "
has: owned owned
map: owned
ours: snap purge copy; rm owned; snap purge disk; snap purge whole
ours: rm disk; rm whole; rm copy; rm old; rm striped; rm shared
same: ls --long
";

pub(super) fn run(sandbox: &Sandbox) -> Result<()> {
    symlink(sandbox.onego_program(), sandbox.path("rbd"))?;
    sandbox.ceph("rbd pool init rbd")?;
    run_steps(sandbox, STEPS)?;
    sandbox.write("owner.py", include_str!("owner.py"))?;
    let owner = sandbox.ceph_daemon("python3 owner.py owned");
    let mut owner = Daemon::spawn("owner.py", owner, &sandbox.path("owner.out"))?;
    owner.wait_until("exclusive lock", PATIENCE, || {
        sandbox.read("owner.out").is_ok_and(|said| said.contains("locked"))
    })?;
    run_steps(sandbox, OWNED)?;
    owner.stop()?;
    run_steps(sandbox, REMOVED)?;
    let parts = ["rbd_data.", "rbd_header.", "rbd_id.", "rbd_object_map."];
    nothing_is_left(sandbox, &["rbd"], &parts, TRIMMED_IN)
}

fn run_steps(sandbox: &Sandbox, steps: &str) -> Result<()> {
    let mut pair = Pair { sandbox, last: Value::Null };
    for line in steps.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (kind, commands) = line.split_once(": ").with_context(|| format!("no colon in `{line}`"))?;
        for command in commands.split("; ") {
            pair.step(kind, command).with_context(|| format!("{kind}: {command}"))?;
        }
    }
    Ok(())
}

/// Our program under the name of Ceph's, and Ceph's.
struct Pair<'a> {
    sandbox: &'a Sandbox,
    /// The last JSON that both printed.
    last: Value,
}

impl Pair<'_> {
    fn step(&mut self, kind: &str, command: &str) -> Result<()> {
        let command = self.fill_in(command)?;
        let (image, operand) = command.split_once(' ').unwrap_or((&command, ""));
        match kind {
            "ours" => self.ours(&command).map(drop),
            "theirs" => self.theirs(&command).map(drop),
            "quiet" => Ok(ensure!(self.ours(&command)?.is_empty(), "our program prints something")),
            "fail" => self.both_fail(&command),
            "text" => self.same_text(&command),
            "json" => self.same_json(&command),
            "same" => {
                self.same_text(&command)?;
                self.same_text(&format!("{command} --format json --pretty-format"))?;
                self.same_json(&command)
            }
            "list" => {
                let is_expected = self.last.as_array().is_some_and(|all| all.len().to_string() == command);
                Ok(ensure!(is_expected, "the list is {}", self.last))
            }
            "save" => {
                let _ = fs::remove_file(self.sandbox.path(operand));
                self.theirs(&format!("export --no-progress {image} {operand}")).map(drop)
            }
            "has" => {
                self.theirs(&format!("export --no-progress {image} exported.raw"))?;
                same_file(self.sandbox, operand, "exported.raw")
            }
            "write" => {
                let bench = "bench --io-type write --io-pattern rand --io-size 64K --io-threads 4 --io-total";
                self.theirs(&format!("{bench} {operand} {image}")).map(drop)
            }
            "map" => map_is_valid(self.sandbox, image),
            _ => bail!("there is no such kind of step"),
        }
    }

    /// Replaces `{name}` by that field of the first entry of the last JSON.
    fn fill_in(&self, command: &str) -> Result<String> {
        let Some((before, rest)) = command.split_once('{') else { return Ok(command.to_owned()) };
        let (name, after) = rest.split_once('}').context("no closing brace")?;
        let field = self.last[0][name].as_str().with_context(|| format!("no {name} in {}", self.last))?;
        Ok(format!("{before}{field}{after}"))
    }

    fn ours_command(&self, command: &str) -> std::process::Command {
        self.sandbox.host_command("timeout", &format!("60 ./rbd {command}"))
    }

    fn ours(&self, command: &str) -> Result<String> {
        sh::text(&mut self.ours_command(command))
    }

    fn theirs(&self, command: &str) -> Result<String> {
        self.sandbox.ceph(&format!("rbd {command}"))
    }

    fn both_fail(&self, command: &str) -> Result<()> {
        let theirs = self.sandbox.ceph_fails(&format!("rbd {command}"))?.status.code();
        let output = sh::output(&mut self.ours_command(command))?;
        let ours = output.status.code();
        ensure!(ours == theirs, "Ceph's ends with {theirs:?} and ours with {ours:?}: {}", sh::both(&output));
        Ok(())
    }

    fn same_text(&self, command: &str) -> Result<()> {
        let (ours, theirs) = (self.ours(command)?, self.theirs(command)?);
        ensure!(ours == theirs, "Ceph's prints\n{theirs}and ours\n{ours}");
        Ok(())
    }

    fn same_json(&mut self, command: &str) -> Result<()> {
        let command = format!("{command} --format json");
        let (ours, theirs) = (json(&self.ours(&command)?)?, json(&self.theirs(&command)?)?);
        ensure!(ours == theirs, "Ceph's prints\n{theirs}\nand ours\n{ours}");
        self.last = ours;
        Ok(())
    }
}
