//! Files on servers, as command lines name them.

use crate::access::Access;
use crate::failure::Failure;
use clap::builder::{OsStringValueParser, TypedValueParser};
use onego::nfs::{Config, Escaped, Mount, Reactor};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::str::FromStr;

/// A file on a server: `nfs://HOST[:PORT]/EXPORT/PATH[?OPTION=VALUE&...]`.
#[derive(Debug, Clone)]
pub(crate) struct Url {
    text: String,
    config: Config,
    path: Vec<u8>,
}

impl FromStr for Url {
    type Err = onego::nfs::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (config, path) = Config::from_url(text)?;
        Ok(Self { text: text.to_owned(), config, path })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Escaped(self.text.as_bytes()))
    }
}

impl Url {
    /// Reads URLs from the command line, where names may be any bytes.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(|text| Self::from_os(&text))
    }

    pub(crate) fn from_os(text: &OsStr) -> Result<Self, onego::nfs::Error> {
        percent_encoded(text.as_bytes()).parse()
    }

    /// The path on the server, with that of the export.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The last name on its path.
    pub(crate) fn name(&self) -> &[u8] {
        last_name(&self.path)
    }

    /// How its server is reached.
    pub(crate) fn config(&self, access: &Access) -> Result<Config, Failure> {
        access.complete_nfs(self.config.clone())
    }

    /// Mounts the export that the file is in, and gives its path in that.
    pub(crate) fn mount(&self, access: &Access) -> Result<Target, Failure> {
        let config = self.config(access)?;
        let (reactor, mount, path) = Reactor::mount_path(&config, &self.path)?;
        Ok(Target { reactor, mount, path })
    }
}

/// A file on a server that is connected to.
pub(crate) struct Target {
    pub(crate) reactor: Reactor,
    pub(crate) mount: Mount,
    /// Within the export.
    pub(crate) path: Vec<u8>,
}

impl Target {
    /// Does something with it.
    pub(crate) fn run<T>(
        mut self,
        body: impl AsyncFnOnce(&Mount, &[u8]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Self { reactor, mount, path } = &mut self;
        reactor.block_on(body(mount, path))?
    }
}

/// A path without the slashes at its end.
pub(crate) fn without_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    &path[..end]
}

/// Splits a path into directory and last name.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let path = without_slashes(path);
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

pub(crate) fn last_name(path: &[u8]) -> &[u8] {
    split(path).1
}

/// A path below a directory.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [without_slashes(dir), name].join(&b'/') }
}

/// Text of a URL, with what is not UTF-8 percent-encoded.
fn percent_encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("%{byte:02X}")));
    }
    text
}

/// A name in a form that a URL takes: percent-encoded but for letters, digits and `-._~/`.
pub(crate) fn url_form(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name {
        match byte {
            b'-' | b'.' | b'_' | b'~' | b'/' => text.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(*byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_are_read_from_the_command_line_and_from_their_form_in_urls() {
        let name = b"bad\xff\x1b %?";
        let url = Url::from_os(OsStr::from_bytes(b"nfs://host/export/bad\xff?uid=7")).unwrap();
        assert_eq!((url.path(), url.name()), (&b"/export/bad\xff"[..], &b"bad\xff"[..]));
        let url: Url = format!("nfs://host/export/{}", url_form(name)).parse().unwrap();
        assert_eq!(url.name(), name);
    }

    #[test]
    fn paths_are_split_at_their_last_name() {
        assert_eq!(split(b"a/b//c///"), (&b"a/b/"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
        assert_eq!((join(b"", b"c"), join(b"a/", b"c")), (b"c".to_vec(), b"a/c".to_vec()));
    }
}
