//! Compression methods.

use std::fmt;
use std::str::FromStr;

/// Compression method of a frame's segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Method {
    /// Fastest.
    Snappy = 1,
    /// Deflate.
    Zlib = 2,
    /// Smallest of the fast methods.
    Zstd = 3,
    /// Fast.
    Lz4 = 4,
}

impl Method {
    const ALL: [Self; 4] = [Self::Snappy, Self::Zlib, Self::Zstd, Self::Lz4];

    pub(crate) fn from_wire(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|method| *method as u32 == number)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|method| method.name() == name);
        found.ok_or_else(|| format!("{name:?} is not a known compression method (snappy, zlib, zstd, lz4)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_print_and_parse() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        assert!("brotli".parse::<Method>().unwrap_err().contains("snappy, zlib, zstd, lz4"));
    }
}
