//! Images that are filled from what stays as it is: each step by `rbd` or by us, while either side uses them.

use super::{OURS, THEIRS, by, checked, model, nothing_left, ours_writes, removed, scribble, seen, start};
use crate::cluster::Stage;
use crate::interop::disk;
use crate::interop::steps::json as parsed;
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use std::fs;

/// The image that others are filled from. Its snapshot `two` has what it has itself: librbd's copies of objects, unlike its reads, show
/// what the image has by then.
const TEMPLATE: &str = "rbd/template";

/// An import: who prepares, executes and commits it, what says where it comes from, and where it goes.
struct Import {
    steps: [&'static str; 3],
    from: &'static str,
    to: &'static str,
}

const SNAPSHOT: &str = "rbd/template@two";
const FROM_SPEC: &str = "--source-spec-path spec.json";
/// Files with what the image is now, and at its snapshots.
const FROM_FILES: &str = "--source-spec-path files.json";

const IMPORTS: &[Import] = &[
    Import { steps: [OURS, OURS, OURS], from: SNAPSHOT, to: "far/one" },
    Import {
        steps: [OURS, THEIRS, OURS],
        from: FROM_SPEC,
        to: "far/there/two --object-size 1M --data-pool data",
    },
    Import { steps: [THEIRS, OURS, THEIRS], from: FROM_SPEC, to: "rbd/three --object-size 8M" },
    Import { steps: [THEIRS, THEIRS, OURS], from: SNAPSHOT, to: "rbd/four" },
    Import { steps: [OURS, OURS, THEIRS], from: SNAPSHOT, to: "rbd/five --image-feature layering" },
    Import { steps: [OURS, OURS, OURS], from: FROM_FILES, to: "far/six --object-size 1M" },
    Import { steps: [OURS, THEIRS, OURS], from: FROM_FILES, to: "rbd/seven" },
    Import { steps: [THEIRS, OURS, OURS], from: FROM_FILES, to: "far/eight --object-size 8M" },
];

/// Images with snapshots, clones, and images that are in use.
pub(crate) fn run(stage: &Stage) -> Result<()> {
    let _ceph = start(stage)?;
    let configured = fs::read_to_string(stage.path("ceph.conf"))?;
    let folder = stage.path("").display().to_string();
    fs::write(stage.path("ceph.conf"), format!("{configured}\n[client]\nrbd source folder = {folder}\n"))?;
    stage.ceph(&format!("rbd import disk.raw {TEMPLATE}"))?;
    stage.ceph(&format!("rbd snap create {TEMPLATE}@one"))?;
    stage.onego(&format!("--conf ceph.conf cp --in-place other.raw rbd:{TEMPLATE}"))?;
    stage.ceph(&format!("rbd snap create {TEMPLATE}@two"))?;
    let spec = r#"{ "type": "native", "pool_name": "rbd", "image_name": "template", "snap_name": "two" }"#;
    fs::write(stage.path("spec.json"), spec)?;
    let stream = |path: &str| json!({ "type": "file", "file_path": path });
    let files = json!({
        "type": "raw",
        "stream": stream("other.raw"),
        "snapshots": [
            { "type": "raw", "name": "one", "stream": stream("disk.raw") },
            { "type": "raw", "name": "two", "stream": stream("other.raw") },
        ],
    });
    fs::write(stage.path("files.json"), files.to_string())?;
    model(stage, TEMPLATE, "@one")?;
    model(stage, TEMPLATE, "@two")?;
    images(stage)?;
    aborted(stage)?;
    clone(stage)?;
    refused(stage)?;
    in_use(stage)?;
    removed(stage, TEMPLATE)?;
    nothing_left(stage)
}

/// The image that others were filled from is as it was.
fn stays(stage: &Stage) -> Result<()> {
    stage.ceph(&format!("rbd export {TEMPLATE} seen.raw"))?;
    disk::compare(&stage.path("other.raw"), &stage.path("seen.raw")).context("the source has changed")?;
    fs::remove_file(stage.path("seen.raw"))?;
    ensure!(stage.ceph("rbd trash ls --all")?.is_empty(), "the source is in the trash");
    Ok(())
}

fn images(stage: &Stage) -> Result<()> {
    for Import { steps: [prepare, execute, commit], from, to } in IMPORTS {
        by(stage, prepare, &format!("migration prepare --import-only {from} {to}"))?;
        let to = to.split(' ').next().context("no destination")?;
        model(stage, TEMPLATE, "")?;
        seen(stage, to, &["", "@one", "@two"]).context("prepared")?;
        let status = parsed(&stage.ceph(&format!("rbd status --format json {to}"))?)?;
        let source = parsed(status["migration"]["source_spec"].as_str().context("no source-spec")?)?;
        let kind = if *from == FROM_FILES { "raw" } else { "native" };
        ensure!(source["type"] == kind, "it comes from elsewhere: {status}");
        scribble(stage, to)?;
        ours_writes(stage, to)?;
        model(stage, to, "")?;
        seen(stage, to, &["", "@one", "@two"]).context("written")?;
        by(stage, execute, &format!("migration execute {to}"))?;
        seen(stage, to, &["", "@one", "@two"]).context("executed")?;
        by(stage, commit, &format!("migration commit {to}"))?;
        seen(stage, to, &["", "@one", "@two"]).context("committed")?;
        checked(stage, to)?;
        removed(stage, to)?;
        stays(stage)?;
    }
    Ok(())
}

/// What is aborted leaves nothing, no matter which side began it.
fn aborted(stage: &Stage) -> Result<()> {
    for [prepare, abort] in [[OURS, THEIRS], [THEIRS, OURS], [OURS, OURS]] {
        by(stage, prepare, "migration prepare --import-only rbd/template@one far/goes")?;
        scribble(stage, "far/goes")?;
        by(stage, abort, "migration abort far/goes")?;
        let left = stage.ceph("rbd ls far")?;
        ensure!(!left.contains("goes"), "the destination is there:\n{left}");
        stays(stage)?;
    }
    Ok(())
}

/// What is filled from a clone is none.
fn clone(stage: &Stage) -> Result<()> {
    for [prepare, execute, commit] in [[OURS, THEIRS, OURS], [THEIRS, OURS, OURS]] {
        stage.ceph("rbd clone --rbd-default-clone-format 2 rbd/template@one rbd/child")?;
        scribble(stage, "rbd/child")?;
        stage.ceph("rbd snap create rbd/child@one")?;
        let options = "--rbd-default-clone-format 2";
        let options = if prepare == THEIRS { options } else { "" };
        by(stage, prepare, &format!("migration prepare {options} --import-only rbd/child@one far/filled"))?;
        model(stage, "rbd/child", "")?;
        model(stage, "rbd/child", "@one")?;
        seen(stage, "far/filled", &["", "@one"]).context("prepared")?;
        scribble(stage, "far/filled")?;
        ours_writes(stage, "far/filled")?;
        model(stage, "far/filled", "")?;
        by(stage, execute, "migration execute far/filled")?;
        by(stage, commit, "migration commit far/filled")?;
        removed(stage, "rbd/child")?;
        let children = stage.ceph("rbd children --all rbd/template@one")?;
        ensure!(children.is_empty(), "after `{prepare} migration prepare`: {children}");
        seen(stage, "far/filled", &["", "@one"]).context("committed")?;
        checked(stage, "far/filled")?;
        removed(stage, "far/filled")?;
    }
    model(stage, TEMPLATE, "@one")
}

/// What is not here is said to be not here.
fn refused(stage: &Stage) -> Result<()> {
    for (spec, word) in [
        (r#"{"type":"qcow","stream":{"type":"file","file_path":"disk.qcow2"}}"#, "native"),
        (r#"{"type":"raw","stream":{"type":"http","url":"http://127.0.0.1/disk.raw"}}"#, "file"),
        (r#"{"type":"raw","stream":{"type":"file","file_path":"none.raw"}}"#, "none.raw"),
        (r#"{"type":"native","pool_name":"rbd","image_name":"template"}"#, "snap_name"),
    ] {
        fs::write(stage.path("refused.json"), spec)?;
        let refused =
            by(stage, OURS, "migration prepare --import-only --source-spec-path refused.json far/none");
        let error = format!("{:#}", refused.err().context("it was imported")?);
        ensure!(error.contains(word), "{spec}: {error}");
    }
    ensure!(!stage.ceph("rbd ls far")?.contains("none"), "there is an image");
    Ok(())
}

/// The image that another one is filled from is written meanwhile: what is filled shows the snapshot.
fn in_use(stage: &Stage) -> Result<()> {
    by(stage, OURS, "migration prepare --import-only rbd/template@two far/busy")?;
    model(stage, TEMPLATE, "@two")?;
    fs::copy(stage.path("model@two.raw"), stage.path("model.raw"))?;
    scribble(stage, TEMPLATE)?;
    seen(stage, "far/busy", &["", "@one", "@two"]).context("prepared")?;
    ours_writes(stage, "far/busy")?;
    scribble(stage, TEMPLATE)?;
    model(stage, "far/busy", "")?;
    by(stage, OURS, "migration execute far/busy")?;
    seen(stage, "far/busy", &["", "@one", "@two"]).context("executed")?;
    by(stage, OURS, "migration commit far/busy")?;
    seen(stage, "far/busy", &["", "@one", "@two"]).context("committed")?;
    checked(stage, "far/busy")?;
    removed(stage, "far/busy")
}
