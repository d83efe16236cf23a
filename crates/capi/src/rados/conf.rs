//! The configuration of a handle: files, the environment, arguments, and single settings.

use super::cluster::Rados;
use crate::border::{Errno, Handle, In, Out, Text, done};
use onego::ceph::{CephArgs, Identity, Settings};
use std::ffi::c_int;
use std::path::{Path, PathBuf};

/// Settings that programs set or ask for and that have a value where nobody gave them one. Others than these, and than those
/// that begin with one of [`FAMILIES`], are unknown.
const DEFAULTS: &[(&str, &str)] = &[
    ("auth_client_required", "cephx, none"),
    ("auth_supported", ""),
    ("client_mount_timeout", "30.000000"),
    ("fsid", "00000000-0000-0000-0000-000000000000"),
    ("host", ""),
    ("key", ""),
    ("keyfile", ""),
    ("keyring", ""),
    ("log_file", ""),
    ("log_flush_on_exit", "false"),
    ("log_to_stderr", "false"),
    ("err_to_stderr", "true"),
    ("lockdep", "false"),
    ("mon_host", ""),
    ("mon_dns_srv_name", "ceph-mon"),
    ("rados_mon_op_timeout", "0.000000"),
    ("rados_osd_op_timeout", "0.000000"),
    ("rbd_cache", "true"),
    ("rbd_cache_writethrough_until_flush", "true"),
    ("rbd_default_features", "61"),
    ("rbd_default_format", "2"),
    ("rbd_default_order", "22"),
    ("rbd_default_stripe_count", "0"),
    ("rbd_default_stripe_unit", "0"),
    ("rbd_default_pool", "rbd"),
    ("rbd_default_data_pool", ""),
];

/// Families of settings of Ceph's: any name in them may be set.
const FAMILIES: &[&str] = &[
    "admin_socket",
    "auth_",
    "bluestore_",
    "cephx_",
    "client_",
    "cluster_",
    "crush_",
    "debug_",
    "err_",
    "filestore_",
    "fuse_",
    "heartbeat_",
    "journaler_",
    "librados_",
    "log_",
    "mds_",
    "mgr_",
    "mon_",
    "ms_",
    "nvmeof_",
    "objecter_",
    "osd_",
    "paxos_",
    "perf",
    "pid_file",
    "plugin_",
    "public_",
    "rados_",
    "rbd_",
    "restapi_",
    "rgw_",
    "run_dir",
    "setuser",
    "setgroup",
    "threadpool_",
];

/// What a handle knows of its configuration before it connects.
#[derive(Clone)]
pub(crate) struct Conf {
    pub(crate) identity: Identity,
    pub(crate) settings: Settings,
}

impl Conf {
    pub(super) fn new(identity: Identity) -> Self {
        Self { settings: Settings::without_file(&identity), identity }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Errno> {
        let name = normal(name);
        let is_known = DEFAULTS.iter().any(|(known, _)| *known == name)
            || FAMILIES.iter().any(|family| name.starts_with(family));
        if !is_known {
            return Err(Errno::NOENT);
        }
        self.settings.set(&name, value);
        self.identity.settings.insert(name, value.to_owned());
        Ok(())
    }

    /// The value of a setting: what was set, what the file says, or what it is by nature.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let name = normal(name);
        let default =
            || DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        self.settings.get(&name).or_else(default)
    }

    /// A setting that is a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }

    fn read_file(&mut self, path: &Path) -> Result<(), Errno> {
        if !path.exists() {
            return Err(Errno::NOENT);
        }
        self.settings = Settings::from_file(path, &self.identity)?;
        Ok(())
    }

    /// Where a configuration is looked for if nobody says where.
    fn places(&self) -> Vec<PathBuf> {
        if let Some(path) = std::env::var_os("CEPH_CONF") {
            return vec![path.into()];
        }
        ["/etc/ceph/$cluster.conf", "$home/.ceph/$cluster.conf", "$cluster.conf"]
            .map(|place| self.settings.expand(place).into())
            .to_vec()
    }

    /// Takes what command-line arguments say; gives the positions of those that are not about the configuration.
    fn take_arguments(&mut self, arguments: &[String]) -> Result<Vec<usize>, Errno> {
        let mut rest = Vec::new();
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            let (option, inline) = match argument.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let following = || arguments.get(at + 1).filter(|next| !next.starts_with('-')).cloned();
            let (value, words) = match inline {
                Some(value) => (Some(value), 1),
                None => (following(), 2),
            };
            let is_taken = option.starts_with('-')
                && value.as_ref().is_some_and(|value| self.take_argument(option, value).is_ok());
            if is_taken {
                at += words;
            } else {
                rest.push(at);
                at += 1;
            }
        }
        Ok(rest)
    }

    fn take_argument(&mut self, option: &str, value: &str) -> Result<(), Errno> {
        match option {
            "-m" => self.set("mon_host", value),
            "-k" => self.set("keyring", value),
            "-K" => self.set("keyfile", value),
            option => self.set(option.strip_prefix("--").ok_or(Errno::NOENT)?, value),
        }
    }

    /// Takes what an environment variable says, in the form of `CEPH_ARGS`.
    fn take_environment(&mut self, variable: &str) -> Result<(), Errno> {
        let text = std::env::var(variable).unwrap_or_default();
        let CephArgs { identity, .. } = CephArgs::parse(&text)?;
        for (name, value) in &identity.settings {
            self.settings.set(name, value);
        }
        self.identity.settings.extend(identity.settings);
        if identity.keyring.is_some() || identity.keyfile.is_some() {
            (self.identity.keyring, self.identity.keyfile) = (identity.keyring, identity.keyfile);
        }
        Ok(())
    }
}

/// A setting's name with underscores, however its words are divided.
fn normal(name: &str) -> String {
    name.trim().replace(['-', ' '], "_")
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_read_file(cluster: Handle<Rados>, path: Text) -> c_int {
    done(|| {
        let mut conf = cluster.get()?.conf();
        if !path.is_null() {
            // A list of paths, of which the first that is there counts.
            let paths = path.text()?.into_owned();
            let mut paths = paths.split(',').map(|path| PathBuf::from(conf.settings.expand(path.trim())));
            let path = paths.find(|path| path.exists()).ok_or(Errno::NOENT)?;
            return conf.read_file(&path);
        }
        let place = conf.places().into_iter().find(|place| place.exists());
        conf.read_file(&place.ok_or(Errno::NOENT)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_set(cluster: Handle<Rados>, option: Text, value: Text) -> c_int {
    done(|| cluster.get()?.conf().set(&option.text()?, &value.text()?))
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_get(cluster: Handle<Rados>, option: Text, buf: Out<u8>, len: usize) -> c_int {
    done(|| {
        let value = cluster.get()?.conf().get(&option.text()?).ok_or(Errno::NOENT)?;
        buf.copy_text(value.as_bytes(), len).map_err(|_| Errno::NAMETOOLONG)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_parse_env(cluster: Handle<Rados>, variable: Text) -> c_int {
    done(|| {
        let variable = if variable.is_null() { "CEPH_ARGS".into() } else { variable.text()? };
        cluster.get()?.conf().take_environment(&variable)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_parse_argv(cluster: Handle<Rados>, count: c_int, arguments: In<Text>) -> c_int {
    done(|| take_arguments(cluster, count, arguments).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_parse_argv_remainder(
    cluster: Handle<Rados>,
    count: c_int,
    arguments: In<Text>,
    rest: Out<Text>,
) -> c_int {
    done(|| {
        let all = arguments.slice(usize::try_from(count).map_err(|_| Errno::INVAL)?)?;
        let left = take_arguments(cluster, count, arguments)?;
        let mut left: Vec<Text> = left.into_iter().map(|at| all[at]).collect();
        left.resize(all.len(), Text::NULL);
        rest.copy(&left, all.len())
    })
}

/// The first argument is the program's name.
fn take_arguments(cluster: Handle<Rados>, count: c_int, arguments: In<Text>) -> Result<Vec<usize>, Errno> {
    let arguments = arguments.slice(usize::try_from(count).map_err(|_| Errno::INVAL)?)?;
    let words: Vec<String> = arguments.iter().map(|word| word.text_or_empty().into_owned()).collect();
    cluster.get()?.conf().take_arguments(&words)
}
