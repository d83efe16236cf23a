//! Migrations of images and imports from other images and files: `rbd` and we run the steps while both use the image.

use super::{BusyImage, PATIENCE, both_export, check_report, fio_on_nbd, map_is_valid, same_file};
use crate::steps::{json, nothing_is_left, says};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Sandbox, Server, disk};
use std::fs;

/// Our program, and Ceph's.
const OURS: &str = "onego";
const THEIRS: &str = "rbd";

/// Suffixes of an image and its snapshots.
const NOW_AND_SNAPSHOTS: [&str; 3] = ["", "@one", "@two"];

/// Creates pools and a namespace to move images to, and files for images.
fn prepare(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 1)?;
    disk::make(&sandbox.path("other.raw"), 2)?;
    for pool in ["far", "data"] {
        sandbox.ceph(&format!("ceph osd pool create {pool} 8"))?;
        sandbox.ceph(&format!("rbd pool init {pool}"))?;
    }
    sandbox.ceph("rbd namespace create far/there").map(drop)
}

pub(super) fn moves(sandbox: &Sandbox) -> Result<()> {
    prepare(sandbox)?;
    move_busy(sandbox)?;
    move_plain(sandbox)?;
    abort_moves(sandbox)?;
    move_clones(sandbox)?;
    move_parents(sandbox)?;
    move_with_snapshots(sandbox)?;
    nothing_left(sandbox)
}

fn by(sandbox: &Sandbox, program: &str, line: &str) -> Result<String> {
    let line = format!("rbd {line}");
    if program == OURS { sandbox.onego(&line) } else { sandbox.ceph(&line) }
}

/// Runs steps of a migration by one program.
fn migrate(sandbox: &Sandbox, program: &str, steps: &[&str], image: &str) -> Result<()> {
    steps.iter().try_for_each(|step| by(sandbox, program, &format!("migration {step} {image}")).map(drop))
}

/// Writes to an image by librbd.
fn scribble(sandbox: &Sandbox, image: &str) -> Result<()> {
    let bench = "rbd bench --io-type write --io-size 16K --io-total 6M --io-pattern rand";
    sandbox.ceph(&format!("{bench} {image}")).map(drop)
}

/// Verifies a part of an image by fio through our server.
fn ours_writes(sandbox: &Sandbox, image: &str) -> Result<()> {
    let server = Server::nbd(sandbox, &format!("rbd:{image}"))?;
    sandbox.ceph(&fio_on_nbd("ours", image, "--offset=36m --size=20m --io_size=6m"))?;
    check_report(sandbox, "ours")?;
    server.stop()
}

/// Saves the content of an image and of snapshots as models.
fn model(sandbox: &Sandbox, image: &str, times: &[&str]) -> Result<()> {
    for time in times {
        let file = format!("model{time}.raw");
        if sandbox.path(&file).exists() {
            fs::remove_file(sandbox.path(&file))?;
        }
        sandbox.ceph(&format!("rbd export {image}{time} {file}"))?;
    }
    Ok(())
}

/// Checks that both sides read the content of the models from an image and its snapshots.
fn seen(sandbox: &Sandbox, image: &str, times: &[&str]) -> Result<()> {
    times.iter().try_for_each(|time| {
        both_export(sandbox, &format!("{image}{time}"), &format!("model{time}.raw"), ["", ""])
    })
}

/// Checks that an image has been migrated and that its object maps are valid.
fn checked(sandbox: &Sandbox, image: &str) -> Result<()> {
    let info = json(&sandbox.ceph(&format!("rbd info --format json {image}"))?)?;
    let features = info["features"].as_array().context("no features")?;
    ensure!(!features.iter().any(|feature| feature == "migrating"), "{image} is still migrating: {info}");
    if features.iter().any(|feature| feature == "object-map") {
        let snapshots = sandbox.ceph(&format!("rbd snap ls {image}"))?;
        for snapshot in ["one", "two"].iter().filter(|name| snapshots.contains(**name)) {
            sandbox.ceph(&format!("rbd object-map check {image}@{snapshot}"))?;
        }
        map_is_valid(sandbox, image)?;
    }
    Ok(())
}

/// Checks and removes an image with its snapshots.
fn finish(sandbox: &Sandbox, image: &str) -> Result<()> {
    checked(sandbox, image)?;
    remove(sandbox, image)
}

fn remove(sandbox: &Sandbox, image: &str) -> Result<()> {
    sandbox.ceph(&format!("rbd snap purge {image}"))?;
    sandbox.ceph(&format!("rbd rm {image}")).map(drop)
}

/// Checks that no data of removed images or of former locations is left.
fn nothing_left(sandbox: &Sandbox) -> Result<()> {
    nothing_is_left(sandbox, &["rbd", "far", "data"], &["rbd_data.", "rbd_object_map."], PATIENCE)
}

/// Creates an image whose content differs now, at `@two`, if it has one, and at `@one`.
fn make_image(sandbox: &Sandbox, image: &str, has_two: bool) -> Result<()> {
    sandbox.ceph(&format!("rbd import disk.raw {image}"))?;
    sandbox.ceph(&format!("rbd snap create {image}@one"))?;
    sandbox.onego(&format!("cp --in-place other.raw rbd:{image}"))?;
    if has_two {
        sandbox.ceph(&format!("rbd snap create {image}@two"))?;
    }
    Ok(())
}

/// Writes a prepared image, executes and commits its migration, and checks its content after each step.
fn complete(sandbox: &Sandbox, image: &str, execute: &str, commit: &str) -> Result<()> {
    seen(sandbox, image, &NOW_AND_SNAPSHOTS).context("prepared")?;
    scribble(sandbox, image)?;
    ours_writes(sandbox, image)?;
    model(sandbox, image, &[""])?;
    seen(sandbox, image, &NOW_AND_SNAPSHOTS).context("written")?;
    migrate(sandbox, execute, &["execute"], image)?;
    seen(sandbox, image, &NOW_AND_SNAPSHOTS).context("executed")?;
    migrate(sandbox, commit, &["commit"], image)?;
    seen(sandbox, image, &NOW_AND_SNAPSHOTS).context("committed")?;
    checked(sandbox, image)
}

/// Moves an image with two snapshots from place to place.
fn move_with_snapshots(sandbox: &Sandbox) -> Result<()> {
    make_image(sandbox, "rbd/zero", true)?;
    scribble(sandbox, "rbd/zero")?;
    model(sandbox, "rbd/zero", &NOW_AND_SNAPSHOTS)?;
    let mut from = "rbd/zero";
    for ([prepare, execute, commit], to, options) in [
        ([OURS, OURS, OURS], "far/one", ""),
        ([OURS, THEIRS, OURS], "rbd/two", "--object-size 1M --data-pool data"),
        ([THEIRS, OURS, THEIRS], "far/there/three", "--object-size 8M"),
        ([THEIRS, THEIRS, OURS], "rbd/four", ""),
        ([OURS, OURS, THEIRS], "rbd/five", "--image-feature layering"),
    ] {
        by(sandbox, prepare, &format!("migration prepare {options} {from} {to}"))?;
        complete(sandbox, to, execute, commit).with_context(|| to.to_owned())?;
        from = to;
    }
    remove(sandbox, from)
}

/// Moves an image without snapshots, which gets one meanwhile.
fn move_plain(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("rbd import disk.raw rbd/plain")?;
    by(sandbox, OURS, "migration prepare rbd/plain far/plain")?;
    ours_writes(sandbox, "far/plain")?;
    sandbox.ceph("rbd snap create far/plain@one")?;
    model(sandbox, "far/plain", &["@one"])?;
    ours_writes(sandbox, "far/plain")?;
    scribble(sandbox, "far/plain")?;
    model(sandbox, "far/plain", &[""])?;
    seen(sandbox, "far/plain", &["", "@one"])?;
    migrate(sandbox, OURS, &["execute"], "rbd/plain")?;
    migrate(sandbox, OURS, &["commit"], "far/plain")?;
    seen(sandbox, "far/plain", &["", "@one"])?;
    finish(sandbox, "far/plain")
}

/// Aborts migrations, also of the other side: nothing is left of them.
fn abort_moves(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("rbd import disk.raw rbd/stays")?;
    sandbox.ceph("rbd snap create rbd/stays@one")?;
    model(sandbox, "rbd/stays", &["", "@one"])?;
    for [prepare, abort] in [[OURS, THEIRS], [THEIRS, OURS], [OURS, OURS]] {
        by(sandbox, prepare, "migration prepare rbd/stays far/goes")?;
        ensure!(by(sandbox, OURS, "export rbd/stays seen.raw").is_err(), "the source can be read");
        scribble(sandbox, "far/goes")?;
        migrate(sandbox, abort, &["abort"], "far/goes")?;
        seen(sandbox, "rbd/stays", &["", "@one"])?;
        let left = sandbox.ceph("rbd ls far")?;
        ensure!(!left.contains("goes"), "the destination is left:\n{left}");
    }
    remove(sandbox, "rbd/stays")
}

/// Option for clones in other pools than their parents, whose snapshots need no protection then.
const V2: &str = "--rbd-default-clone-format 2";

/// Moves clones, with their parents and flattened.
fn move_clones(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("rbd import other.raw rbd/old")?;
    sandbox.ceph("rbd snap create rbd/old@base")?;
    for (program, flatten) in [(OURS, ""), (OURS, "--flatten"), (THEIRS, ""), (THEIRS, "--flatten")] {
        let options = if program == THEIRS { format!("{flatten} {V2}") } else { flatten.to_owned() };
        sandbox.ceph(&format!("rbd clone {V2} rbd/old@base rbd/child"))?;
        scribble(sandbox, "rbd/child")?;
        sandbox.ceph("rbd snap create rbd/child@one")?;
        scribble(sandbox, "rbd/child")?;
        by(sandbox, program, &format!("migration prepare {options} rbd/child far/child"))?;
        scribble(sandbox, "far/child")?;
        ours_writes(sandbox, "far/child")?;
        model(sandbox, "far/child", &["", "@one"])?;
        seen(sandbox, "far/child", &["", "@one"])?;
        migrate(sandbox, OURS, &["execute", "commit"], "far/child")?;
        seen(sandbox, "far/child", &["", "@one"])?;
        let info = json(&sandbox.ceph("rbd info --format json far/child")?)?;
        ensure!(info.get("parent").is_none() == options.contains("--flatten"), "after `{options}`: {info}");
        finish(sandbox, "far/child")?;
        let children = sandbox.ceph("rbd children --all rbd/old@base")?;
        ensure!(children.is_empty(), "after `{program} migration prepare {options}`: {children}");
    }
    remove(sandbox, "rbd/old")
}

/// Ceph's program moves images with clones, whose parents are then the destinations.
fn move_parents(sandbox: &Sandbox) -> Result<()> {
    let kid = "rbd/kid";
    for [execute, commit] in [[OURS, THEIRS], [THEIRS, OURS], [OURS, OURS]] {
        sandbox.ceph("rbd import other.raw rbd/parent")?;
        sandbox.ceph("rbd snap create rbd/parent@one")?;
        sandbox.ceph(&format!("rbd clone {V2} rbd/parent@one {kid}"))?;
        scribble(sandbox, kid)?;
        scribble(sandbox, "rbd/parent")?;
        model(sandbox, kid, &[""])?;
        let refused = by(sandbox, OURS, "migration prepare rbd/parent far/parent");
        says(&format!("{:#}", refused.err().context("we moved a parent")?), "has clones")?;
        by(sandbox, THEIRS, "migration prepare rbd/parent far/parent")?;
        seen(sandbox, kid, &[""]).context("prepared")?;
        ours_writes(sandbox, kid)?;
        scribble(sandbox, kid)?;
        scribble(sandbox, "far/parent")?;
        model(sandbox, kid, &[""])?;
        seen(sandbox, kid, &[""]).context("written")?;
        migrate(sandbox, execute, &["execute"], "far/parent")?;
        seen(sandbox, kid, &[""]).context("executed")?;
        // Ceph's program expects that the clone may be open read-only.
        let step = if commit == THEIRS { "commit --force" } else { "commit" };
        migrate(sandbox, commit, &[step], "far/parent")?;
        seen(sandbox, kid, &[""]).context("committed")?;
        let info = json(&sandbox.ceph("rbd info --format json rbd/kid")?)?;
        ensure!(info["parent"]["pool"] == "far", "the clone has another parent: {info}");
        by(sandbox, OURS, "flatten rbd/kid")?;
        seen(sandbox, kid, &[""]).context("flattened")?;
        sandbox.ceph("rbd rm rbd/kid")?;
        model(sandbox, "far/parent", &["", "@one"])?;
        seen(sandbox, "far/parent", &["", "@one"])?;
        finish(sandbox, "far/parent")?;
    }
    Ok(())
}

/// Ceph's program requests the execution from our server, which writes the destination and keeps its lock.
fn move_busy(sandbox: &Sandbox) -> Result<()> {
    make_image(sandbox, "rbd/busy", false)?;
    model(sandbox, "rbd/busy", &["@one"])?;
    by(sandbox, THEIRS, "migration prepare rbd/busy far/busy")?;
    let busy = BusyImage::start(sandbox, "far/busy", 300)?;
    migrate(sandbox, THEIRS, &["execute"], "far/busy")?;
    busy.check_owner("far/busy")?;
    let server = busy.finish()?;
    migrate(sandbox, OURS, &["commit"], "far/busy")?;
    server.stop()?;
    seen(sandbox, "far/busy", &["@one"])?;
    finish(sandbox, "far/busy")
}

/// Source of imports. Its snapshot `two` equals the image itself: librbd reads the snapshot, but copies objects of the
/// image as it is by then.
const TEMPLATE: &str = "rbd/template";

/// Sources of imports: a snapshot, a specification of the same, and files with the image and its snapshots.
const SNAPSHOT: &str = "rbd/template@two";
const SPEC: &str = "--source-spec-path spec.json";
const FILES: &str = "--source-spec-path files.json";

pub(super) fn imports(sandbox: &Sandbox) -> Result<()> {
    // The folder's `ceph.conf` is a link to the cluster's.
    let conf = sandbox.read("ceph.conf")?;
    fs::remove_file(sandbox.path("ceph.conf"))?;
    let folder = sandbox.path("").display().to_string();
    sandbox.write("ceph.conf", format!("{conf}\n[client]\nrbd source folder = {folder}\n"))?;
    prepare(sandbox)?;
    make_image(sandbox, TEMPLATE, true)?;
    let spec = r#"{ "type": "native", "pool_name": "rbd", "image_name": "template", "snap_name": "two" }"#;
    sandbox.write("spec.json", spec)?;
    let stream = |path: &str| serde_json::json!({ "type": "file", "file_path": path });
    let files = serde_json::json!({
        "type": "raw",
        "stream": stream("other.raw"),
        "snapshots": [
            { "type": "raw", "name": "one", "stream": stream("disk.raw") },
            { "type": "raw", "name": "two", "stream": stream("other.raw") },
        ],
    });
    sandbox.write("files.json", files.to_string())?;
    model(sandbox, TEMPLATE, &["@one", "@two"])?;
    import_all(sandbox)?;
    abort_imports(sandbox)?;
    import_clones(sandbox)?;
    refuse_imports(sandbox)?;
    import_busy(sandbox)?;
    remove(sandbox, TEMPLATE)?;
    nothing_left(sandbox)
}

/// Checks that the source has not changed.
fn source_is_unchanged(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph(&format!("rbd export {TEMPLATE} seen.raw"))?;
    same_file(sandbox, "other.raw", "seen.raw").context("the source has changed")?;
    ensure!(sandbox.ceph("rbd trash ls --all")?.is_empty(), "the source is in the trash");
    Ok(())
}

fn import_all(sandbox: &Sandbox) -> Result<()> {
    for ([prepare, execute, commit], from, to, options) in [
        ([OURS, OURS, OURS], SNAPSHOT, "far/one", ""),
        ([OURS, THEIRS, OURS], SPEC, "far/there/two", "--object-size 1M --data-pool data"),
        ([THEIRS, OURS, THEIRS], SPEC, "rbd/three", "--object-size 8M"),
        ([THEIRS, THEIRS, OURS], SNAPSHOT, "rbd/four", ""),
        ([OURS, OURS, THEIRS], SNAPSHOT, "rbd/five", "--image-feature layering"),
        ([OURS, OURS, OURS], FILES, "far/six", "--object-size 1M"),
        ([OURS, THEIRS, OURS], FILES, "rbd/seven", ""),
        ([THEIRS, OURS, OURS], FILES, "far/eight", "--object-size 8M"),
    ] {
        by(sandbox, prepare, &format!("migration prepare --import-only {from} {to} {options}"))?;
        model(sandbox, TEMPLATE, &[""])?;
        let status = json(&sandbox.ceph(&format!("rbd status --format json {to}"))?)?;
        let source = json(status["migration"]["source_spec"].as_str().context("no source-spec")?)?;
        let kind = if from == FILES { "raw" } else { "native" };
        ensure!(source["type"] == kind, "{to} has another source: {status}");
        complete(sandbox, to, execute, commit).with_context(|| to.to_owned())?;
        remove(sandbox, to)?;
        source_is_unchanged(sandbox)?;
    }
    Ok(())
}

fn abort_imports(sandbox: &Sandbox) -> Result<()> {
    for [prepare, abort] in [[OURS, THEIRS], [THEIRS, OURS], [OURS, OURS]] {
        by(sandbox, prepare, "migration prepare --import-only rbd/template@one far/goes")?;
        scribble(sandbox, "far/goes")?;
        migrate(sandbox, abort, &["abort"], "far/goes")?;
        let left = sandbox.ceph("rbd ls far")?;
        ensure!(!left.contains("goes"), "the destination is left:\n{left}");
        source_is_unchanged(sandbox)?;
    }
    Ok(())
}

/// Fills images from clones, without making them clones.
fn import_clones(sandbox: &Sandbox) -> Result<()> {
    for [prepare, execute, commit] in [[OURS, THEIRS, OURS], [THEIRS, OURS, OURS]] {
        sandbox.ceph(&format!("rbd clone {V2} rbd/template@one rbd/child"))?;
        scribble(sandbox, "rbd/child")?;
        sandbox.ceph("rbd snap create rbd/child@one")?;
        let options = if prepare == THEIRS { V2 } else { "" };
        let line = format!("migration prepare {options} --import-only rbd/child@one far/filled");
        by(sandbox, prepare, &line)?;
        model(sandbox, "rbd/child", &["", "@one"])?;
        seen(sandbox, "far/filled", &["", "@one"]).context("prepared")?;
        scribble(sandbox, "far/filled")?;
        ours_writes(sandbox, "far/filled")?;
        model(sandbox, "far/filled", &[""])?;
        migrate(sandbox, execute, &["execute"], "far/filled")?;
        migrate(sandbox, commit, &["commit"], "far/filled")?;
        remove(sandbox, "rbd/child")?;
        let children = sandbox.ceph("rbd children --all rbd/template@one")?;
        ensure!(children.is_empty(), "after `{prepare} migration prepare`: {children}");
        seen(sandbox, "far/filled", &["", "@one"]).context("committed")?;
        finish(sandbox, "far/filled")?;
    }
    model(sandbox, TEMPLATE, &["@one"])
}

/// Names the unsupported or missing part of a source.
fn refuse_imports(sandbox: &Sandbox) -> Result<()> {
    for (spec, word) in [
        (r#"{"type":"qcow","stream":{"type":"file","file_path":"disk.qcow2"}}"#, "native"),
        (r#"{"type":"raw","stream":{"type":"http","url":"http://127.0.0.1/disk.raw"}}"#, "file"),
        (r#"{"type":"raw","stream":{"type":"file","file_path":"none.raw"}}"#, "none.raw"),
        (r#"{"type":"native","pool_name":"rbd","image_name":"template"}"#, "snap_name"),
    ] {
        sandbox.write("refused.json", spec)?;
        let line = "migration prepare --import-only --source-spec-path refused.json far/none";
        let error = by(sandbox, OURS, line).err().with_context(|| format!("{spec} was imported"))?;
        says(&format!("{error:#}"), word).with_context(|| spec.to_owned())?;
    }
    ensure!(!sandbox.ceph("rbd ls far")?.contains("none"), "a refused import leaves an image");
    Ok(())
}

/// Fills an image from a snapshot while the source is written.
fn import_busy(sandbox: &Sandbox) -> Result<()> {
    by(sandbox, OURS, "migration prepare --import-only rbd/template@two far/busy")?;
    model(sandbox, TEMPLATE, &["@two"])?;
    fs::copy(sandbox.path("model@two.raw"), sandbox.path("model.raw"))?;
    scribble(sandbox, TEMPLATE)?;
    seen(sandbox, "far/busy", &NOW_AND_SNAPSHOTS).context("prepared")?;
    ours_writes(sandbox, "far/busy")?;
    scribble(sandbox, TEMPLATE)?;
    model(sandbox, "far/busy", &[""])?;
    migrate(sandbox, OURS, &["execute"], "far/busy")?;
    seen(sandbox, "far/busy", &NOW_AND_SNAPSHOTS).context("executed")?;
    migrate(sandbox, OURS, &["commit"], "far/busy")?;
    seen(sandbox, "far/busy", &NOW_AND_SNAPSHOTS).context("committed")?;
    finish(sandbox, "far/busy")
}
