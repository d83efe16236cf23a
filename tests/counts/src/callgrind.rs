//! Runs of this program under valgrind, and the costs that callgrind writes.

use crate::operations::{CountedOp, REQUESTS};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// Option that runs one side of an operation.
pub(crate) const RUN: &str = "--run";

/// Name of an operation that only copies bytes.
pub(crate) const COPY: &str = "copy";

/// Valgrind, and its name for the `memcpy` of the C library.
pub(crate) struct Valgrind<'a> {
    program: &'a OsStr,
    copies: String,
}

/// Instructions of one request, rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) total: u64,
    /// In functions of CRC-32C.
    pub(crate) checksums: u64,
    /// In `memcpy` and `memmove`.
    pub(crate) copies: u64,
}

impl Cost {
    /// Instructions besides checksums and copies.
    pub(crate) fn rest(self) -> u64 {
        self.total - self.checksums - self.copies
    }
}

impl<'a> Valgrind<'a> {
    /// Finds the name of `memcpy` in callgrind's output: an address, if the C library has no debug symbols.
    pub(crate) fn new(program: &'a OsStr) -> Result<Self> {
        let mut this = Self { program, copies: String::new() };
        let costs = this.run(COPY, "client")?;
        let (name, _) = costs.into_iter().max_by_key(|(_, cost)| *cost).context("a copy costs nothing")?;
        this.copies = name;
        Ok(this)
    }

    /// Counts one side of an operation.
    pub(crate) fn count(&self, operation: &CountedOp, side: &str) -> Result<Cost> {
        let costs = self.run(operation.name, side)?;
        let sum = |of: &dyn Fn(&str) -> bool| {
            let sum = costs.iter().filter(|(name, _)| of(name)).map(|(_, cost)| cost).sum::<u64>();
            (sum + REQUESTS / 2) / REQUESTS
        };
        let checksums = sum(&|name| name.contains("crc"));
        let copies = sum(&|name| name == self.copies);
        Ok(Cost { total: sum(&|_| true), checksums, copies })
    }

    /// Instructions of each function within counted sections.
    fn run(&self, operation: &str, side: &str) -> Result<BTreeMap<String, u64>> {
        let dir = tempfile::tempdir().context("cannot create a temporary directory")?;
        let out = dir.path().join("callgrind.out");
        let output = valgrind(self.program)
            .args(["--tool=callgrind", "--toggle-collect=*counted_section*"])
            .args(["--compress-strings=no", "--compress-pos=no", "--dump-line=no"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(std::env::current_exe().context("this program has no path")?)
            .args([RUN, operation, side])
            .output();
        check(self.program, output)?;
        let text = std::fs::read_to_string(&out).with_context(|| format!("cannot read {}", out.display()))?;
        let costs = self_costs(&text)?;
        ensure!(!costs.is_empty(), "valgrind counted nothing in {operation} {side}");
        Ok(costs)
    }
}

/// Runs `onego` under valgrind: its version, and a short load on an embedded cluster over sockets, which is a process of its own.
pub(crate) fn run_program(program: &OsStr, onego: &Path) -> Result<()> {
    let load = ["bench", "rbd", "--seconds", "0.1", "--size", "4M", "--io-depth", "4", "--no-floor"];
    for arguments in [&["--version"][..], &load] {
        let mut run = valgrind(program);
        run.args(["--tool=none", "--quiet", "--trace-children=yes"]).arg(onego).args(arguments);
        check(program, run.output())
            .with_context(|| format!("{} {} under valgrind", onego.display(), arguments.join(" ")))?;
    }
    Ok(())
}

/// Valgrind with an environment of a few variables: they lie on the stack of the program and decide its alignment.
fn valgrind(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    let kept = ["HOME", "PATH", "TMPDIR"].map(|name| (name, std::env::var_os(name).unwrap_or_default()));
    command.env_clear().envs(kept.into_iter().filter(|(_, value)| !value.is_empty()));
    command
}

fn check(program: &OsStr, output: std::io::Result<Output>) -> Result<()> {
    let program = program.display();
    let output = output.with_context(|| {
        format!("cannot run {program}: install it (`apt-get install valgrind`) or name it with --valgrind")
    })?;
    if !output.status.success() {
        bail!("{program}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(())
}

/// Sums the costs of functions without those that they call, in callgrind's format
/// (valgrind `callgrind/docs/cl-format.xml`).
fn self_costs(text: &str) -> Result<BTreeMap<String, u64>> {
    let mut costs = BTreeMap::new();
    let mut function = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if line.starts_with("calls=") {
            // The next line has the cost of the callee.
            lines.next();
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            let cost = line.split_ascii_whitespace().nth(1).unwrap_or("0");
            let cost: u64 = cost.parse().with_context(|| format!("callgrind wrote {line}"))?;
            *costs.entry(function.to_owned()).or_default() += cost;
        }
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_charged_for_itself_and_not_for_what_it_calls() {
        let text =
            "summary: 17\n\nob=a\nfl=b\nfn=first\n0 3\ncfn=second\ncalls=2 0\n0 10\n0 4\n\nfn=second\n0 10\n";
        let costs = self_costs(text).unwrap();
        assert_eq!(costs, BTreeMap::from([("first".into(), 7), ("second".into(), 10)]));
    }
}
