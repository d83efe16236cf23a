//! The configuration of a handle, before it connects.

use crate::border::Errno;
use onego::ceph::{CephArgs, Identity, Settings};
use std::path::{Path, PathBuf};

/// Settings that programs set or ask for and that have a value where nobody gave them one. Others than these, and than those
/// that begin with one of [`FAMILIES`], are unknown.
const DEFAULTS: &[(&str, &str)] = &[
    ("admin_socket", ""),
    ("auth_client_required", "cephx, none"),
    ("auth_supported", ""),
    ("client_mount_timeout", "30.000000"),
    ("debug_client", "0/5"),
    ("debug_monc", "0/10"),
    ("debug_ms", "0/0"),
    ("debug_objecter", "0/1"),
    ("debug_rados", "0/5"),
    ("debug_rbd", "0/5"),
    ("fsid", "00000000-0000-0000-0000-000000000000"),
    ("host", ""),
    ("key", ""),
    ("keyfile", ""),
    ("keyring", ""),
    ("log_file", ""),
    ("log_flush_on_exit", "false"),
    ("log_max_new", "1000"),
    ("log_max_recent", "500"),
    ("log_to_stderr", "false"),
    ("err_to_stderr", "true"),
    ("lockdep", "false"),
    ("mon_host", ""),
    ("mon_dns_srv_name", "ceph-mon"),
    ("ms_bind_ipv6", "false"),
    ("ms_connection_idle_timeout", "900"),
    ("ms_crc_data", "true"),
    ("ms_inject_socket_failures", "0"),
    ("ms_tcp_nodelay", "true"),
    ("ms_type", "async+posix"),
    ("objecter_inflight_op_bytes", "104857600"),
    ("objecter_inflight_ops", "1024"),
    ("rados_mon_op_timeout", "0.000000"),
    ("rados_osd_op_timeout", "0.000000"),
    ("rbd_blocklist_on_break_lock", "true"),
    ("rbd_blocklist_expire_seconds", "0"),
    ("rbd_cache", "true"),
    ("rbd_cache_writethrough_until_flush", "true"),
    ("rbd_default_features", "61"),
    ("rbd_default_format", "2"),
    ("rbd_default_order", "22"),
    ("rbd_default_stripe_count", "0"),
    ("rbd_default_stripe_unit", "0"),
    ("rbd_default_pool", "rbd"),
    ("rbd_default_data_pool", ""),
    ("rbd_discard_granularity_bytes", "65536"),
    ("rbd_skip_partial_discard", "true"),
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

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), Errno> {
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

    /// Returns whether the configuration names monitors. If not, only DNS may know of some.
    pub(super) fn has_monitors(&self) -> bool {
        self.get("mon_host").is_some_and(|hosts| !hosts.trim().is_empty())
    }

    /// A setting that is a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }

    pub(super) fn read_file(&mut self, path: &Path) -> Result<(), Errno> {
        if !path.exists() {
            return Err(Errno::NOENT);
        }
        self.settings = Settings::from_file(path, &self.identity)?;
        Ok(())
    }

    /// Where a configuration is looked for if nobody says where.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        if let Some(path) = std::env::var_os("CEPH_CONF") {
            return vec![path.into()];
        }
        ["/etc/ceph/$cluster.conf", "$home/.ceph/$cluster.conf", "$cluster.conf"]
            .map(|place| self.settings.expand(place).into())
            .to_vec()
    }

    /// Takes what command-line arguments say; gives the positions of those that are not about the configuration.
    pub(super) fn take_arguments(&mut self, arguments: &[String]) -> Result<Vec<usize>, Errno> {
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
    pub(super) fn take_environment(&mut self, variable: &str) -> Result<(), Errno> {
        let text = std::env::var(variable).unwrap_or_default();
        let CephArgs { identity, .. } = CephArgs::parse(&text)?;
        for (name, value) in &identity.settings {
            self.settings.set(name, value);
        }
        self.identity.settings.extend(identity.settings);
        Ok(())
    }
}

/// A setting's name with underscores, however its words are divided.
fn normal(name: &str) -> String {
    name.trim().replace(['-', ' '], "_")
}
