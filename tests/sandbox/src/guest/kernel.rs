//! Debian's stock kernels, unpacked, with the modules that each kind of guest loads.

use super::kind::{KINDS, Kind, Series};
use crate::apt::{Apt, unpack};
use crate::root::{TOOLS_SUITE, in_root, tools};
use crate::{cached, sh, workspace};
use anyhow::{Context as _, Result, ensure};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Package that depends on the newest kernel.
const NEWEST: &str = "linux-image-amd64";

const IMAGE: &str = "vmlinux";

/// The driver siw in the kernel's source.
const SIW: &str = "drivers/infiniband/sw/siw";

/// A folder with a kernel's image, below `modules` the modules of all kinds, and a list of modules for each kind.
pub(super) struct Kernel {
    folder: PathBuf,
}

impl Kernel {
    /// Gets the newest kernel of a series. siw is built for the stable one.
    pub(super) fn prepare(series: Series) -> Result<Self> {
        ensure!(ARCH == "x86_64", "guests need an x86_64 host, and this is {ARCH}");
        let (name, suite) = match series {
            Series::Stable => ("kernel", TOOLS_SUITE.to_owned()),
            Series::Backports => ("kernel-backports", format!("{TOOLS_SUITE}-backports")),
        };
        let kinds: Vec<&Kind> = KINDS.into_iter().filter(|kind| kind.series == series).collect();
        let modules = kinds.iter().map(|kind| format!("{}: {}\n", kind.name, kind.modules));
        let made_of: String = modules.collect();
        let folder = cached(&format!("roots/{name}"), &made_of, |folder| {
            let apt = Apt::open(&suite)?;
            let package = apt.dependency(NEWEST, "linux-image-")?;
            build(&apt, &package, series, &kinds, folder).with_context(|| format!("cannot prepare {package}"))
        })?;
        Ok(Self { folder })
    }

    /// Returns the path of the image.
    pub(super) fn image(&self) -> PathBuf {
        self.folder.join(IMAGE)
    }

    /// Returns the modules for a kind of guest, in the order of loading.
    pub(super) fn modules(&self, kind: &Kind) -> Result<Vec<PathBuf>> {
        let list = fs::read_to_string(self.folder.join(kind.name))?;
        Ok(list.lines().map(|name| self.folder.join("modules").join(name)).collect())
    }
}

fn build(apt: &Apt, package: &str, series: Series, kinds: &[&Kind], folder: &Path) -> Result<()> {
    let tree = folder.join("tree");
    fs::create_dir(&tree)?;
    unpack(&apt.packages(package)?, &tree)?;
    let version = package.strip_prefix("linux-image-").unwrap_or(package);
    unpack_image(&tree.join("boot").join(format!("vmlinuz-{version}")), folder)?;
    if series == Series::Stable {
        build_siw(apt, version, &folder.join("siw"), &tree.join("lib/modules").join(version))?;
    }
    sh::text(&mut tool(&format!("depmod --basedir {} {version}", tree.display()))?)?;
    fs::create_dir(folder.join("modules"))?;
    for kind in kinds {
        let names = copy_modules(kind.modules, &tree, version, &folder.join("modules"))?;
        fs::write(folder.join(kind.name), names.join("\n"))?;
    }
    Ok(fs::remove_dir_all(&tree)?)
}

/// Returns a line of a tool that works on the target folder.
fn tool(line: &str) -> Result<Command> {
    let (root, target) = (tools()?, workspace::target()?);
    // The target folder is not visible in the root unless it is mounted there.
    let script = "mkdir -p \"$1$2\" && mount --rbind /dev \"$1/dev\" && mount --bind \"$2\" \"$1$2\" && root=$1 && \
        shift 2 && exec chroot \"$root\" \"$@\"";
    let mut command = in_root(Path::new("/"));
    command.args(["sh", "-c", script, "sh"]).arg(root).arg(target).args(line.split_whitespace());
    Ok(command)
}

/// Unpacks the kernel from the compressed image that boot loaders expect, so that no emulated processor has to. An
/// image with another compression than xz stays as it is.
fn unpack_image(compressed: &Path, folder: &Path) -> Result<()> {
    /// Magic number ("The .xz File Format", section 2.1.1.1).
    const XZ: &[u8] = b"\xfd7zXZ\0";
    let image = fs::read(compressed).with_context(|| format!("cannot read {}", compressed.display()))?;
    let payload = payload(&image).with_context(|| format!("{} is no kernel", compressed.display()))?;
    if !payload.starts_with(XZ) {
        return Ok(fs::write(folder.join(IMAGE), image)?);
    }
    let part = folder.join(format!("{IMAGE}.xz"));
    fs::write(&part, payload)?;
    sh::text(&mut tool(&format!("xz --decompress --single-stream {}", part.display()))?).map(drop)
}

/// Returns the compressed kernel in an image (linux `Documentation/arch/x86/boot.rst`: `setup_sects`,
/// `payload_offset`, `payload_length`).
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| {
        let bytes: [u8; 4] = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    let setup = usize::from(*image.get(0x1f1)?);
    // 0 stands for 4, and the first sector is not counted.
    let start = (if setup == 0 { 4 } else { setup } + 1) * 512 + word(0x248)?;
    // The last four bytes are the kernel's length.
    image.get(start..start.checked_add(word(0x24c)?)?.checked_sub(4)?)
}

/// Copies modules and their dependencies; returns the file names in the order of loading.
fn copy_modules(modules: &str, tree: &Path, version: &str, to: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for module in modules.split_whitespace() {
        let tree = tree.display();
        let line = format!("modprobe --show-depends --set-version {version} --dirname {tree} {module}");
        // A module is `insmod FILE`; a built-in one is `builtin NAME`.
        let said = sh::text(&mut tool(&line)?)?;
        for file in said.lines().filter_map(|line| line.trim().strip_prefix("insmod ")) {
            let file = Path::new(file.trim());
            let name = file.file_name().context("a module has a name")?.to_string_lossy();
            // busybox loads uncompressed modules only.
            let plain = name.trim_end_matches(".xz").to_owned();
            if !names.contains(&plain) {
                fs::copy(file, to.join(&*name)).with_context(|| format!("cannot copy {}", file.display()))?;
                if plain != name {
                    let packed = to.join(&*name);
                    sh::text(&mut tool(&format!("xz --decompress --force {}", packed.display()))?)?;
                }
                names.push(plain);
            }
        }
    }
    Ok(names)
}

/// Builds siw, software iWARP, for a kernel such as `6.1.0-56-amd64`, and adds it to `modules`.
fn build_siw(apt: &Apt, version: &str, folder: &Path, modules: &Path) -> Result<()> {
    let (common, flavour) = version.rsplit_once('-').context("a kernel's version has a flavour")?;
    // Packages of sources and build tools are named by the first two numbers.
    let series = common.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    let packages = format!(
        "linux-headers-{common}-{flavour} linux-headers-{common}-common linux-kbuild-{series} linux-source-{series}"
    );
    fs::create_dir(folder)?;
    unpack(&apt.packages(&packages)?, folder)?;
    let sources = folder.join("usr/src");
    let archive = sources.join(format!("linux-source-{series}.tar.xz"));
    let (archive, to) = (archive.display(), folder.display());
    sh::text(&mut tool(&format!("tar -xf {archive} -C {to} --strip-components=1 --wildcards */{SIW}"))?)?;
    // The headers of the flavour name the common ones by their place on an installed system.
    let headers = sources.join(format!("linux-headers-{version}"));
    let makefile = fs::read_to_string(headers.join("Makefile"))?;
    fs::write(headers.join("Makefile"), makefile.replace("/usr/src/", &format!("{}/", sources.display())))?;
    let driver = folder.join(SIW);
    let (headers, driver) = (headers.display(), driver.display());
    let line = format!("make --silent --directory {headers} M={driver} CONFIG_RDMA_SIW=m modules");
    sh::text(&mut tool(&line)?).context("cannot build siw")?;
    fs::create_dir_all(modules.join("extra"))?;
    // Debug information is most of it.
    let to = modules.join("extra/siw.ko");
    sh::text(&mut tool(&format!("strip --strip-debug {driver}/siw.ko -o {}", to.display()))?)?;
    Ok(fs::remove_dir_all(folder)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_found_by_the_header() {
        let mut image = vec![0; 3 * 512 + 40];
        image[0x1f1] = 2;
        image[0x248] = 16;
        image[0x24c] = 12;
        let start = 3 * 512 + 16;
        image[start..start + 12].copy_from_slice(b"payload!\0\0\0\x07");
        assert_eq!(payload(&image), Some(b"payload!".as_slice()));
        image.truncate(start);
        assert_eq!(payload(&image), None);
        assert_eq!(payload(b"short"), None);
    }
}
