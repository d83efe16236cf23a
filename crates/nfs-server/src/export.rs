//! The export: which hosts and users may do what.

use super::caller::{Caller, NO_ID, NOBODY};
use onego_nfs::mount::PATH_MAX;
use onego_nfs::rpc::{AuthSys, Credential, Denied};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// Which users count as nobody, whatever user a call claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Squash {
    /// None: every claim counts.
    None,
    /// Root.
    #[default]
    Root,
    /// All users.
    All,
}

/// The export of a server: its path, and which hosts and users may do what. It is changed by the methods that begin with
/// `with_`, or field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Export {
    /// The path by which clients mount it. They may always mount "/", too.
    pub path: String,
    /// Changes are refused.
    pub read_only: bool,
    /// Which users count as nobody.
    pub squash: Squash,
    /// The networks whose hosts are let in. Empty: all hosts.
    pub allow: Vec<Network>,
    /// Calls over TCP must come from a port below 1024, which takes a privileged program on the client. Otherwise every user
    /// of an admitted host can claim to be any other, because nothing else proves an `AUTH_SYS` credential. Over RDMA, NFS is
    /// admitted from any port, because kernels connect from any; MOUNT, which gives the first handle, is not.
    pub secure: bool,
    /// Changes of a directory are durable before their replies. Without, a crash of the machine loses changes that were
    /// acknowledged, as with `async` of exports(5): COMMIT and stable writes promise nothing either.
    pub sync: bool,
}

/// The first port that every program may use (`IPPORT_RESERVED`).
const FIRST_FREE_PORT: u16 = 1024;

impl Default for Export {
    /// All hosts may read and write, under the path "/export". Root counts as nobody, and calls come from privileged ports.
    fn default() -> Self {
        let (path, squash) = ("/export".into(), Squash::Root);
        Self { path, read_only: false, squash, allow: Vec::new(), secure: true, sync: true }
    }
}

impl Export {
    /// The same, mounted by this path.
    pub fn with_path(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// The same, with changes refused, or not.
    pub fn with_read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// The same, with these users counting as nobody.
    pub fn with_squash(self, squash: Squash) -> Self {
        Self { squash, ..self }
    }

    /// The same, for the hosts of these networks; none: for all.
    pub fn with_allow(self, allow: Vec<Network>) -> Self {
        Self { allow, ..self }
    }

    /// The same, with calls from ports of 1024 and above refused, or not.
    pub fn with_secure(self, secure: bool) -> Self {
        Self { secure, ..self }
    }

    /// The same, with changes durable before their replies, or not.
    pub fn with_sync(self, sync: bool) -> Self {
        Self { sync, ..self }
    }

    /// Can it be mounted by its path?
    pub(super) fn is_mountable(&self) -> bool {
        self.path.starts_with('/') && self.path.len() <= PATH_MAX
    }

    /// Is that host let in?
    pub(super) fn lets_in(&self, host: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|network| network.contains(host))
    }

    /// Returns whether calls from that port are admitted.
    pub(super) fn takes(&self, port: u16) -> bool {
        !self.secure || port < FIRST_FREE_PORT
    }

    /// The path of a directory from the root, by the path that a client mounts.
    pub(super) fn within<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        // Slashes in a row are one, as in all paths of POSIX.
        let mut inner = path;
        if path.iter().all(|byte| *byte == b'/') {
            return Some(b"");
        }
        for root in self.path.split('/').filter(|name| !name.is_empty()) {
            let start = inner.iter().position(|byte| *byte != b'/')?;
            inner = inner[start..].strip_prefix(root.as_bytes())?;
            if !inner.is_empty() && !inner.starts_with(b"/") {
                return None;
            }
        }
        Some(inner)
    }

    /// The caller that a credential stands for.
    pub(super) fn caller(&self, credential: Credential) -> Result<Caller, Denied> {
        let user = match credential {
            Credential::Sys(user) if self.squash != Squash::All => user,
            Credential::Sys(_) | Credential::None => return Ok(Caller::nobody()),
            Credential::Other(_) => return Err(Denied::TOO_WEAK),
        };
        let AuthSys { uid, gid, groups, .. } = user;
        let squashes_root = self.squash == Squash::Root;
        let other = |id| if id == NO_ID || id == 0 && squashes_root { NOBODY } else { id };
        Ok(Caller { uid: other(uid), gid: other(gid), groups: groups.into_iter().map(other).collect() })
    }
}

/// A network, or a single host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Leading bits that all its hosts have.
    bits: u8,
}

/// It is no network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no network: write an address like 10.0.0.5, or 10.0.0.0/8 for all that begin with these bits"
)]
pub struct NoNetwork(String);

impl Network {
    /// Is it one of the network's hosts?
    pub fn contains(&self, host: IpAddr) -> bool {
        // A socket for both families shows hosts of the older one as hosts of the newer.
        match (self.address, host.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(host)) => {
                (own.to_bits() ^ host.to_bits()).leading_zeros() >= self.bits.into()
            }
            (IpAddr::V6(own), IpAddr::V6(host)) => {
                (own.to_bits() ^ host.to_bits()).leading_zeros() >= self.bits.into()
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let parse = || {
            let (address, bits) = text.split_once('/').map_or((text, None), |(a, bits)| (a, Some(bits)));
            let address: IpAddr = address.parse().ok()?;
            let all = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(all), |bits| bits.parse().ok())?;
            (bits <= all).then_some(Self { address, bits })
        };
        parse().ok_or_else(|| NoNetwork(text.to_owned()))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_the_hosts_that_begin_like_them() {
        let has =
            |network: &str, host: &str| network.parse::<Network>().unwrap().contains(host.parse().unwrap());
        assert!(has("10.0.0.0/8", "10.200.3.4") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("10.0.0.5", "10.0.0.5") && !has("10.0.0.5", "10.0.0.4"));
        assert!(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "::1"));
        assert!(has("fd00::/16", "fd00:1::2") && !has("fd00::/16", "fd01::2"));
        assert!(has("10.0.0.0/8", "::ffff:10.1.1.1"));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "host", "10.0.0.0/", "::/129"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mount_is_of_the_export_or_in_it() {
        let export = Export::default();
        for (path, inner) in [
            ("/export", Some("")),
            ("/export/", Some("/")),
            ("/export/a/b", Some("/a/b")),
            ("/", Some("")),
            ("//export", Some("")),
            ("//export///a", Some("///a")),
            ("/expor", None),
            ("/export2/a", None),
            ("/exports", None),
            ("/other", None),
        ] {
            assert_eq!(export.within(path.as_bytes()), inner.map(str::as_bytes), "{path}");
        }
        let deep = Export { path: "/srv//data/".into(), ..Export::default() };
        assert_eq!(deep.within(b"/srv/data"), Some(&b""[..]));
        assert_eq!(deep.within(b"//srv///data/x"), Some(&b"/x"[..]));
        assert_eq!(deep.within(b"/srv"), None);
        let root = Export { path: "/".into(), ..Export::default() };
        assert_eq!(root.within(b"/a"), Some(&b"/a"[..]));
    }

    #[test]
    fn who_is_not_believed_is_nobody() {
        let user = |uid, groups: &[u32]| {
            let groups = groups.to_vec();
            Credential::Sys(AuthSys { uid, gid: uid, groups, ..AuthSys::default() })
        };
        let caller = |squash, credential| Export { squash, ..Export::default() }.caller(credential);
        let root = Caller { uid: 0, gid: 0, groups: vec![0, 5] };
        assert_eq!(caller(Squash::None, user(0, &[0, 5])), Ok(root));
        let squashed = Caller { uid: NOBODY, gid: NOBODY, groups: vec![NOBODY, 5] };
        assert_eq!(caller(Squash::Root, user(0, &[0, 5])), Ok(squashed));
        assert_eq!(caller(Squash::All, user(7, &[])), Ok(Caller::nobody()));
        // An id that stands for "leave it as it is" is nobody's.
        let none = Caller { uid: NOBODY, gid: NOBODY, groups: vec![NOBODY, 5] };
        for squash in [Squash::None, Squash::Root] {
            assert_eq!(caller(squash, user(NO_ID, &[NO_ID, 5])), Ok(none.clone()));
        }
        assert_eq!(Export::default().squash, Squash::Root);
        assert_eq!(caller(Squash::None, Credential::None), Ok(Caller::nobody()));
        assert_eq!(caller(Squash::None, Credential::Other(6)), Err(Denied::TOO_WEAK));
    }
}
