//! Every command that monitors and managers of Ceph know, sent to our embedded cluster: each is answered at once, by what it asks for or
//! by a sentence that says why not.

use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::interop::steps::json;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;

/// Asks a cluster for its commands, or sends those of a list.
const SCRIPT: &str = include_str!("commands.py");

/// Seconds that a command may take. None takes more than milliseconds, but the machine is busy.
const LIMIT: f64 = 5.0;

/// Commands that there are at least: with fewer the monitor has not told all.
const MIN_COMMANDS: usize = 250;

/// Commands that must be answered by what they ask for: those that programs and operators use to look at a cluster.
const ANSWERED: &[&str] = &[
    "status",
    "health",
    "df",
    "fsid",
    "log last",
    "log",
    "osd dump",
    "osd tree",
    "osd df",
    "osd pool ls",
    "osd stat",
    "pg dump",
    "pg ls",
    "pg stat",
    "config-key ls",
    "config-key dump",
    "config dump",
    "mon dump",
    "mgr dump",
    "quorum_status",
    "versions",
    "osd pool stats",
    "osd crush dump",
    "osd erasure-code-profile ls",
    "version",
];

/// Commands that the manager must answer, too: librados's programs send them there.
const BY_MANAGER: &[&str] = &["pg dump", "pg ls", "pg stat", "osd df", "osd perf", "osd pool stats"];

/// No command hangs, and none is refused without a word.
pub(crate) fn all(stage: &Stage) -> Result<()> {
    let described = {
        let _ceph = RealCeph::start(stage, Store::Memory)?;
        fs::write(stage.path("commands.py"), SCRIPT)?;
        // Its monitor says the manager's commands, too. OSDs of a cluster without a manager do not answer what theirs are.
        stage.ceph("python3 commands.py")?
    };
    stage.empty()?;
    fs::write(stage.path("commands.py"), SCRIPT)?;
    fs::write(stage.path("commands.json"), &described)?;
    let _cluster = Embedded::start(stage, "")?;
    let said = stage.ceph("python3 commands.py commands.json")?;
    fs::write(stage.path("commands.out"), &said)?;
    let answers: Vec<Value> = said.lines().map(json).collect::<Result<_>>()?;
    ensure!(answers.len() >= MIN_COMMANDS, "only {} commands were sent", answers.len());
    for answer in &answers {
        judge(answer).with_context(|| format!("see commands.out: {answer}"))?;
    }
    let is_done = |daemon: Option<&str>, words: &str| {
        let of_it = |answer: &&Value| daemon.is_none_or(|daemon| answer["daemon"] == daemon);
        answers.iter().filter(of_it).any(|answer| answer["command"] == words && answer["result"] == 0)
    };
    for words in ANSWERED {
        ensure!(is_done(None, words), "'{words}' is not answered (see commands.out)");
    }
    for words in BY_MANAGER {
        ensure!(is_done(Some("mgr"), words), "the manager does not answer '{words}' (see commands.out)");
    }
    Ok(())
}

fn judge(answer: &Value) -> Result<()> {
    let (result, seconds) = (answer["result"].as_i64(), answer["seconds"].as_f64());
    ensure!(seconds.is_some_and(|seconds| seconds < LIMIT), "a command takes long");
    let text = answer["status"].as_str().unwrap_or_default();
    ensure!(result == Some(0) || !text.trim().is_empty(), "a command is refused without a word");
    Ok(())
}
