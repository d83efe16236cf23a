//! What is exported: `rbd:[POOL/[NAMESPACE/]]IMAGE`, `mem:SIZE`, `null:SIZE`.

use crate::size;
use crate::spec::ImageSpec;
use std::fmt;
use std::str::FromStr;

/// A device that can be exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
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
        let known = "write rbd:[POOL/[NAMESPACE/]]IMAGE, mem:SIZE or null:SIZE";
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(format!("{text:?} does not say what it is: {known}"));
        };
        match scheme {
            "rbd" => Ok(Self::Image(rest.parse()?)),
            "mem" => Ok(Self::Memory(size::some_bytes(rest)?)),
            "null" => Ok(Self::Null(size::some_bytes(rest)?)),
            _ => Err(format!("{text:?} is of an unknown kind: {known}")),
        }
    }
}

impl Source {
    /// What clients call the export if images that name no pool are in `pool`: the path of an image, or the kind of what has no name.
    pub(crate) fn export_name(&self, pool: Option<&str>) -> String {
        match self {
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
    }

    #[test]
    fn what_is_no_source_is_refused_with_what_would_be() {
        for text in ["disk", "iscsi:disk", "mem:0", "mem:", "rbd:", "rbd:pool/"] {
            let refused = text.parse::<Source>().unwrap_err();
            assert!(!refused.is_empty(), "{text}");
        }
        assert!("disk".parse::<Source>().unwrap_err().contains("rbd:[POOL/"));
    }
}
