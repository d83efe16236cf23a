//! How command lines name devices.

use crate::size;
use crate::spec::ImageSpec;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// What help says of sources.
pub(crate) const SOURCES: &str = "\
  PATH                          a file or a block device of this machine; one whose name has a colon is ./NAME
  rbd:[POOL/[NAMESPACE/]]IMAGE  an image
  mem:SIZE                      memory, lost at the end
  null:SIZE                     forgets what is written, reads as zeros";

/// A device, as it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file or a block device of this machine.
    Disk(PathBuf),
    /// An image of the cluster.
    Image(ImageSpec),
    /// Memory of this process, lost at the end.
    Memory(u64),
    /// Nothing: writes are forgotten, and reads give zeros.
    Null(u64),
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty name names no device".into());
        }
        // A colon behind a slash is one of a path.
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| !scheme.contains('/')) else {
            return Ok(Self::Disk(text.into()));
        };
        match scheme {
            "rbd" => Ok(Self::Image(rest.parse()?)),
            "mem" => Ok(Self::Memory(size::some_bytes(rest)?)),
            "null" => Ok(Self::Null(size::some_bytes(rest)?)),
            _ => Err(format!(
                "{text:?} is of an unknown kind: write rbd:[POOL/[NAMESPACE/]]IMAGE, mem:SIZE, null:SIZE or a path, which \
                 begins with ./ if its name has a colon"
            )),
        }
    }
}

impl Source {
    /// What clients call the export if images that name no pool are in `pool`: the path of an image, the name of a file, or
    /// the kind of what has no name.
    pub(crate) fn export_name(&self, pool: Option<&str>) -> String {
        match self {
            Self::Disk(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Self::Image(spec) => {
                let place = spec.place(pool);
                let namespace = if place.namespace.is_empty() { "" } else { "/" };
                format!("{}{namespace}{}/{}", place.pool, place.namespace, spec.image)
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
        assert_eq!(named("mem:1G").unwrap(), "mem");
        assert_eq!("null:4M".parse(), Ok(Source::Null(4 << 20)));
        assert_eq!(named("/srv/disk.img").unwrap(), "disk.img");
        assert_eq!("./mem:1G".parse(), Ok(Source::Disk("./mem:1G".into())));
    }

    #[test]
    fn what_is_no_source_is_refused_with_what_would_be() {
        for text in ["", "iscsi:disk", "rbd:pool/disk@snap", "mem:0", "mem:", "rbd:", "rbd:pool/"] {
            let refused = text.parse::<Source>().unwrap_err();
            assert!(!refused.is_empty(), "{text}");
        }
        assert!("disk".parse::<Source>().unwrap_err().contains("rbd:[POOL/"));
    }
}
