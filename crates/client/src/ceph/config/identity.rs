use onego_msgr::auth::{AuthName, mode};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// Protection of connections, with the names of the kernel client (`ms_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MsMode {
    /// Checksums only.
    Crc,
    /// Encryption only.
    Secure,
    /// Checksums, or encryption if the cluster requires it.
    PreferCrc,
    /// Encryption, or checksums if the cluster requires them.
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
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            format!("{text:?} must be one of {}", Self::NAMES.map(|(name, _)| name).join(", "))
        })
    }
}

/// Client settings from the caller, which override the configuration.
///
/// ```
/// use onego::ceph::{AuthName, Identity};
/// let backup = Identity::default().with_name(AuthName::client("backup")).with_keyring("/etc/ceph/backup.keyring");
/// # drop(backup);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Name of the client; defaults to `client.admin`.
    pub name: Option<AuthName>,
    /// Name of the cluster on this machine; defaults to the name of its `ceph.conf`, or "ceph".
    pub cluster: Option<String>,
    /// Path of a keyring.
    pub keyring: Option<PathBuf>,
    /// Path of a file that contains only a key.
    pub keyfile: Option<PathBuf>,
    /// Protection of connections.
    pub ms_mode: Option<MsMode>,
    /// Overrides of the configuration's settings, by name with underscores.
    pub settings: BTreeMap<String, String>,
}

impl Identity {
    /// Sets the client's name.
    pub fn with_name(self, name: AuthName) -> Self {
        Self { name: Some(name), ..self }
    }

    /// Sets the cluster's name on this machine.
    pub fn with_cluster(self, cluster: &str) -> Self {
        Self { cluster: Some(cluster.to_owned()), ..self }
    }

    /// Takes the key from this keyring.
    pub fn with_keyring(self, path: impl Into<PathBuf>) -> Self {
        Self { keyring: Some(path.into()), ..self }
    }

    /// Takes the key from this file, which contains nothing else.
    pub fn with_keyfile(self, path: impl Into<PathBuf>) -> Self {
        Self { keyfile: Some(path.into()), ..self }
    }

    /// Sets the protection of connections.
    pub fn with_ms_mode(self, mode: MsMode) -> Self {
        Self { ms_mode: Some(mode), ..self }
    }

    /// Overrides a setting of the configuration, by name with underscores.
    pub fn with_setting(mut self, name: &str, value: &str) -> Self {
        self.settings.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Fills unset fields from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let settings = other.settings.into_iter().chain(self.settings);
        // The location of the key is taken from one of the two as a whole.
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

    pub(crate) fn name(&self) -> AuthName {
        self.name.clone().unwrap_or_else(|| AuthName::client("admin"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_identity_takes_precedence() {
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
