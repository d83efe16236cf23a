mod conf_file;
mod credentials;
mod dns;
mod environment;
mod identity;
mod image_defaults;
mod settings;
mod turn_hook;

pub use environment::CephArgs;
pub use identity::{Identity, MsMode};
pub use image_defaults::ImageDefaults;
pub use settings::Settings;
pub use turn_hook::TurnHook;

use super::error::Error;
use crate::waiting::WaitingHook;
use conf_file::ConfFile;
use dns::Resolver;
use onego_ceph::client::{Monitor, Waiting};
use onego_engine::zero_copy;
use onego_engine::{EngineKind, Spin};
use onego_msgr::Compression;
use onego_msgr::addr::{MonHost, Versions};
use onego_msgr::auth::Credentials;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Configuration of the connection to a cluster and of the client. It is read from the sources that Ceph's programs
/// use, and adjusted by the methods with the prefix `with_`, or field by field.
///
/// ```no_run
/// use std::time::Duration;
/// # fn f() -> Result<(), onego::ceph::Error> {
/// let config = onego::ceph::Config::from_file("/etc/ceph/ceph.conf")?
///     .with_connect_timeout(Duration::from_secs(5))
///     .with_request_timeout(Duration::from_secs(60));
/// # drop(config); Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The monitors.
    pub monitors: Vec<Monitor>,
    /// Identity of the client, with the authentication methods and modes that it accepts.
    pub credentials: Credentials,
    /// Versions of the messenger protocol to connect with.
    pub versions: Versions,
    /// Whether to compute and verify payload checksums (`ms_crc_data`). In version 2 of the protocol the cluster
    /// needs the same setting.
    pub data_crc: bool,
    /// Compression on connections to OSDs (`ms_osd_compress_mode`, `ms_osd_compress_min_size`,
    /// `ms_osd_compression_algorithm`, `ms_compress_secure`). Ceph's own OSDs agree only with other OSDs.
    pub compression: Option<Compression>,
    /// Whether to claim to be an OSD and use the OSDs' cluster addresses, so that Ceph's OSDs agree to compress. For
    /// tests only: OSDs may also treat each other differently from clients in other respects.
    pub as_osd: bool,
    /// Limit on the wait for a monitor before connecting fails (`client_mount_timeout`).
    pub connect_timeout: Duration,
    /// Limit on a request to an object; `None` means unlimited (`rados_osd_op_timeout`).
    pub request_timeout: Option<Duration>,
    /// Time for which OSDs keep the watches of a vanished client (`osd_client_watch_timeout`): whole seconds, at
    /// least 10. The exclusive lock of an image stays with a killed owner for that time.
    pub watch_timeout: Duration,
    /// Threshold from which an OSD request is reported, with a breakdown of its time, by a `tracing` event with the
    /// target `onego::slow`; `None` reports none.
    pub slow: Option<Duration>,
    /// Limit on a command or question to the monitors; `None` means unlimited (`rados_mon_op_timeout`).
    pub monitor_timeout: Option<Duration>,
    /// Defaults for new images.
    pub image_defaults: ImageDefaults,
    /// Folder of files that images may be imported from (`rbd_source_folder`, a setting of Onego). Image headers name
    /// such files; only those in this folder, and those that this program passed to
    /// [`prepare_import`](crate::rbd::migration::prepare_import), are ever read.
    pub source_folder: Option<PathBuf>,
    /// Hook called when the client has waited for two seconds.
    pub on_waiting: Option<WaitingHook<Waiting>>,
    /// Hook called after each turn of the thread that [`Cluster::connect`](crate::rados::Cluster::connect) starts.
    pub after_turn: Option<TurnHook>,
    /// Event engine.
    pub engine: EngineKind,
    /// Rule for zero-copy sends.
    pub zero_copy: zero_copy::Settings,
    /// Spinning before the client sleeps.
    pub spin: Spin,
}

/// Locations of the cluster's configuration, in the order in which Ceph's programs try them.
const PLACES: [&str; 3] = ["/etc/ceph/$cluster.conf", "$home/.ceph/$cluster.conf", "$cluster.conf"];

impl Config {
    /// Creates a configuration with the monitors of `mon_host`, in the syntax of `ceph.conf`: addresses separated by
    /// commas or spaces, each as `[v2:IP:PORT,v1:IP:PORT]`, `v2:IP:PORT`, `IP:PORT`, `IP`, `NAME:PORT` or `NAME`.
    ///
    /// The client is `client.admin`, with the key from a default location if there is one.
    pub fn from_mon_host(mon_host: &str) -> Result<Self, Error> {
        Self::from_mon_host_as(mon_host, &Identity::default())
    }

    /// Like [`from_mon_host`](Self::from_mon_host), for the client of `identity`.
    pub fn from_mon_host_as(mon_host: &str, identity: &Identity) -> Result<Self, Error> {
        let mut identity = identity.clone();
        identity.settings.insert("mon_host".into(), mon_host.to_owned());
        Self::new(&Settings::new(None, &identity), &identity, Resolver::of_system)
    }

    /// Reads a `ceph.conf`. A setting comes from the first of these sections that has it: the client's
    /// (`client.admin`), `client`, and `global`. The settings are `mon_host`, the client's identity (`keyring`,
    /// `keyfile`, `key`, `auth_client_required`, `ms_client_mode`, `ms_mon_client_mode`), timeouts
    /// (`client_mount_timeout`, `rados_osd_op_timeout`, `rados_mon_op_timeout`, `osd_client_watch_timeout`), and
    /// compression.
    ///
    /// Without `mon_host`, DNS SRV records supply the monitors: `_ceph-mon._tcp`, or, if `mon_dns_srv_name` is
    /// `mon_example.com`, `_mon._tcp.example.com`. The lookup takes up to half a minute if no server answers.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_file_as(path, &Identity::default())
    }

    /// Like [`from_file`](Self::from_file), for the client of `identity`.
    pub fn from_file_as(path: impl AsRef<Path>, identity: &Identity) -> Result<Self, Error> {
        Self::from_settings(&Settings::from_file(path, identity)?, identity)
    }

    /// Creates the configuration from settings, for the client of `identity`.
    pub fn from_settings(settings: &Settings, identity: &Identity) -> Result<Self, Error> {
        Self::new(settings, identity, Resolver::of_system)
    }

    /// Reads the text of a `ceph.conf`, as [`from_file`](Self::from_file) does. Relative file names in it, such as
    /// that of a keyring, refer to the current folder.
    ///
    /// ```
    /// let config = onego::ceph::Config::from_text("[global]\nmon_host = [v2:192.0.2.1:3300]\n")?;
    /// assert_eq!(config.monitors.len(), 1);
    /// # Ok::<(), onego::ceph::Error>(())
    /// ```
    pub fn from_text(text: &str) -> Result<Self, Error> {
        let fail = |reason| Error::Config { place: "the text of a ceph.conf".into(), reason };
        let (file, identity) = (ConfFile::parse(text).map_err(fail)?, Identity::default());
        Self::new(&Settings::new(Some((Path::new(""), file)), &identity), &identity, Resolver::of_system)
    }

    /// Reads the configuration that Ceph's own programs would use: `CEPH_ARGS`, and `$CEPH_CONF` or a default
    /// location.
    pub fn from_environment() -> Result<Self, Error> {
        Self::from_environment_as(&Identity::default())
    }

    /// Like [`from_environment`](Self::from_environment), for the client of `identity`, which overrides `CEPH_ARGS`.
    pub fn from_environment_as(identity: &Identity) -> Result<Self, Error> {
        let CephArgs { conf, identity: said } = CephArgs::from_environment()?;
        let identity = identity.clone().or(said);
        if let Some(path) = conf.or_else(|| Some(PathBuf::from(std::env::var_os("CEPH_CONF")?))) {
            return Self::from_file_as(path, &identity);
        }
        let settings = Settings::new(None, &identity);
        let places = PLACES.map(|place| settings.expand(place));
        match places.iter().find(|place| Path::new(place).exists()) {
            Some(place) => Self::from_file_as(place, &identity),
            None if identity.settings.contains_key("mon_host") => {
                Self::new(&settings, &identity, Resolver::of_system)
            }
            None => Err(Error::Config {
                place: places.join(" or "),
                reason: "not there: name a configuration, or set CEPH_CONF".into(),
            }),
        }
    }

    /// Limits the wait for a monitor before connecting fails.
    pub fn with_connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// Reports OSD requests that take `slow` or longer, with a breakdown of their time.
    pub fn with_slow(self, slow: Duration) -> Self {
        Self { slow: Some(slow), ..self }
    }

    /// Limits each request to an object; one that exceeds the limit fails, but may have been applied.
    pub fn with_request_timeout(self, timeout: Duration) -> Self {
        Self { request_timeout: Some(timeout), ..self }
    }

    /// Limits each command or question to the monitors.
    pub fn with_monitor_timeout(self, timeout: Duration) -> Self {
        Self { monitor_timeout: Some(timeout), ..self }
    }

    /// Sets the client's credentials.
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// Sets the versions of the messenger protocol.
    pub fn with_versions(self, versions: Versions) -> Self {
        Self { versions, ..self }
    }

    /// Enables or disables payload checksums (see [`data_crc`](Self::data_crc)).
    pub fn with_data_crc(self, data_crc: bool) -> Self {
        Self { data_crc, ..self }
    }

    /// Compresses frames to and from OSDs.
    pub fn with_compression(self, compression: Compression) -> Self {
        Self { compression: Some(compression), ..self }
    }

    /// Sets the folder of files that images may be imported from.
    pub fn with_source_folder(self, folder: impl Into<PathBuf>) -> Self {
        Self { source_folder: Some(folder.into()), ..self }
    }

    /// Calls `hook` when the client has waited for two seconds.
    pub fn with_on_waiting(self, hook: WaitingHook<Waiting>) -> Self {
        Self { on_waiting: Some(hook), ..self }
    }

    /// Calls `hook` after each turn of the thread that drives the client.
    pub fn with_after_turn(self, hook: TurnHook) -> Self {
        Self { after_turn: Some(hook), ..self }
    }

    /// Sets the event engine.
    pub fn with_engine(self, engine: EngineKind) -> Self {
        Self { engine, ..self }
    }

    /// Sets the rule for zero-copy sends.
    pub fn with_zero_copy(self, zero_copy: zero_copy::Settings) -> Self {
        Self { zero_copy, ..self }
    }

    /// Sets the spinning before the client sleeps.
    pub fn with_spin(self, spin: Spin) -> Self {
        Self { spin, ..self }
    }

    fn new(
        settings: &Settings,
        identity: &Identity,
        resolver: impl FnOnce() -> Result<Resolver, String>,
    ) -> Result<Self, Error> {
        let monitors = match settings.get("mon_host").filter(|value| !value.is_empty()) {
            Some(mon_host) => named("mon_host", &mon_host)?,
            None => match in_sections(settings)? {
                monitors if monitors.is_empty() => looked_up(settings, resolver)?,
                monitors => monitors,
            },
        };
        Ok(Self {
            monitors,
            credentials: credentials::find(identity, settings)?,
            versions: Versions::default(),
            data_crc: true,
            compression: compression(settings)?,
            as_osd: false,
            connect_timeout: duration(settings, "client_mount_timeout")?
                .map_or(CONNECT_TIMEOUT, endless_if_zero),
            request_timeout: duration(settings, "rados_osd_op_timeout")?.filter(|wait| !wait.is_zero()),
            watch_timeout: duration(settings, "osd_client_watch_timeout")?
                .map_or(WATCH_TIMEOUT, |wait| wait.clamp(MIN_WATCH_TIMEOUT, MAX_WATCH_TIMEOUT)),
            slow: None,
            monitor_timeout: duration(settings, "rados_mon_op_timeout")?.filter(|wait| !wait.is_zero()),
            image_defaults: ImageDefaults::read(settings)?,
            source_folder: settings
                .get("rbd_source_folder")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            on_waiting: None,
            after_turn: None,
            engine: EngineKind::default(),
            zero_copy: zero_copy::Settings::default(),
            spin: Spin::default(),
        })
    }
}

/// Default limit on the wait for a monitor. Ceph's programs wait for five minutes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Default of `osd_client_watch_timeout`.
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Twice the ping interval of a watch.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(10);

const MAX_WATCH_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

fn endless_if_zero(wait: Duration) -> Duration {
    if wait.is_zero() { Duration::MAX } else { wait }
}

/// Reads a duration: seconds, or with a unit such as "5m".
fn duration(settings: &Settings, name: &str) -> Result<Option<Duration>, Error> {
    let Some(text) = settings.get(name) else { return Ok(None) };
    let wrong = || Error::Config {
        place: format!("{name} = {text}"),
        reason: "it is not a duration: write seconds, or a number and one of ms, s, m, h, d".into(),
    };
    let text = text.trim();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let seconds = match text[unit..].trim() {
        "ms" => 0.001,
        "" | "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = text[..unit].trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map(Some).map_err(|_| wrong())
}

fn compression(settings: &Settings) -> Result<Option<Compression>, Error> {
    let configured = Compression::configured(|name| settings.get(name));
    configured.map_err(|reason| Error::Config { place: settings.place(), reason })
}

fn named(name: &str, value: &str) -> Result<Vec<Monitor>, Error> {
    let wrong = |reason| Error::Config { place: format!("{name} = {value}"), reason };
    let hosts = MonHost::parse_list(value, resolve).map_err(|error| wrong(error.to_string()))?;
    if hosts.len() > MAX_MONITORS {
        return Err(wrong(format!(
            "it names {} monitors, more than the limit of {MAX_MONITORS}",
            hosts.len()
        )));
    }
    Ok(hosts.into_iter().flat_map(|host| Monitor::configured(host, 0, 0)).collect())
}

/// Parses the monitors of the sections `[mon.ID]` (MonMap.cc, `init_with_config_file`).
fn in_sections(settings: &Settings) -> Result<Vec<Monitor>, Error> {
    let mut monitors = Vec::new();
    for addr in settings.monitor_addresses().iter().take(MAX_MONITORS) {
        monitors.extend(named("mon addr", addr)?);
    }
    Ok(monitors)
}

/// Looks up the monitors in the DNS if the configuration lists none (`mon_dns_srv_name`).
fn looked_up(
    settings: &Settings,
    resolver: impl FnOnce() -> Result<Resolver, String>,
) -> Result<Vec<Monitor>, Error> {
    let service = settings.get("mon_dns_srv_name").unwrap_or_else(|| "ceph-mon".into());
    let found = resolver().and_then(|resolver| resolver.monitors(&service));
    found.map_err(|reason| Error::Config {
        place: settings.place(),
        reason: format!("it sets no mon_host in [global], and {reason} (mon_dns_srv_name = {service})"),
    })
}

/// Most monitors used. Clusters have a handful.
const MAX_MONITORS: usize = 64;

fn resolve(host: &str) -> Vec<IpAddr> {
    let found = (host, 0).to_socket_addrs().inspect_err(|error| tracing::info!(host, %error, "no address"));
    found.into_iter().flatten().map(|addr| addr.ip()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_msgr::Method;
    use onego_msgr::auth::AuthName;

    fn settings(path: &str, text: &str, identity: &Identity) -> Settings {
        Settings::new(Some((Path::new(path), ConfFile::parse(text).unwrap())), identity)
    }

    #[test]
    fn settings_come_from_the_most_specific_section() {
        let identity = Identity { name: Some(AuthName::client("a")), ..Identity::default() };
        let mon_host = |text: &str| settings("ceph.conf", text, &identity).get("mon_host");
        assert_eq!(mon_host("[osd]\nmon_host = 1.2.3.4\n[mon]\nmon host = 5.6.7.8\n"), None);
        let client_first = "[global]\nmon_host=1.1.1.1\n[client]\nmon-host=2.2.2.2\n";
        assert_eq!(mon_host(client_first).unwrap(), "2.2.2.2");
        let itself_first =
            format!("{client_first}[client.b]\nmon_host=4.4.4.4\n[client.a]\nmon host=3.3.3.3\n");
        assert_eq!(mon_host(&itself_first).unwrap(), "3.3.3.3");
        let mut said = identity.clone();
        said.settings.insert("mon_host".into(), "5.5.5.5".into());
        assert_eq!(settings("ceph.conf", &itself_first, &said).get("mon_host").unwrap(), "5.5.5.5");
    }

    #[test]
    fn variables_expand_to_the_clients_identity_and_paths() {
        let identity = Identity { name: Some(AuthName::client("a")), ..Identity::default() };
        let text = "[global]\nrun dir = /run/$cluster\nkeyring = ${run_dir}/$name-$type-$id\n";
        let found = settings("/etc/ceph/backup.conf", text, &identity).get("keyring");
        assert_eq!(found.unwrap(), "/run/backup/client.a-client-a");
        let other = Identity { cluster: Some("other".into()), ..identity.clone() };
        assert_eq!(settings("/etc/ceph/backup.conf", text, &other).get("run_dir").unwrap(), "/run/other");
        let none = settings("/etc/ceph/strange", "[client]\na = $pid $host\n", &identity);
        assert_eq!(none.expand("$cluster"), "ceph");
        let value = none.get("a").unwrap();
        assert!(value.starts_with(&std::process::id().to_string()) && !value.contains('$'), "{value}");
    }

    #[test]
    fn compression_is_read_from_the_file_and_the_caller_takes_precedence() {
        let text = "[global]\nmon host = 10.0.0.1\nms osd compress mode = force\n\
                    [client]\nms_osd_compression_algorithm = lz4 snappy\n";
        let read = |identity: &Identity| {
            let nobody = || Err("no lookup expected".into());
            let settings = settings("/etc/ceph/ceph.conf", text, identity);
            Config::new(&settings, identity, nobody).map(|config| config.compression)
        };
        let methods = vec![Method::Lz4, Method::Snappy];
        assert_eq!(
            read(&Identity::default()).unwrap(),
            Some(Compression { methods, ..Compression::default() })
        );
        let mut said = Identity::default();
        said.settings.insert("ms_osd_compress_mode".into(), "none".into());
        assert_eq!(read(&said).unwrap(), None);
        said.settings.insert("ms_osd_compress_mode".into(), "some".into());
        let error = read(&said).unwrap_err().to_string();
        assert!(error.contains("/etc/ceph/ceph.conf") && error.contains("none or force"), "{error}");
    }

    #[test]
    fn times_are_read_as_ceph_writes_them() {
        let read = |text: &str| {
            let settings = settings("/etc/ceph/ceph.conf", text, &Identity::default());
            Config::new(&settings, &Identity::default(), || Err("no lookup expected".into()))
        };
        let config = read(
            "[global]\nmon host = 10.0.0.1\n[client]\nrados osd op timeout = 5\nrados mon op timeout = 1.5\n\
             client_mount_timeout = 2m\nosd client watch timeout = 15\n",
        )
        .unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(config.request_timeout, Some(5 * second));
        assert_eq!(config.monitor_timeout, Some(second * 3 / 2));
        assert_eq!(config.connect_timeout, 120 * second);
        assert_eq!(config.watch_timeout, 15 * second);
        let config = read("[global]\nmon host = 10.0.0.1\nrados osd op timeout = 0\n").unwrap();
        assert_eq!((config.request_timeout, config.monitor_timeout), (None, None));
        assert_eq!(config.connect_timeout, CONNECT_TIMEOUT);
        assert_eq!(config.watch_timeout, WATCH_TIMEOUT);
        let config = read("[global]\nmon host = 10.0.0.1\nosd_client_watch_timeout = 1\n").unwrap();
        assert_eq!(config.watch_timeout, MIN_WATCH_TIMEOUT);
        for wrong in ["soon", "-1", "5 weeks", "1e999"] {
            let text = format!("[global]\nmon host = 10.0.0.1\nrados_osd_op_timeout = {wrong}\n");
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains("rados_osd_op_timeout") && error.contains("seconds"), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Config::from_file("/nowhere/ceph.conf").unwrap_err();
        assert!(error.to_string().contains("/nowhere/ceph.conf"), "{error}");
    }

    #[test]
    fn monitors_are_found_by_address_and_by_name() {
        let monitors = |mon_host: &str| -> Vec<String> {
            let config = Config::from_mon_host(mon_host).unwrap();
            config.monitors.iter().map(|monitor| monitor.addrs.to_string()).collect()
        };
        assert_eq!(
            monitors("127.0.0.1:3300, 10.0.0.2"),
            ["v2:127.0.0.1:3300/0", "v2:10.0.0.2:3300/0", "v1:10.0.0.2:6789/0"]
        );
        let both = monitors("[v2:10.0.0.1:3300,v1:10.0.0.1:6789],[v2:[fd00::1]:3300/0]");
        assert_eq!(both, ["[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]", "v2:[fd00::1]:3300/0"]);
        assert!(monitors("localhost:3301").iter().any(|one| one.contains(":3301/0")));
        let error = Config::from_mon_host("no-such-host.invalid").unwrap_err().to_string();
        assert!(error.contains("no-such-host.invalid"), "{error}");
    }

    #[test]
    fn monitors_without_a_protocol_are_tried_in_version_1_last() {
        let text = "[global]\nmon host = 10.0.0.1, 10.0.0.2:7000 v1:10.0.0.3\n";
        let monitors = |text: &str| -> Vec<(String, u16)> {
            let config = Config::from_text(text).unwrap();
            config.monitors.iter().map(|monitor| (monitor.addrs.to_string(), monitor.priority)).collect()
        };
        let expected = [
            ("v2:10.0.0.1:3300/0", 0),
            ("v1:10.0.0.1:6789/0", 1),
            ("v2:10.0.0.2:7000/0", 0),
            ("v1:10.0.0.2:7000/0", 1),
            ("v1:10.0.0.3:6789/0", 0),
        ];
        assert_eq!(monitors(text), expected.map(|(addr, priority)| (addr.to_owned(), priority)));
        // Older files have a section for each monitor.
        let text =
            "[global]\nfsid = x\n[mon.b]\nmon addr = 10.0.0.2:6789\n[mon.a]\nmon addr = 10.0.0.1\n[mon]\n";
        let expected = [("v2:10.0.0.1:3300/0", 0), ("v1:10.0.0.1:6789/0", 1), ("v1:10.0.0.2:6789/0", 0)];
        assert_eq!(monitors(text), expected.map(|(addr, priority)| (addr.to_owned(), priority)));
    }

    #[test]
    fn an_error_without_monitors_names_the_places_that_lack_them() {
        let text = "[global]\nmon dns srv name = mine_example.test\n";
        let settings = settings("/etc/ceph/ceph.conf", text, &Identity::default());
        let nobody = || Ok(Resolver::asking(Vec::new()));
        let error = Config::new(&settings, &Identity::default(), nobody).unwrap_err().to_string();
        for said in ["ceph.conf", "mon_host", "_mine._tcp.example.test", "no server to query"] {
            assert!(error.contains(said), "{error}");
        }
    }
}
