//! Diffs and images with snapshots as streams: both sides write the same bytes, and each imports the other's.

use super::{each_step, same_file, script};
use crate::steps::json;
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::disk::{self, Random};
use onego_sandbox::{Release, Sandbox};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

const MIB: u64 = 1 << 20;

/// Snapshots of an image, then the image itself, each with its size.
const HISTORY: [(Option<&str>, u64); 5] = [
    (Some("s1"), 40 * MIB),
    (Some("s2"), 40 * MIB),
    (Some("s3"), 25 * MIB + 512),
    (Some("s4"), 48 * MIB),
    (None, 48 * MIB),
];

/// Diffs of `plain`, given as in [`scope`], from each snapshot to the next.
const STEPS: [&str; 5] = ["s1", "s1 s2", "s2 s3", "s3 s4", "s4 "];

/// Diffs across several snapshots.
const LEAPS: [&str; 4] = ["s1 ", "s4", "", "s1 s4"];

/// Commands whose output does not depend on several snapshots at once.
const STEP_COMMANDS: &str =
    "diff --from-snap s2 rbd/striped@s3 --format json; diff rbd/plain@s1; du rbd/plain
du rbd/plain --exact --format json; du rbd/plain@s3; du rbd/plain --merge-snapshots";

const LEAP_COMMANDS: &str = "diff rbd/plain; diff --from-snap s1 rbd/striped@s3 --format json
diff --from-snap s2 rbd/plain@s4 --whole-object; diff rbd/clone --whole-object --format json; du; du --format json";

pub(super) fn run(sandbox: &Sandbox) -> Result<()> {
    // Across several snapshots 16.2 reports more than the changes: what an object gained and lost again in between, and
    // all of a shortened object. A clone's diff crosses the snapshots of its parent. 16.2 also gets the length of a
    // record wrong in streams of whole images.
    let is_exact = sandbox.release() != Release::Pacific;
    let striped = "--object-size 256K --stripe-unit 64K --stripe-count 3 --image-feature layering";
    let plain = "rbd create --size 8M --object-size 1M rbd/plain";
    script(sandbox, &format!("{plain}; rbd create --size 8M {striped} rbd/striped"))?;
    make_history(sandbox, "plain", 0)?;
    make_history(sandbox, "striped", 1)?;
    sandbox.write("child.diff", diff(&mut Random(7), None, None, 40 * MIB, 40 * MIB))?;
    let steps = "rbd snap protect rbd/plain@s2; rbd image-meta set rbd/plain conf_rbd_cache false
rbd clone rbd/plain@s2 rbd/clone; rbd import-diff --no-progress child.diff rbd/clone";
    script(sandbox, steps)?;

    let same = |image: &str, range: &str, options: &str| {
        same_output(sandbox, &format!("export-diff --no-progress {options} {}", scope(image, range)))
    };
    STEPS.iter().try_for_each(|range| same("plain", range, ""))?;
    same("striped", "s1 s2", "")?;
    same("plain", "s1 s2", "--whole-object")?;
    each_step(STEP_COMMANDS, |command| same_text(sandbox, command))?;
    if is_exact {
        LEAPS.iter().try_for_each(|range| same("plain", range, ""))?;
        for (image, range) in [("striped", "s1 s2"), ("striped", "s1 s4"), ("plain", "s1 s4"), ("clone", "")]
        {
            same(image, range, "--whole-object")?;
        }
        same("striped", "s1 s4", "")?;
        same("clone", "", "")?;
        each_step(LEAP_COMMANDS, |command| same_text(sandbox, command))?;
    }
    merge(sandbox)?;
    resume(sandbox)?;
    import_diffs(sandbox)?;
    whole_images(sandbox, is_exact)
}

/// Gives an image its history by diffs that Ceph applies.
fn make_history(sandbox: &Sandbox, image: &str, seed: u64) -> Result<()> {
    let mut random = Random(seed);
    let (mut from, mut before) = (None, 0);
    for (to, size) in HISTORY {
        sandbox.write("step.diff", diff(&mut random, from, to, before, size))?;
        sandbox.ceph(&format!("rbd import-diff --no-progress step.diff rbd/{image}"))?;
        (from, before) = (to, size);
    }
    Ok(())
}

/// Returns a diff of version 1 with data and zeros at random places, smaller and larger than objects.
fn diff(random: &mut Random, from: Option<&str>, to: Option<&str>, before: u64, size: u64) -> Vec<u8> {
    let mut out = b"rbd diff v1\n".to_vec();
    for (tag, name) in [(b'f', from), (b't', to)] {
        let Some(name) = name else { continue };
        out.push(tag);
        out.extend((name.len() as u32).to_le_bytes());
        out.extend(name.as_bytes());
    }
    out.push(b's');
    out.extend(size.to_le_bytes());
    let mut at = 0;
    loop {
        let offset = at + random.below((2 * MIB) as usize) as u64;
        let is_zeros = random.below(3) == 0;
        let most = if is_zeros && random.below(2) == 0 { 3 * MIB } else { 200 << 10 };
        let length = 1 + random.below(most as usize) as u64;
        at = offset + length;
        if at > size {
            break;
        }
        // Zeros past the former end change nothing.
        if is_zeros && offset >= before {
            continue;
        }
        out.push(if is_zeros { b'z' } else { b'w' });
        out.extend(offset.to_le_bytes());
        out.extend(length.to_le_bytes());
        if !is_zeros {
            out.extend(random.bytes(length as usize));
        }
    }
    out.push(b'e');
    out
}

/// Returns the arguments of a diff of an image: to the image itself (""), to a snapshot ("TO"), or from one ("FROM TO",
/// "FROM ").
fn scope(image: &str, range: &str) -> String {
    let (from, to) = range.split_once(' ').unwrap_or(("", range));
    let from = if from.is_empty() { String::new() } else { format!("--from-snap {from} ") };
    let at = if to.is_empty() { "" } else { "@" };
    format!("{from}rbd/{image}{at}{to}")
}

/// Checks that both sides write the same file; its name is missing from the command.
fn same_output(sandbox: &Sandbox, command: &str) -> Result<()> {
    script(sandbox, &format!("onego rbd {command} ours.out; rbd {command} theirs.out"))?;
    same_file(sandbox, "theirs.out", "ours.out").with_context(|| format!("`rbd {command}`"))?;
    Ok(fs::remove_file(sandbox.path("theirs.out"))?)
}

/// Checks that both sides print the same.
fn same_text(sandbox: &Sandbox, command: &str) -> Result<()> {
    let line = format!("rbd {command}");
    let (one, other) = (sandbox.onego(&line)?, sandbox.ceph(&line)?);
    ensure!(one == other, "`{line}` prints\n{other}and ours\n{one}");
    ensure!(one.len() > 40, "`{line}` prints little: {one}");
    Ok(())
}

/// Merges two diffs on both sides.
fn merge(sandbox: &Sandbox) -> Result<()> {
    for (range, name) in [("s2", "a"), ("s2 s3", "b"), ("s3 ", "c")] {
        sandbox.ceph(&format!("rbd export-diff --no-progress {} {name}.diff", scope("plain", range)))?;
    }
    same_output(sandbox, "merge-diff --no-progress a.diff b.diff")?;
    same_output(sandbox, "merge-diff --no-progress b.diff c.diff")
}

/// Resumes an interrupted export, with the same result.
fn resume(sandbox: &Sandbox) -> Result<()> {
    let export = "export-diff --no-progress --from-snap s1 rbd/plain@s4";
    script(sandbox, &format!("onego rbd {export} whole.diff"))?;
    let whole = fs::read(sandbox.path("whole.diff"))?;
    // The record that an interrupted export leaves: its sum is FNV-1a.
    let part = sandbox.path(".resumed.diff.onego-partial");
    fs::write(&part, &whole[..whole.len() * 2 / 3])?;
    let part = fs::metadata(&part)?;
    let said = format!("file={} synced={} owner=- source=-", part.ino(), part.len());
    let sum = said.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    sandbox.write(".resumed.diff.onego-source", format!("onego-partial-copy {sum:016x} {said}\n"))?;
    script(sandbox, &format!("onego rbd {export} --resume resumed.diff"))?;
    same_file(sandbox, "whole.diff", "resumed.diff")
}

/// Lets each side apply the other's diffs.
fn import_diffs(sandbox: &Sandbox) -> Result<()> {
    script(sandbox, "onego rbd create --size 8M rbd/backup-ours; rbd create --size 8M rbd/backup-theirs")?;
    for range in ["s1", "s1 s3", "s3 s4", "s4 "] {
        let export = format!("export-diff --no-progress {}", scope("plain", range));
        let steps = format!(
            "rbd {export} theirs.diff; onego rbd import-diff --no-progress theirs.diff rbd/backup-ours
onego rbd {export} ours.diff; rbd import-diff --no-progress ours.diff rbd/backup-theirs"
        );
        script(sandbox, &steps)?;
        fs::remove_file(sandbox.path("ours.diff"))?;
        fs::remove_file(sandbox.path("theirs.diff"))?;
    }
    same_content(sandbox, "plain", &["backup-ours", "backup-theirs"])
}

/// Checks that images have the content of another, now and at a snapshot.
fn same_content(sandbox: &Sandbox, image: &str, others: &[&str]) -> Result<()> {
    for at in ["@s3", ""] {
        script(sandbox, &format!("save rbd/{image}{at} expected"))?;
        for other in others {
            script(sandbox, &format!("save rbd/{other}{at} other"))?;
            same_file(sandbox, "expected.raw", "other.raw").with_context(|| format!("{other}{at}"))?;
        }
    }
    Ok(())
}

/// Exports images with their snapshots on both sides, and lets each import the other's.
fn whole_images(sandbox: &Sandbox, is_exact: bool) -> Result<()> {
    for image in ["plain", "striped"] {
        let [by_ours, by_theirs] = [format!("{image}-by-ours.v2"), format!("{image}.v2")];
        let copies = [format!("{image}-ours"), format!("{image}-theirs")];
        let export = format!("export --no-progress --export-format 2 rbd/{image}");
        script(sandbox, &format!("onego rbd {export} {by_ours}; rbd {export} {by_theirs}"))?;
        if is_exact {
            disk::compare(&sandbox.path(&by_ours), &sandbox.path(&by_theirs))?;
        }
        let import = "import --no-progress --export-format 2";
        let [ours, theirs] = &copies;
        let steps = format!("onego rbd {import} {by_theirs} rbd/{ours}; rbd {import} {by_ours} rbd/{theirs}");
        script(sandbox, &steps)?;
        same_content(sandbox, image, &[ours, theirs])?;
        for copy in &copies {
            sandbox.ceph(&format!("rbd export --no-progress --export-format 2 rbd/{copy} {copy}.v2"))?;
            ensure!(header(sandbox, copy)? == header(sandbox, image)?, "{copy} differs from {image}");
        }
        let snapshots = |image: &str| -> Result<Vec<(String, bool)>> {
            let list = json(&sandbox.ceph(&format!("rbd snap ls --format json rbd/{image}"))?)?;
            let list = list.as_array().context("`snap ls` prints no list")?.clone();
            Ok(list.iter().map(|snap| (snap["name"].to_string(), snap["protected"] == "true")).collect())
        };
        ensure!(snapshots(ours)? == snapshots(image)?, "{ours} has other snapshots");
    }
    script(sandbox, "rbd object-map check --no-progress rbd/plain-ours")
}

/// Returns the properties of an image at the start of its stream, before the first diff.
fn header(sandbox: &Sandbox, image: &str) -> Result<Vec<u8>> {
    let stream = fs::read(sandbox.path(format!("{image}.v2")))?;
    Ok(stream[..200].split(|byte| *byte == b'E').next().unwrap_or_default().to_vec())
}
