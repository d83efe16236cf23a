//! The OCI image: its descriptors are true, and its file system runs.
//!
//! Source: OCI image specification 1.1, `image-layout.md`, `descriptor.md` and `manifest.md`.

use super::{file, pack, program};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Sandbox, sh};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most bytes of an image besides the program.
const OVERHEAD: u64 = 64 << 10;

pub(super) fn runs(sandbox: &Sandbox) -> Result<()> {
    let files = pack(sandbox)?;
    let image = file(&files, ".oci.tar")?;
    let (size, largest) = (image.metadata()?.len(), program(sandbox, &files)?.metadata()?.len() + OVERHEAD);
    ensure!(size <= largest, "{}: size {size} exceeds {largest}", image.display());
    sh::text(Command::new("sha256sum").current_dir(&files).args(["--check", "SHA256SUMS"]))?;

    let layout = Layout(sandbox.path("layout"));
    unpack(&image, &layout.0)?;
    let marker = layout.json("oci-layout")?;
    ensure!(marker["imageLayoutVersion"] == "1.0.0", "oci-layout contains {marker}");
    let index = layout.json("index.json")?;
    let manifest = layout.json(&layout.blob(&index["manifests"][0])?)?;
    let config = layout.json(&layout.blob(&manifest["config"])?)?;
    let layers = manifest["layers"].as_array().context("the manifest has no layers")?;
    for (place, layer) in layers.iter().enumerate() {
        // Layers are not compressed, so both digests are the same.
        ensure!(config["rootfs"]["diff_ids"][place] == layer["digest"], "{config} does not name {layer}");
        unpack(&layout.0.join(layout.blob(layer)?), &sandbox.path("root"))?;
    }
    let blobs = fs::read_dir(layout.0.join("blobs/sha256"))?.count();
    ensure!(blobs == 2 + layers.len(), "{blobs} blobs, but only {} are used", 2 + layers.len());
    run(sandbox, &config)
}

fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--preserve-permissions", "--file"]).arg(archive).arg("--directory").arg(folder);
    sh::text(&mut tar).map(drop)
}

/// Runs the image's command as a container runtime does: with `/proc`, in the folder that the image names.
fn run(sandbox: &Sandbox, config: &Value) -> Result<()> {
    let words = |name: &str| {
        let words = config["config"][name].as_array().map(Vec::as_slice).unwrap_or_default();
        words.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let folder = config["config"]["WorkingDir"].as_str().context("the image has no WorkingDir")?;
    fs::create_dir(sandbox.path("root/proc"))?;
    sandbox.host("mount -t proc proc root/proc")?;
    let mut command = sandbox.host_command("unshare", "--root root --wd");
    command.arg(folder).args(words("Entrypoint")).args(words("Cmd"));
    let said = sh::text(command.args(["--seconds", "0.1", "--no-progress"]))?;
    ensure!(said.contains("4k"), "the demo prints {said}");
    ensure!(sandbox.path("root/tmp/onego-demo.svg").is_file(), "the demo has drawn nothing");
    Ok(())
}

/// An unpacked image.
struct Layout(PathBuf);

impl Layout {
    fn json(&self, name: &str) -> Result<Value> {
        let text = fs::read(self.0.join(name)).with_context(|| format!("the image has no {name}"))?;
        serde_json::from_slice(&text).with_context(|| format!("{name} is not JSON"))
    }

    /// Returns the file of a descriptor after checking its size and digest.
    fn blob(&self, descriptor: &Value) -> Result<String> {
        let digest = descriptor["digest"].as_str().context("a descriptor has no digest")?;
        let sum = digest.strip_prefix("sha256:").context("a digest is not SHA-256")?;
        let name = format!("blobs/sha256/{sum}");
        let path = self.0.join(&name);
        let size = path.metadata().with_context(|| format!("the image has no {name}"))?.len();
        ensure!(descriptor["size"] == size, "{name} has {size} bytes, against {descriptor}");
        let said = sh::text(Command::new("sha256sum").arg(path))?;
        ensure!(said.starts_with(sum), "{name} has digest {said}");
        Ok(name)
    }
}
