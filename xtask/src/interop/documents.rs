//! What documents for users tell them to type is typed.

use crate::cluster::{ADDRESS, Stage};
use crate::documents::{self, Document};
use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Prepares a stage.
const SETUP: &str = include_str!("documents.sh");

/// Lines that run elsewhere: one is the command that runs this, the other needs a kernel's client, which has a guest of its own.
const ELSEWHERE: [&str; 2] = ["cargo xtask test", "mount -t nfs"];

/// Lines that there are at least.
const MIN_LINES: usize = 60;

/// Runs every line of README and the guides, and then their programs.
pub(super) fn run(stage: &Stage) -> Result<()> {
    let workspace = Workspace::load()?;
    let documents = documents::all(&workspace)?;
    let mut script = format!("ADDRESS={ADDRESS}\n{SETUP}");
    let mut lines = 0;
    for document in documents.iter().filter(|document| document.is_for_users()) {
        lines += add(&mut script, document)?;
    }
    ensure!(lines >= MIN_LINES, "only {lines} lines were found");
    sh::run(workspace.cargo().args(["build", "--quiet", "--package", "onego", "--example", "guides"]))?;
    writeln!(
        script,
        "RUST_BACKTRACE=0 {}",
        workspace.target_directory.join("debug/examples/guides").display()
    )?;
    // Its name in lines is the one that it is installed under.
    let folder = stage.onego_program().parent().context("a program lies in a folder")?;
    fs::write(stage.path("script"), format!("PATH=\"{}:$PATH\"\n{script}", folder.display()))?;
    sh::text(&mut stage.program(Path::new("bash"), "script")).map(drop)
}

/// Adds the lines of a document that begin with a prompt, and returns how many.
fn add(script: &mut String, document: &Document) -> Result<usize> {
    let mut count = 0;
    // Its servers and variables are its own.
    script.push_str("(\nend\n");
    let blocks = document.blocks("console");
    for line in blocks.iter().flat_map(|block| block.lines()) {
        let line =
            line.strip_prefix("$ ").with_context(|| format!("{}: `{line}` has no prompt", document.name))?;
        let line = line.split_once("  #").map_or(line, |(line, _)| line).trim();
        if !ELSEWHERE.iter().any(|elsewhere| line.starts_with(elsewhere)) {
            writeln!(
                script,
                "echo \"$(date +%T) \"{:?} >&2\n{}",
                format!("{}: {line}", document.name),
                typed(line)
            )?;
            count += 1;
        }
    }
    script.push_str(")\n");
    Ok(count)
}

/// The line as the script has it: measurements are short, and what a server is needed for waits until it serves.
fn typed(line: &str) -> String {
    // The folder that they name as /tmp/onego is one of the stage.
    let line = line.replace("cargo run --release --", "onego").replace("/tmp/onego", "conf");
    if let Some(server) = line.strip_suffix('&') {
        let folder =
            line.split_whitespace().skip_while(|word| *word != "--conf-dir").nth(1).unwrap_or("conf");
        return format!("rm -rf {folder}\n{server} &\nawait test -s {folder}/ceph.conf");
    }
    if line.starts_with("onego nfs serve") || line.starts_with("onego export") {
        return format!("{line} &\nsleep 1\nkill -0 $!");
    }
    match line.split_whitespace().find(|word| ["demo", "rbd", "nfs", "msgr", "zc", "bench"].contains(word)) {
        Some("demo") => format!("{line} --seconds 0.1"),
        Some("bench") if line.contains("bench zc") || line.contains("bench msgr") => {
            format!("{line} --seconds 0.002")
        }
        Some("bench") => format!("{line} --seconds 0.02 --size 16M"),
        _ => line,
    }
}
