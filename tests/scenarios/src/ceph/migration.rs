//! Migrations of images and imports from other images and files: `rbd` and we run the steps while both use the image.

use super::{BusyImage, PATIENCE, map_is_valid, onego_fails, same_file, script};
use crate::steps::{json, nothing_is_left};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Sandbox, disk};
use std::fs;

/// Our program, and Ceph's.
const OURS: &str = "onego rbd";
const THEIRS: &str = "rbd";

/// Option for clones in other pools than their parents, whose snapshots need no protection then.
const V2: &str = "--rbd-default-clone-format 2";

/// Creates pools and a namespace to move images to, and files for images.
fn prepare(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 1)?;
    disk::make(&sandbox.path("other.raw"), 2)?;
    let pools =
        "ceph osd pool create far 8; rbd pool init far; ceph osd pool create data 8; rbd pool init data";
    script(sandbox, &format!("{pools}; rbd namespace create far/there"))
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
    script(sandbox, &format!("rbd snap purge {image}; rbd rm {image}"))
}

/// Checks that no data of removed images or of former locations is left.
fn nothing_left(sandbox: &Sandbox) -> Result<()> {
    nothing_is_left(sandbox, &["rbd", "far", "data"], &["rbd_data.", "rbd_object_map."], PATIENCE)
}

/// Steps that create an image with other content at its snapshot `one`.
fn with_snapshot(image: &str) -> String {
    format!(
        "rbd import disk.raw {image}; rbd snap create {image}@one; onego cp --in-place other.raw rbd:{image}"
    )
}

/// Writes a prepared image, executes and commits its migration, and checks its content after each step.
fn complete(sandbox: &Sandbox, image: &str, execute: &str, commit: &str) -> Result<()> {
    let seen = format!("has {image} now; has {image}@one one; has {image}@two two");
    let steps = format!(
        "{seen}\nwrite {image} 16K 6M; verify {image}; save {image} now; {seen}
{execute} migration execute {image}; {seen}\n{commit} migration commit {image}; {seen}"
    );
    script(sandbox, &steps)?;
    checked(sandbox, image)
}

/// Moves an image with two snapshots from place to place.
fn move_with_snapshots(sandbox: &Sandbox) -> Result<()> {
    let image = with_snapshot("rbd/zero");
    let steps = "rbd snap create rbd/zero@two; write rbd/zero 16K 6M
save rbd/zero now; save rbd/zero@one one; save rbd/zero@two two";
    script(sandbox, &format!("{image}; {steps}"))?;
    let mut from = "rbd/zero";
    for ([prepare, execute, commit], to, options) in [
        ([OURS, OURS, OURS], "far/one", ""),
        ([OURS, THEIRS, OURS], "rbd/two", "--object-size 1M --data-pool data"),
        ([THEIRS, OURS, THEIRS], "far/there/three", "--object-size 8M"),
        ([THEIRS, THEIRS, OURS], "rbd/four", ""),
        ([OURS, OURS, THEIRS], "rbd/five", "--image-feature layering"),
    ] {
        script(sandbox, &format!("{prepare} migration prepare {options} {from} {to}"))?;
        complete(sandbox, to, execute, commit)?;
        from = to;
    }
    remove(sandbox, from)
}

/// Moves an image without snapshots, which gets one meanwhile.
fn move_plain(sandbox: &Sandbox) -> Result<()> {
    let steps = "rbd import disk.raw rbd/plain; onego rbd migration prepare rbd/plain far/plain; verify far/plain
rbd snap create far/plain@one; save far/plain@one one; verify far/plain; write far/plain 16K 6M; save far/plain now
has far/plain now; has far/plain@one one; onego rbd migration execute rbd/plain
onego rbd migration commit far/plain; has far/plain now; has far/plain@one one";
    script(sandbox, steps)?;
    finish(sandbox, "far/plain")
}

/// Aborts migrations, also of the other side: nothing is left of them.
fn abort_moves(sandbox: &Sandbox) -> Result<()> {
    let image = "rbd import disk.raw rbd/stays; rbd snap create rbd/stays@one";
    script(sandbox, &format!("{image}; save rbd/stays now; save rbd/stays@one one"))?;
    for [prepare, abort] in [[OURS, THEIRS], [THEIRS, OURS], [OURS, OURS]] {
        script(sandbox, &format!("{prepare} migration prepare rbd/stays far/goes"))?;
        sandbox.onego_fails("rbd export rbd/stays source.raw")?;
        let steps = format!("write far/goes 16K 6M; {abort} migration abort far/goes");
        script(sandbox, &format!("{steps}; has rbd/stays now; has rbd/stays@one one"))?;
        let left = sandbox.ceph("rbd ls far")?;
        ensure!(!left.contains("goes"), "the destination is left:\n{left}");
    }
    remove(sandbox, "rbd/stays")
}

/// Moves clones, with their parents and flattened.
fn move_clones(sandbox: &Sandbox) -> Result<()> {
    script(sandbox, "rbd import other.raw rbd/old; rbd snap create rbd/old@base")?;
    let seen = "has far/child now; has far/child@one one";
    for (program, options) in [
        (OURS, String::new()),
        (OURS, "--flatten".to_owned()),
        (THEIRS, V2.to_owned()),
        (THEIRS, format!("--flatten {V2}")),
    ] {
        let steps = format!(
            "rbd clone {V2} rbd/old@base rbd/child; write rbd/child 16K 6M; rbd snap create rbd/child@one
write rbd/child 16K 6M; {program} migration prepare {options} rbd/child far/child; write far/child 16K 6M
verify far/child; save far/child now; save far/child@one one; {seen}; onego rbd migration execute far/child
onego rbd migration commit far/child; {seen}"
        );
        script(sandbox, &steps)?;
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
    for [execute, commit] in [[OURS, THEIRS], [THEIRS, OURS], [OURS, OURS]] {
        let image = "rbd import other.raw rbd/parent; rbd snap create rbd/parent@one";
        let clone = format!("rbd clone {V2} rbd/parent@one rbd/kid; write rbd/kid 16K 6M");
        script(sandbox, &format!("{image}; {clone}; write rbd/parent 16K 6M; save rbd/kid kid"))?;
        onego_fails(sandbox, "rbd migration prepare rbd/parent far/parent", "has clones")?;
        // Ceph's program expects that the clone may be open read-only.
        let force = if commit == THEIRS { "--force" } else { "" };
        let steps = format!(
            "rbd migration prepare rbd/parent far/parent; has rbd/kid kid; verify rbd/kid; write rbd/kid 16K 6M
write far/parent 16K 6M; save rbd/kid kid; has rbd/kid kid; {execute} migration execute far/parent
has rbd/kid kid; {commit} migration commit {force} far/parent; has rbd/kid kid"
        );
        script(sandbox, &steps)?;
        let info = json(&sandbox.ceph("rbd info --format json rbd/kid")?)?;
        ensure!(info["parent"]["pool"] == "far", "the clone has another parent: {info}");
        let steps = "onego rbd flatten rbd/kid; has rbd/kid kid; rbd rm rbd/kid; save far/parent now
save far/parent@one one; has far/parent now; has far/parent@one one";
        script(sandbox, steps)?;
        finish(sandbox, "far/parent")?;
    }
    Ok(())
}

/// Ceph's program requests the execution from our server, which writes the destination and keeps its lock.
fn move_busy(sandbox: &Sandbox) -> Result<()> {
    let steps = "save rbd/busy@one one; rbd migration prepare rbd/busy far/busy";
    script(sandbox, &format!("{}; {steps}", with_snapshot("rbd/busy")))?;
    let busy = BusyImage::start(sandbox, "far/busy", 300)?;
    script(sandbox, "rbd migration execute far/busy")?;
    busy.check_owner("far/busy")?;
    let server = busy.finish()?;
    script(sandbox, "onego rbd migration commit far/busy")?;
    server.stop()?;
    script(sandbox, "has far/busy@one one")?;
    finish(sandbox, "far/busy")
}

/// Sources of imports: a snapshot, a specification of the same, and files with the image and its snapshots.
const SNAPSHOT: &str = "rbd/template@two";
const SPEC: &str = "--source-spec-path spec.json";
const FILES: &str = "--source-spec-path files.json";

/// Imports `rbd/template`. Its snapshot `two` equals the image itself: librbd reads the snapshot, but copies objects of
/// the image as it is by then.
pub(super) fn imports(sandbox: &Sandbox) -> Result<()> {
    // The folder's `ceph.conf` is a link to the cluster's.
    let conf = sandbox.read("ceph.conf")?;
    fs::remove_file(sandbox.path("ceph.conf"))?;
    let folder = sandbox.path("").display().to_string();
    sandbox.write("ceph.conf", format!("{conf}\n[client]\nrbd source folder = {folder}\n"))?;
    prepare(sandbox)?;
    let spec = r#"{ "type": "native", "pool_name": "rbd", "image_name": "template", "snap_name": "two" }"#;
    sandbox.write("spec.json", spec)?;
    let raw = |name: &str, file: &str| serde_json::json!({ "type": "raw", "name": name, "stream": { "type": "file", "file_path": file } });
    let files = serde_json::json!({
        "type": "raw",
        "stream": { "type": "file", "file_path": "other.raw" },
        "snapshots": [raw("one", "disk.raw"), raw("two", "other.raw")],
    });
    sandbox.write("files.json", files.to_string())?;
    let steps = "rbd snap create rbd/template@two; save rbd/template@one one; save rbd/template@two two";
    script(sandbox, &format!("{}; {steps}", with_snapshot("rbd/template")))?;
    import_all(sandbox)?;
    abort_imports(sandbox)?;
    import_clones(sandbox)?;
    refuse_imports(sandbox)?;
    import_busy(sandbox)?;
    remove(sandbox, "rbd/template")?;
    nothing_left(sandbox)
}

/// Checks that the source has not changed.
fn source_is_unchanged(sandbox: &Sandbox) -> Result<()> {
    script(sandbox, "rbd export rbd/template seen.raw")?;
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
        let import = format!("{prepare} migration prepare --import-only {from} {to} {options}");
        script(sandbox, &format!("{import}; save rbd/template now"))?;
        let status = json(&sandbox.ceph(&format!("rbd status --format json {to}"))?)?;
        let source = json(status["migration"]["source_spec"].as_str().context("no source-spec")?)?;
        let kind = if from == FILES { "raw" } else { "native" };
        ensure!(source["type"] == kind, "{to} has another source: {status}");
        complete(sandbox, to, execute, commit)?;
        remove(sandbox, to)?;
        source_is_unchanged(sandbox)?;
    }
    Ok(())
}

fn abort_imports(sandbox: &Sandbox) -> Result<()> {
    for [prepare, abort] in [[OURS, THEIRS], [THEIRS, OURS], [OURS, OURS]] {
        let import = format!("{prepare} migration prepare --import-only rbd/template@one far/goes");
        script(sandbox, &format!("{import}; write far/goes 16K 6M; {abort} migration abort far/goes"))?;
        let left = sandbox.ceph("rbd ls far")?;
        ensure!(!left.contains("goes"), "the destination is left:\n{left}");
        source_is_unchanged(sandbox)?;
    }
    Ok(())
}

/// Fills images from clones, without making them clones.
fn import_clones(sandbox: &Sandbox) -> Result<()> {
    let seen = "has far/filled now; has far/filled@one one";
    for [prepare, execute, commit] in [[OURS, THEIRS, OURS], [THEIRS, OURS, OURS]] {
        let options = if prepare == THEIRS { V2 } else { "" };
        let steps = format!(
            "rbd clone {V2} rbd/template@one rbd/child; write rbd/child 16K 6M; rbd snap create rbd/child@one
{prepare} migration prepare {options} --import-only rbd/child@one far/filled
save rbd/child now; save rbd/child@one one; {seen}; write far/filled 16K 6M; verify far/filled; save far/filled now
{execute} migration execute far/filled; {commit} migration commit far/filled"
        );
        script(sandbox, &steps)?;
        remove(sandbox, "rbd/child")?;
        let children = sandbox.ceph("rbd children --all rbd/template@one")?;
        ensure!(children.is_empty(), "after `{prepare} migration prepare`: {children}");
        script(sandbox, seen)?;
        finish(sandbox, "far/filled")?;
    }
    script(sandbox, "save rbd/template@one one")
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
        let line = "rbd migration prepare --import-only --source-spec-path refused.json far/none";
        onego_fails(sandbox, line, word).with_context(|| spec.to_owned())?;
    }
    ensure!(!sandbox.ceph("rbd ls far")?.contains("none"), "a refused import leaves an image");
    Ok(())
}

/// Fills an image from a snapshot while the source is written.
fn import_busy(sandbox: &Sandbox) -> Result<()> {
    let prepare =
        "onego rbd migration prepare --import-only rbd/template@two far/busy; save rbd/template@two two";
    script(sandbox, &format!("{prepare}; save rbd/template@two now; write rbd/template 16K 6M"))?;
    let seen = "has far/busy now; has far/busy@one one; has far/busy@two two";
    let steps = format!(
        "{seen}; verify far/busy; write rbd/template 16K 6M; save far/busy now
onego rbd migration execute far/busy; {seen}\nonego rbd migration commit far/busy; {seen}"
    );
    script(sandbox, &steps)?;
    finish(sandbox, "far/busy")
}
