//! Keyrings: users' keys and capabilities in text form.
//!
//! Source: ceph `src/auth/KeyRing.cc`; man page ceph-authtool(8).

use super::crypto::Key;
use super::name::AuthName;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;
use zeroize::Zeroizing;

/// User in a keyring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Key.
    pub key: Key,
    /// Capabilities by service ("mon", "osd", "mgr", "mds").
    pub caps: BTreeMap<String, String>,
}

/// Keyring.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keyring {
    /// Users by name.
    pub entries: BTreeMap<AuthName, Entry>,
}

/// Invalid keyring text. Errors show no part of the text, because it may be a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyringError {
    /// Unrecognized line.
    #[error("line {line}: expected `[NAME]`, `key = KEY` or `caps SERVICE = \"...\"`")]
    Line {
        /// Line number, from 1.
        line: usize,
    },
    /// Invalid name.
    #[error("line {line}: a section must be a name like [client.admin]")]
    Name {
        /// Line number.
        line: usize,
    },
    /// Invalid key.
    #[error("line {line}: invalid key: it must be the output of `ceph auth get-key`")]
    Key {
        /// Line number.
        line: usize,
    },
    /// Section without a key.
    #[error("{name} has no key")]
    Keyless {
        /// Name of the section.
        name: AuthName,
    },
}

impl Keyring {
    /// Parses a keyring.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        let mut keyring = Self::default();
        let mut section: Option<(AuthName, Option<Key>, BTreeMap<String, String>)> = None;
        for (at, line) in text.lines().enumerate() {
            let (number, line) = (at + 1, line.trim());
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                keyring.add(section.take())?;
                let name = name.trim().parse().map_err(|_| KeyringError::Name { line: number })?;
                section = Some((name, None, BTreeMap::new()));
                continue;
            }
            let (setting, value) = line.split_once('=').ok_or(KeyringError::Line { line: number })?;
            let Some((_, key, caps)) = &mut section else { return Err(KeyringError::Line { line: number }) };
            let setting = setting.trim().replace(['_', '\t'], " ");
            match setting.strip_prefix("caps ") {
                Some(service) => {
                    caps.insert(service.trim().to_owned(), unquoted(value).replace("\\\"", "\""));
                }
                None if setting == "key" => {
                    *key = Some(
                        Key::from_base64(unquoted(value)).map_err(|_| KeyringError::Key { line: number })?,
                    );
                }
                // An obsolete field of old keyrings.
                None if setting == "auid" => {}
                None => return Err(KeyringError::Line { line: number }),
            }
        }
        keyring.add(section)?;
        Ok(keyring)
    }

    fn add(
        &mut self,
        section: Option<(AuthName, Option<Key>, BTreeMap<String, String>)>,
    ) -> Result<(), KeyringError> {
        if let Some((name, key, caps)) = section {
            let key = key.ok_or_else(|| KeyringError::Keyless { name: name.clone() })?;
            self.entries.insert(name, Entry { key, caps });
        }
        Ok(())
    }

    /// Formats the keyring as text, including all secrets.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::new());
        for (name, entry) in &self.entries {
            entry.write(name, &mut *text).expect("writing to a string cannot fail");
        }
        text
    }
}

impl Entry {
    fn write(&self, name: &AuthName, to: &mut impl fmt::Write) -> fmt::Result {
        writeln!(to, "[{name}]")?;
        writeln!(to, "\tkey = {}", *self.key.to_base64())?;
        for (service, caps) in &self.caps {
            writeln!(to, "\tcaps {service} = \"{}\"", caps.replace('"', "\\\""))?;
        }
        Ok(())
    }
}

/// Returns a value without surrounding quotes and spaces.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(value).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of ceph-authtool 16.2.15.
    const TEXT: &str = "\
[mon.]
\tkey = AQCgVgJr2p7MCxAANXfi0GV65V0rvz7iV3WmFg==
\tcaps mon = \"allow *\"
[client.admin]
\tkey = AQCgVgJrs8D4DxAAAwVHrSAYoubf0Y/TyXuxEw==
\tcaps mgr = \"allow *\"
\tcaps osd = \"allow rw pool=a, allow r\"
";

    #[test]
    fn keyrings_match_those_of_ceph_authtool() {
        let keyring = Keyring::parse(TEXT).unwrap();
        let admin = &keyring.entries[&AuthName::client("admin")];
        assert_eq!(admin.caps["osd"], "allow rw pool=a, allow r");
        assert_eq!(Keyring::parse(&keyring.to_text()), Ok(keyring.clone()));
        // Ordered by kind: a monitor comes before a client.
        assert_eq!(*keyring.to_text(), TEXT);
    }

    #[test]
    fn quotes_in_capabilities_are_escaped() {
        let mut keyring = Keyring::parse(TEXT).unwrap();
        let admin = keyring.entries.get_mut(&AuthName::client("admin")).unwrap();
        admin.caps.insert("mon".into(), "allow command \"osd pool ls\"".into());
        assert!(keyring.to_text().contains(r#"caps mon = "allow command \"osd pool ls\"""#));
        assert_eq!(Keyring::parse(&keyring.to_text()), Ok(keyring));
    }

    #[test]
    fn comments_and_alternative_spellings_are_accepted() {
        let text =
            "# mine\n[client.a]\nkey=AQCgVgJr2p7MCxAANXfi0GV65V0rvz7iV3WmFg==\n; caps\n caps_mon = allow r\n";
        let keyring = Keyring::parse(text).unwrap();
        assert_eq!(keyring.entries[&AuthName::client("a")].caps["mon"], "allow r");
    }

    #[test]
    fn errors_name_the_line_and_show_no_key() {
        for (text, error) in [
            ("key = x", KeyringError::Line { line: 1 }),
            ("[client.a]\nwhat\n", KeyringError::Line { line: 2 }),
            ("[client.a]\nsecret = x\n", KeyringError::Line { line: 2 }),
            ("\n[admin]\n", KeyringError::Name { line: 2 }),
            ("[client.a]\nkey = c2VjcmV0\n", KeyringError::Key { line: 2 }),
            ("[client.a]\n[client.b]\n", KeyringError::Keyless { name: AuthName::client("a") }),
        ] {
            assert_eq!(Keyring::parse(text), Err(error.clone()));
            assert!(!error.to_string().contains("c2Vj"));
        }
    }
}
