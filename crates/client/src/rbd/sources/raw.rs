use super::files::SourceFiles;
use super::json::{SpecMembers, invalid, unsupported};
use crate::ceph::error::Error;
use crate::rados::Cluster;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most snapshots in a source-spec: each keeps a file open while the image is open.
const MAX_SNAPSHOTS: usize = 256;

/// Files with the data of an image and its snapshots, as `rbd export` writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawSpec {
    path: PathBuf,
    /// Oldest first.
    snapshots: Vec<RawSnapshot>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RawSnapshot {
    name: Option<String>,
    path: PathBuf,
}

impl RawSpec {
    pub(super) fn of(members: &SpecMembers<'_>) -> Result<Self, Error> {
        let snapshots = match members.0.get("snapshots") {
            None => &[],
            Some(Value::Array(list)) => &list[..],
            Some(other) => return Err(invalid(format!("\"snapshots\" is {other}, but must be a list"))),
        };
        if snapshots.len() > MAX_SNAPSHOTS {
            let reason =
                format!("it has {} snapshots, more than the limit of {MAX_SNAPSHOTS}", snapshots.len());
            return Err(invalid(reason));
        }
        let snapshots = snapshots.iter().map(RawSnapshot::of).collect::<Result<_, _>>()?;
        Ok(Self { path: file_path(members)?, snapshots })
    }

    pub(super) async fn open(&self, cluster: &Cluster) -> Result<Arc<SourceFiles>, Error> {
        SourceFiles::open(self.paths().map(Path::to_owned).collect(), cluster.source_files()).await
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.snapshots.iter().map(|snapshot| &*snapshot.path).chain([&*self.path])
    }

    pub(super) fn snapshot_names(&self) -> impl Iterator<Item = Option<&str>> {
        self.snapshots.iter().map(|snapshot| snapshot.name.as_deref())
    }
}

impl RawSnapshot {
    fn of(value: &Value) -> Result<Self, Error> {
        let members = SpecMembers::of(value)?;
        match members.needed_text("type")? {
            "raw" => {}
            other => return Err(unsupported("snapshots of files have the type \"raw\"", other)),
        }
        Ok(Self { name: members.text("name")?.map(str::to_owned), path: file_path(&members)? })
    }
}

fn file_path(members: &SpecMembers<'_>) -> Result<PathBuf, Error> {
    let stream = members.0.get("stream").ok_or_else(|| invalid("\"stream\" is missing"))?;
    let stream = SpecMembers::of(stream)?;
    match stream.needed_text("type")? {
        "file" => Ok(stream.needed_text("file_path")?.into()),
        other => Err(unsupported("streams have the type \"file\"", other)),
    }
}
