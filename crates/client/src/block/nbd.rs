//! Where a server of NBD is: URLs, and the sockets to reach it.

use onego_nbd::client::{ClientError, Config, Endpoint, NbdClient};
use percent_encoding::{percent_decode_str, percent_encode};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::io;
use std::net::ToSocketAddrs as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// The port of NBD (IANA).
const PORT: u16 = 10809;

/// Connections to a server that has a flush on one cover the writes on the others: what nbdcopy has.
const CONNECTIONS: usize = 4;

/// Where the export of a server is (uri.md of the repository NetworkBlockDevice/nbd): `nbd://HOST[:PORT]/EXPORT` or
/// `nbd+unix:///EXPORT?socket=PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NbdUrl {
    server: NbdHost,
    /// The name of the export; the empty one is the default.
    export: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NbdHost {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Why an export of a server of NBD is not opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NbdError {
    /// A URL cannot be used.
    #[error(
        "{url:?} is no URL of a server of NBD: {reason} (write nbd://HOST/EXPORT or nbd+unix:///EXPORT?socket=PATH)"
    )]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The server's name has no address.
    #[error("cannot find {host}: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// The server cannot be used.
    #[error("{url}: {source}")]
    Server {
        /// The export.
        url: String,
        /// Why not.
        source: ClientError,
    },
}

impl NbdUrl {
    /// The name of the export; the empty one is the default.
    pub fn export(&self) -> &str {
        &self.export
    }

    /// A client for it, which connects once it is driven. The server's name is looked up now, which may block.
    pub fn client(&self) -> Result<NbdClient, NbdError> {
        let endpoint = match &self.server {
            NbdHost::Tcp { host, port } => {
                let found = (host.as_str(), *port).to_socket_addrs();
                let found = found.map_err(|source| NbdError::Resolve { host: host.clone(), source })?;
                Endpoint::Tcp(found.collect())
            }
            NbdHost::Unix(path) => {
                let path = path.clone();
                Endpoint::Dial(Box::new(move || dial(&path)))
            }
        };
        let seed = onego_engine::random_words()();
        let config = Config { connections: CONNECTIONS, seed, ..Config::new(&self.export) };
        NbdClient::new(config, endpoint).map_err(|source| self.failed(source))
    }

    /// An error with the URL.
    pub fn failed(&self, source: ClientError) -> NbdError {
        NbdError::Server { url: self.to_string(), source }
    }
}

/// Connects a Unix socket without waiting: a server that accepts nobody is tried again later.
fn dial(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

impl FromStr for NbdUrl {
    type Err = NbdError;

    fn from_str(text: &str) -> Result<Self, NbdError> {
        let wrong = |reason| NbdError::Url { url: text.to_owned(), reason };
        let decoded = |part: &str| {
            let part =
                percent_decode_str(part).decode_utf8().map_err(|_| wrong("a part of it is not UTF-8"))?;
            Ok::<String, NbdError>(part.into_owned())
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it does not begin with nbd://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decoded(export)?;
        let mut socket = None;
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("socket", path)) => socket = Some(PathBuf::from(decoded(path)?)),
                _ => return Err(wrong("it has an option other than socket")),
            }
        }
        let server = match (scheme, socket) {
            ("nbd", None) if authority.is_empty() => return Err(wrong("it names no host")),
            ("nbd", None) => {
                let (host, port) = host_and_port(authority).ok_or_else(|| wrong("its port is none"))?;
                NbdHost::Tcp { host: decoded(host)?, port }
            }
            ("nbd", Some(_)) => return Err(wrong("a socket goes with nbd+unix://")),
            ("nbd+unix", Some(path)) if authority.is_empty() => NbdHost::Unix(path),
            ("nbd+unix", Some(_)) => return Err(wrong("it names a host and a socket")),
            ("nbd+unix", None) => return Err(wrong("it does not say socket=PATH")),
            ("nbds" | "nbds+unix", _) => return Err(wrong("this client does not speak TLS")),
            _ => return Err(wrong("it does not begin with nbd://")),
        };
        Ok(Self { server, export })
    }
}

/// A host and a port, with `[...]` around an address of IPv6.
fn host_and_port(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some(""))?),
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    Some((host, if port.is_empty() { PORT } else { port.parse().ok()? }))
}

impl fmt::Display for NbdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KEPT: &percent_encoding::AsciiSet =
            &percent_encoding::CONTROLS.add(b' ').add(b'?').add(b'#').add(b'%');
        let export = percent_encode(self.export.as_bytes(), KEPT);
        match &self.server {
            NbdHost::Tcp { host, port } if host.contains(':') => write!(f, "nbd://[{host}]:{port}/{export}"),
            NbdHost::Tcp { host, port } => write!(f, "nbd://{host}:{port}/{export}"),
            NbdHost::Unix(path) => write!(f, "nbd+unix:///{export}?socket={}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_servers_and_exports() {
        for (text, shown) in [
            ("nbd://example.org", "nbd://example.org:10809/"),
            ("nbd://example.org:99/rbd/disk", "nbd://example.org:99/rbd/disk"),
            ("nbd://[::1]/a%20b", "nbd://[::1]:10809/a%20b"),
            ("nbd+unix:///disk?socket=/run/a%20b", "nbd+unix:///disk?socket=/run/a b"),
            ("nbd+unix:///?socket=s", "nbd+unix:///?socket=s"),
        ] {
            assert_eq!(text.parse::<NbdUrl>().unwrap().to_string(), shown);
        }
        assert_eq!("nbd://h/a%20b".parse::<NbdUrl>().unwrap().export(), "a b");
    }

    #[test]
    fn what_is_no_url_is_said_to_be_none() {
        for (text, reason) in [
            ("http://a/b", "begin with nbd://"),
            ("nbd:///b", "no host"),
            ("nbd://a:x/b", "port"),
            ("nbd://[::1]x/b", "port"),
            ("nbds://a/b", "TLS"),
            ("nbd+unix:///b", "socket=PATH"),
            ("nbd+unix://a/b?socket=c", "a host and a socket"),
            ("nbd://a/b?socket=c", "nbd+unix"),
            ("nbd://a/b?tls=1", "other than socket"),
            ("nbd://a/%ff", "UTF-8"),
        ] {
            let said = text.parse::<NbdUrl>().unwrap_err().to_string();
            assert!(said.contains(reason) && said.contains(text), "{said}");
        }
    }
}
