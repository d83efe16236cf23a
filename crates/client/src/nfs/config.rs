use super::error::Error;
use super::rdma::Rdma;
use crate::waiting::WaitingHook;
use onego_engine::zero_copy::Settings;
use onego_engine::{EngineKind, Spin};
use onego_nfs::client::Waiting;
use onego_nfs::rpc::{AuthSys, Credential};
use onego_wire::LocalPort;
use percent_encoding::percent_decode_str;
use std::time::Duration;

/// Configuration of an NFS client: the server's address, and the transport, identity and limits of calls. It is
/// adjusted by the methods with the prefix `with_`, or field by field.
///
/// ```
/// use std::time::Duration;
/// let config = onego::nfs::Config::new("files.example.org")
///     .with_connections(4)
///     .with_request_timeout(Duration::from_secs(60));
/// # drop(config);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Name or address of the server.
    pub host: String,
    /// Port of NFS. `None` queries the port mapper, and defaults to 2049 without one.
    pub nfs_port: Option<u16>,
    /// Port of MOUNT. `None` queries the port mapper, and defaults to the port of NFS without one.
    pub mount_port: Option<u16>,
    /// Settings of RDMA for file I/O; `None` uses TCP.
    pub rdma: Option<Rdma>,
    /// Kind of the local port of connections, except those to a port mapper. Servers may require a port below 1024,
    /// which takes root or CAP_NET_BIND_SERVICE. By default such a port is used if available.
    pub local_port: LocalPort,
    /// Number of connections to the server.
    pub connections: usize,
    /// Identity of the caller.
    pub credential: Credential,
    /// Largest READ in bytes, limited by the server's maximum. `None` uses the server's preference.
    pub read_size: Option<usize>,
    /// Largest WRITE in bytes, limited by the server's maximum. `None` uses the server's preference.
    pub write_size: Option<usize>,
    /// Limit on the wait for the server's first answer.
    pub connect_timeout: Duration,
    /// Limit on the wait of a request for the server. `None` waits until it returns, as `hard` mounts do.
    pub request_timeout: Option<Duration>,
    /// Threshold from which a call is reported, with a breakdown of its time, by a `tracing` event with the target
    /// `onego::slow`; `None` reports none.
    pub slow: Option<Duration>,
    /// Hook called when the client has waited for two seconds.
    pub on_waiting: Option<WaitingHook<Waiting>>,
    /// Event engine.
    pub engine: EngineKind,
    /// Rule for zero-copy sends.
    pub zero_copy: Settings,
    /// Spinning before the client sleeps.
    pub spin: Spin,
}

impl Config {
    /// Creates the configuration of a server, with the identity of this process.
    pub fn new(host: &str) -> Self {
        let sys = AuthSys {
            machine: rustix::system::uname().nodename().to_bytes().to_vec(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: groups(),
            ..AuthSys::default()
        };
        Self {
            host: host.to_owned(),
            nfs_port: None,
            mount_port: None,
            rdma: None,
            local_port: LocalPort::PreferReserved,
            connections: 1,
            credential: Credential::Sys(sys),
            read_size: None,
            write_size: None,
            connect_timeout: Duration::from_secs(30),
            request_timeout: None,
            slow: None,
            on_waiting: None,
            engine: EngineKind::default(),
            zero_copy: Settings::default(),
            spin: Spin::default(),
        }
    }

    /// Parses a URL with the options of libnfs, `nfs://HOST[:PORT]/PATH[?OPTION=VALUE&...]`, and returns the path as
    /// well. The path is bytes, percent-encoded where they are not UTF-8 or have a meaning in URLs. An explicit port
    /// applies to both NFS and MOUNT unless options override it.
    ///
    /// The options are `nfsport`, `mountport`, `uid`, `gid`, `nconnect`, `rsize`, `wsize`, `timeo` (tenths of a
    /// second, as in the kernel), `timeout` (milliseconds, as in libnfs), `resvport` and `noresvport` (local ports
    /// below 1024, or never) and `version` (must be 3). `rdma` or `proto=rdma` selects RDMA for file I/O, at
    /// `rdmaport`, with inline messages of at most `inline` bytes; `rdma=device` uses a device of this machine
    /// instead of software iWARP.
    pub fn from_url(url: &str) -> Result<(Self, Vec<u8>), Error> {
        let wrong = |reason: &str| Error::Url { url: url.to_owned(), reason: reason.to_owned() };
        let rest = url.strip_prefix("nfs://").ok_or_else(|| wrong("it does not begin with nfs://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = split_port(authority).ok_or_else(|| wrong("invalid port"))?;
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let mut config = Self { nfs_port: port, mount_port: port, ..Self::new(host) };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, "1"));
            config.set(name, value).map_err(|reason| wrong(&reason))?;
        }
        Ok((config, percent_decode_str(path).collect()))
    }

    /// Sets the port of both NFS and MOUNT, which bypasses the port mapper.
    pub fn with_port(self, port: u16) -> Self {
        Self { nfs_port: Some(port), mount_port: Some(port), ..self }
    }

    /// Uses RDMA for file I/O.
    pub fn with_rdma(self, rdma: Rdma) -> Self {
        Self { rdma: Some(rdma), ..self }
    }

    /// Sets the kind of local port.
    pub fn with_local_port(self, local_port: LocalPort) -> Self {
        Self { local_port, ..self }
    }

    /// Sets the number of connections.
    pub fn with_connections(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    /// Sets the identity of the caller.
    pub fn with_credential(self, credential: Credential) -> Self {
        Self { credential, ..self }
    }

    /// Limits the size of a READ, in bytes.
    pub fn with_read_size(self, bytes: usize) -> Self {
        Self { read_size: Some(bytes), ..self }
    }

    /// Limits the size of a WRITE, in bytes.
    pub fn with_write_size(self, bytes: usize) -> Self {
        Self { write_size: Some(bytes), ..self }
    }

    /// Limits the wait for the server's first answer.
    pub fn with_connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// Limits each request; one that exceeds the limit fails, but may have been applied.
    pub fn with_request_timeout(self, timeout: Duration) -> Self {
        Self { request_timeout: Some(timeout), ..self }
    }

    /// Calls `hook` when the client has waited for two seconds.
    pub fn with_on_waiting(self, hook: WaitingHook<Waiting>) -> Self {
        Self { on_waiting: Some(hook), ..self }
    }

    /// Sets the event engine.
    pub fn with_engine(self, engine: EngineKind) -> Self {
        Self { engine, ..self }
    }

    /// Sets the rule for zero-copy sends.
    pub fn with_zero_copy(self, zero_copy: Settings) -> Self {
        Self { zero_copy, ..self }
    }

    /// Sets the spinning before the client sleeps.
    pub fn with_spin(self, spin: Spin) -> Self {
        Self { spin, ..self }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "nfsport" | "port" => self.nfs_port = Some(number(name, value)?),
            "mountport" => self.mount_port = Some(number(name, value)?),
            "resvport" | "noresvport" => self.choose_port(name, value)?,
            "rdma" | "proto" => self.choose_transport(name, value)?,
            "rdmaport" => self.over_rdma().port = number(name, value)?,
            "inline" => self.over_rdma().inline = number(name, value)?,
            "nconnect" => self.connections = number(name, value)?,
            "rsize" => self.read_size = Some(number(name, value)?),
            "wsize" => self.write_size = Some(number(name, value)?),
            "uid" => self.sys().uid = number(name, value)?,
            "gid" => self.sys().gid = number(name, value)?,
            "timeo" => self.request_timeout = Some(Duration::from_millis(100 * number::<u64>(name, value)?)),
            "timeout" => self.request_timeout = Some(Duration::from_millis(number(name, value)?)),
            "version" | "vers" if value == "3" => {}
            "version" | "vers" => return Err("this client supports only NFS version 3".to_owned()),
            _ => return Err(format!("unknown option {name}")),
        }
        Ok(())
    }

    fn choose_transport(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("rdma", "1") | ("proto", "rdma") => drop(self.over_rdma()),
            ("rdma", "device") => self.over_rdma().device = true,
            ("rdma", "0") | ("proto", "tcp") => self.rdma = None,
            _ => return Err(format!("unknown {name}={value}: NFS uses tcp or rdma")),
        }
        Ok(())
    }

    fn choose_port(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.local_port = match (name, value) {
            ("resvport", "1") | ("noresvport", "0") => LocalPort::Reserved,
            ("resvport", "0") | ("noresvport", "1") => LocalPort::Any,
            _ => return Err(format!("{name}={value} must be 0 or 1")),
        };
        Ok(())
    }

    /// Returns the settings of RDMA, and enables it if it was not.
    fn over_rdma(&mut self) -> &mut Rdma {
        self.rdma.get_or_insert_default()
    }

    /// Returns the AUTH_SYS identity of calls, and switches to it if it was not in use.
    fn sys(&mut self) -> &mut AuthSys {
        if !matches!(self.credential, Credential::Sys(_)) {
            self.credential = Credential::Sys(AuthSys::default());
        }
        match &mut self.credential {
            Credential::Sys(sys) => sys,
            _ => unreachable!("set above"),
        }
    }
}

fn groups() -> Vec<u32> {
    // AUTH_SYS has room for 16 (RFC 5531, appendix A).
    let groups = rustix::process::getgroups().unwrap_or_default();
    groups.into_iter().map(rustix::process::Gid::as_raw).take(16).collect()
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}={value} is not a valid number"))
}

/// Splits a host and a port, with `[...]` around an IPv6 address. Returns `None` for an invalid port.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some((host, rest)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_servers_paths_and_options() {
        let (config, path) =
            Config::from_url("nfs://example.org/srv/a%20b?uid=7&nconnect=4&mountport=635").unwrap();
        assert_eq!((config.host.as_str(), &path[..]), ("example.org", &b"/srv/a b"[..]));
        assert_eq!((config.nfs_port, config.mount_port, config.connections), (None, Some(635), 4));
        assert!(matches!(config.credential, Credential::Sys(AuthSys { uid: 7, .. })));
        let (config, path) = Config::from_url("nfs://[::1]:2050?timeo=600").unwrap();
        assert_eq!((config.host.as_str(), &path[..]), ("::1", &b"/"[..]));
        assert_eq!(config.nfs_port, Some(2050));
        assert_eq!(config.request_timeout, Some(Duration::from_secs(60)));
        assert_eq!(Config::from_url("nfs://a/bad%FF%0a").unwrap().1, b"/bad\xff\n");
        assert_eq!(config.rdma, None);
        let (config, _) = Config::from_url("nfs://a/b?rdma&inline=65536&mountport=7").unwrap();
        assert_eq!(config.rdma, Some(Rdma { inline: 65536, ..Rdma::default() }));
        let (config, _) = Config::from_url("nfs://a/b?rdma=device").unwrap();
        assert_eq!(config.rdma, Some(Rdma { device: true, ..Rdma::default() }));
        let (config, _) = Config::from_url("nfs://a/b?proto=rdma&rdmaport=5").unwrap();
        assert_eq!(config.rdma.map(|rdma| rdma.port), Some(5));
        for (option, port) in [
            ("", LocalPort::PreferReserved),
            ("?resvport", LocalPort::Reserved),
            ("?noresvport", LocalPort::Any),
            ("?resvport=0", LocalPort::Any),
        ] {
            assert_eq!(Config::from_url(&format!("nfs://a/b{option}")).unwrap().0.local_port, port);
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        for (url, reason) in [
            ("http://a/b", "does not begin"),
            ("nfs:///b", "no host"),
            ("nfs://a:x/b", "port"),
            ("nfs://a/b?version=4", "version 3"),
            ("nfs://a/b?proto=udp", "tcp or rdma"),
            ("nfs://a/b?resvport=999", "resvport=999"),
            ("nfs://a/b?sharks=1", "sharks"),
            ("nfs://a/b?uid=me", "uid=me"),
        ] {
            let said = Config::from_url(url).unwrap_err().to_string();
            assert!(said.contains(reason) && said.contains(url), "{said}");
        }
    }
}
