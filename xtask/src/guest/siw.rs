//! The driver siw, iWARP in software: Debian's kernel has it not, but its source and what it takes to build a module.

use super::apt::Apt;
use crate::sh;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where it is in the kernel's source.
const SOURCE: &str = "drivers/infiniband/sw/siw";

/// Builds the module for the kernel of that version (such as 6.1.0-56-amd64) in `folder`, which is removed afterwards,
/// and puts it to the other `modules`.
pub(super) fn build(version: &str, folder: &Path, modules: &Path) -> Result<()> {
    sh::step("building siw for guests (once)");
    let (common, flavour) = version.rsplit_once('-').context("a kernel's version without a flavour")?;
    // Packages of sources and tools are named by the first two numbers.
    let series = common.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    let packages = [
        format!("linux-headers-{common}-{flavour}"),
        format!("linux-headers-{common}-common"),
        format!("linux-kbuild-{series}"),
        format!("linux-source-{series}"),
    ];
    Apt::default().unpack(&packages.each_ref().map(String::as_str), folder)?;
    let sources = folder.join("usr/src");
    let pack = sources.join(format!("linux-source-{series}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(&pack).arg("--directory").arg(folder);
    sh::text(tar.args(["--strip-components=1", "--wildcards", &format!("*/{SOURCE}")]))?;
    // The headers of the flavour name those that all have in common by where the packages would be installed.
    let headers = sources.join(format!("linux-headers-{version}"));
    let makefile = fs::read_to_string(headers.join("Makefile"))?;
    let here = format!("{}/", sources.display());
    fs::write(headers.join("Makefile"), makefile.replace("/usr/src/", &here))?;
    let driver = folder.join(SOURCE);
    let mut make = Command::new("make");
    make.arg("--silent").arg("--directory").arg(&headers).arg(format!("M={}", driver.display()));
    sh::text(make.args(["CONFIG_RDMA_SIW=m", "modules"])).context("cannot build siw")?;
    fs::create_dir_all(modules.join("extra"))?;
    // What is for debuggers is most of it.
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").arg(driver.join("siw.ko")).arg("-o").arg(modules.join("extra/siw.ko"));
    sh::text(&mut strip)?;
    Ok(fs::remove_dir_all(folder)?)
}
