//! What a world is like: the mode of its messenger, the policies of its ends, and what goes wrong in it.

use super::line::Protection;
use onego_msgr::auth::{Lifetimes, mode};
use onego_msgr::{Compression, Method, Policy, features};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

/// Which version of the protocol is spoken, and how it is protected.
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
    /// Version 1 with keys, and signed messages.
    Signed,
    /// Version 1 between peers that do not tell each other what they have received: messages come twice.
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

    /// How its connections are compressed.
    pub(super) fn compression(self) -> Option<Compression> {
        let method = match self {
            Self::Compressed => Method::Zstd,
            Self::CompressedSecure => Method::Snappy,
            _ => return None,
        };
        Some(Compression { methods: vec![method], min_size: 0, secure: self.is_secure() })
    }

    /// The mode of connections that an end with keys agrees to.
    pub(super) fn auth_mode(self) -> Option<u32> {
        match self {
            Self::Open2 | Self::Compressed | Self::Open1 | Self::Old => None,
            Self::Crc | Self::Signed => Some(mode::CRC),
            Self::Secure | Self::CompressedSecure => Some(mode::SECURE),
        }
    }

    /// Features that neither end has.
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

    /// Pairs of policies that lose nothing. Sessions of version 1 have no names: who missed the answer to its first
    /// attempt cannot be told from a new life, for which a policy that forgets what was meant for the old one does so.
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
            // Here, a server also takes for open what its client knows nothing of yet.
            Self::Old => &ALL[..1],
        }
    }
}

/// What goes wrong in a world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Troubles {
    /// Most bytes that a line carries.
    pub(crate) breaks: usize,
    /// Ends take lines for dead that are not.
    pub(crate) hang_ups: bool,
    /// Most bytes that are on their way to an end.
    pub(crate) window: usize,
    /// One in this many sends damages a byte.
    pub(crate) damage: Option<u32>,
    /// At one in this many steps an end is restarted.
    pub(crate) restarts: Option<u32>,
    /// Those get another address each time, as daemons do that have a new nonce in each life; the other end hears of it
    /// from a map. Otherwise it is for the session to notice, as with monitors.
    pub(crate) moves: bool,
    /// How long tickets are good.
    pub(crate) lifetimes: Lifetimes,
    /// One in this many answers of the monitors never comes; another takes longer than any ticket is good.
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

/// What happened in a world, or in many.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) broken: u64,
    pub(crate) damaged: u64,
    pub(crate) restarts: u64,
    pub(crate) lost: u64,
    pub(crate) refused: u64,
    pub(crate) waits: u64,
    pub(crate) refused_tickets: u64,
    /// Frames that can be seen to be compressed.
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
