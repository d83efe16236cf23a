//! What a caller says of the client over what the configuration says.

use onego_msgr::auth::{AuthName, mode};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// How connections are protected, by the names that the kernel's client has for it (`ms_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MsMode {
    /// Checksums.
    Crc,
    /// Encryption.
    Secure,
    /// Checksums, or encryption if the cluster insists.
    PreferCrc,
    /// Encryption, or checksums if the cluster insists.
    PreferSecure,
}

impl MsMode {
    const NAMES: [(&str, Self); 4] = [
        ("crc", Self::Crc),
        ("secure", Self::Secure),
        ("prefer-crc", Self::PreferCrc),
        ("prefer-secure", Self::PreferSecure),
    ];

    pub(super) fn modes(self) -> Vec<u32> {
        match self {
            Self::Crc => vec![mode::CRC],
            Self::Secure => vec![mode::SECURE],
            Self::PreferCrc => vec![mode::CRC, mode::SECURE],
            Self::PreferSecure => vec![mode::SECURE, mode::CRC],
        }
    }
}

impl FromStr for MsMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, mode)| *mode)
            .ok_or_else(|| format!("{text:?} is none of {}", Self::NAMES.map(|(name, _)| name).join(", ")))
    }
}

/// What a caller says of the client over what the configuration says.
///
/// ```
/// use onego::ceph::{AuthName, Identity};
/// let backup = Identity::default().with_name(AuthName::client("backup")).with_keyring("/etc/ceph/backup.keyring");
/// # drop(backup);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Its name; `client.admin` if nobody says another.
    pub name: Option<AuthName>,
    /// What the cluster is called on this machine: "ceph", or as its `ceph.conf` is called.
    pub cluster: Option<String>,
    /// A file with a keyring.
    pub keyring: Option<PathBuf>,
    /// A file with nothing but a key.
    pub keyfile: Option<PathBuf>,
    /// How connections are protected.
    pub ms_mode: Option<MsMode>,
    /// Settings that count more than those of the configuration, by name with underscores.
    pub settings: BTreeMap<String, String>,
}

impl Identity {
    /// The same, with this name.
    pub fn with_name(self, name: AuthName) -> Self {
        Self { name: Some(name), ..self }
    }

    /// The same, of a cluster that is called so on this machine.
    pub fn with_cluster(self, cluster: &str) -> Self {
        Self { cluster: Some(cluster.to_owned()), ..self }
    }

    /// The same, with the key in this keyring.
    pub fn with_keyring(self, path: impl Into<PathBuf>) -> Self {
        Self { keyring: Some(path.into()), ..self }
    }

    /// The same, with the key in this file, which holds nothing else.
    pub fn with_keyfile(self, path: impl Into<PathBuf>) -> Self {
        Self { keyfile: Some(path.into()), ..self }
    }

    /// The same, with connections protected so.
    pub fn with_ms_mode(self, mode: MsMode) -> Self {
        Self { ms_mode: Some(mode), ..self }
    }

    /// The same, with a setting that counts more than the configuration's; its name has underscores.
    pub fn with_setting(mut self, name: &str, value: &str) -> Self {
        self.settings.insert(name.to_owned(), value.to_owned());
        self
    }

    /// This, and where it says nothing what `other` says.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let settings = other.settings.into_iter().chain(self.settings);
        // The one of them that says where the key is says it alone.
        let key = self.keyring.is_some() || self.keyfile.is_some();
        let (keyring, keyfile) =
            if key { (self.keyring, self.keyfile) } else { (other.keyring, other.keyfile) };
        Self {
            name: self.name.or(other.name),
            cluster: self.cluster.or(other.cluster),
            keyring,
            keyfile,
            ms_mode: self.ms_mode.or(other.ms_mode),
            settings: settings.collect(),
        }
    }

    /// The name.
    pub(crate) fn name(&self) -> AuthName {
        self.name.clone().unwrap_or_else(|| AuthName::client("admin"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_first_counts() {
        let first = Identity { keyring: Some("mine".into()), ..Identity::default() };
        let settings = [("a".to_owned(), "1".to_owned())].into();
        let second = Identity {
            name: Some(AuthName::client("b")),
            keyfile: Some("other".into()),
            settings,
            ..Identity::default()
        };
        let both = first.or(second.clone());
        assert_eq!((both.keyring, both.keyfile), (Some("mine".into()), None));
        assert_eq!((both.name, both.settings), (second.name, second.settings));
    }
}
