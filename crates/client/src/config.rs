use crate::Error;
use crate::credentials::{self, Identity};
use onego_ceph::addr::{AddrVec, Versions};
use onego_ceph::auth::Credentials;
use onego_engine::EngineKind;
use onego_engine::zero_copy;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How to reach a cluster, and how to behave towards it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses of the monitors, one vector each.
    pub monitors: Vec<AddrVec>,
    /// Who the client is, and what it agrees to.
    pub credentials: Credentials,
    /// In which versions of the messenger's protocol to connect.
    pub versions: Versions,
    /// Make and check the checksums of payloads (`ms_crc_data`). In version 2 of the protocol the cluster must be told
    /// the same.
    pub data_crc: bool,
    /// How long to wait for a monitor before connecting fails (`client_mount_timeout`).
    pub connect_timeout: Duration,
    /// How long a request may take; `None`: for as long as it takes (`rados_osd_op_timeout`).
    pub request_timeout: Option<Duration>,
    /// What moves the bytes.
    pub engine: EngineKind,
    /// Which sends are made without a copy.
    pub zero_copy: zero_copy::Settings,
}

/// Where Ceph's programs look for the cluster's configuration, in this order.
const PLACES: [&str; 2] = ["/etc/ceph/ceph.conf", "ceph.conf"];

impl Config {
    /// A configuration with the monitors of `mon_host`, written as in `ceph.conf`: addresses divided by commas or
    /// spaces, each as `[v2:IP:PORT,v1:IP:PORT]`, `v2:IP:PORT`, `IP:PORT` or `IP`.
    ///
    /// The client is `client.admin`, with a key from the usual places if there is one.
    pub fn from_mon_host(mon_host: &str) -> Result<Self, Error> {
        Self::from_mon_host_as(mon_host, &Identity::default())
    }

    /// The same for a client that is somebody else.
    pub fn from_mon_host_as(mon_host: &str, identity: &Identity) -> Result<Self, Error> {
        Self::new(mon_host, credentials::find(identity, |_| None)?)
    }

    fn new(mon_host: &str, credentials: Credentials) -> Result<Self, Error> {
        let monitors = AddrVec::parse_mon_host(mon_host).map_err(|error| Error::Config {
            place: format!("mon_host = {mon_host}"),
            reason: error.to_string(),
        })?;
        Ok(Self {
            monitors,
            credentials,
            versions: Versions::default(),
            data_crc: true,
            connect_timeout: Duration::from_secs(30),
            request_timeout: None,
            engine: EngineKind::default(),
            zero_copy: zero_copy::Settings::default(),
        })
    }

    /// The configuration in a `ceph.conf`. Settings are read from its sections `client.admin`, `client` and `global`:
    /// `mon_host`, and what says who the client is (`keyring`, `keyfile`, `key`, `auth_client_required`,
    /// `ms_client_mode`, `ms_mon_client_mode`).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_file_as(path, &Identity::default())
    }

    /// The same for a client that is somebody else.
    pub fn from_file_as(path: impl AsRef<Path>, identity: &Identity) -> Result<Self, Error> {
        let path = path.as_ref();
        let fail = |reason: String| Error::Config { place: path.display().to_string(), reason };
        let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
        let settings = Settings::parse(&text, &identity.name().to_string()).map_err(fail)?;
        let mon_host = settings
            .get("mon_host")
            .ok_or_else(|| fail("it sets no mon_host in [global]: say where the monitors are".into()))?;
        Self::new(&mon_host, credentials::find(identity, |name| settings.get(name))?)
    }

    /// The configuration that Ceph's own programs would take: `$CEPH_CONF`, or the usual places.
    pub fn from_environment() -> Result<Self, Error> {
        Self::from_environment_as(&Identity::default())
    }

    /// The same for a client that is somebody else.
    pub fn from_environment_as(identity: &Identity) -> Result<Self, Error> {
        match std::env::var_os("CEPH_CONF") {
            Some(path) => Self::from_file_as(PathBuf::from(path), identity),
            None => match PLACES.iter().find(|place| Path::new(place).exists()) {
                Some(place) => Self::from_file_as(place, identity),
                None => Err(Error::Config {
                    place: PLACES.join(" or "),
                    reason: "not there: name a configuration, or set CEPH_CONF".into(),
                }),
            },
        }
    }
}

/// The settings of a client.
struct Settings {
    /// The sections that are about it, the one that counts most first.
    sections: Vec<HashMap<String, Option<String>>>,
}

impl Settings {
    fn parse(text: &str, name: &str) -> Result<Self, String> {
        let mut ini = configparser::ini::Ini::new();
        ini.set_comment_symbols(&['#', ';']);
        let mut all = ini.read(text.to_owned())?;
        let mine = [name.to_lowercase(), "client".to_owned(), "global".to_owned()];
        Ok(Self { sections: mine.iter().filter_map(|section| all.remove(section)).collect() })
    }

    /// The value of a setting. A name's words may be divided by spaces, dashes or underscores.
    fn get(&self, wanted: &str) -> Option<String> {
        let same = |name: &str| name.replace([' ', '-'], "_") == wanted;
        self.sections.iter().find_map(|settings| {
            settings.iter().find(|(name, _)| same(name)).and_then(|(_, value)| value.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_however_their_names_are_written() {
        let text =
            "[global]\n\tfsid = 1\n\tmon host = [v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]\n# a comment\n";
        let mon_host = |text: &str| Settings::parse(text, "client.a").unwrap().get("mon_host");
        assert_eq!(mon_host(text).unwrap(), "[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]");
        assert_eq!(mon_host("[osd]\nmon_host = 1.2.3.4\n"), None);
        let client_first = "[global]\nmon_host=1.1.1.1\n[client]\nmon-host=2.2.2.2\n";
        assert_eq!(mon_host(client_first).unwrap(), "2.2.2.2");
        let itself_first = format!("{client_first}[client.a]\nmon_host=3.3.3.3\n");
        assert_eq!(mon_host(&itself_first).unwrap(), "3.3.3.3");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Config::from_file("/nowhere/ceph.conf").unwrap_err();
        assert!(error.to_string().contains("/nowhere/ceph.conf"), "{error}");
    }
}
