//! How a command reaches a cluster.

pub(crate) mod pages;

use crate::failure::Failure;
use crate::interrupt;
use crate::size;
use onego::ceph::{
    AuthName, COMPRESSION_SETTINGS, CephArgs, Compression, Config, Identity, MsMode, Reactor, Versions,
    WaitingHook,
};
use onego::rados::Cluster;
use onego::zero_copy::{Mode, Settings, Thresholds};
use onego::{EngineKind, Spin};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server that no configuration is about may take to answer at first.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// Options that say which cluster is meant.
#[derive(clap::Args)]
#[command(next_help_heading = "Cluster and connections")]
pub(crate) struct Access {
    /// The cluster's configuration [default: as CEPH_ARGS and CEPH_CONF say, or in the usual places]
    #[arg(short, long, global = true, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// The cluster's monitors, instead of a configuration
    #[arg(short, long, global = true, value_name = "ADDRESSES", alias = "mon_host", conflicts_with = "conf")]
    mon_host: Option<String>,
    /// Name of the user, without "client." [default: admin]
    #[arg(
        id = "user_id",
        long = "id",
        global = true,
        value_name = "ID",
        alias = "user",
        conflicts_with = "user_name"
    )]
    id: Option<String>,
    /// Name of the user in full, like client.admin
    #[arg(id = "user_name", short = 'n', long = "name", global = true, value_name = "NAME")]
    name: Option<AuthName>,
    /// What the cluster is called on this machine, in the names of its files [default: ceph, or as its configuration]
    #[arg(long, global = true, value_name = "NAME")]
    cluster_name: Option<String>,
    /// A keyring that has the key [default: the configuration's, or /etc/ceph/ceph.NAME.keyring]
    #[arg(short = 'k', long, global = true, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// A file with nothing but the key
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "keyring")]
    keyfile: Option<PathBuf>,
    /// How connections are protected: crc, secure, prefer-crc or prefer-secure [default: the configuration's]
    #[arg(long, global = true, value_name = "MODE", alias = "ms_mode")]
    ms_mode: Option<MsMode>,
    /// How long to wait for the cluster or server to answer at first [default: the configuration's client_mount_timeout, or 30 seconds]
    #[arg(long, global = true, value_name = "TIME", alias = "client_mount_timeout", value_parser = size::time)]
    connect_timeout: Option<Duration>,
    /// How long a request may take [default: the configuration's rados_osd_op_timeout and rados_mon_op_timeout, or as
    /// long as it takes]
    #[arg(long, global = true, value_name = "TIME", value_parser = size::some_time)]
    request_timeout: Option<Duration>,
    /// The version of the messenger's protocol: v1, v2 or any (clients take the one that the cluster names first)
    #[arg(long, global = true, value_name = "VERSION", default_value = "any", value_parser = versions)]
    pub(crate) messenger: Versions,
    /// Whether frames to and from OSDs are compressed: none or force (Ceph's own OSDs agree only with each other)
    /// [default: the configuration's, or none]
    #[arg(long, global = true, value_name = "MODE", alias = "ms_osd_compress_mode", value_parser = ["none", "force"])]
    ms_osd_compress_mode: Option<String>,
    /// Bytes of a frame from which on it is compressed [default: the configuration's, or 1K]
    #[arg(long, global = true, value_name = "SIZE", alias = "ms_osd_compress_min_size")]
    ms_osd_compress_min_size: Option<String>,
    /// How frames are compressed, the preferred method first: snappy, zlib, zstd, lz4 [default: the configuration's, or
    /// snappy]
    #[arg(long, global = true, value_name = "METHODS", alias = "ms_osd_compression_algorithm")]
    ms_osd_compression_algorithm: Option<String>,
    /// Compress what is encrypted, too: the compressed length reveals something of the content [default: the configuration's,
    /// or false]
    #[arg(long, global = true, value_name = "BOOL", alias = "ms_compress_secure", value_parser = ["true", "false"])]
    ms_compress_secure: Option<String>,
    /// A folder with files that images may be filled from (see "rbd migration prepare"): no others that the header of an image names
    /// are read [default: the configuration's rbd_source_folder, or none]
    #[arg(long, global = true, value_name = "FOLDER", alias = "rbd_source_folder")]
    source_folder: Option<PathBuf>,
    /// Set an option of Ceph's configuration
    #[arg(long = "set", global = true, value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Say to OSDs that this is one of them
    #[arg(long, global = true, hide = true)]
    as_osd: bool,
    /// Neither make nor check checksums of payloads (in version 1 the cluster needs no setting for it)
    #[arg(long, global = true)]
    no_data_crc: bool,
    /// What moves the bytes: epoll, uepoll or uring
    #[arg(long, global = true, default_value_t)]
    pub(crate) engine: EngineKind,
    /// Whether sends leave the bytes where they are: off, on or adaptive ("onego calibrate" finds where it pays)
    #[arg(long, global = true, default_value_t)]
    pub(crate) zero_copy: Mode,
    /// What comes before going to sleep: adaptive (polling, or a pause in which requests gather, where that costs less CPU time than
    /// sleeping), never, or a number: microseconds of polling in any case
    #[arg(long, global = true, value_name = "USEC", default_value_t)]
    pub(crate) spin: Spin,
}

/// Says what a command waits for, once that has taken two seconds.
fn print_waiting(waiting: Option<&impl fmt::Display>) {
    if let Some(waiting) = waiting {
        interrupt::say(&waiting.to_string());
    }
}

/// Splits `NAME=VALUE`; dashes and underscores in a name are the same.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must have the form NAME=VALUE")?;
    Ok((name.replace('-', "_"), value.to_owned()))
}

/// Reads the name of a version of the messenger's protocol.
fn versions(text: &str) -> Result<Versions, String> {
    match text {
        "any" => Ok(Versions::Any),
        "v1" => Ok(Versions::One),
        "v2" => Ok(Versions::Two),
        _ => Err("it is any, v1 or v2".to_owned()),
    }
}

impl Access {
    /// The configuration that the options name.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        match (&self.conf, &self.mon_host) {
            (Some(path), _) => self.config_in(path),
            (None, Some(monitors)) => {
                self.complete(Config::from_mon_host_as(monitors, &self.identity_or_said()?)?)
            }
            // The environment is read with all that it says.
            (None, None) => self.complete(Config::from_environment_as(&self.identity())?),
        }
    }

    /// Do the options say which cluster is meant?
    pub(crate) fn names_cluster(&self) -> bool {
        self.conf.is_some() || self.mon_host.is_some()
    }

    /// Fails if the options name a cluster, which a command has no use for.
    pub(crate) fn refuse_cluster(&self, why: &str) -> Result<(), Failure> {
        let option = match (&self.conf, &self.mon_host) {
            (Some(_), _) => "--conf",
            (_, Some(_)) => "--mon-host",
            _ => return Ok(()),
        };
        Err(Failure::Usage(format!("{why}: leave {option} out")))
    }

    /// The configuration in a file, with what else the options say.
    pub(crate) fn config_in(&self, path: &Path) -> Result<Config, Failure> {
        self.complete(Config::from_file_as(path, &self.identity_or_said()?)?)
    }

    /// The user's name, where the options do not say it as `CEPH_ARGS` does.
    fn identity_or_said(&self) -> Result<Identity, Failure> {
        Ok(self.identity().or(CephArgs::from_environment()?.identity))
    }

    /// Is encryption asked for, or preferred?
    pub(crate) fn wants_secure(&self) -> bool {
        matches!(self.ms_mode, Some(MsMode::Secure | MsMode::PreferSecure))
    }

    /// The user's name.
    fn identity(&self) -> Identity {
        let named = self.id.as_deref().map(AuthName::client);
        let mut identity = Identity::default();
        identity.name = named.or_else(|| self.name.clone());
        identity.keyring = self.keyring.clone();
        identity.keyfile = self.keyfile.clone();
        identity.ms_mode = self.ms_mode;
        identity.cluster = self.cluster_name.clone();
        let identity =
            self.settings.iter().fold(identity, |identity, (name, value)| identity.with_setting(name, value));
        self.compression_settings()
            .fold(identity, |identity, (name, value)| identity.with_setting(name, value))
    }

    /// What the options say of compression, by the names of the settings.
    fn compression_settings(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let said = [
            &self.ms_osd_compress_mode,
            &self.ms_osd_compress_min_size,
            &self.ms_osd_compression_algorithm,
            &self.ms_compress_secure,
        ];
        COMPRESSION_SETTINGS.into_iter().zip(said).filter_map(|(name, said)| Some((name, said.as_ref()?)))
    }

    /// The options that say so.
    pub(crate) fn compression_options(&self) -> impl Iterator<Item = String> {
        self.compression_settings().map(|(name, value)| format!("--{}={value}", name.replace('_', "-")))
    }

    /// What the options alone say of compression.
    pub(crate) fn compression(&self) -> Result<Option<Compression>, Failure> {
        let said = |wanted: &str| {
            self.compression_settings().find(|(name, _)| *name == wanted).map(|(_, value)| value.clone())
        };
        Compression::configured(said).map_err(Failure::Usage)
    }

    /// How long to wait for a server that no configuration is about.
    pub(crate) fn server_timeout(&self) -> Duration {
        self.connect_timeout.unwrap_or(SERVER_TIMEOUT)
    }

    /// How long a request may take, if that is said.
    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        self.request_timeout
    }

    fn complete(&self, config: Config) -> Result<Config, Failure> {
        let data_crc = config.data_crc && !self.no_data_crc;
        let mut config = config
            .with_versions(self.messenger)
            .with_data_crc(data_crc)
            .with_on_waiting(WaitingHook::new(print_waiting))
            .with_engine(self.engine)
            .with_zero_copy(self.zero_copy()?)
            .with_spin(self.spin);
        config.as_osd = self.as_osd;
        config.source_folder = self.source_folder.clone().or(config.source_folder);
        config.connect_timeout = self.connect_timeout.unwrap_or(config.connect_timeout);
        config.request_timeout = self.request_timeout().or(config.request_timeout);
        config.monitor_timeout = self.request_timeout().or(config.monitor_timeout);
        Ok(config)
    }

    /// How a file server is reached, with what the options say of that.
    pub(crate) fn complete_nfs(&self, config: onego::nfs::Config) -> Result<onego::nfs::Config, Failure> {
        let mut config = config
            .with_engine(self.engine)
            .with_zero_copy(self.zero_copy()?)
            .with_spin(self.spin)
            .with_on_waiting(onego::nfs::WaitingHook::new(print_waiting))
            .with_connect_timeout(self.server_timeout());
        config.request_timeout = self.request_timeout().or(config.request_timeout);
        Ok(config)
    }

    /// The options that say how bytes are moved, for a process that is to do as this one does.
    pub(crate) fn movement(&self) -> Vec<String> {
        let Self { engine, zero_copy, spin, .. } = self;
        let options = [
            ("--engine", engine.to_string()),
            ("--zero-copy", zero_copy.to_string()),
            ("--spin", spin.to_string()),
        ];
        options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    /// What the options say of sends without a copy; the thresholds are looked up where they matter.
    pub(crate) fn zero_copy(&self) -> Result<Settings, Failure> {
        let thresholds = match self.zero_copy {
            Mode::Adaptive => Thresholds::load().map_err(onego_bench::Error::from)?,
            Mode::Off | Mode::On => Thresholds::default(),
        };
        Ok(Settings { mode: self.zero_copy, thresholds })
    }

    /// A connection that this thread drives.
    pub(crate) fn connect(&self) -> Result<(Reactor, Cluster), Failure> {
        let config = self.config()?;
        let (mut reactor, cluster) = Reactor::new(&config)?;
        reactor.block_on(cluster.ready())?.map_err(|error| Failure::at(&config)(error.into()))?;
        Ok((reactor, cluster))
    }

    /// Does something with the cluster.
    pub(crate) fn with_cluster<T>(
        &self,
        body: impl AsyncFnOnce(&Cluster) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (mut reactor, cluster) = self.connect()?;
        reactor.block_on(interrupt::unless_handled(body(&cluster)))??
    }
}
