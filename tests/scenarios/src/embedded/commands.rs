//! Every command that Ceph's monitors and managers know, on our embedded cluster: each is answered at once, with what it
//! asks for or with an error that says why not.

use crate::steps::json;
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{RealCeph, Sandbox, Server, Store};
use serde_json::Value;

/// Asks a cluster for its commands, or sends those of a list.
const SCRIPT: &str = include_str!("commands.py");

/// Seconds a command may take on a busy machine. It takes milliseconds.
const LIMIT: f64 = 5.0;

/// Least number of commands of a complete list.
const MIN_COMMANDS: usize = 250;

/// Commands with which programs and operators look at a cluster. All must succeed.
const ANSWERED: &str = "status, health, df, fsid, log last, log, osd dump, osd tree, osd df, osd pool ls, osd stat, \
    pg dump, pg ls, pg stat, config-key ls, config-key dump, config dump, mon dump, mgr dump, quorum_status, versions, \
    osd pool stats, osd crush dump, osd erasure-code-profile ls, version";

/// Commands that the manager must answer, too: librados's programs send them there.
const BY_MANAGER: &str = "pg dump, pg ls, pg stat, osd df, osd perf, osd pool stats";

/// No command hangs, and none fails without a message.
pub(super) fn all(sandbox: &Sandbox) -> Result<()> {
    let described = {
        let _ceph = RealCeph::start(sandbox, Store::Memory)?;
        sandbox.write("commands.py", SCRIPT)?;
        // The monitor lists the manager's commands, too. OSDs without a manager do not list theirs.
        sandbox.ceph("python3 commands.py")?
    };
    sandbox.empty()?;
    sandbox.write("commands.py", SCRIPT)?;
    sandbox.write("commands.json", described)?;
    let _cluster = Server::cluster(sandbox, "")?;
    let said = sandbox.ceph("python3 commands.py commands.json")?;
    sandbox.write("commands.out", &said)?;
    let answers: Vec<Value> = said.lines().map(json).collect::<Result<_>>()?;
    ensure!(answers.len() >= MIN_COMMANDS, "only {} of {MIN_COMMANDS} commands were sent", answers.len());
    for answer in &answers {
        judge(answer).with_context(|| format!("see commands.out: {answer}"))?;
    }
    let done = |words: &str, daemon: Option<&str>| {
        let is_meant = |answer: &&Value| {
            answer["command"] == words && daemon.is_none_or(|daemon| answer["daemon"] == daemon)
        };
        answers.iter().filter(is_meant).any(|answer| answer["result"] == 0)
    };
    for words in ANSWERED.split(", ") {
        ensure!(done(words, None), "no daemon answers '{words}' (see commands.out)");
    }
    for words in BY_MANAGER.split(", ") {
        ensure!(done(words, Some("mgr")), "the manager does not answer '{words}' (see commands.out)");
    }
    Ok(())
}

fn judge(answer: &Value) -> Result<()> {
    let (result, seconds) = (answer["result"].as_i64(), answer["seconds"].as_f64());
    ensure!(seconds.is_some_and(|seconds| seconds < LIMIT), "a command takes {seconds:?} of {LIMIT} s");
    let text = answer["status"].as_str().unwrap_or_default();
    ensure!(result == Some(0) || !text.trim().is_empty(), "a command fails without a message");
    Ok(())
}
