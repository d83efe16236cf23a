//! Configuration and limits of one side of a connection.

use crate::auth::Gate;
use crate::compression::Compression;
use crate::error::Error;
use crate::policy::Policy;
use crate::types::EntityName;
use crate::types::addr::AddrVec;
use crate::types::features;
use onego_buf::Pool;
use std::time::Duration;

/// Limits on what a peer may send. Each length is checked before memory is allocated for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a control frame, in bytes.
    pub control: u32,
    /// Maximum size of a message's front, in bytes.
    pub front: u32,
    /// Maximum size of a message's middle, in bytes.
    pub middle: u32,
    /// Maximum size of a message's data, in bytes.
    pub data: u32,
    /// Maximum size of a message's data after decompression, in bytes, if lower than `data`. Longer data is discarded
    /// without decompressing it, up to [`discard`](Self::discard).
    pub unpacked: u32,
    /// Maximum size of discarded data, in bytes. Uncompressed data longer than `data` but within this limit is dropped
    /// as it arrives (see [`Message::discarded`](crate::Message::discarded)); longer data ends the connection.
    pub discard: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // The largest control frames carry authentication tickets or an address vector: a few KiB.
            control: 64 << 10,
            // Same limits as the kernel client (linux include/linux/ceph/messenger.h, CEPH_MSG_MAX_*_LEN): a front may
            // be a whole OSD map of a large cluster.
            front: 16 << 20,
            middle: 16 << 20,
            // Likewise. An OSD refuses writes of more than 90 MiB (osd_max_write_size), but objects are 4 MiB.
            data: 64 << 20,
            unpacked: u32::MAX,
            discard: 0,
        }
    }
}

impl Limits {
    pub(crate) fn discards(&self, len: u32) -> bool {
        len > self.data && len <= self.discard
    }

    /// Returns the lengths of front, middle and data after discarding.
    pub(crate) fn kept(&self, [front, middle, data]: [u32; 3]) -> [u32; 3] {
        [front, middle, if self.discards(data) { 0 } else { data }]
    }

    /// Checks the lengths of front, middle and data. `most` maps a limit to the most bytes that it may take on the
    /// wire.
    pub(crate) fn check(&self, lens: [u32; 3], most: impl Fn(u32) -> u32) -> Result<(), Error> {
        let bounds =
            [("message front", self.front), ("message middle", self.middle), ("message payload", self.data)];
        for ((what, bound), len) in bounds.into_iter().zip(lens) {
            within(what, len, most(bound))?;
        }
        Ok(())
    }
}

pub(crate) fn within(what: &'static str, len: u32, bound: u32) -> Result<(), Error> {
    if len <= bound { Ok(()) } else { Err(Error::TooLong { what, len: len.into(), bound: bound.into() }) }
}

/// When to probe a silent peer and when to give it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before a KEEPALIVE2 is sent.
    pub interval: Duration,
    /// Further silence before the connection fails.
    pub timeout: Duration,
}

/// Configuration shared by the connections of one process.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of this process. A client's number is negative until a monitor assigns one.
    pub entity: EntityName,
    /// Handling of messages when a connection breaks.
    pub policy: Policy,
    /// Authentication that a server requires of clients.
    pub gate: Gate,
    /// Addresses of this process. If empty on a client, the local address of the connection is used.
    pub addrs: AddrVec,
    /// Distinguishes this process from earlier ones at the same address, for a client with empty `addrs`.
    pub nonce: u32,
    /// Features of this side.
    pub supported: u64,
    /// Features that a peer must have.
    pub required: u64,
    /// Limits on what a peer may send.
    pub limits: Limits,
    /// Keepalive probing; `None` disables it.
    pub keepalive: Option<Keepalive>,
    /// Maximum duration of the handshake.
    pub handshake_timeout: Duration,
    /// Computes and checks the checksums of fronts, middles and data; those of preambles and headers are always used.
    /// The wire format does not carry this setting: a peer configured differently rejects every message as corrupt.
    /// (`ms_crc_data` in newer releases of Ceph.)
    pub data_crc: bool,
    /// Compression settings; `None` disables compression. Version 1 of the protocol never compresses.
    pub compression: Option<Compression>,
    /// Pool that frames are built in.
    pub pool: Pool,
}

impl Config {
    /// Creates a client configuration with librados' timeouts.
    pub fn client(nonce: u32, pool: Pool) -> Self {
        Self {
            entity: EntityName { kind: EntityName::CLIENT, num: -1 },
            policy: Policy::LOSSY_CLIENT,
            gate: Gate::Open,
            addrs: AddrVec::default(),
            nonce,
            supported: features::ALL,
            required: features::MSG_ADDR2 | features::OSDREPLYMUX,
            limits: Limits::default(),
            // mon_client_ping_interval and mon_client_ping_timeout.
            keepalive: Some(Keepalive {
                interval: Duration::from_secs(10),
                timeout: Duration::from_secs(20),
            }),
            // ms_connection_ready_timeout.
            handshake_timeout: Duration::from_secs(10),
            data_crc: true,
            compression: None,
            pool,
        }
    }

    /// Creates the configuration of a server named `entity` that listens on `addrs` and accepts every client without
    /// proof.
    pub fn server(entity: EntityName, addrs: AddrVec, pool: Pool) -> Self {
        Self {
            entity,
            policy: Policy::STATELESS_SERVER,
            gate: Gate::Open,
            addrs,
            nonce: 0,
            supported: features::ALL,
            // Requests are decoded in the encodings that Luminous introduced; kernel clients use them since 4.13.
            required: features::MSG_ADDR2 | features::SERVER_LUMINOUS | features::NEW_OSDOP_ENCODING,
            limits: Limits::default(),
            keepalive: None,
            handshake_timeout: Duration::from_secs(10),
            data_crc: true,
            compression: None,
            pool,
        }
    }
}
