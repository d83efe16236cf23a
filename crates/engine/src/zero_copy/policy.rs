use super::thresholds::Thresholds;
use onego_buf::List;
use std::fmt;
use std::str::FromStr;

/// Zero-copy mode of sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Never: the kernel copies.
    #[default]
    Off,
    /// Always.
    On,
    /// If it pays.
    Adaptive,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::Off, Mode::On, Mode::Adaptive];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Off => "off",
            Mode::On => "on",
            Mode::Adaptive => "adaptive",
        })
    }
}

/// Error of an unknown mode name.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is none of off, on, adaptive")]
pub struct UnknownMode(String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.to_string() == name)
            .ok_or_else(|| UnknownMode(name.to_owned()))
    }
}

/// Size and layout of a zero-copy send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Total bytes.
    pub bytes: usize,
    /// Number of pieces.
    pub segments: usize,
}

impl Shape {
    /// Returns the shape of a list.
    #[inline]
    pub fn of(list: &List) -> Self {
        Self { bytes: list.len(), segments: list.segments().len() }
    }
}

/// Access of the kernel to the memory of a zero-copy send. Each kind pays from a different size on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The memory is registered with the ring.
    Registered,
    /// A ring's request looks up the pages.
    Ring,
    /// `MSG_ZEROCOPY` looks up the pages, and its notification takes a system call.
    Socket,
}

/// Decisions of a policy and their results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Sends made without a copy by this side.
    pub zero_copy: u64,
    /// Sends of those that the kernel reported as copied after all.
    pub copied: u64,
    /// Sends copied because they or their pieces were too small.
    pub too_small: u64,
    /// Sends copied because the kernel had copied earlier ones, or its report was pending.
    pub declined: u64,
    /// Sends made to find out whether the kernel copies.
    pub probes: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        let Self { zero_copy, copied, too_small, declined, probes } = other;
        self.zero_copy += zero_copy;
        self.copied += copied;
        self.too_small += too_small;
        self.declined += declined;
        self.probes += probes;
    }
}

/// Large sends of a new connection that are copied before the first probe; many connections never make as many. It also
/// keeps probes away from small receive windows: over loopback (Linux 6.18), half of the connections that probed
/// immediately stalled for 200 ms with a window below one segment, and none did that probed later. The cause is
/// unknown.
const YOUTH: u32 = 64;

/// Size of a probe: the kernel's report is the same for all sizes. If the kernel copies after all, the receiver's
/// kernel sees a large segment in memory of another kind, and may recompute its window from that.
const TRY: usize = 4 << 10;

/// Sends that are copied before the next probe.
const FIRST_PAUSE: u32 = 1024;

const LAST_PAUSE: u32 = 64 * 1024;

/// Reports of copies, less those to the contrary, after which a connection counts as copied: a single one may come from
/// a brief packet capture.
const PATIENCE: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PolicyState {
    /// A probe awaits its report.
    Asked,
    /// The kernel does not copy; `against` counts the reports to the contrary.
    Pays { against: u32 },
    /// The kernel copies, or it is unknown. The next probe follows after `left` sends.
    Copies { left: u32 },
}

/// Decides for one connection which sends are zero-copy.
///
/// The adaptive mode copies sends below the thresholds. Of the rest it makes one without a copy before long, and waits
/// for the kernel's report: over loopback, or through a device without scatter/gather, the kernel copies anyway, and
/// the bookkeeping is pure overhead. Afterwards it continues without copies, or with copies and occasional probes.
#[derive(Debug, Clone)]
pub struct Policy {
    mode: Mode,
    thresholds: Thresholds,
    state: PolicyState,
    pause: u32,
    try_bytes: usize,
    counters: Counters,
}

impl Policy {
    /// Creates the policy of a new connection.
    pub fn new(mode: Mode, thresholds: Thresholds) -> Self {
        Self {
            mode,
            thresholds,
            state: PolicyState::Copies { left: YOUTH },
            pause: FIRST_PAUSE,
            try_bytes: TRY,
            counters: Counters::default(),
        }
    }

    /// Adapts the policy to a socket whose sends cannot be split.
    pub fn of_datagrams(self) -> Self {
        Self { try_bytes: usize::MAX, ..self }
    }

    /// Returns whether all sends are copied.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    /// Returns how many leading bytes of this send go without a copy: none, all, or a few as a probe. If any, a
    /// [`report`](Self::report) or a [`withdraw`](Self::withdraw) must follow. `memory` is called only if it matters:
    /// it may cost a look-up or a registration.
    #[inline]
    pub fn decide(&mut self, shape: Shape, memory: impl FnOnce() -> Access) -> usize {
        let mut bytes = shape.bytes;
        match self.mode {
            Mode::Off => return 0,
            Mode::On => {
                memory();
            }
            Mode::Adaptive => {
                if bytes < self.thresholds.least() {
                    self.counters.too_small += 1;
                    return 0;
                }
                if self.declines() {
                    self.counters.declined += 1;
                    return 0;
                }
                if self.is_too_small(shape, memory()) {
                    self.counters.too_small += 1;
                    return 0;
                }
                if self.asks() {
                    bytes = bytes.min(self.try_bytes);
                }
            }
        }
        self.counters.zero_copy += 1;
        bytes
    }

    fn is_too_small(&self, shape: Shape, memory: Access) -> bool {
        let Thresholds { registered, unregistered, msg_zerocopy, segment } = self.thresholds;
        let least = match memory {
            Access::Registered => registered,
            Access::Ring => unregistered,
            Access::Socket => msg_zerocopy,
        };
        shape.bytes < least || shape.segments > 1 && shape.bytes / shape.segments < segment
    }

    /// Returns whether the reports so far, or a missing one, rule out a zero-copy send.
    fn declines(&mut self) -> bool {
        match &mut self.state {
            PolicyState::Pays { .. } => false,
            PolicyState::Asked => true,
            PolicyState::Copies { left } => {
                let declines = *left > 0;
                *left = left.saturating_sub(1);
                declines
            }
        }
    }

    fn asks(&mut self) -> bool {
        let asks = matches!(self.state, PolicyState::Copies { .. });
        if asks {
            self.state = PolicyState::Asked;
            self.counters.probes += 1;
        }
        asks
    }

    /// Records the kernel's report on a zero-copy send.
    #[inline]
    pub fn report(&mut self, copied: bool) {
        self.counters.copied += u64::from(copied);
        match &mut self.state {
            PolicyState::Asked if copied => self.rest(),
            PolicyState::Asked => {
                self.state = PolicyState::Pays { against: 0 };
                self.pause = FIRST_PAUSE;
            }
            PolicyState::Pays { against } if copied => {
                *against += 1;
                if *against >= PATIENCE {
                    self.rest();
                }
            }
            PolicyState::Pays { against } => *against = against.saturating_sub(1),
            // Of a send that was made before that was known.
            PolicyState::Copies { .. } => {}
        }
    }

    fn rest(&mut self) {
        self.state = PolicyState::Copies { left: self.pause };
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }

    /// Takes back a zero-copy send that was not made, or was copied for lack of room: no report follows.
    pub fn withdraw(&mut self) {
        self.counters.zero_copy -= 1;
        if self.state == PolicyState::Asked {
            self.state = PolicyState::Copies { left: 0 };
        }
    }

    /// Disables zero-copy sends on a connection where the kernel does not support them.
    pub fn disable(&mut self) {
        self.mode = Mode::Off;
    }

    /// Returns the decisions so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Shape = Shape { bytes: 1 << 20, segments: 1 };

    fn registered() -> Access {
        Access::Registered
    }

    fn grown(thresholds: Thresholds) -> Policy {
        let mut policy = Policy::new(Mode::Adaptive, thresholds);
        assert!((0..YOUTH).all(|_| policy.decide(LARGE, registered) == 0));
        policy.counters = Counters::default();
        policy
    }

    fn adaptive() -> Policy {
        grown(Thresholds::default())
    }

    /// Decides `n` times and reports each zero-copy send; returns how many there were.
    fn sends(policy: &mut Policy, n: usize, copied: bool) -> usize {
        (0..n)
            .filter(|_| {
                let made = policy.decide(LARGE, registered) > 0;
                if made {
                    policy.report(copied);
                }
                made
            })
            .count()
    }

    #[test]
    fn off_and_on_ignore_the_reports() {
        let mut off = Policy::new(Mode::Off, Thresholds::default());
        assert_eq!(sends(&mut off, 10, false), 0);
        let mut on = Policy::new(Mode::On, Thresholds::default());
        assert_eq!(on.decide(Shape { bytes: 1, ..LARGE }, registered), 1);
        on.report(true);
        assert_eq!(sends(&mut on, 100, true), 100);
        assert_eq!(on.counters(), Counters { zero_copy: 101, copied: 101, ..Counters::default() });
    }

    #[test]
    fn a_probe_waits_for_its_report() {
        let mut policy = adaptive();
        assert_eq!([TRY, 0].map(|_| policy.decide(LARGE, registered)), [TRY, 0]);
        policy.report(false);
        assert_eq!(policy.decide(LARGE, registered), LARGE.bytes);
        assert_eq!(
            policy.counters(),
            Counters { zero_copy: 2, declined: 1, probes: 1, ..Counters::default() }
        );
    }

    #[test]
    fn reported_copies_stop_zero_copy_and_probes_become_rarer() {
        let mut policy = adaptive();
        assert_eq!(sends(&mut policy, 1 + FIRST_PAUSE as usize, true), 1);
        assert_eq!(sends(&mut policy, 1 + 2 * FIRST_PAUSE as usize, true), 1);
        let tries = sends(&mut policy, 1_000_000, true);
        assert!((10..20).contains(&tries), "{tries}");
        assert_eq!(policy.pause, LAST_PAUSE);
    }

    #[test]
    fn a_path_that_stops_copying_is_detected_and_resets_the_pause() {
        let mut policy = adaptive();
        sends(&mut policy, 5000, true);
        let left = sends(&mut policy, 10_000, false);
        assert!(left > 5000, "{left}");
        assert_eq!(policy.pause, FIRST_PAUSE);
    }

    #[test]
    fn isolated_copies_do_not_stop_zero_copy_but_a_run_does() {
        let mut policy = adaptive();
        sends(&mut policy, 10, false);
        for _ in 0..100 {
            assert_eq!(sends(&mut policy, 3, true), 3);
            assert_eq!(sends(&mut policy, 3, false), 3);
        }
        assert_eq!(sends(&mut policy, 10, true), PATIENCE as usize);
    }

    #[test]
    fn sizes_pieces_and_registration_have_thresholds() {
        let thresholds =
            Thresholds { registered: 8000, unregistered: 20_000, msg_zerocopy: 50_000, segment: 4000 };
        let mut policy = grown(thresholds);
        assert_eq!(policy.decide(LARGE, registered), TRY);
        policy.report(false);
        let mut decide = |bytes, segments, memory| policy.decide(Shape { bytes, segments }, || memory) > 0;
        assert_eq!([7999, 8000].map(|bytes| decide(bytes, 1, Access::Registered)), [false, true]);
        assert_eq!([19_999, 20_000].map(|bytes| decide(bytes, 1, Access::Ring)), [false, true]);
        assert_eq!([49_999, 50_000].map(|bytes| decide(bytes, 1, Access::Socket)), [false, true]);
        assert_eq!([10, 11].map(|segments| decide(40_000, segments, Access::Ring)), [true, false]);
        assert_eq!(policy.counters().too_small, 4);
    }

    #[test]
    fn a_withdrawn_probe_is_repeated() {
        let mut policy = adaptive();
        assert_eq!(policy.decide(LARGE, registered), TRY);
        policy.withdraw();
        assert_eq!(policy.decide(LARGE, registered), TRY);
        assert_eq!(policy.counters().zero_copy, 1);
    }

    #[test]
    fn modes_have_names() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse::<Mode>().unwrap(), mode);
        }
        assert_eq!(
            "maybe".parse::<Mode>().unwrap_err().to_string(),
            "\"maybe\" is none of off, on, adaptive"
        );
    }
}
