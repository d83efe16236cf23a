//! Keyrings: the keys of users and their capabilities, as text.
//!
//! Source: ceph `src/auth/KeyRing.cc`; man page ceph-authtool(8).

use super::crypto::Key;
use super::name::AuthName;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;
use zeroize::Zeroizing;

/// Somebody in a keyring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// What is allowed, by service ("mon", "osd", "mgr", "mds").
    pub caps: BTreeMap<String, String>,
}

/// A keyring.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keyring {
    /// All in it, by name.
    pub entries: BTreeMap<AuthName, Entry>,
}

/// Why a text is no keyring. No part of the text is shown, because it may be a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyringError {
    /// A line that has no meaning.
    #[error("line {line}: it is no `[NAME]`, no `key = KEY` and no `caps SERVICE = \"...\"`")]
    Line {
        /// Number of the line, from 1.
        line: usize,
    },
    /// A name that is none.
    #[error("line {line}: a section has to be a name like [client.admin]")]
    Name {
        /// Number of the line.
        line: usize,
    },
    /// A key that is none.
    #[error("line {line}: the key is damaged: it has to be what `ceph auth get-key` prints")]
    Key {
        /// Number of the line.
        line: usize,
    },
    /// A section without a key.
    #[error("{name} has no key")]
    Keyless {
        /// Whose section it is.
        name: AuthName,
    },
}

impl Keyring {
    /// Reads a keyring.
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
                // What keyrings of long ago have, and nobody needs.
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

    /// The keyring as text, with all its secrets.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::new());
        for (name, entry) in &self.entries {
            entry.write(name, &mut *text).expect("a string takes everything");
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

/// A value without the quotes and spaces around it.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(value).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ceph-authtool of 16.2.15 wrote.
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
    fn keyrings_are_read_and_written_as_ceph_authtool_does() {
        let keyring = Keyring::parse(TEXT).unwrap();
        let admin = &keyring.entries[&AuthName::client("admin")];
        assert_eq!(admin.caps["osd"], "allow rw pool=a, allow r");
        assert_eq!(Keyring::parse(&keyring.to_text()), Ok(keyring.clone()));
        // In the order of the kinds: a monitor comes before a client.
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
    fn comments_and_other_spellings_are_understood() {
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
