//! Our client of NFS on nfs-ganesha.

use crate::cluster::{ADDRESS, GANESHA_EXPORT, GANESHA_FILE_MAX, Ganesha, Stage};
use crate::interop::disk;
use crate::interop::steps::says;
use anyhow::{Result, ensure};
use std::fs;

/// Files are copied both ways, listed, moved and removed; the server is found by its port mapper.
pub(crate) fn client(stage: &Stage) -> Result<()> {
    disk::make(&stage.path("whole"), 11)?;
    // As much as the server remembers, and no whole number of anything.
    let whole = fs::read(stage.path("whole"))?;
    fs::write(stage.path("large"), &whole[..GANESHA_FILE_MAX as usize - 1])?;
    fs::write(stage.path("small"), b"a small file\n")?;
    let _server = Ganesha::start(stage, GANESHA_FILE_MAX)?;
    let url = format!("nfs://{ADDRESS}{GANESHA_EXPORT}");
    stage.onego(&format!("nfs mkdir --parents {url}/a/b"))?;
    for name in ["large", "small"] {
        stage.onego(&format!("nfs put {name} {url}/a/b/"))?;
        stage.onego(&format!("nfs cp {url}/a/b/{name} back"))?;
        disk::compare(&stage.path(name), &stage.path("back"))?;
    }
    stage.onego(&format!("nfs cp {url}/a/b/large {url}/a/copy"))?;
    stage.onego(&format!("nfs cp {url}/a/copy copy"))?;
    disk::compare(&stage.path("large"), &stage.path("copy"))?;

    // An interrupted copy goes on where it was.
    fs::write(stage.path("part"), &whole[..1 << 20])?;
    stage.onego(&format!("nfs put part {url}/resumed"))?;
    stage.onego(&format!("nfs put --resume large {url}/resumed"))?;
    stage.onego(&format!("nfs cp {url}/resumed resumed"))?;
    disk::compare(&stage.path("large"), &stage.path("resumed"))?;

    stage.onego(&format!("nfs mv {url}/a/b/small a/moved"))?;
    says(&stage.onego(&format!("nfs cat {url}/a/moved"))?, "a small file")?;
    let listed = stage.onego(&format!("nfs ls --recursive {url}"))?;
    let expected = ["a", "a/b", "a/b/large", "a/copy", "a/moved", "resumed"];
    let mut names: Vec<_> = listed.lines().collect();
    names.sort_unstable();
    ensure!(names == expected, "the server lists {names:?}");
    says(&stage.onego(&format!("nfs stat {url}/a/moved"))?, "size    13")?;
    stage.onego(&format!("nfs df {url}"))?;
    stage.onego(&format!("nfs rm --recursive {url}/a {url}/resumed"))?;
    ensure!(stage.onego(&format!("nfs ls {url}"))?.is_empty(), "something is left on the server");
    let missing = stage.onego_fails(&format!("nfs stat {url}/a"))?;
    ensure!(missing.status.code() == Some(3), "what is not there is not said to be so: {missing:?}");
    stage.onego(&format!("nfs ls {url}?resvport"))?;
    let refused = stage.onego_fails(&format!("nfs ls {url}?noresvport"))?;
    says(&String::from_utf8_lossy(&refused.stderr), "port below 1024")
}
