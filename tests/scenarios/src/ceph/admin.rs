//! Administration of images: Ceph's `rbd` sees our changes, we see its, and both programs end in the same way.

use super::{PATIENCE, each_step, run_step, script};
use crate::steps::{TRIMMED_IN, json, nothing_is_left};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Daemon, Sandbox, sh};
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::process::Command;

/// Steps. Some are as in [`script`], which runs Ceph's program for `rbd`. Of the others,
/// - `fail ...`: both programs fail with the same code, Ceph's first.
/// - `text ...`: both print the same bytes. `json ...`: the same JSON. `same ...`: both of these, and pretty JSON.
/// - `list N`: the last JSON has that many entries. `{name}` is that field of its first entry.
/// - `quiet ...`: our program succeeds and prints nothing.
/// - Anything else: our program succeeds.
const STEPS: &str = "
# Snapshots
create --size 10M disk; same info disk; write disk 64K 2M; snap create disk@one; save disk first; write disk 64K 4M
rbd snap create --no-progress disk@two; snap create --image disk --snap three; has disk@one first
fail snap create disk@one --no-progress; fail snap create missing@one --no-progress; fail snap create disk
same snap ls disk; list 3; same snap ls disk --all; snap rename disk@three disk@last
fail snap rename disk@last disk@one; fail snap rename disk@last other@one; snap protect disk@one
fail snap protect disk@one; fail snap unprotect disk@last; fail snap rm disk@one --no-progress
fail snap rm disk@missing --no-progress; same snap ls disk; same info disk@one; same ls --long
snap limit set disk --limit 3; fail snap create disk@fourth --no-progress; snap limit clear disk
fail snap rollback disk@missing --no-progress; resize --size 6M --allow-shrink disk; map disk
snap rollback disk@one; has disk first; map disk; fail rm disk --no-progress
snap rm disk@last; has disk@one first; map disk; text snap ls disk; json snap ls disk; list 2
# Clones
save disk@one parent; save disk@two second; fail clone disk@two refused; clone disk@one listed
fail clone disk@one listed; clone --rbd-default-clone-format 2 disk@two counted; has listed parent; has counted second
same info listed; same info counted; same children disk@one; same children disk; same ls --long
fail snap unprotect disk@one
# A removed snapshot with a clone of format 2 is in the trash until the clone is gone.
snap rm disk@two; same snap ls disk --all; has counted second; write listed 64K 1M
rbd snap create --no-progress listed@before; save listed listed; flatten listed; has listed listed
has listed@before listed; map listed; map listed@before; fail flatten listed --no-progress; flatten counted
has counted second; same snap ls disk --all; same info counted; snap unprotect disk@one
rbd clone --rbd-default-clone-format 2 disk@one theirs; rm theirs; quiet snap purge listed; rm listed; rm counted
# Trash
save disk disk; trash mv disk; fail trash mv disk; same trash ls; same trash ls --long; fail info disk
rbd trash restore {id}; has disk disk; rbd trash mv disk; trash restore {id} --image back; fail trash restore {id}
rename back disk; has disk disk; rbd create --size 1M kept; trash mv kept --expires-at 2040-01-01
same trash ls --long; fail trash rm {id} --no-progress; trash purge; trash purge --threshold 1
fail trash purge --threshold 2 --no-progress; trash rm --force {id}; fail trash rm {id} --no-progress; same trash ls
# Namespaces and names
namespace create rbd/tenant; fail namespace create rbd/tenant; same namespace ls; create --size 1M rbd/tenant/inner
rbd snap create --no-progress rbd/tenant/inner@s; snap protect rbd/tenant/inner@s
clone rbd/tenant/inner@s rbd/tenant/clone; fail clone rbd/tenant/inner@s rbd/outside --rbd-default-clone-format 1
same children rbd/tenant/inner@s; same ls --long rbd/tenant; fail namespace rm rbd/tenant; rm rbd/tenant/clone
snap unprotect rbd/tenant/inner@s; snap purge rbd/tenant/inner; rm rbd/tenant/inner; namespace rm rbd/tenant
fail namespace rm rbd/tenant; same namespace ls; rbd create --size 1M other; fail rename disk other
fail rename missing else; mv other another; same ls; rm another; fail rm another --no-progress
# Groups
save disk disk; rbd create --size 1M member; group create web; fail group create web; group image add web disk
rbd group image add web member; same group ls; same group image ls web; same info disk; fail rm member --no-progress
group snap create web@ours; fail group snap create web@ours; rbd group snap create web@theirs
same group snap ls web; same snap ls disk --all; write disk 64K 1M; group snap rollback web@theirs; has disk disk
write disk 64K 1M; rbd group snap rollback --no-progress web@ours; has disk disk; group snap rename web@ours first
fail group snap rm web@ours; group snap rm web@theirs; rbd group snap rm web@first; group image rm web member
group rename web www; same group image ls www; group rm www; same info disk; rm member
# Metadata and configuration
image-meta set disk owner web; rbd image-meta set disk colour red; same image-meta list disk
text image-meta get disk owner; fail image-meta get disk missing; image-meta remove disk owner
fail image-meta remove disk owner; same image-meta list disk
config image set disk rbd_cache false; text config image get disk rbd_cache; config image rm disk rbd_cache
fail config image get disk rbd_cache; config pool set rbd rbd_cache true; text config pool get rbd rbd_cache
config pool rm rbd rbd_cache
# Features and locks
feature disable disk object-map; fail feature disable disk object-map; fail feature disable disk layering
same info disk; feature enable disk object-map; fail feature enable disk object-map
fail feature disable disk exclusive-lock; same info disk; object-map rebuild disk@one; map disk@one
object-map rebuild disk; map disk; map disk@one; object-map check disk; same info disk
lock add disk mine; same lock ls disk; fail lock add disk another; fail lock rm disk mine client.1; json lock ls disk
lock rm disk mine {locker}; rbd lock add --shared us disk theirs; same lock ls disk; json lock ls disk
lock rm disk theirs {locker}; same lock ls disk; same status disk
# Copies
save disk now; save disk@one one; cp disk copy; fail cp disk copy --no-progress; has copy now; map copy
cp disk@one old; has old one; write disk 64K 1M; save disk now; deep cp disk whole; has whole now; has whole@one one
map whole; map whole@one; sparsify old; has old one; fail resize --size 1M old --no-progress
fail resize --size 1M missing --no-progress; resize --size 20M old; map old; same info old
create --size 10M --object-size 1M --stripe-unit 64K --stripe-count 4 \
--image-feature layering,exclusive-lock,object-map striped
same info striped; write striped 64K 4M; create --size 1M --image-shared --pool rbd --image shared; same info shared
rbd snap create --no-progress copy@parent; rbd clone --rbd-default-clone-format 2 copy@parent owned; save owned owned
";

/// Steps while a librbd client keeps the lock of `owned` and runs our operations.
const OWNED: &str = "
snap create owned@one; fail snap create owned@one --no-progress; snap rename owned@one owned@two
snap protect owned@two; same snap ls owned; snap unprotect owned@two; resize --size 12M owned; flatten owned
snap rm owned@two; feature disable owned object-map; feature enable owned object-map; object-map rebuild owned
sparsify owned; same info owned; same status owned; resize --size 10M --allow-shrink owned
fail rm owned --no-progress
";

const REMOVED: &str = "
has owned owned; map owned; snap purge copy; rm owned; snap purge disk; snap purge whole
rm disk; rm whole; rm copy; rm old; rm striped; rm shared; same ls --long
";

pub(super) fn run(sandbox: &Sandbox) -> Result<()> {
    symlink(sandbox.onego_program(), sandbox.path("rbd"))?;
    script(sandbox, "rbd pool init rbd")?;
    let mut pair = Pair { sandbox, last: Value::Null };
    pair.run(STEPS)?;
    sandbox.write("owner.py", include_str!("owner.py"))?;
    let owner = sandbox.ceph_daemon("python3 owner.py owned");
    let mut owner = Daemon::spawn("owner.py", owner, &sandbox.path("owner.out"))?;
    owner.wait_until("exclusive lock", PATIENCE, || {
        sandbox.read("owner.out").is_ok_and(|said| said.contains("locked"))
    })?;
    pair.run(OWNED)?;
    owner.stop()?;
    pair.run(REMOVED)?;
    let parts = ["rbd_data.", "rbd_header.", "rbd_id.", "rbd_object_map."];
    nothing_is_left(sandbox, &["rbd"], &parts, TRIMMED_IN)
}

/// Our program under the name of Ceph's, and Ceph's.
struct Pair<'a> {
    sandbox: &'a Sandbox,
    /// The last JSON that both printed.
    last: Value,
}

impl Pair<'_> {
    fn run(&mut self, steps: &str) -> Result<()> {
        each_step(steps, |step| {
            let step = self.fill_in(step)?;
            match step.split_once(' ').context("a step has several words")? {
                ("rbd" | "write" | "save" | "has" | "map", _) => run_step(self.sandbox, &step),
                ("fail", line) => self.both_fail(line),
                ("text", line) => self.same_text(line),
                ("json", line) => self.same_json(line),
                ("same", line) => {
                    self.same_text(line)?;
                    self.same_text(&format!("{line} --format json --pretty-format"))?;
                    self.same_json(line)
                }
                ("list", count) => {
                    let length = self.last.as_array().map(|all| all.len().to_string());
                    ensure!(length.as_deref() == Some(count), "the list is {}", self.last);
                    Ok(())
                }
                ("quiet", line) => {
                    let said = self.ours(line)?;
                    ensure!(said.is_empty(), "our program prints {said}");
                    Ok(())
                }
                _ => self.ours(&step).map(drop),
            }
        })
    }

    /// Replaces `{name}` by that field of the first entry of the last JSON.
    fn fill_in(&self, step: &str) -> Result<String> {
        let Some((before, rest)) = step.split_once('{') else { return Ok(step.to_owned()) };
        let (name, after) = rest.split_once('}').context("no closing brace")?;
        let field = self.last[0][name].as_str().with_context(|| format!("no {name} in {}", self.last))?;
        Ok(format!("{before}{field}{after}"))
    }

    fn ours_command(&self, line: &str) -> Command {
        self.sandbox.host_command("timeout", &format!("60 ./rbd {line}"))
    }

    fn ours(&self, line: &str) -> Result<String> {
        sh::text(&mut self.ours_command(line))
    }

    fn both_fail(&self, line: &str) -> Result<()> {
        let theirs = self.sandbox.ceph_fails(&format!("rbd {line}"))?.status.code();
        let output = sh::output(&mut self.ours_command(line))?;
        let ours = output.status.code();
        ensure!(ours == theirs, "Ceph's ends with {theirs:?} and ours with {ours:?}: {}", sh::both(&output));
        Ok(())
    }

    fn same_text(&self, line: &str) -> Result<()> {
        let (ours, theirs) = (self.ours(line)?, self.sandbox.ceph(&format!("rbd {line}"))?);
        ensure!(ours == theirs, "Ceph's prints\n{theirs}and ours\n{ours}");
        Ok(())
    }

    fn same_json(&mut self, line: &str) -> Result<()> {
        let line = format!("{line} --format json");
        let (ours, theirs) = (self.ours(&line)?, self.sandbox.ceph(&format!("rbd {line}"))?);
        let (ours, theirs) = (json(&ours)?, json(&theirs)?);
        ensure!(ours == theirs, "Ceph's prints\n{theirs}\nand ours\n{ours}");
        self.last = ours;
        Ok(())
    }
}
