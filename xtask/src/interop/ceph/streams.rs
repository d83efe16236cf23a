//! What changed of images, and images with their snapshots, as streams: byte for byte what Ceph's `rbd` writes, and each
//! side imports what the other exports.

use crate::cluster::{RealCeph, Stage, Store};
use crate::interop::disk::{self, Random};
use anyhow::{Context as _, Result, ensure};
use std::fs;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// How an image came about: the snapshots in between, and its size at each of them and at last.
const HISTORY: [(Option<&str>, u64); 5] = [
    (Some("s1"), 40 * MIB),
    (Some("s2"), 40 * MIB),
    (Some("s3"), 25 * MIB + 512),
    (Some("s4"), 48 * MIB),
    (None, 48 * MIB),
];

/// Where a diff begins and ends.
type Scope = (Option<&'static str>, Option<&'static str>);

/// From each snapshot to the next.
const STEPS: [Scope; 5] = [
    (None, Some("s1")),
    (Some("s1"), Some("s2")),
    (Some("s2"), Some("s3")),
    (Some("s3"), Some("s4")),
    (Some("s4"), None),
];

/// Over snapshots in between.
const LEAPS: [Scope; 4] = [(Some("s1"), None), (None, Some("s4")), (None, None), (Some("s1"), Some("s4"))];

/// What is compared of what is printed, where nothing is leapt over.
const STEP_WORDS: &[&str] = &[
    "diff --from-snap s2 rbd/striped@s3 --format json",
    "diff rbd/plain@s1",
    "du rbd/plain",
    "du rbd/plain --exact --format json",
    "du rbd/plain@s3",
    "du rbd/plain --merge-snapshots",
];

const LEAP_WORDS: &[&str] = &[
    "diff rbd/plain",
    "diff --from-snap s1 rbd/striped@s3 --format json",
    "diff --from-snap s2 rbd/plain@s4 --whole-object",
    "diff rbd/clone --whole-object --format json",
    "du",
    "du --format json",
];

/// Where a diff leaps over snapshots, 16.2 says more than changed: also what an object gained and lost again in between. So it
/// does of whole objects that became shorter. What a clone shows of its parent leaps over the parent's snapshots.
pub(crate) fn streams_of_pacific(stage: &Stage) -> Result<()> {
    both(stage, false)
}

pub(crate) fn streams(stage: &Stage) -> Result<()> {
    both(stage, true)
}

/// `leaps`: the two sides say the same where a diff leaps over snapshots.
fn both(stage: &Stage, leaps: bool) -> Result<()> {
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    stage.ceph("rbd create --size 8M --object-size 1M rbd/plain")?;
    let striped = "--object-size 256K --stripe-unit 64K --stripe-count 3 --image-feature layering";
    stage.ceph(&format!("rbd create --size 8M {striped} rbd/striped"))?;
    for (seed, image) in ["plain", "striped"].into_iter().enumerate() {
        make_history(stage, image, seed as u64)?;
    }
    stage.ceph("rbd snap protect rbd/plain@s2")?;
    stage.ceph("rbd image-meta set rbd/plain conf_rbd_cache false")?;
    stage.ceph("rbd clone rbd/plain@s2 rbd/clone")?;
    let child = stage.path("child.diff");
    fs::write(&child, diff(&mut Random(7), None, None, 40 * MIB, 40 * MIB))?;
    stage.ceph("rbd import-diff --no-progress child.diff rbd/clone")?;

    for (from, to) in STEPS {
        same_diff(stage, "plain", from, to, "")?;
    }
    let step = STEPS[1];
    same_diff(stage, "striped", step.0, step.1, "")?;
    same_diff(stage, "plain", step.0, step.1, "--whole-object")?;
    STEP_WORDS.iter().try_for_each(|command| same_words(stage, command))?;
    if leaps {
        same_leaps(stage)?;
    }
    merge(stage)?;
    resume(stage)?;
    import_diffs(stage)?;
    whole_images(stage, leaps)
}

/// Both sides say the same over snapshots in between.
fn same_leaps(stage: &Stage) -> Result<()> {
    for (from, to) in LEAPS {
        same_diff(stage, "plain", from, to, "")?;
    }
    for (from, to) in [STEPS[1], LEAPS[3]] {
        same_diff(stage, "striped", from, to, "--whole-object")?;
    }
    same_diff(stage, "plain", Some("s1"), Some("s4"), "--whole-object")?;
    same_diff(stage, "striped", Some("s1"), Some("s4"), "")?;
    same_diff(stage, "clone", None, None, "")?;
    same_diff(stage, "clone", None, None, "--whole-object")?;
    LEAP_WORDS.iter().try_for_each(|command| same_words(stage, command))
}

/// Gives an image its history: by diffs, which Ceph applies.
fn make_history(stage: &Stage, image: &str, seed: u64) -> Result<()> {
    let mut random = Random(seed);
    let (mut from, mut before) = (None, 0);
    for (to, size) in HISTORY {
        fs::write(stage.path("step.diff"), diff(&mut random, from, to, before, size))?;
        stage.ceph(&format!("rbd import-diff --no-progress step.diff rbd/{image}"))?;
        (from, before) = (to, size);
    }
    Ok(())
}

/// A diff of version 1 with data and zeros at random places, small and larger than objects.
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
        let most = if is_zeros && random.below(2) == 0 { 3 * MIB } else { 200 * KIB };
        let length = 1 + random.below(most as usize) as u64;
        at = offset + length;
        if at > size {
            break;
        }
        // Zeros where nothing is say nothing.
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

/// The words that name a diff.
fn scope(image: &str, from: Option<&str>, to: Option<&str>) -> String {
    let from = from.map_or(String::new(), |from| format!("--from-snap {from} "));
    let to = to.map_or(String::new(), |to| format!("@{to}"));
    format!("{from}rbd/{image}{to}")
}

fn ours(stage: &Stage, line: &str) -> Result<String> {
    stage.onego(&format!("--conf ceph.conf rbd {line}"))
}

fn theirs(stage: &Stage, line: &str) -> Result<String> {
    stage.ceph(&format!("rbd {line}"))
}

/// Both sides write the same to a file, of which a command leaves out the name.
fn same_file(stage: &Stage, command: &str) -> Result<()> {
    ours(stage, &format!("{command} ours.out"))?;
    theirs(stage, &format!("{command} theirs.out"))?;
    let (one, other) = (stage.path("ours.out"), stage.path("theirs.out"));
    disk::compare(&one, &other).with_context(|| format!("`rbd {command}`"))?;
    fs::remove_file(one)?;
    Ok(fs::remove_file(other)?)
}

fn same_diff(stage: &Stage, image: &str, from: Option<&str>, to: Option<&str>, more: &str) -> Result<()> {
    same_file(stage, &format!("export-diff --no-progress {more} {}", scope(image, from, to)))
}

/// Both sides print the same.
fn same_words(stage: &Stage, command: &str) -> Result<()> {
    let (one, other) = (ours(stage, command)?, theirs(stage, command)?);
    ensure!(one == other, "`rbd {command}` says\n{other}and ours\n{one}");
    ensure!(one.len() > 40, "`rbd {command}` says little: {one}");
    Ok(())
}

/// Two diffs make the same one on both sides.
fn merge(stage: &Stage) -> Result<()> {
    for (from, to, name) in [(None, Some("s2"), "a"), (Some("s2"), Some("s3"), "b"), (Some("s3"), None, "c")]
    {
        theirs(stage, &format!("export-diff --no-progress {} {name}.diff", scope("plain", from, to)))?;
    }
    same_file(stage, "merge-diff --no-progress a.diff b.diff")?;
    same_file(stage, "merge-diff --no-progress b.diff c.diff")
}

/// An export that was interrupted goes on, and gives the same.
fn resume(stage: &Stage) -> Result<()> {
    ours(stage, "export-diff --no-progress --from-snap s1 rbd/plain@s4 whole.diff")?;
    let whole = fs::read(stage.path("whole.diff"))?;
    fs::write(stage.path(".resumed.diff.onego-partial"), &whole[..whole.len() * 2 / 3])?;
    ours(stage, "export-diff --no-progress --resume --from-snap s1 rbd/plain@s4 resumed.diff")?;
    disk::compare(&stage.path("resumed.diff"), &stage.path("whole.diff"))
}

/// Each side applies the other's diffs.
fn import_diffs(stage: &Stage) -> Result<()> {
    ours(stage, "create --size 8M rbd/backup-ours")?;
    theirs(stage, "create --size 8M rbd/backup-theirs")?;
    for (from, to) in
        [(None, Some("s1")), (Some("s1"), Some("s3")), (Some("s3"), Some("s4")), (Some("s4"), None)]
    {
        let scope = scope("plain", from, to);
        theirs(stage, &format!("export-diff --no-progress {scope} theirs.diff"))?;
        ours(stage, "import-diff --no-progress theirs.diff rbd/backup-ours")?;
        ours(stage, &format!("export-diff --no-progress {scope} ours.diff"))?;
        theirs(stage, "import-diff --no-progress ours.diff rbd/backup-theirs")?;
        fs::remove_file(stage.path("ours.diff"))?;
        fs::remove_file(stage.path("theirs.diff"))?;
    }
    same_bytes(stage, "plain", &["backup-ours", "backup-theirs"])
}

/// Images show the same bytes as another, also at a snapshot.
fn same_bytes(stage: &Stage, image: &str, others: &[&str]) -> Result<()> {
    for at in ["@s3", ""] {
        theirs(stage, &format!("export --no-progress rbd/{image}{at} expected.raw"))?;
        for other in others {
            theirs(stage, &format!("export --no-progress rbd/{other}{at} other.raw"))?;
            disk::compare(&stage.path("expected.raw"), &stage.path("other.raw"))
                .with_context(|| format!("{other}{at}"))?;
            fs::remove_file(stage.path("other.raw"))?;
        }
        fs::remove_file(stage.path("expected.raw"))?;
    }
    Ok(())
}

/// An image with its snapshots is the same stream on both sides, and each side makes the same image of the other's.
/// `is_same`: 16.2 gets the length of a record wrong.
fn whole_images(stage: &Stage, is_same: bool) -> Result<()> {
    for image in ["plain", "striped"] {
        let export = format!("export --no-progress --export-format 2 rbd/{image} {image}");
        ours(stage, &format!("{export}-by-ours.v2"))?;
        theirs(stage, &format!("{export}.v2"))?;
        if is_same {
            disk::compare(&stage.path(&format!("{image}-by-ours.v2")), &stage.path(&format!("{image}.v2")))?;
        }
        let import = "import --no-progress --export-format 2";
        ours(stage, &format!("{import} {image}.v2 rbd/{image}-ours"))?;
        theirs(stage, &format!("{import} {image}-by-ours.v2 rbd/{image}-theirs"))?;
        let copies = ["ours", "theirs"].map(|side| format!("{image}-{side}"));
        same_bytes(stage, image, &copies.each_ref().map(String::as_str))?;
        // What the stream says of the image, before the first diff.
        let about = |name: &str| -> Result<Vec<u8>> {
            let file = stage.path(&format!("{name}.v2"));
            if name != image {
                theirs(stage, &format!("export --no-progress --export-format 2 rbd/{name} {name}.v2"))?;
            }
            Ok(fs::read(file)?[..200].split(|byte| *byte == b'E').next().unwrap_or_default().to_vec())
        };
        for copy in &copies {
            ensure!(about(copy)? == about(image)?, "{copy} is not like {image}");
        }
        let snapshots = |image: &str| -> Result<Vec<(String, bool)>> {
            let list =
                crate::interop::steps::json(&theirs(stage, &format!("snap ls --format json rbd/{image}"))?)?;
            let list = list.as_array().context("a list")?.clone();
            Ok(list.iter().map(|snap| (snap["name"].to_string(), snap["protected"] == "true")).collect())
        };
        ensure!(snapshots(&copies[0])? == snapshots(image)?, "{} has other snapshots", copies[0]);
    }
    theirs(stage, "object-map check --no-progress rbd/plain-ours").map(drop)
}
