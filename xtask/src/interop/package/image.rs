//! The image for containers: what its files say of each other is true, and what is unpacked runs.
//!
//! Source: the OCI image specification 1.1, `image-layout.md`, `descriptor.md` and `manifest.md`.

use super::made;
use crate::cluster::Stage;
use crate::sh;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most bytes of an image.
const SIZE_MAX: u64 = crate::dist::MAX_SIZE + (64 << 10);

pub(in crate::interop) fn image(stage: &Stage) -> Result<()> {
    let files = made::files(stage)?;
    let size = fs::metadata(&files.image)?.len();
    ensure!(size <= SIZE_MAX, "the image has {size} bytes: at most {SIZE_MAX} are wanted");
    let folder = files.sums.parent().context("files lie in a folder")?;
    sh::text(Command::new("sha256sum").current_dir(folder).args(["--check", "SHA256SUMS"]))?;

    let layout = Layout(stage.path("layout"));
    fs::create_dir(&layout.0)?;
    sh::text(
        Command::new("tar")
            .arg("--extract")
            .arg("--file")
            .arg(&files.image)
            .arg("--directory")
            .arg(&layout.0),
    )?;
    let marker = layout.json("oci-layout")?;
    ensure!(marker["imageLayoutVersion"] == "1.0.0", "the layout says {marker}");
    let index = layout.json("index.json")?;
    let manifest = layout.json(&layout.blob(&index["manifests"][0])?)?;
    let config = layout.json(&layout.blob(&manifest["config"])?)?;
    let layers = manifest["layers"].as_array().context("there are no layers")?;
    let root = stage.path("root");
    fs::create_dir(&root)?;
    for (place, layer) in layers.iter().enumerate() {
        // Layers are not compressed, so both sums are the same.
        ensure!(config["rootfs"]["diff_ids"][place] == layer["digest"], "{config} does not name {layer}");
        let blob = layout.0.join(layout.blob(layer)?);
        sh::text(
            Command::new("tar")
                .arg("--extract")
                .arg("--preserve-permissions")
                .arg("--file")
                .arg(blob)
                .arg("--directory")
                .arg(&root),
        )?;
    }
    let blobs = fs::read_dir(layout.0.join("blobs/sha256"))?.count();
    ensure!(blobs == 2 + layers.len(), "there are {blobs} blobs, of which some belong to nothing");
    run(stage, &root, &config)
}

/// Runs what the image says, as who starts containers does: with /proc and the folder that it names.
fn run(stage: &Stage, root: &Path, config: &Value) -> Result<()> {
    let words = |name: &str| {
        let words = config["config"][name].as_array().map(Vec::as_slice).unwrap_or_default();
        words.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let folder = config["config"]["WorkingDir"].as_str().context("there is no folder to run in")?;
    fs::create_dir(root.join("proc"))?;
    stage.host(&format!("mount -t proc proc {}", root.join("proc").display()))?;
    let mut command = stage.program(Path::new("unshare"), "--root");
    command.arg(root).args(["--wd", folder]).args(words("Entrypoint")).args(words("Cmd"));
    let said = sh::text(command.args(["--seconds", "0.1", "--no-progress"]))?;
    ensure!(said.contains("4k"), "the demo says {said}");
    ensure!(root.join("tmp/onego-demo.svg").is_file(), "the demo has drawn nothing");
    Ok(())
}

/// An unpacked image.
struct Layout(PathBuf);

impl Layout {
    fn json(&self, name: &str) -> Result<Value> {
        let text = fs::read(self.0.join(name)).with_context(|| format!("the image has no {name}"))?;
        serde_json::from_slice(&text).with_context(|| format!("{name} is not JSON"))
    }

    /// The file that a descriptor is about, which is as that says.
    fn blob(&self, descriptor: &Value) -> Result<String> {
        let digest = descriptor["digest"].as_str().context("a descriptor has no digest")?;
        let sum = digest.strip_prefix("sha256:").context("a digest is no SHA-256")?;
        let name = format!("blobs/sha256/{sum}");
        let size =
            fs::metadata(self.0.join(&name)).with_context(|| format!("the image has no {name}"))?.len();
        ensure!(descriptor["size"] == size, "{name} has {size} bytes, and not as {descriptor} says");
        let said = sh::text(Command::new("sha256sum").arg(self.0.join(&name)))?;
        ensure!(said.starts_with(sum), "{name} has the sum {said}");
        Ok(name)
    }
}
