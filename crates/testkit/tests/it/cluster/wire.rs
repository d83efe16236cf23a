//! How clients speak to the cluster: the version of the messenger's protocol, its mode, with keys or without, and
//! compressed or not.

use onego_cluster::Cephx;
use onego_msgr::addr::{AddrVec, EntityAddr, Versions};
use onego_msgr::auth::{AuthName, Credentials, Lifetimes, mode};
use onego_msgr::{Compression, Method};
use onego_testkit::Faults;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Waits for the other side that a connection takes until a ticket has done its work.
const ROUNDS: u32 = 9;

/// What else such a wait may take.
const SLACK: Duration = Duration::from_micros(50);

/// A ticket lasts as long as this many connections, doubled up to `DOUBLINGS` times.
const CONNECTIONS: u32 = 2;
const DOUBLINGS: u32 = 4;

/// What the connections of a world are like.
#[derive(Debug)]
pub(crate) struct Wire {
    seed: u64,
    pub(crate) versions: Versions,
    /// The mode that clients agree to, and how long tickets are good. None: nobody has a key.
    keys: Option<(u32, Lifetimes)>,
    pub(crate) compression: Option<Compression>,
}

impl Wire {
    pub(crate) fn of_seed(seed: u64, faults: &Faults) -> Self {
        let random = &mut SmallRng::seed_from_u64(seed ^ 0x3a7e);
        let versions = if random.random_range(0..3) == 0 { Versions::One } else { Versions::Two };
        let modes = if versions == Versions::One { [mode::CRC; 2] } else { [mode::CRC, mode::SECURE] };
        let mode = modes[random.random_range(0..2)];
        // Short against what happens in a world, but not so short that nobody ever gets in.
        let round = 2 * *faults.latency.end() + *faults.receive_delay.end() + SLACK;
        let connection = ROUNDS * round + *faults.accept_delay.end();
        let service = connection * CONNECTIONS * (1 << random.random_range(0..=DOUBLINGS));
        let lifetimes = Lifetimes { monitor: service * random.random_range(1..4), service };
        let has_keys = random.random_range(0..3) > 0;
        let method = [Method::Snappy, Method::Zlib, Method::Zstd, Method::Lz4][random.random_range(0..4)];
        let min_size = [0, 200, 1 << 10][random.random_range(0..3)];
        let compression = Compression { methods: vec![method], min_size, secure: random.random() };
        let compression = (random.random_range(0..3) == 0).then_some(compression);
        Self { seed, versions, keys: has_keys.then_some((mode, lifetimes)), compression }
    }

    /// Connections in crc mode, with tickets that are good so long.
    pub(crate) fn with_keys(versions: Versions, lifetimes: Lifetimes) -> Self {
        Self { seed: 1, versions, keys: Some((mode::CRC, lifetimes)), compression: None }
    }

    /// Connections without keys and compression.
    pub(crate) fn open() -> Self {
        Self { seed: 1, versions: Versions::Two, keys: None, compression: None }
    }

    /// The addresses of a daemon, which listens for both versions.
    pub(crate) fn addrs(ip: IpAddr, port: u16) -> AddrVec {
        let at = |port| SocketAddr::new(ip, port);
        AddrVec(vec![EntityAddr::msgr2(at(port), 0), EntityAddr::legacy(at(port + 1000), 0)])
    }

    /// The keys of a cluster in one life after the other: who has which key stays, everything else is made anew.
    pub(crate) fn cephx(&self, life: u32) -> Option<Cephx> {
        let (_, lifetimes) = self.keys?;
        let keyring = Cephx::new(self.secret(0, 0)).keyring;
        Some(Cephx { lifetimes, ..Cephx::of(keyring, self.secret(1, life)) })
    }

    /// The users that the clients are.
    pub(crate) fn credentials(&self) -> Credentials {
        let name = AuthName::client("admin");
        let Some((mode, _)) = self.keys else { return Credentials::new(name, None) };
        let key =
            self.cephx(0).and_then(|cephx| cephx.keyring.entries.get(&name).map(|entry| entry.key.clone()));
        let credentials = Credentials::new(name, key);
        Credentials { modes: vec![mode], monitor_modes: vec![mode], ..credentials }
    }

    /// A seed of what nobody may guess, for one purpose.
    pub(crate) fn secret(&self, purpose: u8, number: u32) -> [u8; 32] {
        let mut secret = [purpose; 32];
        secret[..8].copy_from_slice(&self.seed.to_le_bytes());
        secret[8..12].copy_from_slice(&number.to_le_bytes());
        secret
    }

    /// How long a ticket for a service is good.
    pub(crate) fn lifetime(&self) -> Option<Duration> {
        self.keys.map(|(_, lifetimes)| lifetimes.service)
    }

    /// How often the keys of the services change in so much time.
    pub(crate) fn rotations(&self, time: Duration) -> u64 {
        self.lifetime().map_or(0, |lifetime| (time.as_nanos() / lifetime.as_nanos()) as u64)
    }
}
