//! Ceph's `rbd` prints and does on our embedded cluster what it does on a real one; it and ours share format-1 images.

use crate::steps::{TRIMMED_IN, nothing_is_left};
use anyhow::{Result, ensure};
use onego_sandbox::{RealCeph, Sandbox, Server, Store, disk, sh};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::time::Duration;

/// Commands on images, snapshots, clones, groups, and so on.
const SCRIPT: &str = include_str!("rbd_commands.sh");

/// Least number of commands in the output of a complete run.
const MIN_COMMANDS: usize = 250;

/// Time the commands get on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Without it, neither program creates a format-1 image.
const ALLOW: &str = "RBD_FORCE_ALLOW_V1=1";

/// Size that an image is cut to before it is enlarged again.
const CUT: u64 = 42 << 20;

/// Bytes of a header without snapshots, and place of the objects' prefix in it, which differs between images.
const HEADER: usize = 112;
const PREFIX: Range<usize> = 40..64;

/// Lines that both programs refuse with the same code.
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

/// Runs the same on both clusters and compares the output.
pub(super) fn as_on_ceph(sandbox: &Sandbox) -> Result<()> {
    let expected = {
        let _ceph = RealCeph::start(sandbox, Store::Memory)?;
        sandbox.ceph("ceph osd set-require-min-compat-client mimic")?;
        commands_and_old_format(sandbox)?
    };
    sandbox.empty()?;
    let _cluster = Server::cluster(sandbox, "")?;
    let said = commands_and_old_format(sandbox)?;
    sandbox.write("on-ceph.out", &expected)?;
    sandbox.write("on-ours.out", &said)?;
    let commands = expected.lines().filter(|line| line.starts_with("$ ")).count();
    ensure!(commands >= MIN_COMMANDS, "only {commands} of {MIN_COMMANDS} commands have run");
    compare(&expected, &said)
}

/// Returns the output of the script, after both programs have exchanged format-1 images.
fn commands_and_old_format(sandbox: &Sandbox) -> Result<String> {
    sandbox.write("commands.sh", SCRIPT)?;
    for pool in ["rbd", "data"] {
        if !sandbox.ceph("ceph osd pool ls")?.lines().any(|name| name == pool) {
            sandbox.ceph(&format!("ceph osd pool create {pool} 8"))?;
        }
        sandbox.ceph(&format!("ceph osd pool application enable {pool} rbd"))?;
    }
    let said = sh::text(&mut sandbox.ceph_command_within("sh commands.sh", PATIENCE))?;
    old_format(sandbox)?;
    Ok(said)
}

/// Fails with each command whose answer differs.
fn compare(expected: &str, said: &str) -> Result<()> {
    let [on_ceph, on_ours] = [expected, said].map(|said| said.split("\n$ "));
    let pairs = on_ceph.clone().zip(on_ours.clone()).filter(|(expected, said)| expected != said);
    let differing: Vec<_> =
        pairs.map(|(expected, said)| format!("on Ceph:\n{expected}\non ours:\n{said}\n")).collect();
    let shown = differing.concat();
    ensure!(differing.is_empty(), "{} answers differ (on-ceph.out, on-ours.out):\n{shown}", differing.len());
    ensure!(on_ceph.count() == on_ours.count(), "commands are missing");
    Ok(())
}

/// Both programs, and the images that they make.
struct Sides<'a>(&'a Sandbox);

/// Runs a line of a side's `rbd`, which must succeed.
type RbdLine<'a> = &'a dyn Fn(&str) -> Result<String>;

impl Sides<'_> {
    fn ours(&self, line: &str) -> Result<String> {
        self.0.host(&format!("env {ALLOW} ./rbd {line}"))
    }

    fn theirs(&self, line: &str) -> Result<String> {
        self.0.ceph(&format!("env {ALLOW} rbd {line}"))
    }

    /// Fails unless both sides print the same.
    fn same(&self, line: &str) -> Result<()> {
        let (ours, theirs) = (self.ours(line)?, self.theirs(line)?);
        ensure!(ours == theirs, "`rbd {line}` prints\n{theirs}and ours\n{ours}");
        Ok(())
    }

    /// Fails unless both sides refuse a line with the same code.
    fn refused(&self, line: &str) -> Result<()> {
        let theirs = self.0.ceph_fails(&format!("env {ALLOW} rbd {line}"))?.status.code();
        let ours = sh::output(&mut self.0.host_command("env", &format!("{ALLOW} ./rbd {line}")))?;
        let (code, said) = (ours.status.code(), String::from_utf8_lossy(&ours.stderr));
        ensure!(code == theirs, "`rbd {line}` exits with {theirs:?} and ours with {code:?}: {said}");
        Ok(())
    }

    /// Fails unless both sides export the content of a file.
    fn exports(&self, image: &str, expected: &str) -> Result<()> {
        let line = |file: &str| format!("export --no-progress {image} {file}");
        self.ours(&line("ours.exported"))?;
        self.theirs(&line("theirs.exported"))?;
        for file in ["ours.exported", "theirs.exported"].map(|name| self.0.path(name)) {
            disk::compare(&self.0.path(expected), &file)?;
            fs::remove_file(file)?;
        }
        Ok(())
    }

    /// Returns the header of an image without snapshots, with the objects' prefix blanked.
    fn header(&self, image: &str) -> Result<Vec<u8>> {
        self.0.ceph(&format!("rados -p rbd get {image}.rbd header"))?;
        let mut bytes = fs::read(self.0.path("header"))?;
        ensure!(bytes.len() == HEADER, "the header of {image} has {} bytes", bytes.len());
        ensure!(bytes[PREFIX].starts_with(b"rb.0."), "the header of {image} has another prefix");
        bytes[PREFIX].fill(0);
        Ok(bytes)
    }

    /// `other` reads, changes and removes an image of `maker`, which sees each change.
    fn exchange(&self, image: &str, maker: RbdLine<'_>, other: RbdLine<'_>) -> Result<()> {
        maker(&format!("import --no-progress --image-format 1 disk.raw {image}"))?;
        self.exports(image, "disk.raw")?;
        other(&format!("snap create --no-progress {image}@before"))?;
        maker(&format!("resize --no-progress --allow-shrink --size {CUT}B {image}"))?;
        other(&format!("resize --no-progress --size {}B {image}", disk::SIZE))?;
        self.exports(image, "cut.raw")?;
        self.exports(&format!("{image}@before"), "disk.raw")?;
        maker(&format!("snap create --no-progress {image}@cut"))?;
        other(&format!("snap rename {image}@cut {image}@after"))?;
        for line in ["info --format json", "snap ls --format json", "diff --format json --from-snap before"] {
            self.same(&format!("{line} {image}"))?;
        }
        self.same(&format!("info {image}@before"))?;
        maker(&format!("snap rollback --no-progress {image}@before"))?;
        self.exports(image, "disk.raw")?;
        maker(&format!("lock add {image} mine"))?;
        self.same(&format!("lock ls --format json {image}"))?;
        other(&format!("snap rm --no-progress {image}@after"))?;
        maker(&format!("snap purge --no-progress {image}"))?;
        other(&format!("rename {image} {image}-renamed"))?;
        self.same("ls")?;
        self.same("ls --long --format json")?;
        self.exports(&format!("{image}-renamed"), "disk.raw")?;
        other(&format!("rm --no-progress {image}-renamed"))?;
        nothing_is_left(self.0, &["rbd"], &["rb.0.", ".rbd"], TRIMMED_IN)
    }
}

/// Ceph's `rbd` and ours create, read, change and remove each other's format-1 images.
fn old_format(sandbox: &Sandbox) -> Result<()> {
    let sides = Sides(sandbox);
    symlink(sandbox.onego_program(), sandbox.path("rbd"))?;
    disk::make(&sandbox.path("disk.raw"), 1)?;
    fs::copy(sandbox.path("disk.raw"), sandbox.path("cut.raw"))?;
    let cut = File::options().write(true).open(sandbox.path("cut.raw"))?;
    cut.set_len(CUT)?;
    cut.set_len(disk::SIZE)?;

    let [ours, theirs]: [RbdLine<'_>; 2] = [&|line| sides.ours(line), &|line| sides.theirs(line)];
    ours("create --image-format 1 --size 8M ours")?;
    theirs("create --image-format 1 --size 8M theirs")?;
    let headers = (sides.header("ours")?, sides.header("theirs")?);
    ensure!(headers.0 == headers.1, "headers of ours and theirs differ: {headers:?}");
    theirs("rm --no-progress ours")?;
    ours("rm --no-progress theirs")?;

    sides.exchange("ours", ours, theirs)?;
    sides.exchange("theirs", theirs, ours)?;
    ours("create --image-format 1 --size 8M old")?;
    ours("create --size 8M other")?;
    ours("snap create old@before")?;
    theirs("group create group")?;
    theirs("namespace create rbd/apart")?;
    REFUSED.iter().try_for_each(|line| sides.refused(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_differs_is_named_with_its_command() {
        let expected = "# Pools\n$ rbd ls\none\n$ rbd info one\nsize 8\n";
        assert!(compare(expected, expected).is_ok());
        let error = compare(expected, &expected.replace('8', "9")).unwrap_err().to_string();
        assert!(error.contains("rbd info one\nsize 8") && error.contains("size 9"));
        assert!(!error.contains("rbd ls"));
        assert!(compare(expected, "# Pools\n$ rbd ls\none").is_err());
    }
}
