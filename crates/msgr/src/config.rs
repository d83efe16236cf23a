//! The configuration of one side of a connection, and its bounds.

use crate::auth::Gate;
use crate::compression::Compression;
use crate::error::Error;
use crate::policy::Policy;
use crate::types::EntityName;
use crate::types::addr::AddrVec;
use crate::types::features;
use onego_buf::Pool;
use std::time::Duration;

/// Bounds on what a peer may send. A length is checked against them before memory is taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a control frame.
    pub control: u32,
    /// Bytes of a message's front.
    pub front: u32,
    /// Bytes of a message's middle.
    pub middle: u32,
    /// Bytes of a message's data.
    pub data: u32,
    /// Bytes that a message's data may have once it is decompressed, if that is less. Longer data is discarded compressed, up
    /// to [`discard`](Self::discard).
    pub unpacked: u32,
    /// The longest data that is discarded, bytes: uncompressed data between the two bounds (see
    /// [`Message::discarded`](crate::Message::discarded)). Longer data ends the connection.
    pub discard: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // The largest control frames carry tickets of the authentication or a vector of addresses: a few KiB.
            control: 64 << 10,
            // What the kernel's client takes (linux include/linux/ceph/messenger.h, CEPH_MSG_MAX_*_LEN): a front
            // may be a whole OSD map of a large cluster.
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
    /// Is data of this length (bytes) discarded as it arrives?
    pub(crate) fn discards(&self, len: u32) -> bool {
        len > self.data && len <= self.discard
    }

    /// The lengths of front, middle and data, as far as they are kept.
    pub(crate) fn kept(&self, [front, middle, data]: [u32; 3]) -> [u32; 3] {
        [front, middle, if self.discards(data) { 0 } else { data }]
    }

    /// Checks the lengths of front, middle and data. `most` makes of a bound the most bytes that it takes on the wire.
    pub(crate) fn check(&self, lens: [u32; 3], most: impl Fn(u32) -> u32) -> Result<(), Error> {
        let bounds =
            [("message front", self.front), ("message middle", self.middle), ("message payload", self.data)];
        for ((what, bound), len) in bounds.into_iter().zip(lens) {
            within(what, len, most(bound))?;
        }
        Ok(())
    }
}

/// Checks the length of `what` against its bound.
pub(crate) fn within(what: &'static str, len: u32, bound: u32) -> Result<(), Error> {
    if len <= bound { Ok(()) } else { Err(Error::TooLong { what, len: len.into(), bound: bound.into() }) }
}

/// When to ask a peer that says nothing for a sign of life, and when to give it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence after which a KEEPALIVE2 is sent.
    pub interval: Duration,
    /// Further silence after which the connection fails.
    pub timeout: Duration,
}

/// What the connections of one process have in common.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of this process. A client's number is negative until a monitor gave it one.
    pub entity: EntityName,
    /// What is done about messages when a connection breaks.
    pub policy: Policy,
    /// How a server lets clients in.
    pub gate: Gate,
    /// Addresses of this process. A client that leaves them out uses the address that its connection has.
    pub addrs: AddrVec,
    /// Tells this process from earlier ones at the same address, for a client that leaves `addrs` out.
    pub nonce: u32,
    /// Features that this side has.
    pub supported: u64,
    /// Features that a peer must have.
    pub required: u64,
    /// Bounds on what a peer may send.
    pub limits: Limits,
    /// Signs of life, if any are asked for.
    pub keepalive: Option<Keepalive>,
    /// How long a connection may take until messages can be exchanged.
    pub handshake_timeout: Duration,
    /// Make and check the checksums of fronts, middles and data; those of preambles and headers always are. Nothing
    /// on the wire tells: a peer that is not told the same takes every message for damaged. (Newer releases of Ceph
    /// have it as `ms_crc_data`.)
    pub data_crc: bool,
    /// What this side agrees to of compression; none: it does not compress. Version 1 of the protocol never does.
    pub compression: Option<Compression>,
    /// Gives the memory that frames are built in.
    pub pool: Pool,
}

impl Config {
    /// The configuration of a client, with the times that librados has.
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

    /// The configuration of a server that is known as `entity`, listens on `addrs` and believes everybody.
    pub fn server(entity: EntityName, addrs: AddrVec, pool: Pool) -> Self {
        Self {
            entity,
            policy: Policy::STATELESS_SERVER,
            gate: Gate::Open,
            addrs,
            nonce: 0,
            supported: features::ALL,
            // Requests are read in the encodings that Luminous brought, which kernel clients have since 4.13.
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
