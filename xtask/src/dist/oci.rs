//! The image for containers: the program, and nothing else.
//!
//! Source: the OCI image specification 1.1, `image-layout.md`, `manifest.md` and `config.md`.

use super::files::{header, sha256, tar_of};
use super::release::{ARCHITECTURE, Release};
use anyhow::Result;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Kinds of contents (`media-types.md`).
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Writes the image as an archive, which runs the demo unless it is told otherwise.
pub(super) fn write(release: &Release, program: &Path, archive: &Path) -> Result<()> {
    let folder = archive.with_extension("layout");
    let layout = Layout { folder: &folder };
    fs::create_dir_all(folder.join("blobs/sha256"))?;
    let layer = layout.add(LAYER, &layer(program, release.date)?)?;
    let config = json!({
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": { "Entrypoint": ["/onego"], "Cmd": ["demo"], "WorkingDir": "/tmp" },

        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
    });
    let config = layout.add(CONFIG, config.to_string().as_bytes())?;
    let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
    let mut manifest = layout.add(MANIFEST, manifest.to_string().as_bytes())?;
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(folder.join("index.json"), index.to_string())?;
    fs::write(folder.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    fs::write(archive, tar_of(&folder, "", release.date)?)?;
    Ok(fs::remove_dir_all(&folder)?)
}

/// The root file system: the program, and a folder for what it makes.
fn layer(program: &Path, date: u64) -> Result<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    let file = File::open(program)?;
    layer.append_data(&mut header(file.metadata()?.len(), 0o755, date), "onego", file)?;
    let mut folder = header(0, 0o1777, date);
    folder.set_entry_type(tar::EntryType::Directory);
    layer.append_data(&mut folder, "tmp/", io::empty())?;
    Ok(layer.into_inner()?)
}

/// The folder in which contents lie by their sums.
struct Layout<'a> {
    folder: &'a Path,
}

impl Layout<'_> {
    /// Adds contents, and returns how others refer to them.
    fn add(&self, kind: &str, bytes: &[u8]) -> Result<Value> {
        let blobs = self.folder.join("blobs/sha256");
        let new = blobs.join("new");
        fs::write(&new, bytes)?;
        let sum = sha256(&new)?;
        fs::rename(&new, blobs.join(&sum))?;
        Ok(json!({ "mediaType": kind, "digest": format!("sha256:{sum}"), "size": bytes.len() }))
    }
}
