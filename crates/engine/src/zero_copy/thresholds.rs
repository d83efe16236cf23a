use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Minimum sizes in bytes from which a zero-copy send is cheaper than a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Send from memory that is registered with the ring.
    pub registered: usize,
    /// Send from other memory by a ring.
    pub unregistered: usize,
    /// Send by `MSG_ZEROCOPY`.
    pub msg_zerocopy: usize,
    /// Average piece, if there are several.
    pub segment: usize,
}

impl Thresholds {
    /// Returns the size below which no send is zero-copy, whatever its memory.
    #[inline]
    pub(crate) fn least(&self) -> usize {
        self.registered.min(self.unregistered).min(self.msg_zerocopy)
    }
}

/// Size that no send reaches: zero-copy never pays.
const NEVER: usize = usize::MAX;

impl Default for Thresholds {
    /// Slightly above the break-even measured on a virtual machine with 2 AMD cores and Linux 6.18.
    fn default() -> Self {
        Self { registered: 8 << 10, unregistered: 24 << 10, msg_zerocopy: 64 << 10, segment: 4 << 10 }
    }
}

/// Error of a thresholds file.
#[derive(Debug, thiserror::Error)]
pub enum BadThresholds {
    /// The file exists but cannot be read.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The content is invalid.
    #[error("{path}: {problem}; run \"onego calibrate\" to rewrite it")]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// First invalid line.
        problem: BadLine,
    },
}

/// Error in the content of a thresholds file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// The line with this number is not a setting.
    #[error("line {0} is none of registered, unregistered, msg_zerocopy or segment = BYTES or never")]
    Unknown(usize),
    /// The line with this number repeats a setting.
    #[error("line {0} repeats a setting of an earlier line")]
    Twice(usize),
    /// The setting of this name is missing.
    #[error("{0} is not set")]
    Missing(&'static str),
}

/// Path of the file below a configuration directory.
const FILE: &str = "onego/zero-copy.conf";

impl Thresholds {
    /// Returns the path of the user's file, in `$XDG_CONFIG_HOME` or `~/.config`.
    pub fn user_path() -> Option<PathBuf> {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
        Some(config.join(FILE))
    }

    /// Returns the path of the machine's file.
    pub fn system_path() -> PathBuf {
        Path::new("/etc").join(FILE)
    }

    /// Loads the user's thresholds, else the machine's, else the defaults.
    pub fn load() -> Result<Self, BadThresholds> {
        for path in Self::user_path().into_iter().chain([Self::system_path()]) {
            match fs::read_to_string(&path) {
                Ok(text) => return text.parse().map_err(|problem| BadThresholds::Content { path, problem }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(BadThresholds::File { path, source }),
            }
        }
        Ok(Self::default())
    }
}

/// Parses lines of `name = BYTES`; lines that begin with `#` are comments.
impl FromStr for Thresholds {
    type Err = BadLine;

    fn from_str(text: &str) -> Result<Self, BadLine> {
        let mut values = [None; 4];
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let unknown = || BadLine::Unknown(i + 1);
            let (name, value) = line.split_once('=').ok_or_else(unknown)?;
            let index = NAMES.iter().position(|known| *known == name.trim()).ok_or_else(unknown)?;
            let value = match value.trim() {
                "never" => NEVER,
                number => number.parse().map_err(|_| unknown())?,
            };
            if values[index].replace(value).is_some() {
                return Err(BadLine::Twice(i + 1));
            }
        }
        let value = |index: usize| values[index].ok_or(BadLine::Missing(NAMES[index]));
        Ok(Self {
            registered: value(0)?,
            unregistered: value(1)?,
            msg_zerocopy: value(2)?,
            segment: value(3)?,
        })
    }
}

const NAMES: [&str; 4] = ["registered", "unregistered", "msg_zerocopy", "segment"];

/// Formats the content of a thresholds file.
impl fmt::Display for Thresholds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = [self.registered, self.unregistered, self.msg_zerocopy, self.segment];
        for (name, value) in NAMES.into_iter().zip(values) {
            match value {
                NEVER => writeln!(f, "{name} = never")?,
                value => writeln!(f, "{name} = {value}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_round_trip() {
        let thresholds = Thresholds { msg_zerocopy: NEVER, ..Thresholds::default() };
        let text = format!("# for people\n\n{thresholds}");
        assert!(text.contains("msg_zerocopy = never\n"), "{text}");
        assert_eq!(text.parse(), Ok(thresholds));
    }

    #[test]
    fn errors_name_the_line() {
        let good = Thresholds::default().to_string();
        let parse = |text: &str| text.parse::<Thresholds>().unwrap_err();
        assert_eq!(parse(&format!("{good}segment = 1\n")), BadLine::Twice(5));
        assert_eq!(parse(&good.replace("segment = 4096\n", "")), BadLine::Missing("segment"));
        for line in ["segments = 4", "segment 4", "segment = 4k", "segment = -1", "segment ="] {
            assert_eq!(parse(&format!("# one\n{line}\n")), BadLine::Unknown(2), "{line}");
        }
    }
}
