//! Debian's stock kernel: its image, unpacked so that an emulated processor need not do it, and the modules that
//! a kind of guest wants.

use super::apt::Apt;
use super::kind::{KINDS, Kind, Series};
use super::{siw, store};
use crate::sh;
use anyhow::{Context as _, Result, bail};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on the newest kernel.
const NEWEST: &str = "linux-image-amd64";

/// A folder with the kernel's image, below `modules` the modules that any kind of guest with it wants, and for each kind a file
/// that lists its modules in the order in which they are loaded.
pub(super) struct Kernel {
    folder: PathBuf,
}

/// The image, unpacked where that can be done.
const IMAGE: &str = "vmlinux";

impl Kernel {
    /// The newest kernel of a series with the modules for the kinds of guests that start it. It is fetched to a folder below
    /// `cache` the first time, and siw is built for that of the release.
    pub(super) fn prepare(cache: &Path, series: Series) -> Result<Self> {
        if ARCH != "x86_64" {
            bail!("guests are made for x86_64 only, and this machine is {ARCH}");
        }
        let (name, apt) = match series {
            Series::Release => ("kernel", Apt::default()),
            Series::Backports => ("kernel-backports", Apt::backports(cache)?),
        };
        let package = apt.dependency(NEWEST, "linux-image-")?;
        let kinds: Vec<&Kind> = KINDS.into_iter().filter(|kind| kind.series == series).collect();
        // What is kept was perhaps made by an earlier revision of this program.
        let mut made_of = format!("{package}\n");
        kinds.iter().for_each(|kind| made_of += &format!("{}: {}\n", kind.name, kind.modules.join(" ")));
        let folder = store::keep(cache, name, &made_of, |folder| {
            sh::step(&format!("getting {package} for guests (once)"));
            build(&apt, &package, series, &kinds, folder)
        })?;
        Ok(Self { folder })
    }

    /// The kernel itself.
    pub(super) fn image(&self) -> PathBuf {
        self.folder.join(IMAGE)
    }

    /// The modules for a kind of guest, in the order in which they are loaded.
    pub(super) fn modules(&self, kind: &Kind) -> Result<Vec<PathBuf>> {
        let list = fs::read_to_string(self.folder.join(kind.name))?;
        Ok(list.lines().map(|name| self.folder.join("modules").join(name)).collect())
    }
}

fn build(apt: &Apt, package: &str, series: Series, kinds: &[&Kind], folder: &Path) -> Result<()> {
    let tree = folder.join("tree");
    apt.unpack(&[package], &tree)?;
    let version = package.strip_prefix("linux-image-").unwrap_or(package);
    unpack_image(&tree.join("boot").join(format!("vmlinuz-{version}")), folder)?;
    if series == Series::Release {
        siw::build(version, &folder.join("siw"), &tree.join("lib/modules").join(version))?;
    }
    sh::text(Command::new(tool("depmod")?).arg("--basedir").arg(&tree).arg(version))?;
    fs::create_dir(folder.join("modules"))?;
    for kind in kinds {
        let names = copy_modules(kind.modules, &tree, version, &folder.join("modules"))?;
        fs::write(folder.join(kind.name), names.join("\n"))?;
    }
    Ok(fs::remove_dir_all(&tree)?)
}

/// Takes the kernel out of the compressed image that boot loaders want: QEMU starts it all the same, and need not emulate
/// how it is unpacked. An image that is compressed in another way stays as it is.
fn unpack_image(compressed: &Path, folder: &Path) -> Result<()> {
    /// How the format begins ("The .xz File Format", section 2.1.1.1).
    const XZ: &[u8] = b"\xfd7zXZ\0";
    let image = fs::read(compressed).with_context(|| format!("cannot read {}", compressed.display()))?;
    let payload = payload(&image).with_context(|| format!("{} is no kernel", compressed.display()))?;
    if !payload.starts_with(XZ) {
        fs::write(folder.join(IMAGE), image)?;
        return Ok(());
    }
    let part = folder.join(format!("{IMAGE}.xz"));
    fs::write(&part, payload)?;
    sh::text(Command::new("xz").args(["--decompress", "--single-stream"]).arg(&part))?;
    Ok(())
}

/// The compressed kernel in an image (linux `Documentation/arch/x86/boot.rst`: `setup_sects`, `payload_offset`,
/// `payload_length`).
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| {
        let bytes: [u8; 4] = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    let setup = usize::from(*image.get(0x1f1)?);
    // 0 stands for 4, and the first sector is not counted.
    let start = (if setup == 0 { 4 } else { setup } + 1) * 512 + word(0x248)?;
    // The last four bytes are the length of the kernel.
    image.get(start..start.checked_add(word(0x24c)?)?.checked_sub(4)?)
}

fn tool(name: &str) -> Result<PathBuf> {
    sh::find(name).with_context(|| format!("there is no program {name}"))
}

/// Copies the modules and what they depend on, and returns the names of the files in the order in which they are loaded.
fn copy_modules(modules: &[&str], tree: &Path, version: &str, to: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for module in modules {
        let mut command = Command::new(tool("modprobe")?);
        command.args(["--show-depends", "--set-version", version, "--dirname"]).arg(tree).arg(module);
        // A module is `insmod FILE`; what is built in is `builtin NAME`.
        let said = sh::text(&mut command)?;
        for file in said.lines().filter_map(|line| line.trim().strip_prefix("insmod ")) {
            let name = Path::new(file).file_name().context("a module without a name")?;
            let known = name.to_string_lossy();
            // The guest's programs load what is not compressed.
            let plain = known.strip_suffix(".xz").unwrap_or(&known).to_owned();
            if !names.contains(&plain) {
                fs::copy(file, to.join(&*known)).with_context(|| format!("cannot copy {file}"))?;
                if plain != known {
                    sh::text(Command::new("xz").args(["--decompress", "--force"]).arg(to.join(&*known)))?;
                }
                names.push(plain);
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_of_an_image_is_where_its_header_says() {
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
