//! Compares every `rados` and `status` command of ours with Ceph's program: the same exit code and the same bytes, also
//! for invalid input.

use super::PATIENCE;
use crate::steps::{json, says, wait_until};
use anyhow::{Context as _, Result, bail, ensure};
use onego_sandbox::{Sandbox, disk, sh};
use serde_json::Value;
use std::fs::File;
use std::process::{Command, Output, Stdio};

/// The part of the results that must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Same {
    /// Code, standard output and standard error.
    All,
    /// Code and standard output. Messages differ in words or depend on earlier commands.
    Output,
    /// The code. Ceph prints pages of help, and we nothing on standard output.
    Code,
    /// Both outputs; our code is 1 where Ceph's program fails with code 0.
    Messages,
    /// As [`All`](Self::All), but only on a real cluster: our OSDs lack an operation that Ceph's program needs.
    Real,
}

/// Commands with the prefix of their lines, in order. Our program gets `ours` for `theirs`, so each has its own objects.
/// `small` is standard input.
const RADOS: [(&str, &str); 3] = [
    ("rados", "All: lspools; df; df --format json; df -p nowhere"),
    ("rados -p rbd", OBJECTS),
    ("rados", "All: ls; -p nowhere ls\nCode: stat theirs"),
];

const OBJECTS: &str = "
All: put theirs large; get theirs -; stat theirs; put theirs large -b 65536; get theirs - -b 70000
All: append theirs small; put theirs small --offset 100
Messages: put theirs nowhere
All: put theirs -; append theirs -; get theirs -; truncate theirs 77; get theirs -; truncate theirs x
Code: truncate theirs -5
All: get nothing -; get nothing /nowhere/file; create theirs-new; create theirs-new; rm theirs-new nothing
All: stat nothing; stat2 theirs; touch theirs 100; stat theirs; touch theirs x
All: setxattr theirs colour green; setxattr theirs lines; getxattr theirs colour; getxattr theirs lines
All: listxattr theirs; rmxattr theirs colour; rmxattr nothing colour; listxattr theirs; getxattr theirs colour
All: listxattr nothing; setomapval theirs key value; setomapval theirs lines; getomapval theirs key
All: getomapval theirs lines -; getomapval theirs nothing; getomapval nothing key; listomapkeys theirs
All: listomapvals theirs; rmomapkey theirs key; rmomapkey nothing key; listomapkeys nothing; listomapvals nothing
All: setomapheader theirs head; getomapheader theirs; getomapheader nothing
Real: cp theirs theirs-copy; get theirs-copy -; listxattr theirs-copy; listomapvals theirs-copy
Real: cp nothing theirs-copy
All: cp theirs; clearomap theirs; clearomap nothing; listomapvals theirs
All: lock get theirs door --lock-cookie key --lock-description mine --lock-duration 60; lock get theirs door
All: lock get theirs hall --lock-type shared --lock-tag tag; lock get theirs hall --lock-type none
All: lock list theirs; lock info theirs door; lock info theirs hall --format json-pretty
All: lock info theirs nothing; lock list nothing; lock break theirs door client.1; lock break theirs door nobody
All: listwatchers theirs; listwatchers nothing; notify theirs hello; notify nothing hello; watch theirs
All: watch nothing; -N theirs put thing small; -N theirs ls; -N theirs ls --format json
All: -N theirs ls --format json-pretty; -N theirs rm nothing; ls; ls --all; ls --all --format json; ls -
All: ls nowhere; -N empty ls --format json-pretty; --object-locator place put theirs-placed small
All: get theirs-placed -; --object-locator place get theirs-placed -; --format nothing ls
Output: -b x ls
Code: bogus; get theirs; rm; setxattr theirs; lock list
";

/// Commands of `ceph`, which ours has with the same words.
const CEPH: &str = "
All: health --format json; osd tree; osd tree --format json-pretty; osd ls; osd dump
Output: osd dump x
All: mon dump; mon stat; quorum_status; versions; osd stat; osd pool create theirs 8; osd pool get theirs size
Output: osd pool get theirs nothing
All: osd pool get nowhere size; osd pool rm theirs; osd pool rm theirs theirs --yes-i-really-really-mean-it
Output: osd pool create; osd pool create theirs --pg-num x; osd bogus
All: config-key set theirs -i small; config-key get theirs; config-key get theirs -o -; config-key get nothing
All: osd blocklist ls
";

/// Commands that need a manager, which the real cluster lacks.
const MANAGED: &str = "All: status; df; df --format json-pretty; osd df; pg stat; pg dump pgs_brief";

/// First words of commands of `ceph` that our program also has without `ceph`.
const BY_NAME: [&str; 7] = ["status", "health", "df", "osd", "pg", "mon", "quorum_status"];

/// Characters that an error shows of an output.
const SHOWN: usize = 2000;

pub(super) fn on_real_ceph(sandbox: &Sandbox) -> Result<()> {
    all(sandbox, true)
}

pub(super) fn on_ours(sandbox: &Sandbox) -> Result<()> {
    all(sandbox, false)
}

fn all(sandbox: &Sandbox, is_real: bool) -> Result<()> {
    sandbox.write("large", disk::Random(11).bytes((9 << 20) + 5))?;
    sandbox.write("small", (1..100).map(|i| format!("line {i}\n")).collect::<String>())?;
    for (prefix, list) in RADOS {
        for (same, line) in parse(list)? {
            let line = format!("{prefix} {line}");
            compare(sandbox, &line, &line, same, is_real)?;
        }
    }
    watchers(sandbox)?;
    benchmarks(sandbox)?;
    let managed = if is_real { "" } else { MANAGED };
    for (same, line) in [parse(CEPH)?, parse(managed)?].concat() {
        let by_name = line.split(' ').next().is_some_and(|first| BY_NAME.contains(&first));
        let theirs = format!("ceph {line}");
        compare(sandbox, &theirs, if by_name { line } else { &theirs }, same, is_real)?;
    }
    Ok(())
}

/// Parses lines of the form `SAME: command; command`.
fn parse(list: &str) -> Result<Vec<(Same, &str)>> {
    let mut commands = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty()) {
        let (same, rest) = line.split_once(": ").with_context(|| format!("no colon in `{line}`"))?;
        let same = match same {
            "All" => Same::All,
            "Output" => Same::Output,
            "Code" => Same::Code,
            "Messages" => Same::Messages,
            "Real" => Same::Real,
            _ => bail!("`{line}` begins with an unknown word"),
        };
        commands.extend(rest.split("; ").map(|command| (same, command)));
    }
    Ok(commands)
}

/// Runs a line of both programs with the small file as input and compares the results.
fn compare(sandbox: &Sandbox, theirs: &str, ours: &str, same: Same, is_real: bool) -> Result<()> {
    let run = |mut command: Command| -> Result<Output> {
        command.stdin(File::open(sandbox.path("small"))?);
        command.output().with_context(|| format!("cannot start `{}`", sh::line(&command)))
    };
    let their_end = run(sandbox.ceph_command(theirs))?;
    let our_end = run(sandbox.onego_command(&ours.replace("theirs", "ours")))?;
    if same == Same::Real && !is_real {
        return Ok(());
    }
    let said = |bytes: &[u8]| mask(&String::from_utf8_lossy(bytes)).replace("ours", "theirs");
    let show = |end: &Output| {
        let [out, err] =
            [&end.stdout, &end.stderr].map(|bytes| said(bytes).chars().take(SHOWN).collect::<String>());
        format!("{}\n{out}{err}", end.status)
    };
    let differ = |part: &str| {
        let (their_end, our_end) = (show(&their_end), show(&our_end));
        format!("`{theirs}`, real cluster: {is_real}: {part} differs\nCeph's: {their_end}\nours: {our_end}")
    };
    let (their_code, our_code) = (their_end.status.code(), our_end.status.code());
    let is_expected = if same == Same::Messages { our_code == Some(1) } else { their_code == our_code };
    ensure!(is_expected, differ("the code"));
    if same == Same::Code {
        ensure!(our_end.stdout.is_empty() && !our_end.stderr.is_empty(), differ("the output"));
    } else {
        ensure!(said(&their_end.stdout) == said(&our_end.stdout), differ("the output"));
    }
    if matches!(same, Same::All | Same::Real | Same::Messages) {
        // On a busy machine ours prints a progress message, and Ceph's one about a late connection.
        let is_message = |line: &&str| {
            !line.starts_with("onego: waiting for ") && !line.contains(" monclient: get_auth_request ")
        };
        let messages =
            |end: &Output| said(&end.stderr).split_inclusive('\n').filter(is_message).collect::<String>();
        ensure!(messages(&their_end) == messages(&our_end), differ("standard error"));
    }
    Ok(())
}

/// Runs benchmarks of both programs, which read and clean up each other's objects, and compares the form of the reports.
fn benchmarks(sandbox: &Sandbox) -> Result<()> {
    const WRITE: &str = "rados -p rbd bench 1 write -b 4096 -O 8192 --max-objects 40";
    const READ: &str = "rados -p rbd bench 1 seq";
    let same = |line: &str| -> Result<()> {
        let (theirs, ours) = (shape(&sandbox.ceph(line)?), shape(&sandbox.onego(line)?));
        ensure!(theirs == ours, "`{line}` reports other things\nCeph's:\n{theirs}\nours:\n{ours}");
        Ok(())
    };
    same(WRITE)?;
    let write = format!("{WRITE} --no-cleanup");
    for mut write in [sandbox.ceph_command(&write), sandbox.onego_command(&write)] {
        sh::text(&mut write)?;
        for line in [READ, "rados -p rbd bench 1 rand", "rados -p rbd bench 1 seq --format json"] {
            same(line)?;
        }
        for mut read in [sandbox.onego_command(READ), sandbox.ceph_command(READ)] {
            let read = sh::output(&mut read)?;
            ensure!(read.stderr.is_empty(), "`{READ}` read other data: {}", sh::both(&read));
        }
    }
    // The first removes the last series, and the second finds the other program's.
    says(&sandbox.onego("rados -p rbd cleanup")?, "Removed 40 objects\n")?;
    says(&sandbox.onego("rados -p rbd cleanup")?, "Warning: using slow linear search\nRemoved 40 objects\n")?;
    same("rados -p rbd cleanup")?;
    same("rados -p rbd cleanup --prefix benchmark_data")
}

/// Returns a report without its figures and without the lines for single seconds.
fn shape(report: &str) -> String {
    if let Some((head, fields)) = report.split_once("\n{") {
        let fields: Result<Value> = json(&format!("{{{fields}"));
        let names =
            fields.ok().and_then(|fields| Some(fields.as_object()?.keys().cloned().collect::<Vec<_>>()));
        return format!("{head}\n{names:?}");
    }
    // Their heading comes with the first of them, which a benchmark that ends within a second lacks.
    let is_second = |line: &&str| {
        let line = line.trim_start();
        line.starts_with(|c: char| c.is_ascii_digit()) || line.starts_with("sec Cur ops")
    };
    let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    let masked = |line: &str| {
        let words = line.split(' ').map(|word| if has_digit(word) { "N" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    report.lines().filter(|line| !is_second(line)).map(masked).collect::<Vec<_>>().join("\n")
}

/// Lets both programs watch one object and notify its watchers: each prints the other's notifications.
fn watchers(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("rados -p rbd create bell")?;
    let start = |mut command: Command| command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let theirs = start(sandbox.ceph_command("rados -p rbd watch bell"))?;
    let ours = start(sandbox.onego_command("rados -p rbd watch bell"))?;
    wait_until(sandbox, "second watcher", PATIENCE, |sandbox| {
        Ok(sandbox.ceph("rados -p rbd listwatchers bell")?.lines().count() == 2)
    })?;
    for line in ["rados -p rbd listwatchers bell", "rados -p rbd notify bell hello"] {
        let (theirs, ours) = (sandbox.ceph(line)?, sandbox.onego(line)?);
        ensure!(mask(&theirs) == mask(&ours), "`{line}` differs\nCeph's: {theirs}\nours: {ours}");
    }
    // They end with their input, which this closes.
    let (theirs, ours) = (theirs.wait_with_output()?, ours.wait_with_output()?);
    ensure!(theirs.status.success() && ours.status.success(), "a watcher failed");
    let (theirs, ours) = (String::from_utf8(theirs.stdout)?, String::from_utf8(ours.stdout)?);
    ensure!(mask(&theirs) == mask(&ours), "watchers print other things\nCeph's: {theirs}\nours: {ours}");
    ensure!(ours.matches("NOTIFY").count() == 2, "watchers do not print 2 notifications: {ours}");
    ensure!(sandbox.onego("rados -p rbd listwatchers bell")?.is_empty(), "a watch is left");
    Ok(())
}

/// Texts before numbers that differ between runs: of clients, watches, notifications and elections.
const NUMBERED: &str =
    "client.|cookie |cookie=|notify_id | from |:0/|\"quorum_age\":|\"quorum_age\": |election epoch ";

/// Texts before ages.
const AGED: [&str; 2] = ["(age ", "since "];

/// Returns the text with N for such numbers and ages, and TIME for points in time.
fn mask(text: &str) -> String {
    let numbers = |text: String, before| mask_after(&text, before, |c| c.is_ascii_digit());
    let ages = |text: String, before| mask_after(&text, before, |c| c.is_ascii_alphanumeric());
    mask_times(&AGED.into_iter().fold(NUMBERED.split('|').fold(text.to_owned(), numbers), ages))
}

/// Replaces characters of a kind that follow a text.
fn mask_after(text: &str, before: &str, is_masked: impl Fn(char) -> bool) -> String {
    let mut parts = text.split(before);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(&is_masked);
        masked += before;
        masked += if rest.len() < part.len() { "N" } else { "" };
        masked += rest;
    }
    masked
}

/// Replaces points in time: "2026-11-24T14:00:14.926243+0000".
fn mask_times(text: &str) -> String {
    let of_time = |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | '+' | 'T' | 'Z');
    let is_time = |word: &str| word.len() >= 19 && word.starts_with("20") && word.contains('T');
    let (mut masked, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| of_time(c) != of_time(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        masked.push_str(if is_time(word) { "TIME" } else { word });
        rest = after;
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_between_runs_is_masked() {
        for (text, expected) in [
            ("watcher=1.2.3.4:0/99 client.41 cookie=7", "watcher=1.2.3.4:0/N client.N cookie=N"),
            ("NOTIFY cookie 9 notify_id 8 from 4 5", "NOTIFY cookie N notify_id N from N 5"),
            ("mtime 2026-11-24T14:00:14.926243+0000, size 9", "mtime TIME, size 9"),
            ("mtime 100.000000, size 0", "mtime 100.000000, size 0"),
            ("osd: 1 up (since 10m), 1 in", "osd: 1 up (since N), 1 in"),
        ] {
            assert_eq!(mask(text), expected);
        }
    }
}
