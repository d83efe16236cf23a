//! Types what documents for users tell them to type.

use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{ADDRESS, Sandbox, sh, workspace};
use std::fmt::Write as _;
use std::fs;

/// Prepares a sandbox.
const SETUP: &str = include_str!("documents.sh");

/// Lines that run elsewhere: the command that runs this, and one that needs a kernel's client, which a guest has.
const ELSEWHERE: [&str; 2] = ["cargo xtask test", "mount -t nfs"];

/// Least number of lines of all documents.
const MIN_LINES: usize = 60;

/// Runs every line of README and the guides, and then their programs.
pub(crate) fn run(sandbox: &Sandbox) -> Result<()> {
    let mut list = std::process::Command::new("git");
    list.current_dir(workspace::root()).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let mut script = format!("ADDRESS={ADDRESS} ROOT={}\n{SETUP}", sandbox.tools_root().display());
    let mut lines = 0;
    for name in sh::text(list.args(["README.md", "docs/guide/*.md"]))?.lines() {
        let path = workspace::root().join(name);
        // git still lists a file that is removed and not yet committed.
        if path.exists() {
            lines += add(&mut script, name, &fs::read_to_string(path)?)?;
        }
    }
    ensure!(lines >= MIN_LINES, "only {lines} of {MIN_LINES} lines were found");
    sh::run(workspace::cargo().args(["build", "--quiet", "--package", "onego", "--example", "guides"]))?;
    writeln!(script, "RUST_BACKTRACE=0 {}", workspace::target()?.join("debug/examples/guides").display())?;
    // Lines name the program as it is installed.
    let folder = sandbox.onego_program().parent().context("a program is in a folder")?;
    sandbox.write("script", format!("PATH=\"{}:$PATH\"\n{script}", folder.display()))?;
    sh::bytes(&mut sandbox.host_command("bash", "script")).map(drop)
}

/// Adds the lines of a document that begin with a prompt, and returns their number.
fn add(script: &mut String, name: &str, text: &str) -> Result<usize> {
    let mut count = 0;
    // Each document has servers and variables of its own.
    script.push_str("(\nend\n");
    for line in console_lines(text) {
        let line = line.strip_prefix("$ ").with_context(|| format!("{name}: `{line}` has no prompt"))?;
        let line = line.split_once("  #").map_or(line, |(line, _)| line).trim();
        if !ELSEWHERE.iter().any(|elsewhere| line.starts_with(elsewhere)) {
            writeln!(script, "echo \"$(date +%T) \"{:?} >&2\n{}", format!("{name}: {line}"), typed(line))?;
            count += 1;
        }
    }
    script.push_str(")\n");
    Ok(count)
}

/// Returns the lines of a document's blocks in the language `console`.
fn console_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    text.lines().filter(move |line| {
        let was_inside = is_inside;
        is_inside = match line.trim_start() {
            "```console" => true,
            "```" => false,
            _ => is_inside,
        };
        was_inside && is_inside
    })
}

/// Returns a line as the script has it: measurements are short, and servers have started before the next line.
fn typed(line: &str) -> String {
    // A folder of the sandbox stands for theirs.
    let line = line.replace("cargo run --release --", "onego").replace("/tmp/onego", "conf");
    if let Some(server) = line.strip_suffix('&') {
        let folder =
            line.split_whitespace().skip_while(|word| *word != "--conf-dir").nth(1).unwrap_or("conf");
        return format!("rm -rf {folder}\n{server} &\nawait test -s {folder}/ceph.conf");
    }
    if line.ends_with(" --detach") {
        // An earlier document may have left one.
        let folder =
            line.split_whitespace().skip_while(|word| *word != "--conf-dir").nth(1).unwrap_or("conf");
        return format!(
            "onego cluster stop --conf-dir {folder} 2> /dev/null || true\nrm -rf {folder}\n{line}"
        );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_consoles_are_found() {
        let text = "# A\n```rust\nlet a = 1;\n```\n```console\n$ ls\n```\ntext\n```console\n$ cp a b\n$ ls\n```\nend\n";
        assert!(console_lines(text).eq(["$ ls", "$ cp a b", "$ ls"]));
    }
}
