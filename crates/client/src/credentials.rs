//! Who the client is: its name and its key, and where they are kept.
//!
//! Source: ceph `src/common/options/global.yaml.in` (`keyring`, `keyfile`, `key`, `auth_client_required`,
//! `ms_client_mode`, `ms_mon_client_mode`), `src/auth/KeyRing.cc` (`KeyRing::from_ceph_context`); linux
//! `net/ceph/ceph_common.c` (`ms_mode`).

use crate::Error;
use onego_ceph::auth::{AuthName, Credentials, Key, Keyring, method, mode};
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
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// Its name; `client.admin` if nobody says another.
    pub name: Option<AuthName>,
    /// A file with a keyring.
    pub keyring: Option<PathBuf>,
    /// A file with nothing but a key.
    pub keyfile: Option<PathBuf>,
    /// How connections are protected.
    pub ms_mode: Option<MsMode>,
}

impl Identity {
    /// The name.
    pub(crate) fn name(&self) -> AuthName {
        self.name.clone().unwrap_or_else(|| AuthName::client("admin"))
    }
}

/// Finds out who the client is. `setting` says what the configuration has by a name.
pub(crate) fn find(
    identity: &Identity,
    setting: impl Fn(&str) -> Option<String>,
) -> Result<Credentials, Error> {
    let name = identity.name();
    let key = find_key(identity, &name, &setting)?;
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

fn find_key(
    identity: &Identity,
    name: &AuthName,
    setting: &impl Fn(&str) -> Option<String>,
) -> Result<Option<Key>, Error> {
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
        None => PLACES.map(str::to_owned).to_vec(),
    };
    for place in places {
        let path = PathBuf::from(expanded(&place, name));
        // One that may not be read is as good as none: most users have no key of the cluster's.
        if fs::File::open(&path).is_ok()
            && let Some(key) = from_keyring(&path, name)?
        {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// A path with its variables replaced.
fn expanded(path: &str, name: &AuthName) -> String {
    let full = name.to_string();
    let kind = full.split('.').next().unwrap_or_default();
    path.replace("$cluster", "ceph").replace("$name", &full).replace("$type", kind).replace("$id", &name.id)
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
            let setting = |wanted: &str| (wanted == name).then(|| value.to_owned());
            let found = find(&Identity::default(), setting).unwrap();
            assert_eq!(found.key, Some(key.clone()), "{name}");
        }
        let identity = Identity { keyfile: Some(path("key")), ..Identity::default() };
        assert_eq!(find(&identity, |_| None).unwrap().key, Some(key));
    }

    #[test]
    fn a_keyring_that_is_named_and_lacks_the_name_is_an_error_that_shows_no_key() {
        let keyring = Some(folder().keep().join("ceph.client.admin.keyring"));
        let name = Some(AuthName::client("backup"));
        let error = find(&Identity { name, keyring, ..Identity::default() }, |_| None).unwrap_err();
        assert!(error.to_string().contains("there is no client.backup in it"), "{error}");
        assert!(!error.to_string().contains("AQCg"), "{error}");
    }

    #[test]
    fn modes_and_methods_are_read_and_the_callers_word_counts() {
        let setting = |wanted: &str| match wanted {
            "ms_client_mode" => Some("secure crc".to_owned()),
            "auth_client_required" => Some("cephx".to_owned()),
            _ => None,
        };
        let found = find(&Identity::default(), setting).unwrap();
        assert_eq!((found.modes, found.monitor_modes), (vec![2, 1], vec![2, 1]));
        assert_eq!(found.methods, [2]);
        let identity = Identity { ms_mode: Some("crc".parse().unwrap()), ..Identity::default() };
        let found = find(&identity, setting).unwrap();
        assert_eq!((found.modes, found.monitor_modes), (vec![1], vec![1]));
        let error = find(&Identity::default(), |name| (name == "ms_client_mode").then(|| "fast".into()));
        assert!(error.unwrap_err().to_string().contains("ms_client_mode = fast"));
    }
}
