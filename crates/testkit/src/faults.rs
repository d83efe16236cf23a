use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::ops::RangeInclusive;
use std::time::Duration;

/// What goes wrong in a simulated network, and how often. Streams keep their order and lose nothing while they
/// last, as TCP's do.
#[derive(Debug, Clone)]
pub struct Faults {
    /// Time from one side to the other.
    pub latency: RangeInclusive<Duration>,
    /// Chance that what was sent together arrives in two parts, each of which may be parted again.
    pub split: f64,
    /// Chance that a send takes only a part of what it could.
    pub short_send: f64,
    /// Chance that a receive gives only a part of what is there.
    pub short_receive: f64,
    /// Chance that an operation ends later, as with a completion engine, instead of on the spot.
    pub complete_later: f64,
    /// Bytes of one direction that may be sent and not yet received by the other side: the kernel's buffers.
    pub window: usize,
    /// How late a receiver hears of what has arrived: a slow reader.
    pub receive_delay: RangeInclusive<Duration>,
    /// Time from the arrival of a new connection to its acceptance.
    pub accept_delay: RangeInclusive<Duration>,
    /// Chance that a connection is refused although somebody listens.
    pub refuse: f64,
    /// Chance, send by send, that the connection is reset there and then. What is under way is lost.
    pub reset_per_send: f64,
    /// How long a connection lives until it is reset, about; None: for ever.
    pub lifetime: Option<Duration>,
    /// Time from one cut between two random nodes to the next; None: no cuts.
    pub cut_every: Option<RangeInclusive<Duration>>,
    /// How long such a cut lasts.
    pub cut_lasts: RangeInclusive<Duration>,
    /// How long a connect goes on without an answer.
    pub connect_timeout: Duration,
}

const fn micros(from: u64, to: u64) -> RangeInclusive<Duration> {
    Duration::from_micros(from)..=Duration::from_micros(to)
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}

impl Faults {
    /// A network in which nothing goes wrong: 50 us from everywhere to everywhere.
    pub fn none() -> Self {
        Self {
            latency: micros(50, 50),
            split: 0.0,
            short_send: 0.0,
            short_receive: 0.0,
            complete_later: 0.0,
            window: 1 << 20,
            receive_delay: micros(0, 0),
            accept_delay: micros(0, 0),
            refuse: 0.0,
            reset_per_send: 0.0,
            lifetime: None,
            cut_every: None,
            cut_lasts: micros(0, 0),
            // What Linux comes to with `net.ipv4.tcp_syn_retries` = 6.
            connect_timeout: Duration::from_secs(127),
        }
    }

    /// Streams that arrive in odd pieces at odd times, but do arrive.
    pub fn ragged() -> Self {
        Self {
            latency: micros(1, 5_000),
            split: 0.5,
            short_send: 0.2,
            short_receive: 0.3,
            complete_later: 0.3,
            window: 100_000,
            receive_delay: micros(0, 2_000),
            accept_delay: micros(0, 10_000),
            ..Self::none()
        }
    }

    /// All of it, often.
    pub fn harsh() -> Self {
        Self {
            refuse: 0.2,
            reset_per_send: 0.01,
            lifetime: Some(Duration::from_secs(5)),
            cut_every: Some(micros(500_000, 20_000_000)),
            cut_lasts: micros(1_000, 30_000_000),
            ..Self::ragged()
        }
    }

    /// Some of it, as the seed decides: each knob is off, or anywhere up to harsh. Faults that never occur together
    /// hide what only some of them bring out.
    pub fn random(seed: u64) -> Self {
        let rng = &mut SmallRng::seed_from_u64(seed ^ 0xfa17);
        let harsh = Self::harsh();
        Self {
            latency: Duration::ZERO..=up_to(rng, *harsh.latency.end()),
            split: chance_up_to(rng, harsh.split),
            short_send: chance_up_to(rng, harsh.short_send),
            short_receive: chance_up_to(rng, harsh.short_receive),
            complete_later: [0.0, 0.5, 1.0][rng.random_range(0..3)],
            window: 1 << rng.random_range(14..=20),
            receive_delay: Duration::ZERO..=up_to(rng, *harsh.receive_delay.end()),
            accept_delay: Duration::ZERO..=up_to(rng, *harsh.accept_delay.end()),
            refuse: chance_up_to(rng, harsh.refuse),
            reset_per_send: chance_up_to(rng, harsh.reset_per_send),
            lifetime: rng.random::<bool>().then(|| Duration::from_millis(rng.random_range(500..20_000))),
            cut_every: if rng.random() { harsh.cut_every.clone() } else { None },
            ..harsh
        }
    }
}

fn up_to(rng: &mut SmallRng, most: Duration) -> Duration {
    rng.random_range(Duration::ZERO..=most)
}

/// Half of the time none at all.
fn chance_up_to(rng: &mut SmallRng, most: f64) -> f64 {
    if rng.random() { rng.random_range(0.0..=most) } else { 0.0 }
}

/// A duration out of a range, to the nanosecond.
pub(crate) fn pick(rng: &mut SmallRng, range: &RangeInclusive<Duration>) -> Duration {
    rng.random_range(range.clone())
}

/// Does something of that chance happen?
pub(crate) fn happens(rng: &mut SmallRng, chance: f64) -> bool {
    chance > 0.0 && rng.random_bool(chance.min(1.0))
}
