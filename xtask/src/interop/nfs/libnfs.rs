//! libnfs's programs on our server of NFS.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::interop::disk;
use crate::interop::steps::says;
use anyhow::{Result, ensure};
use std::fs;

/// A file on the server, as libnfs's programs are told of it: they ask no port mapper then.
fn url(path: &str, more: &str) -> String {
    format!("nfs://{ADDRESS}/export{path}?nfsport=2049&mountport=2049{more}")
}

/// Runs one of the programs on the host, and returns what it printed.
fn run(stage: &Stage, words: &[&str]) -> Result<String> {
    let mut command = stage.program("timeout".as_ref(), "60");
    crate::sh::text(command.args(words))
}

/// Files are copied both ways, listed and read, by root, by another user and by nobody.
pub(crate) fn programs(stage: &Stage) -> Result<()> {
    disk::make(&stage.path("large.raw"), 9)?;
    fs::write(stage.path("small"), b"a small file\n")?;
    fs::write(stage.path("empty"), b"")?;
    let _server = Embedded::start_nfs(stage, "--mem --size 256M")?;
    for name in ["large.raw", "small", "empty"] {
        let there = url(&format!("/{name}"), "");
        run(stage, &["nfs-cp", name, &there])?;
        run(stage, &["nfs-cp", &there, "back"])?;
        disk::compare(&stage.path(name), &stage.path("back"))?;
        // It writes over nothing that is there.
        fs::remove_file(stage.path("back"))?;
    }
    says(&run(stage, &["nfs-cat", &url("/small", "")])?, "a small file")?;
    let size = fs::metadata(stage.path("large.raw"))?.len().to_string();
    let listed = run(stage, &["nfs-ls", &url("", "")])?;
    for (name, words) in [("large.raw", &size[..]), ("small", "13"), ("empty", "0")] {
        let line = listed.lines().find(|line| line.ends_with(name));
        let has = line.is_some_and(|line| line.split_whitespace().any(|word| word == words));
        ensure!(has, "nfs-ls does not say that {name} has {words} bytes:\n{listed}");
    }

    // A user writes what is the user's, and no more.
    let as_user = |path| url(path, "&uid=1000&gid=1000");
    run(stage, &["nfs-cp", "small", &as_user("/mine")])?;
    let listed = run(stage, &["nfs-ls", &url("", "")])?;
    let mine = listed.lines().find(|line| line.ends_with("mine")).unwrap_or_default();
    ensure!(mine.split_whitespace().filter(|word| *word == "1000").count() == 2, "nfs-ls says {mine:?}");
    let refused = run(stage, &["nfs-cp", "small", &as_user("/empty")]);
    ensure!(refused.is_err(), "a user has written to a file of root's");
    says(&run(stage, &["nfs-cat", &as_user("/mine")])?, "a small file")
}
