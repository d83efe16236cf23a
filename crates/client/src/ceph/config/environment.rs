//! Client settings outside of `ceph.conf`: the variable `CEPH_ARGS`.
//!
//! Source: ceph `src/common/ceph_argparse.cc` (`env_to_vec`, `ceph_argparse_early_args`), `src/common/config.cc`
//! (`parse_argv`).

use super::conf_file::normal;
use super::identity::Identity;
use crate::ceph::error::Error;
use onego_msgr::auth::AuthName;
use std::path::PathBuf;

/// Contents of `CEPH_ARGS`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CephArgs {
    /// The configuration file (`-c`).
    pub conf: Option<PathBuf>,
    /// All other options.
    pub identity: Identity,
}

impl CephArgs {
    /// Reads `CEPH_ARGS` from the environment.
    pub fn from_environment() -> Result<Self, Error> {
        Self::parse(&std::env::var("CEPH_ARGS").unwrap_or_default())
    }

    /// Parses the words of `CEPH_ARGS`. Any setting may be among them, as `--name value` or `--name=value`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        // Errors omit the text, which may contain a key.
        let wrong = |reason: String| Error::Config { place: "CEPH_ARGS".to_owned(), reason };
        let mut args = Self::default();
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let (option, mut value) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (word, None),
            };
            let Some(name) = option.strip_prefix('-') else {
                return Err(wrong(format!("{word:?} is not an option")));
            };
            if value.is_none() {
                value = words.next_if(|next| !next.starts_with('-'));
            }
            args.take(&normal(name), value).map_err(wrong)?;
        }
        Ok(args)
    }

    fn take(&mut self, option: &str, value: Option<&str>) -> Result<(), String> {
        let needed = || value.map(str::to_owned).ok_or_else(|| format!("{option} needs a value"));
        match option {
            "c" | "conf" => self.conf = Some(needed()?.into()),
            "cluster" => self.identity.cluster = Some(needed()?),
            "i" | "id" | "user" => self.identity.name = Some(AuthName::client(&needed()?)),
            "n" | "name" => self.identity.name = Some(needed()?.parse()?),
            "k" | "keyring" => self.set("keyring", needed()?),
            "K" | "keyfile" => self.set("keyfile", needed()?),
            "m" | "mon_host" => self.set("mon_host", needed()?),
            // An option without a value.
            other => self.set(other, value.unwrap_or("true").to_owned()),
        }
        Ok(())
    }

    /// Adds a setting; its metavariables (`$name`) are expanded when it is read.
    fn set(&mut self, name: &str, value: String) {
        self.identity.settings.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::credentials;
    use super::super::settings::Settings;
    use super::*;

    #[test]
    fn words_are_read_as_ceph_reads_them() {
        let text = "--id a -c /etc/x.conf --cluster=x -k ring --ms-client-mode secure --no-thing -m 10.0.0.1";
        let CephArgs { conf, identity } = CephArgs::parse(text).unwrap();
        assert_eq!(conf, Some("/etc/x.conf".into()));
        assert_eq!(identity.name, Some(AuthName::client("a")));
        assert_eq!(identity.cluster.as_deref(), Some("x"));
        let settings: Vec<_> = identity.settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let expected = [
            ("keyring", "ring"),
            ("mon_host", "10.0.0.1"),
            ("ms_client_mode", "secure"),
            ("no_thing", "true"),
        ];
        assert_eq!(settings, expected);
        assert_eq!(CephArgs::parse("").unwrap(), CephArgs::default());
    }

    #[test]
    fn a_keyring_in_the_arguments_may_set_the_user_and_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let ring = "[client.b]\n\tkey = AQCgVgJrs8D4DxAAAwVHrSAYoubf0Y/TyXuxEw==\n";
        std::fs::write(folder.path().join("ceph.client.b.keyring"), ring).unwrap();
        for (id, has_key) in [("b", true), ("c", false)] {
            let ring = folder.path().join("$cluster.$name.keyring");
            let args = CephArgs::parse(&format!("--keyring {} --id {id}", ring.display())).unwrap();
            let settings = Settings::new(None, &args.identity);
            let found = credentials::find(&args.identity, &settings).unwrap();
            assert_eq!(found.key.is_some(), has_key, "{id}");
        }
    }

    #[test]
    fn errors_name_the_faulty_option() {
        for (text, said) in [("rbd", "rbd"), ("--id", "needs a value"), ("-n admin", "client.admin")] {
            let error = CephArgs::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
