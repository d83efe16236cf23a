use super::json::{SpecMembers, invalid, no_object, unsupported};
use super::native::NativeSpec;
use super::raw::RawSpec;
use super::source::{MigrationSource, SourceImage};
use crate::ceph::error::Error;
use crate::rados::{Cluster, Pool};
use serde_json::{Map, Value, json};
use std::fmt;
use std::str::FromStr;

/// Largest source-spec in bytes. It is stored in the image's header.
const MAX_SPEC: usize = 64 << 10;

/// Source of an import in the JSON notation of `rbd migration prepare --import-only` (source-spec).
///
/// ```
/// # use onego::rbd::migration::SourceSpec;
/// let spec = r#"{"type": "native", "pool_name": "rbd", "image_name": "disk", "snap_name": "monday"}"#;
/// let spec: SourceSpec = spec.parse()?;
/// # Ok::<(), onego::ceph::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpec {
    /// Compact JSON with sorted keys, as Ceph's library writes it.
    json: String,
    kind: SourceKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SourceKind {
    Native(NativeSpec),
    Raw(RawSpec),
}

impl SourceSpec {
    /// Creates the source-spec of a snapshot of an image in the same cluster.
    pub fn native(pool: &Pool, image: &str, snapshot: &str) -> Result<Self, Error> {
        let members = json!({
            "type": "native",
            "pool_id": pool.id(),
            "pool_namespace": pool.namespace(),
            "image_name": image,
            "snap_name": snapshot,
        });
        Self::of(members)
    }

    fn of(mut value: Value) -> Result<Self, Error> {
        let members = SpecMembers::of(&value)?;
        let kind = match members.needed_text("type")? {
            "native" => SourceKind::Native(NativeSpec::of(&members)?),
            "raw" => SourceKind::Raw(RawSpec::of(&members)?),
            other => {
                return Err(unsupported("images are imported from the types \"native\" and \"raw\"", other));
            }
        };
        value.sort_all_objects();
        Ok(Self { json: value.to_string(), kind })
    }

    /// Allows a client to read the named files regardless of its configuration, because the calling program named
    /// them itself.
    pub(in crate::rbd) fn allow_files(&self, cluster: &Cluster) {
        if let SourceKind::Raw(raw) = &self.kind {
            cluster.source_files().allow(raw.paths());
        }
    }

    pub(in crate::rbd) async fn find(&self, cluster: &Cluster) -> Result<MigrationSource, Error> {
        match &self.kind {
            SourceKind::Native(native) => native.find(cluster).await.map(MigrationSource::Image),
            SourceKind::Raw(raw) => raw.open(cluster).await.map(MigrationSource::Files),
        }
    }

    /// Looks up the named image, if the source is an image.
    pub(in crate::rbd) async fn find_image(&self, cluster: &Cluster) -> Result<Option<SourceImage>, Error> {
        match &self.kind {
            SourceKind::Native(native) => native.find(cluster).await.map(Some),
            SourceKind::Raw(_) => Ok(None),
        }
    }

    /// Returns the names of the snapshots with files, oldest first.
    pub(in crate::rbd) fn snapshot_names(&self) -> impl Iterator<Item = Option<&str>> {
        let raw = match &self.kind {
            SourceKind::Native(_) => None,
            SourceKind::Raw(raw) => Some(raw),
        };
        raw.into_iter().flat_map(RawSpec::snapshot_names)
    }
}

impl FromStr for SourceSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_SPEC {
            return Err(invalid(format!("it has {} bytes, more than {MAX_SPEC}", text.len())));
        }
        let members: Map<String, Value> = serde_json::from_str(text).map_err(no_object)?;
        Self::of(members.into())
    }
}

impl fmt::Display for SourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ceph::error::Errno;

    const IMAGE: &str = r#""type":"native","pool_id":2,"image_name":"disk""#;

    const FILE: &str = r#""type":"raw","stream":{"type":"file","file_path":"x"}"#;

    fn parsed(members: &str) -> Result<SourceSpec, Error> {
        format!("{{{members}}}").parse()
    }

    #[test]
    fn a_spec_is_written_as_ceph_writes_it() {
        let spec = parsed(&format!("{IMAGE}, \"snap_name\" : \"a \\\"b\\\"\"")).unwrap();
        let written = r#"{"image_name":"disk","pool_id":2,"snap_name":"a \"b\"","type":"native"}"#;
        assert_eq!(spec.to_string(), written);
        assert_eq!(written.parse::<SourceSpec>().unwrap(), spec);
    }

    #[test]
    fn numbers_may_be_texts() {
        let native = |members: &str| parsed(&format!("{IMAGE},{members}")).unwrap().kind;
        assert_eq!(native(r#""snap_id":7"#), native(r#""snap_id":"7""#));
        let pool =
            |id: &str| parsed(&format!(r#""type":"native","pool_id":{id},"image_name":"x","snap_id":1"#));
        assert_eq!(pool("2").unwrap().kind, pool("\"2\"").unwrap().kind);
    }

    #[test]
    fn errors_name_missing_and_duplicate_members() {
        for (members, word) in [
            ("", "type"),
            (r#""type":7"#, "type"),
            (r#""type":"native","image_name":"disk","snap_name":"s""#, "pool_name"),
            (&format!(r#"{IMAGE},"pool_name":"rbd","snap_name":"s""#), "not both"),
            (r#""type":"native","pool_id":2,"snap_name":"s""#, "image_name"),
            (IMAGE, "snap_name"),
            (&format!(r#"{IMAGE},"snap_name":"""#), "snap_name"),
            (&format!(r#"{IMAGE},"snap_name":"s","snap_id":1"#), "leave one out"),
            (&format!(r#"{IMAGE},"snap_id":null"#), "snap_id"),
            (&format!(r#"{IMAGE},"snap_id":-1"#), "snap_id"),
            (&format!(r#"{IMAGE},"snap_name":"s","image_id":5"#), "image_id"),
            (r#""type":"raw""#, "stream"),
            (r#""type":"raw","stream":[]"#, "not an object"),
            (r#""type":"raw","stream":{}"#, "type"),
            (r#""type":"raw","stream":{"type":"file"}"#, "file_path"),
            (&format!(r#"{FILE},"snapshots":{{}}"#), "snapshots"),
            (&format!(r#"{FILE},"snapshots":[7]"#), "not an object"),
            (&format!(r#"{FILE},"snapshots":[{{{FILE},"name":7}}]"#), "name"),
            (&format!(r#"{FILE},"snapshots":[{}]"#, vec![format!("{{{FILE}}}"); 257].join(",")), "257"),
        ] {
            let error = parsed(members).unwrap_err();
            assert!(error.errno() == Errno::INVAL && error.to_string().contains(word), "{members}: {error}");
        }
        for text in ["", "7", "[]", "{", &"[".repeat(1000), &"{\"a\":".repeat(1000)] {
            assert_eq!(text.parse::<SourceSpec>().unwrap_err().errno(), Errno::BADMSG, "{text:.20}");
        }
        assert_eq!(" ".repeat(MAX_SPEC + 1).parse::<SourceSpec>().unwrap_err().errno(), Errno::INVAL);
    }

    #[test]
    fn unknown_types_are_refused_with_a_list_of_known_ones() {
        for (members, there_is) in [
            (r#""type":"qcow","stream":{"type":"file","file_path":"disk.qcow2"}"#, "\"native\" and \"raw\""),
            (r#""type":"raw","stream":{"type":"http","url":"http://host/disk.raw"}"#, "\"file\""),
            (&format!(r#"{FILE},"snapshots":[{{"type":"qcow"}}]"#), "\"raw\""),
        ] {
            let error = parsed(members).unwrap_err();
            assert_eq!(error.errno(), Errno::NOSYS, "{members}");
            assert!(error.to_string().contains(there_is), "{error}");
        }
    }

    #[test]
    fn files_may_have_snapshots() {
        let spec = parsed(&format!(r#"{FILE},"snapshots":[{{{FILE},"name":"s1"}},{{{FILE}}}]"#)).unwrap();
        assert_eq!(spec.snapshot_names().collect::<Vec<_>>(), [Some("s1"), None]);
        assert_eq!(spec.to_string().parse::<SourceSpec>().unwrap(), spec);
    }
}
