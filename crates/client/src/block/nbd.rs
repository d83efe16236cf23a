use onego_nbd::client::{ClientError, ClientTls, Config, Endpoint, NbdClient};
use onego_nbd::tls::TlsError;
use percent_encoding::{percent_decode_str, percent_encode};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::io;
use std::net::ToSocketAddrs as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

const PORT: u16 = 10809;

/// Connections to a server on which a flush covers writes on the others, as in nbdcopy.
const CONNECTIONS: usize = 4;

/// Default certificate name of a server on a Unix socket.
const THIS_MACHINE: &str = "localhost";

/// URL of an NBD export (uri.md of the repository NetworkBlockDevice/nbd): `nbd://HOST[:PORT]/EXPORT` or
/// `nbd+unix:///EXPORT?socket=PATH`. The scheme `nbds` instead of `nbd`, with `tls-certificates=FOLDER`, selects TLS.
/// The folder contains `ca-cert.pem`, the authority that signed the server's certificate, and, if the server
/// authenticates clients, `client-cert.pem` and `client-key.pem`. `tls-hostname=NAME` sets the name in the server's
/// certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NbdUrl {
    server: NbdHost,
    export: String,
    tls: Option<TlsFiles>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TlsFiles {
    folder: PathBuf,
    name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NbdHost {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Error of opening an NBD export.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NbdError {
    /// The URL is invalid.
    #[error(
        "invalid NBD URL {url:?}: {reason} (write nbd://HOST/EXPORT or nbd+unix:///EXPORT?socket=PATH, and for TLS nbds://HOST/EXPORT?tls-certificates=FOLDER)"
    )]
    Url {
        /// The URL.
        url: String,
        /// Reason.
        reason: &'static str,
    },
    /// The server's name has no address.
    #[error("cannot find {host}: {source}")]
    Resolve {
        /// Name of the server.
        host: String,
        /// The resolver's error.
        source: io::Error,
    },
    /// A certificate file cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    CertificateFile {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The certificates are invalid.
    #[error("{folder}: {source}", folder = .folder.display())]
    Certificates {
        /// Folder of the certificates.
        folder: PathBuf,
        /// Reason.
        source: TlsError,
    },
    /// The server cannot be used.
    #[error("{url}: {source}")]
    Server {
        /// URL of the export.
        url: String,
        /// Reason.
        source: ClientError,
    },
}

impl NbdUrl {
    /// Returns the name of the export; empty for the default export.
    pub fn export(&self) -> &str {
        &self.export
    }

    /// Creates a client for the export, which connects once it is driven. This looks up the server's name and reads
    /// certificates, which may block.
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
        let tls = self.tls.as_ref().map(|files| files.load(&self.server)).transpose()?;
        let config = Config { tls, connections: CONNECTIONS, seed, ..Config::new(&self.export) };
        NbdClient::new(config, endpoint).map_err(|source| self.failed(source))
    }

    /// Creates an error with this URL.
    pub fn failed(&self, source: ClientError) -> NbdError {
        NbdError::Server { url: self.to_string(), source }
    }
}

impl TlsFiles {
    fn load(&self, server: &NbdHost) -> Result<ClientTls, NbdError> {
        let name = match (&self.name, server) {
            (Some(name), _) | (None, NbdHost::Tcp { host: name, .. }) => name,
            (None, NbdHost::Unix(_)) => THIS_MACHINE,
        };
        let read = |name: &str| {
            let path = self.folder.join(name);
            std::fs::read(&path).map_err(|source| NbdError::CertificateFile { path, source })
        };
        // Either file without the other is a mistake.
        let has_own =
            ["client-cert.pem", "client-key.pem"].iter().any(|name| self.folder.join(name).exists());
        let own = match has_own {
            true => Some((read("client-cert.pem")?, read("client-key.pem")?)),
            false => None,
        };
        let own = own.as_ref().map(|(chain, key)| (&chain[..], &key[..]));
        ClientTls::new(name, &read("ca-cert.pem")?, own)
            .map_err(|source| NbdError::Certificates { folder: self.folder.clone(), source })
    }
}

/// Connects a Unix socket without blocking; a server with a full backlog is retried later.
fn dial(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

impl NbdUrl {
    /// Returns whether both URLs refer to the same export of the same server, judged by names, addresses and sockets.
    pub fn is_same_export(&self, other: &Self) -> bool {
        let is_same_server = match (&self.server, &other.server) {
            (NbdHost::Unix(one), NbdHost::Unix(two)) => {
                one == two
                    || one.canonicalize().is_ok_and(|one| two.canonicalize().is_ok_and(|two| one == two))
            }
            (NbdHost::Tcp { host: one, port }, NbdHost::Tcp { host: two, port: other }) => {
                let addresses = |host: &str| {
                    let found = (host, *port).to_socket_addrs();
                    found.map_or_else(
                        |_| Vec::new(),
                        |found| found.map(|addr| addr.ip().to_canonical()).collect(),
                    )
                };
                port == other
                    && (one == two || {
                        let two = addresses(two);
                        addresses(one).iter().any(|addr| two.contains(addr))
                    })
            }
            _ => false,
        };
        is_same_server && self.export == other.export
    }
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
        let (mut socket, mut folder, mut name) = (None, None, None);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("socket", path)) => socket = Some(PathBuf::from(decoded(path)?)),
                Some(("tls-certificates", path)) => folder = Some(PathBuf::from(decoded(path)?)),
                Some(("tls-hostname", host)) => name = Some(decoded(host)?),
                _ => {
                    return Err(wrong("the only options are socket, tls-certificates and tls-hostname"));
                }
            }
        }
        let (scheme, tls) = match (scheme, folder) {
            ("nbds", Some(folder)) => ("nbd", Some(TlsFiles { folder, name })),
            ("nbds+unix", Some(folder)) => ("nbd+unix", Some(TlsFiles { folder, name })),
            ("nbds" | "nbds+unix", None) => return Err(wrong("it needs tls-certificates=FOLDER")),
            (_, None) if name.is_none() => (scheme, None),
            _ => return Err(wrong("certificates require nbds://")),
        };
        let server = match (scheme, socket) {
            ("nbd", None) if authority.is_empty() => return Err(wrong("it has no host")),
            ("nbd", None) => {
                let (host, port) = host_and_port(authority).ok_or_else(|| wrong("invalid port"))?;
                NbdHost::Tcp { host: decoded(host)?, port }
            }
            ("nbd", Some(_)) => return Err(wrong("a socket requires nbd+unix://")),
            ("nbd+unix", Some(path)) if authority.is_empty() => NbdHost::Unix(path),
            ("nbd+unix", Some(_)) => return Err(wrong("it names a host and a socket")),
            ("nbd+unix", None) => return Err(wrong("it needs socket=PATH")),
            _ => return Err(wrong("it does not begin with nbd://")),
        };
        Ok(Self { server, export, tls })
    }
}

/// Splits a host and a port, with `[...]` around an IPv6 address.
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
        let scheme = if self.tls.is_some() { "nbds" } else { "nbd" };
        match &self.server {
            NbdHost::Tcp { host, port } if host.contains(':') => {
                write!(f, "{scheme}://[{host}]:{port}/{export}")
            }
            NbdHost::Tcp { host, port } => write!(f, "{scheme}://{host}:{port}/{export}"),
            NbdHost::Unix(path) => write!(f, "{scheme}+unix:///{export}?socket={}", path.display()),
        }?;
        let Some(TlsFiles { folder, name }) = &self.tls else { return Ok(()) };
        let joint = if matches!(self.server, NbdHost::Unix(_)) { '&' } else { '?' };
        write!(f, "{joint}tls-certificates={}", folder.display())?;
        name.as_ref().map_or(Ok(()), |name| write!(f, "&tls-hostname={name}"))
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
            ("nbds://h/d?tls-certificates=/etc/pki", "nbds://h:10809/d?tls-certificates=/etc/pki"),
            (
                "nbds+unix:///d?socket=s&tls-hostname=h&tls-certificates=p",
                "nbds+unix:///d?socket=s&tls-certificates=p&tls-hostname=h",
            ),
        ] {
            assert_eq!(text.parse::<NbdUrl>().unwrap().to_string(), shown);
        }
        assert_eq!("nbd://h/a%20b".parse::<NbdUrl>().unwrap().export(), "a b");
    }

    #[test]
    fn an_export_is_the_same_by_another_name_of_its_server() {
        let same =
            |a: &str, b: &str| a.parse::<NbdUrl>().unwrap().is_same_export(&b.parse::<NbdUrl>().unwrap());
        assert!(same("nbd://127.0.0.1/a", "nbd://localhost:10809/a"));
        assert!(!same("nbd://127.0.0.1/a", "nbd://127.0.0.1/b"));
        assert!(!same("nbd://127.0.0.1/a", "nbd://127.0.0.1:99/a"));
        assert!(same("nbd+unix:///a?socket=/", "nbd+unix:///a?socket=/dev/.."));
        assert!(!same("nbd+unix:///a?socket=/", "nbd+unix:///a?socket=/dev"));
    }

    #[test]
    fn invalid_urls_are_refused() {
        for (text, reason) in [
            ("http://a/b", "begin with nbd://"),
            ("nbd:///b", "no host"),
            ("nbd://a:x/b", "port"),
            ("nbd://[::1]x/b", "port"),
            ("nbds://a/b", "tls-certificates=FOLDER"),
            ("nbds+unix:///b?socket=c", "tls-certificates=FOLDER"),
            ("nbds:///b?tls-certificates=c", "no host"),
            ("nbds://a/b?tls-certificates=%ff", "UTF-8"),
            ("nbd://a/b?tls-certificates=c", "nbds://"),
            ("nbd://a/b?tls-hostname=c", "nbds://"),
            ("nbd+unix:///b", "socket=PATH"),
            ("nbd+unix://a/b?socket=c", "a host and a socket"),
            ("nbd://a/b?socket=c", "nbd+unix"),
            ("nbd://a/b?tls=1", "the only options"),
            ("nbd://a/%ff", "UTF-8"),
        ] {
            let said = text.parse::<NbdUrl>().unwrap_err().to_string();
            assert!(said.contains(reason) && said.contains(text), "{said}");
        }
    }
}
