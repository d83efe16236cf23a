//! Every `rados` and `status` command of ours beside Ceph's own program, on a real cluster and on ours: the same code and the
//! same bytes, with wrong input, too.

use super::masks::mask;
use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::interop::disk;
use crate::interop::steps::{json, says};
use crate::sh;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read as _;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What has to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Same {
    /// Code, output, and what is said on standard error.
    All,
    /// Code and output: what is said beside them is in other words, or depends on what was before.
    Output,
    /// The code alone, and we print nothing: Ceph prints pages of help.
    Code,
    /// Nothing but what is said on standard error: we end with 1 where Ceph's program fails and ends with 0.
    Words,
    /// The same as `All`, but on a real cluster alone: OSDs of ours lack what Ceph's program asks for.
    AllOnReal,
}
use Same::{All, AllOnReal, Code, Output as Bytes, Words};

/// Lines of `rados`, in their order. `theirs` is `ours` for our program: each has objects of its own.
const RADOS: &[(&str, Same)] = &[
    ("lspools", All),
    ("df", All),
    ("df --format json", All),
    ("df -p nowhere", All),
    ("-p rbd put theirs large", All),
    ("-p rbd get theirs -", All),
    ("-p rbd stat theirs", All),
    ("-p rbd put theirs large -b 65536", All),
    ("-p rbd get theirs - -b 70000", All),
    ("-p rbd append theirs small", All),
    ("-p rbd put theirs small --offset 100", All),
    // Ceph's program takes this for done, and ends with 0.
    ("-p rbd put theirs nowhere", Words),
    ("-p rbd put theirs -", All),
    ("-p rbd append theirs -", All),
    ("-p rbd get theirs -", All),
    ("-p rbd truncate theirs 77", All),
    ("-p rbd get theirs -", All),
    ("-p rbd truncate theirs x", All),
    ("-p rbd truncate theirs -5", Code),
    ("-p rbd get nothing -", All),
    ("-p rbd get nothing /nowhere/file", All),
    ("-p rbd create theirs-new", All),
    ("-p rbd create theirs-new", All),
    ("-p rbd rm theirs-new nothing", All),
    ("-p rbd stat nothing", All),
    ("-p rbd stat2 theirs", All),
    ("-p rbd touch theirs 100", All),
    ("-p rbd stat theirs", All),
    ("-p rbd touch theirs x", All),
    ("-p rbd setxattr theirs colour green", All),
    ("-p rbd setxattr theirs lines", All),
    ("-p rbd getxattr theirs colour", All),
    ("-p rbd getxattr theirs lines", All),
    ("-p rbd listxattr theirs", All),
    ("-p rbd rmxattr theirs colour", All),
    ("-p rbd rmxattr nothing colour", All),
    ("-p rbd listxattr theirs", All),
    ("-p rbd getxattr theirs colour", All),
    ("-p rbd listxattr nothing", All),
    ("-p rbd setomapval theirs key value", All),
    ("-p rbd setomapval theirs lines", All),
    ("-p rbd getomapval theirs key", All),
    ("-p rbd getomapval theirs lines -", All),
    ("-p rbd getomapval theirs nothing", All),
    ("-p rbd getomapval nothing key", All),
    ("-p rbd listomapkeys theirs", All),
    ("-p rbd listomapvals theirs", All),
    ("-p rbd rmomapkey theirs key", All),
    ("-p rbd rmomapkey nothing key", All),
    ("-p rbd listomapkeys nothing", All),
    ("-p rbd listomapvals nothing", All),
    ("-p rbd setomapheader theirs head", All),
    ("-p rbd getomapheader theirs", All),
    ("-p rbd getomapheader nothing", All),
    ("-p rbd cp theirs theirs-copy", AllOnReal),
    ("-p rbd get theirs-copy -", AllOnReal),
    ("-p rbd listxattr theirs-copy", AllOnReal),
    ("-p rbd listomapvals theirs-copy", AllOnReal),
    ("-p rbd cp nothing theirs-copy", AllOnReal),
    ("-p rbd cp theirs", All),
    ("-p rbd clearomap theirs", All),
    ("-p rbd clearomap nothing", All),
    ("-p rbd listomapvals theirs", All),
    ("-p rbd lock get theirs door --lock-cookie key --lock-description mine --lock-duration 60", All),
    ("-p rbd lock get theirs door", All),
    ("-p rbd lock get theirs hall --lock-type shared --lock-tag tag", All),
    ("-p rbd lock get theirs hall --lock-type none", All),
    ("-p rbd lock list theirs", All),
    ("-p rbd lock info theirs door", All),
    ("-p rbd lock info theirs hall --format json-pretty", All),
    ("-p rbd lock info theirs nothing", All),
    ("-p rbd lock list nothing", All),
    ("-p rbd lock break theirs door client.1", All),
    ("-p rbd lock break theirs door nobody", All),
    ("-p rbd listwatchers theirs", All),
    ("-p rbd listwatchers nothing", All),
    ("-p rbd notify theirs hello", All),
    ("-p rbd notify nothing hello", All),
    ("-p rbd watch theirs", All),
    ("-p rbd watch nothing", All),
    ("-p rbd -N theirs put thing small", All),
    ("-p rbd -N theirs ls", All),
    ("-p rbd -N theirs ls --format json", All),
    ("-p rbd -N theirs ls --format json-pretty", All),
    ("-p rbd -N theirs rm nothing", All),
    ("-p rbd ls", All),
    ("-p rbd ls --all", All),
    ("-p rbd ls --all --format json", All),
    ("-p rbd ls -", All),
    ("-p rbd ls nowhere", All),
    ("-p rbd -N empty ls --format json-pretty", All),
    ("-p rbd --object-locator place put theirs-placed small", All),
    ("-p rbd get theirs-placed -", All),
    ("-p rbd --object-locator place get theirs-placed -", All),
    ("ls", All),
    ("-p nowhere ls", All),
    ("-p rbd --format nothing ls", All),
    ("-p rbd -b x ls", Bytes),
    ("-p rbd bogus", Code),
    ("-p rbd get theirs", Code),
    ("-p rbd rm", Code),
    ("-p rbd setxattr theirs", Code),
    ("-p rbd lock list", Code),
    ("stat theirs", Code),
];

/// Lines of `ceph`, which ours has by the same words. Those of `MANAGED` need a manager, which a real cluster here lacks.
const CEPH: &[(&str, Same)] = &[
    ("health --format json", All),
    ("osd tree", All),
    ("osd tree --format json-pretty", All),
    ("osd ls", All),
    ("osd dump", All),
    ("osd dump x", Bytes),
    ("mon dump", All),
    ("mon stat", All),
    ("quorum_status", All),
    ("versions", All),
    ("osd stat", All),
    ("osd pool create theirs 8", All),
    ("osd pool get theirs size", All),
    ("osd pool get theirs nothing", Bytes),
    ("osd pool get nowhere size", All),
    ("osd pool rm theirs", All),
    ("osd pool rm theirs theirs --yes-i-really-really-mean-it", All),
    ("osd pool create", Bytes),
    ("osd pool create theirs --pg-num x", Bytes),
    ("osd bogus", Bytes),
    ("config-key set theirs -i small", All),
    ("config-key get theirs", All),
    ("config-key get theirs -o -", All),
    ("config-key get nothing", All),
    ("osd blocklist ls", All),
];

const MANAGED: &[(&str, Same)] = &[
    ("status", All),
    ("df", All),
    ("df --format json-pretty", All),
    ("osd df", All),
    ("pg stat", All),
    ("pg dump pgs_brief", All),
];

/// Commands of `ceph` that ours has by their own names, too.
const BY_NAME: [&str; 7] = ["status", "health", "df", "osd", "pg", "mon", "quorum_status"];

/// Characters of an output that are shown where it differs.
const SHOWN: usize = 2000;

/// How long a watcher may take to be there.
const PATIENCE: Duration = Duration::from_secs(20);

/// The lines on a real cluster, and on ours.
pub(crate) fn commands(stage: &Stage) -> Result<()> {
    {
        let _ceph = RealCeph::start(stage, Store::Memory)?;
        lines(stage, true)?;
    }
    stage.empty()?;
    let _cluster = Embedded::start(stage, "--memory 1G")?;
    lines(stage, false)
}

fn lines(stage: &Stage, is_real: bool) -> Result<()> {
    fs::write(stage.path("large"), disk::Random(11).bytes((9 << 20) + 5))?;
    fs::write(stage.path("small"), (1..100).map(|i| format!("line {i}\n")).collect::<String>())?;
    for (line, same) in RADOS {
        compare(stage, &format!("rados {line}"), &format!("rados {line}"), *same, is_real)?;
    }
    watchers(stage)?;
    benchmarks(stage)?;
    let managed = if is_real { &[] } else { MANAGED };
    for (line, same) in CEPH.iter().chain(managed) {
        let by_name = line.split(' ').next().is_some_and(|first| BY_NAME.contains(&first));
        let ours = if by_name { (*line).to_owned() } else { format!("ceph {line}") };
        compare(stage, &format!("ceph {line}"), &ours, *same, is_real)?;
    }
    Ok(())
}

/// Runs a line of both programs, each with the small file as its input.
fn compare(stage: &Stage, theirs: &str, ours: &str, same: Same, is_real: bool) -> Result<()> {
    let run = |mut command: Command| -> Result<Output> {
        command.stdin(File::open(stage.path("small"))?);
        command.output().with_context(|| format!("cannot start `{}`", sh::line(&command)))
    };
    let ours = ours.replace("theirs", "ours");
    let (their_end, our_end) = (run(stage.ceph_command(theirs))?, run(stage.onego_command(&ours))?);
    if same == AllOnReal && !is_real {
        return Ok(());
    }
    let cluster = if is_real { "a real cluster" } else { "our cluster" };
    let said = |bytes: &[u8]| mask(&String::from_utf8_lossy(bytes)).replace("ours", "theirs");
    let show = |end: &Output| {
        let [out, err] =
            [&end.stdout, &end.stderr].map(|bytes| said(bytes).chars().take(SHOWN).collect::<String>());
        format!("{}\n{out}{err}", end.status)
    };
    let differ = |what: &str| {
        format!(
            "`{theirs}` on {cluster}: {what} differs\nCeph's: {}\nours: {}",
            show(&their_end),
            show(&our_end)
        )
    };
    let (their_code, our_code) = (their_end.status.code(), our_end.status.code());
    let is_fitting = if same == Words { our_code == Some(1) } else { their_code == our_code };
    ensure!(is_fitting, differ("the code"));
    match same {
        Code => ensure!(our_end.stdout.is_empty() && !our_end.stderr.is_empty(), differ("what is said")),
        _ => ensure!(said(&their_end.stdout) == said(&our_end.stdout), differ("the output")),
    }
    if matches!(same, All | AllOnReal | Words) {
        // On a busy machine, ours says what it waits for, and Ceph's that a connection came too late for it.
        let is_news = |line: &&str| {
            !line.starts_with("onego: waiting for ") && !line.contains(" monclient: get_auth_request ")
        };
        let words =
            |end: &Output| -> String { said(&end.stderr).split_inclusive('\n').filter(is_news).collect() };
        ensure!(words(&their_end) == words(&our_end), differ("what is said on standard error"));
    }
    Ok(())
}

/// Both programs measure, read what the other one has written, and clear up. Figures differ, so what they stand for is
/// compared.
fn benchmarks(stage: &Stage) -> Result<()> {
    const WRITE: &str = "rados -p rbd bench 1 write -b 4096 -O 8192 --max-objects 40";
    let same = |line: &str| -> Result<()> {
        let (theirs, ours) = (shape(&stage.ceph(line)?), shape(&stage.onego(line)?));
        ensure!(theirs == ours, "`{line}` reports other things\nCeph's:\n{theirs}\nours:\n{ours}");
        Ok(())
    };
    same(WRITE)?;
    for write in [
        stage.ceph_command(&format!("{WRITE} --no-cleanup")),
        stage.onego_command(&format!("{WRITE} --no-cleanup")),
    ] {
        let mut write = write;
        ensure!(sh::output(&mut write)?.status.success(), "a benchmark fails");
        for line in [
            "rados -p rbd bench 1 seq",
            "rados -p rbd bench 1 rand",
            "rados -p rbd bench 1 seq --format json",
        ] {
            same(line)?;
        }
        let read = sh::output(&mut stage.onego_command("rados -p rbd bench 1 seq"))?;
        ensure!(read.stderr.is_empty(), "what was written is read as something else");
        let read = sh::output(&mut stage.ceph_command("rados -p rbd bench 1 seq"))?;
        ensure!(read.stderr.is_empty(), "what was written is read as something else by Ceph's program");
    }
    // The first removes what the last series has, the second what it finds of the other one, and then there is nothing.
    says(&stage.onego("rados -p rbd cleanup")?, "Removed 40 objects\n")?;
    says(&stage.onego("rados -p rbd cleanup")?, "Warning: using slow linear search\nRemoved 40 objects\n")?;
    same("rados -p rbd cleanup")?;
    same("rados -p rbd cleanup --prefix benchmark_data")
}

/// A report without its figures and without the lines of its seconds.
fn shape(report: &str) -> String {
    if let Some((head, fields)) = report.split_once("\n{") {
        let fields: Result<Value> = json(&format!("{{{fields}"));
        let names =
            fields.ok().and_then(|fields| Some(fields.as_object()?.keys().cloned().collect::<Vec<_>>()));
        return format!("{head}\n{names:?}");
    }
    let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    // Their head comes with the first of them, which a benchmark that ends within a second lacks.
    let is_second = |line: &&str| {
        let line = line.trim_start();
        line.starts_with(|c: char| c.is_ascii_digit()) || line.starts_with("sec Cur ops")
    };
    let masked = |line: &str| {
        let words = line.split(' ').map(|word| if has_digit(word) { "N" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    report.lines().filter(|line| !is_second(line)).map(masked).collect::<Vec<_>>().join("\n")
}

/// Both programs watch one object and notify its watchers: each sees what the other one says.
fn watchers(stage: &Stage) -> Result<()> {
    stage.ceph("rados -p rbd create bell")?;
    let mut theirs = Watching::start(stage.ceph_command("rados -p rbd watch bell"))?;
    let mut ours = Watching::start(stage.onego_command("rados -p rbd watch bell"))?;
    let start = Instant::now();
    while stage.ceph("rados -p rbd listwatchers bell")?.lines().count() < 2 {
        ensure!(start.elapsed() < PATIENCE, "nobody watches after {PATIENCE:?}");
        sleep(Duration::from_millis(50));
    }
    // Watchers are listed in the order of their numbers, which are the same for both programs.
    let both = |line: &str| -> Result<()> {
        let (theirs, ours) = (stage.ceph(line)?, stage.onego(line)?);
        ensure!(mask(&theirs) == mask(&ours), "`{line}` differs\nCeph's: {theirs}\nours: {ours}");
        Ok(())
    };
    both("rados -p rbd listwatchers bell")?;
    both("rados -p rbd notify bell hello")?;
    let (theirs, ours) = (theirs.end()?, ours.end()?);
    ensure!(mask(&theirs) == mask(&ours), "watchers see other things\nCeph's: {theirs}\nours: {ours}");
    ensure!(ours.matches("NOTIFY").count() == 2, "not all was seen: {ours}");
    ensure!(stage.onego("rados -p rbd listwatchers bell")?.is_empty(), "a watch is left behind");
    Ok(())
}

/// A program that watches until its input ends.
struct Watching {
    child: Child,
}

impl Watching {
    fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self { child: command.spawn().context("cannot start a watcher")? })
    }

    /// Ends it, and gives what it has printed.
    fn end(&mut self) -> Result<String> {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.child.stdout.take().context("it has an output")?.read_to_string(&mut said)?;
        ensure!(self.child.wait()?.success(), "a watcher failed: {said}");
        Ok(said)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
