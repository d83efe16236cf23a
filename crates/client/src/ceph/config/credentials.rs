//! The client's name and key, and their locations.
//!
//! Source: ceph `src/common/options/global.yaml.in` (`keyring`, `keyfile`, `key`, `auth_client_required`,
//! `ms_client_mode`, `ms_mon_client_mode`), `src/auth/KeyRing.cc` (`KeyRing::from_ceph_context`); linux
//! `net/ceph/ceph_common.c` (`ms_mode`).

use super::identity::Identity;
use super::settings::Settings;
use crate::ceph::error::Error;
use onego_msgr::auth::{AuthName, Credentials, Key, Keyring, method, mode};
use std::fs;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Default locations of a keyring, in the order in which Ceph's programs try them.
const PLACES: [&str; 4] = [
    "/etc/ceph/$cluster.$name.keyring",
    "/etc/ceph/$cluster.keyring",
    "/etc/ceph/keyring",
    "/etc/ceph/keyring.bin",
];

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
            reason: format!("encryption requires a key, but {} has none: name a keyring", credentials.name),
        });
    }
    Ok(credentials)
}

fn list(name: &str, text: &str, meaning: impl Fn(&str) -> Option<u32>) -> Result<Vec<u32>, Error> {
    let words = text.split([',', ' ', ';', '\t']).filter(|word| !word.is_empty());
    let numbers: Option<Vec<u32>> = words.map(meaning).collect();
    numbers.filter(|numbers| !numbers.is_empty()).ok_or_else(|| Error::Config {
        place: format!("{name} = {text}"),
        reason: "it contains an unknown word".into(),
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
            None => Err(wrong(path, &format!("it has no entry for {name}"))),
        };
    }
    if let Some(text) = setting("key").map(Zeroizing::new) {
        let damaged = |_| Error::Config { place: "key".into(), reason: "it is not a valid key".into() };
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
        // An unreadable keyring counts as none: most users have no key for the cluster.
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
    let damaged = |_| wrong(path, "it contains no key: expected the output of `ceph auth get-key`");
    Key::from_base64(&read(path)?).map_err(damaged)
}

fn from_keyring(path: &Path, name: &AuthName) -> Result<Option<Key>, Error> {
    let keyring = Keyring::parse(&read(path)?).map_err(|error| wrong(path, &error.to_string()))?;
    Ok(keyring.entries.get(name).map(|entry| entry.key.clone()))
}

#[cfg(test)]
mod tests {
    use super::super::identity::MsMode;
    use super::*;

    const KEY: &str = "AQCgVgJrs8D4DxAAAwVHrSAYoubf0Y/TyXuxEw==";

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
    fn the_key_is_found_in_every_location() {
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
    fn a_named_keyring_without_the_name_is_an_error_that_shows_no_key() {
        let keyring = Some(folder().keep().join("ceph.client.admin.keyring"));
        let name = Some(AuthName::client("backup"));
        let error = found(&Identity { name, keyring, ..Identity::default() }, &[]).unwrap_err();
        assert!(error.to_string().contains("it has no entry for client.backup"), "{error}");
        assert!(!error.to_string().contains("AQCg"), "{error}");
    }

    #[test]
    fn modes_and_methods_are_read_and_the_caller_takes_precedence() {
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
    fn a_client_with_a_key_accepts_none_only_if_configured() {
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
    fn encryption_without_a_key_is_refused_before_connecting() {
        let identity = Identity { ms_mode: Some(MsMode::Secure), ..Identity::default() };
        let error = found(&identity, &[("keyring", "/nowhere")]).unwrap_err().to_string();
        assert!(error.contains("client.admin") && error.contains("keyring"), "{error}");
        assert!(found(&identity, &[("key", KEY)]).is_ok());
    }
}
