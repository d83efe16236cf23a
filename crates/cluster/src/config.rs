//! What a cluster is told to be.

use crate::auth::Cephx;
use crate::mon::{FirstOsd, NewPool, default_size};
use onego_ceph::types::Uuid;
use onego_engine::zero_copy;
use onego_engine::{EngineKind, Spin};
use onego_msgr::Compression;
use onego_msgr::addr::{AddrVec, EntityAddr, MON_PORT_LEGACY, MON_PORT_MSGR2, Versions};
use onego_msgr::auth::Lifetimes;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Bytes that an OSD of a new cluster holds if nobody says how many.
pub(crate) const DEFAULT_MEMORY: u64 = 1 << 30;

/// Bytes of a log from which on there is a new checkpoint: some seconds of writing, and of reading at the next start.
const DEFAULT_LOG_LIMIT: u64 = 256 << 20;

/// Most OSDs of a cluster. All of them live in one process on one machine: more would show nothing that these do not.
pub const MAX_OSDS: u32 = 32;

/// What a cluster is to be. It is changed by the methods that begin with `with_`, or field by field.
///
/// ```
/// let config = onego_cluster::Config::default().with_osds(3).with_memory_limit(64 << 20);
/// assert_eq!(config.pools[0].name, "rbd");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Where the daemons listen.
    pub listen: IpAddr,
    /// In which versions of the messenger's protocol clients may connect. Each has a port of its own.
    pub versions: Versions,
    /// The monitor's port; 0: any, or that of the data directory if nobody else has it. With 3300 version 1 has 6789,
    /// otherwise any.
    pub mon_port: u16,
    /// How many OSDs there are: from one to [`MAX_OSDS`]. None: one, or as many as the data directory is of.
    pub osds: Option<u32>,
    /// The first OSD's port, those of the others and of the manager following it; 0: any, or, for OSDs, those of the data
    /// directory if nobody else has them.
    pub osd_port: u16,
    /// Bytes that each OSD holds at most. From 95 % of it on (`ceph osd set-full-ratio`) the cluster is full, and clients
    /// keep writes back until there is room again; a write that would take an OSD beyond 97 % gets ENOSPC. None: 1 GiB, or as
    /// many as in the data directory.
    pub memory_limit: Option<u64>,
    /// Writes are acknowledged and thrown away, and reads give zeros: to measure everything but the store.
    pub null_writes: bool,
    /// The pools that there are from the start of a new cluster.
    pub pools: Vec<NewPool>,
    /// Which event engine moves the bytes.
    pub engine: EngineKind,
    /// Which sends are made without a copy.
    pub zero_copy: zero_copy::Settings,
    /// What the cluster does before it sleeps.
    pub spin: Spin,
    /// Let in only who has a key, and encrypt what clients want encrypted; the first user is `client.admin`. None: no, or
    /// as it was when the data directory was made.
    pub cephx: Option<bool>,
    /// How long the tickets of `cephx` are good.
    pub ticket_lifetimes: Lifetimes,
    /// Let clients in only if their connections are encrypted (`ms_service_mode = secure`). Wants `cephx`, or a data
    /// directory that was made with it, and version 2 of the messenger's protocol.
    pub secure_only: bool,
    /// Compress what OSDs and their clients send to each other, where clients want it; none: do not. Other than Ceph's,
    /// these OSDs agree to it with every client.
    pub compression: Option<Compression>,
    /// A folder to write a `ceph.conf` to.
    pub conf_dir: Option<PathBuf>,
    /// The cluster's id; none: a new one, or that of the data directory.
    pub fsid: Option<Uuid>,
    /// A directory that keeps the cluster's state: what is acknowledged is durable there. It is made if it does not
    /// exist. All data is in memory nevertheless. None: the state is gone when the cluster is.
    pub data: Option<PathBuf>,
    /// Bytes of its log from which on there is a new checkpoint, unless the last one was larger.
    pub log_limit: u64,
}

impl Default for Config {
    /// A cluster of one OSD on the loopback address, on any ports, of 1 GiB, with a pool "rbd" for images.
    fn default() -> Self {
        Self {
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            versions: Versions::default(),
            mon_port: 0,
            osds: None,
            osd_port: 0,
            memory_limit: None,
            null_writes: false,
            pools: vec![NewPool::for_images("rbd")],
            engine: EngineKind::default(),
            zero_copy: zero_copy::Settings::default(),
            spin: Spin::default(),
            cephx: None,
            ticket_lifetimes: Lifetimes::default(),
            secure_only: false,
            compression: None,
            conf_dir: None,
            fsid: None,
            data: None,
            log_limit: DEFAULT_LOG_LIMIT,
        }
    }
}

impl Config {
    /// The same, with daemons that listen at this address.
    pub fn with_listen(self, listen: IpAddr) -> Self {
        Self { listen, ..self }
    }

    /// The same, for clients of these versions of the messenger's protocol.
    pub fn with_versions(self, versions: Versions) -> Self {
        Self { versions, ..self }
    }

    /// The same, with the monitor at this port; 0: any.
    pub fn with_mon_port(self, mon_port: u16) -> Self {
        Self { mon_port, ..self }
    }

    /// The same, with this number of OSDs, from one to [`MAX_OSDS`].
    pub fn with_osds(self, osds: u32) -> Self {
        Self { osds: Some(osds), ..self }
    }

    /// The same, with the OSDs and the manager from this port on; 0: any.
    pub fn with_osd_port(self, osd_port: u16) -> Self {
        Self { osd_port, ..self }
    }

    /// The same, with OSDs that hold at most this number of bytes each.
    pub fn with_memory_limit(self, bytes: u64) -> Self {
        Self { memory_limit: Some(bytes), ..self }
    }

    /// The same, with writes that are thrown away, or kept.
    pub fn with_null_writes(self, null_writes: bool) -> Self {
        Self { null_writes, ..self }
    }

    /// The same, beginning with these pools.
    pub fn with_pools(self, pools: Vec<NewPool>) -> Self {
        Self { pools, ..self }
    }

    /// The same, with the bytes moved by this engine.
    pub fn with_engine(self, engine: EngineKind) -> Self {
        Self { engine, ..self }
    }

    /// The same, with these settings of sends without a copy.
    pub fn with_zero_copy(self, zero_copy: zero_copy::Settings) -> Self {
        Self { zero_copy, ..self }
    }

    /// The same, doing this before it sleeps.
    pub fn with_spin(self, spin: Spin) -> Self {
        Self { spin, ..self }
    }

    /// The same, with keys that clients need, or without.
    pub fn with_cephx(self, cephx: bool) -> Self {
        Self { cephx: Some(cephx), ..self }
    }

    /// The same, with tickets of these lifetimes.
    pub fn with_ticket_lifetimes(self, ticket_lifetimes: Lifetimes) -> Self {
        Self { ticket_lifetimes, ..self }
    }

    /// The same, with encrypted connections alone, or not.
    pub fn with_secure_only(self, secure_only: bool) -> Self {
        Self { secure_only, ..self }
    }

    /// The same, with frames compressed where clients want it.
    pub fn with_compression(self, compression: Compression) -> Self {
        Self { compression: Some(compression), ..self }
    }

    /// The same, writing a `ceph.conf` to this folder.
    pub fn with_conf_dir(self, conf_dir: impl Into<PathBuf>) -> Self {
        Self { conf_dir: Some(conf_dir.into()), ..self }
    }

    /// The same, with this id.
    pub fn with_fsid(self, fsid: Uuid) -> Self {
        Self { fsid: Some(fsid), ..self }
    }

    /// The same, keeping its state in this directory.
    pub fn with_data(self, data: impl Into<PathBuf>) -> Self {
        Self { data: Some(data.into()), ..self }
    }

    /// The same, with a checkpoint when the log is this number of bytes long.
    pub fn with_log_limit(self, bytes: u64) -> Self {
        Self { log_limit: bytes, ..self }
    }

    /// Where the monitor is to listen.
    pub(crate) fn mon_addrs(&self) -> AddrVec {
        let legacy = match (self.versions, self.mon_port) {
            (Versions::One, port) => port,
            (_, MON_PORT_MSGR2) => MON_PORT_LEGACY,
            _ => 0,
        };
        self.addrs(self.mon_port, legacy)
    }

    /// Where an OSD is to listen.
    pub(crate) fn osd_addrs(&self, osd: u16) -> AddrVec {
        match self.osd_port {
            0 => self.addrs(0, 0),
            first => self.addrs(first + 2 * osd, first + 2 * osd + 1),
        }
    }

    /// Where the manager of a cluster of that many OSDs is to listen: behind them.
    pub(crate) fn mgr_addrs(&self, osds: u16) -> AddrVec {
        self.osd_addrs(osds)
    }

    fn addrs(&self, msgr2: u16, legacy: u16) -> AddrVec {
        let at = |port| SocketAddr::new(self.listen, port);
        let (msgr2, legacy) = (EntityAddr::msgr2(at(msgr2), 0), EntityAddr::legacy(at(legacy), 0));
        AddrVec(match self.versions {
            Versions::Any => vec![msgr2, legacy],
            Versions::One => vec![legacy],
            Versions::Two => vec![msgr2],
        })
    }
}

/// What the state machine of a cluster is made from: like [`Config`], but with nothing left to chance or to the
/// machine it runs on.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The cluster.
    pub fsid: Uuid,
    /// Where the monitor listens: an address for each version of the messenger's protocol.
    pub mon: AddrVec,
    /// Where the manager listens, in the same way; empty: there is none.
    pub mgr: AddrVec,
    /// The OSDs, the first being number 0.
    pub osds: Vec<OsdSettings>,
    /// Bytes that each OSD holds at most: see [`Config::memory_limit`].
    pub memory_limit: u64,
    /// See [`Config::null_writes`].
    pub null_writes: bool,
    /// See [`Config::pools`].
    pub pools: Vec<NewPool>,
    /// Who is let in; none: everybody.
    pub cephx: Option<Cephx>,
    /// See [`Config::compression`].
    pub compression: Option<Compression>,
    /// Bytes of payload that may lie in memory which an engine can register, for sends without a copy.
    pub registrable: usize,
}

/// One OSD of [`Settings`].
#[derive(Debug, Clone)]
pub struct OsdSettings {
    /// Names its store.
    pub uuid: Uuid,
    /// Where it listens: an address for each version of the messenger's protocol. Their nonces tell this life of the
    /// OSD from others at the same addresses.
    pub addrs: AddrVec,
}

impl OsdSettings {
    /// The OSD of that store, with nonces that come from its name.
    pub fn new(uuid: Uuid, mut addrs: AddrVec) -> Self {
        let [a, b, c, d, ..] = uuid.0;
        for addr in &mut addrs.0 {
            // The lives that follow count up from here.
            addr.nonce = u32::from_le_bytes([a, b, c, d]) >> 1;
        }
        Self { uuid, addrs }
    }

    /// The OSD in a life of the cluster: its nonces are others in each.
    pub(crate) fn in_life(&self, life: u32) -> FirstOsd {
        let mut addrs = self.addrs.clone();
        for addr in &mut addrs.0 {
            // Within a life it may stop and start often, and counts up each time.
            addr.nonce = addr.nonce.wrapping_add((life - 1) << 16);
        }
        FirstOsd { uuid: self.uuid, addrs }
    }
}

/// The `ceph.conf` by which Ceph's programs, and ours, find the cluster. `keyring`: the setting that says where the key
/// is, if clients need one.
pub(crate) fn conf_text(
    fsid: Uuid,
    mon: &AddrVec,
    osds: u32,
    keyring: Option<&str>,
    compression: Option<&Compression>,
) -> String {
    // What programs make themselves fits the OSDs.
    let size = default_size(osds);
    let min_size = size - size / 2;
    // Several addresses are printed in brackets as it is.
    let mon = if mon.0.len() == 1 { format!("[{mon}]") } else { mon.to_string() };
    let auth = match keyring {
        Some(keyring) => format!(
            "\
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
{keyring}
"
        ),
        // Nobody needs a key, so that programs must not look for one.
        None => "\
auth cluster required = none
auth service required = none
auth client required = none
ms cluster mode = crc
ms service mode = crc
ms client mode = crc
ms mon client mode = crc
keyring = /dev/null
"
        .to_owned(),
    };
    let settings = compression.map(Compression::settings);
    let lines =
        settings.iter().flatten().map(|(name, value)| format!("{} = {value}\n", name.replace('_', " ")));
    let compression: String = lines.collect();
    format!(
        "\
[global]
fsid = {fsid}
mon host = {mon}
{auth}{compression}osd pool default size = {size}
osd pool default min size = {min_size}
osd pool default pg num = 32
osd pool default pgp num = 32
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_msgr::addr::EntityAddr;

    #[test]
    fn each_version_of_the_protocol_has_a_port_of_its_own() {
        let config = Config { mon_port: 3300, osd_port: 6800, ..Config::default() };
        assert_eq!(config.mon_addrs().to_string(), "[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]");
        assert_eq!(config.osd_addrs(1).to_string(), "[v2:127.0.0.1:6802/0,v1:127.0.0.1:6803/0]");
        assert_eq!(Config::default().osd_addrs(7).to_string(), "[v2:127.0.0.1:0/0,v1:127.0.0.1:0/0]");
        let old = Config { versions: Versions::One, mon_port: 7000, ..Config::default() };
        assert_eq!(old.mon_addrs().to_string(), "v1:127.0.0.1:7000/0");
    }

    #[test]
    fn the_conf_names_the_cluster_and_its_monitor() {
        let addr = EntityAddr::msgr2("127.0.0.1:3300".parse().unwrap(), 0);
        let text = conf_text(Uuid([7; 16]), &AddrVec(vec![addr]), 3, None, None);
        assert!(text.contains("fsid = 07070707-0707-0707-0707-070707070707\n"), "{text}");
        assert!(text.contains("mon host = [v2:127.0.0.1:3300/0]\n"), "{text}");
        assert!(!text.contains("compress"), "{text}");
        let compression = Compression { secure: true, ..Compression::default() };
        let text_with = conf_text(Uuid([7; 16]), &AddrVec(vec![addr]), 3, None, Some(&compression));
        assert!(
            text_with.contains("\nms osd compress mode = force\nms osd compress min size = 1024\n"),
            "{text_with}"
        );
        assert!(text_with.contains("\nms osd compression algorithm = snappy\nms compress secure = true\n"));
        assert!(text.contains("default size = 3\nosd pool default min size = 2\n"), "{text}");
    }
}
