//! Who the client is: its name and its key, and where they are kept.
//!
//! Source: ceph `src/common/options/global.yaml.in` (`keyring`, `keyfile`, `key`, `auth_client_required`,
//! `ms_client_mode`, `ms_mon_client_mode`), `src/auth/KeyRing.cc` (`KeyRing::from_ceph_context`); linux
//! `net/ceph/ceph_common.c` (`ms_mode`).

use super::config::Settings;
use super::error::Error;
use onego_msgr::auth::{AuthName, Credentials, Key, Keyring, method, mode};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use zeroize::Zeroizing;

/// Where Ceph's programs look for a keyring if nobody says where it is, in this order.
const PLACES: [&str; 4] = [
    "/etc/ceph/$cluster.$name.keyring",
    "/etc/ceph/$cluster.keyring",
    "/etc/ceph/keyring",
    "/etc/ceph/keyring.bin",
];

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

    fn modes(self) -> Vec<u32> {
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

/// Finds out who the client is.
pub(crate) fn find(identity: &Identity, settings: &Settings) -> Result<Credentials, Error> {
    let setting = |name: &str| settings.get(name);
    let name = identity.name();
    let key = find_key(identity, &name, settings)?;
    let mut credentials = Credentials::new(name, key);
    if let Some(text) = setting("auth_client_required").or_else(|| setting("auth_supported")) {
        credentials.methods = list("auth_client_required", &text, |word| match word {
            "cephx" => Some(method::CEPHX),
            "none" => Some(method::NONE),
            _ => None,
        })?;
    }
    let modes = |name: &str| {
        let word = |word: &str| match word {
            "crc" => Some(mode::CRC),
            "secure" => Some(mode::SECURE),
            _ => None,
        };
        setting(name).map(|text| list(name, &text, word)).transpose()
    };
    if let Some(modes) = modes("ms_mon_client_mode")? {
        credentials.monitor_modes = modes;
    }
    if let Some(modes) = modes("ms_client_mode")? {
        credentials.modes = modes;
    }
    if let Some(mode) = identity.ms_mode {
        (credentials.monitor_modes, credentials.modes) = (mode.modes(), mode.modes());
    }
    let only_secure = |modes: &[u32]| !modes.contains(&mode::CRC);
    if credentials.key.is_none()
        && (only_secure(&credentials.modes) || only_secure(&credentials.monitor_modes))
    {
        return Err(Error::Config {
            place: "ms_mode = secure".into(),
            reason: format!(
                "to encrypt takes a key, and there is none of {}: name a keyring",
                credentials.name
            ),
        });
    }
    Ok(credentials)
}

/// Reads a list of words.
fn list(name: &str, text: &str, meaning: impl Fn(&str) -> Option<u32>) -> Result<Vec<u32>, Error> {
    let words = text.split([',', ' ', ';', '\t']).filter(|word| !word.is_empty());
    let numbers: Option<Vec<u32>> = words.map(meaning).collect();
    numbers.filter(|numbers| !numbers.is_empty()).ok_or_else(|| Error::Config {
        place: format!("{name} = {text}"),
        reason: "it has a word in it that means nothing here".into(),
    })
}

fn find_key(identity: &Identity, name: &AuthName, settings: &Settings) -> Result<Option<Key>, Error> {
    let setting = |name: &str| settings.get(name);
    if let Some(path) = &identity.keyfile {
        return read_keyfile(path).map(Some);
    }
    if let Some(path) = &identity.keyring {
        return match from_keyring(path, name)? {
            Some(key) => Ok(Some(key)),
            None => Err(wrong(path, &format!("there is no {name} in it"))),
        };
    }
    if let Some(text) = setting("key").map(Zeroizing::new) {
        let damaged = |_| Error::Config { place: "key".into(), reason: "it is damaged".into() };
        return Key::from_base64(&text).map_err(damaged).map(Some);
    }
    if let Some(path) = setting("keyfile") {
        return read_keyfile(Path::new(&path)).map(Some);
    }
    let listed = setting("keyring");
    let places: Vec<String> = match &listed {
        Some(listed) => listed.split([',', ';']).map(|place| place.trim().to_owned()).collect(),
        None => PLACES.map(|place| settings.expand(place)).to_vec(),
    };
    for place in places {
        let path = PathBuf::from(place);
        // One that may not be read is as good as none: most users have no key of the cluster's.
        if fs::File::open(&path).is_ok()
            && let Some(key) = from_keyring(&path, name)?
        {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn wrong(path: &Path, reason: &str) -> Error {
    Error::Config { place: path.display().to_string(), reason: reason.to_owned() }
}

fn read(path: &Path) -> Result<Zeroizing<String>, Error> {
    fs::read_to_string(path).map(Zeroizing::new).map_err(|error| wrong(path, &error.to_string()))
}

fn read_keyfile(path: &Path) -> Result<Key, Error> {
    let damaged = |_| wrong(path, "it has no key in it: it should have what `ceph auth get-key` prints");
    Key::from_base64(&read(path)?).map_err(damaged)
}

fn from_keyring(path: &Path, name: &AuthName) -> Result<Option<Key>, Error> {
    let keyring = Keyring::parse(&read(path)?).map_err(|error| wrong(path, &error.to_string()))?;
    Ok(keyring.entries.get(name).map(|entry| entry.key.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AQCgVgJrs8D4DxAAAwVHrSAYoubf0Y/TyXuxEw==";

    /// What is found with these settings.
    fn found(identity: &Identity, settings: &[(&str, &str)]) -> Result<Credentials, Error> {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let said = Identity { settings: settings.collect(), ..identity.clone() };
        find(&said, &Settings::new(None, &said))
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[client.admin]\n\tkey = {KEY}\n");
        fs::write(folder.path().join("ceph.client.admin.keyring"), text).unwrap();
        fs::write(folder.path().join("key"), format!("{KEY}\n")).unwrap();
        folder
    }

    #[test]
    fn the_key_is_found_wherever_it_is_named() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        let key = Key::from_base64(KEY).unwrap();
        let keyring = path("$cluster.$name.keyring").display().to_string();
        let keyfile = path("key").display().to_string();
        for (name, value) in [("key", KEY), ("keyring", &keyring), ("keyfile", &keyfile)] {
            let found = found(&Identity::default(), &[(name, value)]).unwrap();
            assert_eq!(found.key, Some(key.clone()), "{name}");
        }
        let identity = Identity { keyfile: Some(path("key")), ..Identity::default() };
        assert_eq!(found(&identity, &[]).unwrap().key, Some(key));
    }

    #[test]
    fn a_keyring_that_is_named_and_lacks_the_name_is_an_error_that_shows_no_key() {
        let keyring = Some(folder().keep().join("ceph.client.admin.keyring"));
        let name = Some(AuthName::client("backup"));
        let error = found(&Identity { name, keyring, ..Identity::default() }, &[]).unwrap_err();
        assert!(error.to_string().contains("there is no client.backup in it"), "{error}");
        assert!(!error.to_string().contains("AQCg"), "{error}");
    }

    #[test]
    fn modes_and_methods_are_read_and_the_callers_word_counts() {
        let settings = [("ms_client_mode", "secure crc"), ("auth_client_required", "cephx")];
        let credentials = found(&Identity::default(), &settings).unwrap();
        assert_eq!((credentials.modes, credentials.monitor_modes), (vec![2, 1], vec![2, 1]));
        assert_eq!(credentials.methods, [2]);
        let identity = Identity { ms_mode: Some("crc".parse().unwrap()), ..Identity::default() };
        let credentials = found(&identity, &settings).unwrap();
        assert_eq!((credentials.modes, credentials.monitor_modes), (vec![1], vec![1]));
        let error = found(&Identity::default(), &[("ms_client_mode", "fast")]).unwrap_err();
        assert!(error.to_string().contains("ms_client_mode = fast"));
    }

    #[test]
    fn who_has_a_key_agrees_to_none_only_if_that_is_asked_for() {
        let methods = |settings: &[(&str, &str)]| found(&Identity::default(), settings).unwrap().methods;
        assert_eq!(methods(&[("keyring", "/nowhere")]), [method::CEPHX, method::NONE], "there is no key");
        assert_eq!(methods(&[("key", KEY)]), [method::CEPHX]);
        assert_eq!(methods(&[("key", KEY), ("auth_client_required", "none")]), [method::NONE]);
        assert_eq!(
            methods(&[("key", KEY), ("auth_client_required", "cephx, none")]),
            [method::CEPHX, method::NONE]
        );
    }

    #[test]
    fn encryption_without_a_key_is_refused_before_anything_is_tried() {
        let identity = Identity { ms_mode: Some(MsMode::Secure), ..Identity::default() };
        let error = found(&identity, &[("keyring", "/nowhere")]).unwrap_err().to_string();
        assert!(error.contains("client.admin") && error.contains("keyring"), "{error}");
        assert!(found(&identity, &[("key", KEY)]).is_ok());
    }

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
