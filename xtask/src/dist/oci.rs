//! The image for containers: the program, and nothing else.
//!
//! Source: the OCI image specification 1.1, `image-layout.md`, `manifest.md` and `config.md`.

use super::files::{sha256, tar_of};
use super::release::{ARCHITECTURE, Release};
use anyhow::Result;
use serde_json::{Value, json};
use std::fs;
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
    let files = folder.join("files");
    fs::create_dir_all(&files)?;
    fs::copy(program, files.join("onego"))?;
    let layer = layout.add(LAYER, &tar_of(&files, "", release.date)?)?;
    fs::remove_dir_all(&files)?;
    let config = json!({
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": { "Entrypoint": ["/onego"], "Cmd": ["demo"] },
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
