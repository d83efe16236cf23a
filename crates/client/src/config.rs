use crate::Error;
use onego_ceph::addr::{AddrVec, Versions};
use onego_engine::EngineKind;
use onego_engine::zero_copy;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How to reach a cluster, and how to behave towards it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses of the monitors, one vector each.
    pub monitors: Vec<AddrVec>,
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
    pub fn from_mon_host(mon_host: &str) -> Result<Self, Error> {
        let monitors = AddrVec::parse_mon_host(mon_host).map_err(|error| Error::Config {
            place: format!("mon_host = {mon_host}"),
            reason: error.to_string(),
        })?;
        Ok(Self {
            monitors,
            versions: Versions::default(),
            data_crc: true,
            connect_timeout: Duration::from_secs(30),
            request_timeout: None,
            engine: EngineKind::default(),
            zero_copy: zero_copy::Settings::default(),
        })
    }

    /// The configuration in a `ceph.conf`. `mon_host` is read from its sections `client` and `global`.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let fail = |reason: String| Error::Config { place: path.display().to_string(), reason };
        let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
        let mon_host = find_setting(&text, "mon_host")
            .map_err(fail)?
            .ok_or_else(|| fail("it sets no mon_host in [global]: say where the monitors are".into()))?;
        Self::from_mon_host(&mon_host)
    }

    /// The configuration that Ceph's own programs would take: `$CEPH_CONF`, or the usual places.
    pub fn from_environment() -> Result<Self, Error> {
        match std::env::var_os("CEPH_CONF") {
            Some(path) => Self::from_file(PathBuf::from(path)),
            None => match PLACES.iter().find(|place| Path::new(place).exists()) {
                Some(place) => Self::from_file(place),
                None => Err(Error::Config {
                    place: PLACES.join(" or "),
                    reason: "not there: name a configuration, or set CEPH_CONF".into(),
                }),
            },
        }
    }
}

/// The value of a setting of clients. A name's words may be divided by spaces, dashes or underscores.
fn find_setting(text: &str, wanted: &str) -> Result<Option<String>, String> {
    let mut ini = configparser::ini::Ini::new();
    ini.set_comment_symbols(&['#', ';']);
    let sections = ini.read(text.to_owned())?;
    let in_section = |section: &str| {
        let settings = sections.get(section)?;
        let same = |name: &str| name.replace([' ', '-'], "_") == wanted;
        settings.iter().find(|(name, _)| same(name)).and_then(|(_, value)| value.clone())
    };
    Ok(in_section("client").or_else(|| in_section("global")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_however_their_names_are_written() {
        let text =
            "[global]\n\tfsid = 1\n\tmon host = [v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]\n# a comment\n";
        let value = find_setting(text, "mon_host").unwrap().unwrap();
        assert_eq!(value, "[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]");
        assert_eq!(find_setting("[osd]\nmon_host = 1.2.3.4\n", "mon_host").unwrap(), None);
        let client_first = "[global]\nmon_host=1.1.1.1\n[client]\nmon-host=2.2.2.2\n";
        assert_eq!(find_setting(client_first, "mon_host").unwrap().unwrap(), "2.2.2.2");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Config::from_file("/nowhere/ceph.conf").unwrap_err();
        assert!(error.to_string().contains("/nowhere/ceph.conf"), "{error}");
    }
}
