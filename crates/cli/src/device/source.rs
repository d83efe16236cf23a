//! How command lines name devices.

use crate::nfs_files::Url;
use crate::size;
use crate::spec::SnapSpec;
use clap::builder::{OsStringValueParser, TypedValueParser};
use onego::block::{NbdError, NbdUrl};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::str::FromStr;

/// What help says of sources.
pub(crate) const SOURCES: &str = "\
  PATH                          a file or a block device of this machine; one whose name has a colon is ./NAME
  rbd:[POOL/[NAMESPACE/]]IMAGE  an image; with @SNAPSHOT at the end a snapshot of it, which is only read
  nfs://HOST/EXPORT/PATH        a file of a server of NFS; \"onego nfs --help\" says what else such a URL may have
  nbd://HOST[:PORT]/EXPORT      an export of a server of NBD; nbd+unix:///EXPORT?socket=PATH on a Unix socket;
                                nbds://HOST/EXPORT?tls-certificates=FOLDER by TLS
  mem:SIZE                      memory, lost at the end
  null:SIZE                     forgets what is written, reads as zeros";

/// A device, as it is named.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A file or a block device of this machine.
    Disk(PathBuf),
    /// A file of a server of NFS.
    Nfs(Box<Url>),
    /// An export of a server of NBD.
    Nbd(NbdUrl),
    /// An image of the cluster, or a snapshot of one.
    Image(SnapSpec),
    /// Memory of this process, lost at the end.
    Memory(u64),
    /// Nothing: writes are forgotten, and reads give zeros.
    Null(u64),
}

impl Source {
    /// Reads devices from the command line, where names of files may be any bytes.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(|text| Self::from_os(&text))
    }

    pub(crate) fn from_os(text: &OsStr) -> Result<Self, String> {
        match text.to_str() {
            Some(text) => text.parse(),
            None if text.as_bytes().starts_with(b"nfs://") => {
                Url::from_os(text).map(|url| Self::Nfs(Box::new(url))).map_err(|error| error.to_string())
            }
            None => Ok(Self::Disk(text.into())),
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty name names no device".into());
        }
        if text == "-" {
            return Err("\"-\" is standard input or output elsewhere, and no device: write ./- for a file of that name".into());
        }
        // A colon behind a slash is one of a path.
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| !scheme.contains('/')) else {
            return Ok(Self::Disk(text.into()));
        };
        match scheme {
            "nfs" => {
                let url: Url = text.parse().map_err(|error: onego::nfs::Error| error.to_string())?;
                Ok(Self::Nfs(Box::new(url)))
            }
            "nbd" | "nbd+unix" | "nbds" | "nbds+unix" => {
                Ok(Self::Nbd(text.parse().map_err(|error: NbdError| error.to_string())?))
            }
            "rbd" => Ok(Self::Image(rest.parse()?)),
            "mem" => Ok(Self::Memory(size::some_bytes(rest)?)),
            "null" => Ok(Self::Null(size::some_bytes(rest)?)),
            _ => Err(format!(
                "{text:?} is of an unknown kind: write rbd:[POOL/[NAMESPACE/]]IMAGE, nfs://HOST/PATH, nbd://HOST/EXPORT, \
                 mem:SIZE, null:SIZE or a path, which begins with ./ if its name has a colon"
            )),
        }
    }
}

impl Source {
    pub(crate) fn is_image(&self) -> bool {
        matches!(self, Self::Image(_))
    }

    /// Returns whether it is a snapshot, which is only read.
    pub(crate) fn is_snapshot(&self) -> bool {
        matches!(self, Self::Image(spec) if spec.snapshot.is_some())
    }

    /// May any number of threads open it, each for itself? Memory belongs to one, servers of NBD may take one client alone, and
    /// threads would hand the exclusive lock of an image back and forth.
    pub(crate) fn takes_many_threads(&self) -> bool {
        matches!(self, Self::Disk(_) | Self::Nfs(_) | Self::Null(_)) || self.is_snapshot()
    }

    /// Do two of that name share their bytes?
    pub(crate) fn is_one_thing(&self) -> bool {
        !matches!(self, Self::Memory(_) | Self::Null(_))
    }

    /// What it is called in full if images that name no pool are in `pool`, whatever the folder.
    pub(crate) fn identity(&self, pool: Option<&str>) -> String {
        match self {
            Self::Image(_) => format!("rbd:{}", self.export_name(pool)),
            // A folder that is not there any more has no other name.
            Self::Disk(path) => {
                std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string()
            }
            other => other.to_string(),
        }
    }

    /// What clients call the export if images that name no pool are in `pool`: the path of an image, the name of a file, or
    /// the kind of what has no name.
    pub(crate) fn export_name(&self, pool: Option<&str>) -> String {
        match self {
            Self::Disk(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Self::Nfs(url) => String::from_utf8_lossy(url.name()).into_owned(),
            Self::Nbd(url) if url.export().is_empty() => "nbd".to_owned(),
            Self::Nbd(url) => url.export().to_owned(),
            Self::Image(spec) => {
                let place = spec.image.place(pool);
                let image = place.image(&spec.image.image);
                SnapSpec { image, snapshot: spec.snapshot.clone() }.to_string()
            }
            Self::Memory(_) => "mem".to_owned(),
            Self::Null(_) => "null".to_owned(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(path) => write!(f, "{}", path.display()),
            Self::Nfs(url) => write!(f, "{url}"),
            Self::Nbd(url) => write!(f, "{url}"),
            Self::Image(spec) => write!(f, "rbd:{spec}"),
            Self::Memory(bytes) => write!(f, "mem:{}", size::human(*bytes)),
            Self::Null(bytes) => write!(f, "null:{}", size::human(*bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_and_named() {
        let named = |text: &str| text.parse::<Source>().map(|source| source.export_name(None));
        assert_eq!(named("rbd:disk").unwrap(), "rbd/disk");
        assert_eq!(named("rbd:pool/ns/disk").unwrap(), "pool/ns/disk");
        assert_eq!(named("rbd:pool/disk@snap").unwrap(), "pool/disk@snap");
        assert_eq!(named("mem:1G").unwrap(), "mem");
        assert!(matches!("null:4M".parse(), Ok(Source::Null(bytes)) if bytes == 4 << 20));
        assert_eq!(named("nbd://host/rbd/disk").unwrap(), "rbd/disk");
        assert_eq!(named("nbd+unix:///?socket=/run/s").unwrap(), "nbd");
        assert_eq!(named("nfs://host/srv/disk.img?uid=7").unwrap(), "disk.img");
        assert_eq!(named("/srv/disk.img").unwrap(), "disk.img");
        assert_eq!(named("./mem:1G").unwrap(), "mem:1G");
    }

    #[test]
    fn what_is_no_source_is_refused_with_what_would_be() {
        for text in [
            "",
            "-",
            "iscsi:disk",
            "rbd:pool/disk@",
            "nbds://host/disk",
            "nfs:///disk",
            "mem:0",
            "mem:",
            "rbd:",
            "rbd:pool/",
        ] {
            let refused = text.parse::<Source>().unwrap_err();
            assert!(!refused.is_empty(), "{text}");
        }
        assert!("iscsi:disk".parse::<Source>().unwrap_err().contains("rbd:[POOL/"));
    }
}
