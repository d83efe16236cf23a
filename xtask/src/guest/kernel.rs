//! Debian's stock kernel: its image, unpacked so that an emulated processor need not do it, and the modules that
//! a kind of guest wants.

use super::{siw, store};
use crate::packages;
use crate::sh;
use anyhow::{Context as _, Result, bail};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on the newest kernel.
const NEWEST: &str = "linux-image-amd64";

/// A folder with `vmlinux`, and below `modules` the modules: their names begin with their places in the order in
/// which they are loaded.
pub(super) struct Kernel {
    folder: PathBuf,
}

impl Kernel {
    /// The newest kernel of this Debian release with these modules, and the driver siw if so desired. It is fetched to
    /// the folder `name` below `cache` the first time.
    pub(super) fn prepare(cache: &Path, name: &str, modules: &[&str]) -> Result<Self> {
        if ARCH != "x86_64" {
            bail!("guests are made for x86_64 only, and this machine is {ARCH}");
        }
        let package = newest_package()?;
        // What is kept was perhaps made by an earlier revision of this program.
        let made_of = format!("{package}: {}\n", modules.join(" "));
        let folder = store::keep(cache, name, &made_of, |folder| {
            sh::step(&format!("getting {package} for guests with {name} (once)"));
            build(&package, modules, folder)
        })?;
        Ok(Self { folder })
    }

    /// The kernel itself.
    pub(super) fn image(&self) -> PathBuf {
        self.folder.join("vmlinux")
    }

    /// The modules and their names.
    pub(super) fn modules(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut modules = Vec::new();
        for entry in fs::read_dir(self.folder.join("modules"))? {
            let entry = entry?;
            modules.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
        Ok(modules)
    }
}

/// The package with the newest kernel.
fn newest_package() -> Result<String> {
    let ask = || sh::text(Command::new("apt-cache").args(["depends", "--important", NEWEST]));
    let find = |said: String| {
        let packages = said.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        packages.map(str::to_owned).find(|package| package.starts_with("linux-image-"))
    };
    if let Some(package) = ask().ok().and_then(find) {
        return Ok(package);
    }
    // The lists of packages may never have been fetched.
    packages::update()?;
    ask().map(find)?.with_context(|| format!("apt knows no package that {NEWEST} depends on"))
}

fn build(package: &str, modules: &[&str], folder: &Path) -> Result<()> {
    let tree = folder.join("tree");
    store::unpack(&[package], &tree)?;
    let version = package.strip_prefix("linux-image-").unwrap_or(package);
    unpack_image(&tree.join("boot").join(format!("vmlinuz-{version}")), folder)?;
    if modules.contains(&siw::NAME) {
        siw::build(version, &folder.join("siw"), &tree.join("lib/modules").join(version))?;
    }
    fs::create_dir(folder.join("modules"))?;
    copy_modules(modules, &tree, version, &folder.join("modules"))?;
    Ok(fs::remove_dir_all(&tree)?)
}

/// Takes the kernel out of the compressed image that boot loaders want: QEMU starts it all the same.
fn unpack_image(compressed: &Path, folder: &Path) -> Result<()> {
    let image = fs::read(compressed).with_context(|| format!("cannot read {}", compressed.display()))?;
    let payload = payload(&image).with_context(|| format!("{} is no kernel", compressed.display()))?;
    let part = folder.join("vmlinux.xz");
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

/// Copies the modules and what they depend on.
fn copy_modules(modules: &[&str], tree: &Path, version: &str, to: &Path) -> Result<()> {
    let tool = |name: &str| sh::find(name).with_context(|| format!("there is no program {name}"));
    sh::text(Command::new(tool("depmod")?).arg("--basedir").arg(tree).arg(version))?;
    let mut files = Vec::new();
    for module in modules {
        let mut command = Command::new(tool("modprobe")?);
        command.args(["--show-depends", "--set-version", version, "--dirname"]).arg(tree).arg(module);
        // A module is `insmod FILE`; what is built in is `builtin NAME`.
        let said = sh::text(&mut command)?;
        for file in said.lines().filter_map(|line| line.trim().strip_prefix("insmod ")) {
            if !files.iter().any(|known| known == file) {
                files.push(file.to_owned());
            }
        }
    }
    for (place, file) in files.iter().enumerate() {
        let name = Path::new(file).file_name().context("a module without a name")?.to_string_lossy();
        fs::copy(file, to.join(format!("{place:02}-{name}")))
            .with_context(|| format!("cannot copy {file}"))?;
    }
    Ok(())
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
