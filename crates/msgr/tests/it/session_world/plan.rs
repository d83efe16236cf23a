//! Parameters of a world: messenger mode, policies of the ends, and faults.

use super::line::Protection;
use onego_msgr::auth::{Lifetimes, mode};
use onego_msgr::{Compression, Method, Policy, features};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Version 2, without keys.
    Open2,
    /// Version 2 with keys, in crc mode.
    Crc,
    /// Version 2, encrypted.
    Secure,
    /// Version 2, without keys, compressed.
    Compressed,
    /// Version 2, compressed and then encrypted.
    CompressedSecure,
    /// Version 1, without keys.
    Open1,
    /// Version 1 with keys and signed messages.
    Signed,
    /// Version 1 between peers that do not report what they have received: messages arrive twice.
    Old,
}

impl Mode {
    pub(crate) const ALL: [Self; 8] = [
        Self::Open2,
        Self::Crc,
        Self::Secure,
        Self::Compressed,
        Self::CompressedSecure,
        Self::Open1,
        Self::Signed,
        Self::Old,
    ];

    pub(crate) fn version(self) -> &'static str {
        if matches!(self, Self::Open1 | Self::Signed | Self::Old) { "v1" } else { "v2" }
    }

    pub(super) fn is_secure(self) -> bool {
        self.auth_mode() == Some(mode::SECURE)
    }

    pub(super) fn compression(self) -> Option<Compression> {
        let method = match self {
            Self::Compressed => Method::Zstd,
            Self::CompressedSecure => Method::Snappy,
            _ => return None,
        };
        Some(Compression { methods: vec![method], min_size: 0, secure: self.is_secure() })
    }

    /// Returns the connection mode that an end with keys accepts.
    pub(super) fn auth_mode(self) -> Option<u32> {
        match self {
            Self::Open2 | Self::Compressed | Self::Open1 | Self::Old => None,
            Self::Crc | Self::Signed => Some(mode::CRC),
            Self::Secure | Self::CompressedSecure => Some(mode::SECURE),
        }
    }

    pub(super) fn lacks(self) -> u64 {
        if self == Self::Old { features::RECONNECT_SEQ } else { 0 }
    }

    pub(super) fn protection(self) -> Protection {
        match self {
            Self::Open2 | Self::Crc | Self::Compressed => Protection::Frames,
            Self::Secure | Self::CompressedSecure => Protection::Encryption,
            Self::Open1 | Self::Old => Protection::Sums,
            Self::Signed => Protection::Signature,
        }
    }

    /// Pairs of policies that lose nothing. Sessions of version 1 have no cookies, so a peer that missed the answer to
    /// its first attempt looks like a restarted one. A policy that drops messages for the earlier instance would drop
    /// its messages.
    pub(crate) fn policies(self) -> &'static [[Policy; 2]] {
        const ALL: [[Policy; 2]; 4] = [
            [Policy::LOSSLESS_PEER, Policy::LOSSLESS_PEER],
            [Policy::LOSSLESS_CLIENT, Policy::STATEFUL_SERVER],
            [Policy::STATEFUL_SERVER, Policy::LOSSLESS_CLIENT],
            [Policy::LOSSLESS_PEER_REUSE, Policy::LOSSLESS_PEER_REUSE],
        ];
        match self {
            Self::Open2 | Self::Crc | Self::Secure | Self::Compressed | Self::CompressedSecure => &ALL,
            Self::Open1 | Self::Signed => &ALL[..3],
            // In this mode a server also considers a session open that its client does not know yet.
            Self::Old => &ALL[..1],
        }
    }
}

/// Faults of a world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Troubles {
    /// Maximum number of bytes that a line carries.
    pub(crate) breaks: usize,
    /// Ends give up lines that are alive.
    pub(crate) hang_ups: bool,
    /// Maximum number of bytes in flight to an end.
    pub(crate) window: usize,
    /// One in this many sends corrupts a byte.
    pub(crate) damage: Option<u32>,
    /// One in this many steps restarts an end.
    pub(crate) restarts: Option<u32>,
    /// Restarted ends get a new address, like daemons with a new nonce in each instance, which the other end learns
    /// from a map. Otherwise the session must detect the restart, as with monitors.
    pub(crate) moves: bool,
    pub(crate) lifetimes: Lifetimes,
    /// One in this many answers of the monitors never arrives, and another outlasts every ticket.
    pub(crate) lost_answers: Option<u32>,
}

impl Troubles {
    pub(crate) const NONE: Self = Self {
        breaks: usize::MAX,
        hang_ups: false,
        window: usize::MAX,
        damage: None,
        restarts: None,
        moves: false,
        lifetimes: Lifetimes { monitor: Duration::from_secs(3600), service: Duration::from_secs(600) },
        lost_answers: None,
    };

    pub(super) fn random(seed: u64) -> Self {
        let random = &mut SmallRng::seed_from_u64(seed ^ 0x7b0b1e);
        let service = Duration::from_secs(random.random_range(2..40));
        Self {
            breaks: [400, 1500, 6000, 40_000][random.random_range(0..4)],
            hang_ups: random.random(),
            window: [usize::MAX, 5000, 300][random.random_range(0..3)],
            damage: random.random::<bool>().then(|| random.random_range(2..60)),
            restarts: random.random::<bool>().then(|| random.random_range(200..2000)),
            moves: random.random(),
            lifetimes: Lifetimes { monitor: service * random.random_range(1..5), service },
            lost_answers: random.random::<bool>().then(|| random.random_range(1..10)),
        }
    }
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) broken: u64,
    pub(crate) damaged: u64,
    pub(crate) restarts: u64,
    pub(crate) lost: u64,
    pub(crate) refused: u64,
    pub(crate) waits: u64,
    pub(crate) refused_tickets: u64,
    /// Frames recognizable as compressed.
    pub(crate) compressed: u64,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.broken += other.broken;
        self.damaged += other.damaged;
        self.restarts += other.restarts;
        self.lost += other.lost;
        self.refused += other.refused;
        self.waits += other.waits;
        self.refused_tickets += other.refused_tickets;
        self.compressed += other.compressed;
    }
}
