use super::thresholds::Thresholds;
use onego_buf::List;
use std::fmt;
use std::str::FromStr;

/// Whether sends are to leave the bytes where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Never: the kernel copies.
    #[default]
    Off,
    /// Always.
    On,
    /// Where it pays.
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

/// No mode has that name.
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

/// What a zero-copy send would be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its bytes.
    pub bytes: usize,
    /// In how many pieces.
    pub segments: usize,
}

impl Shape {
    /// Of a list.
    #[inline]
    pub fn of(list: &List) -> Self {
        Self { bytes: list.len(), segments: list.segments().len() }
    }
}

/// How the kernel gets at the memory of a zero-copy send; each has a size of its own from which it pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It is registered with the ring.
    Registered,
    /// A ring's request looks the pages up.
    Ring,
    /// `MSG_ZEROCOPY` looks the pages up, and its notification takes a system call.
    Socket,
}

/// What a policy has decided, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Sends made without a copy, as far as this side is concerned.
    pub zero_copy: u64,
    /// Of those, the ones that the kernel reported as copied after all.
    pub copied: u64,
    /// Sends that were copied because they were too small, or in too small pieces.
    pub too_small: u64,
    /// Sends that were copied because the kernel had copied earlier ones, or its report was awaited.
    pub declined: u64,
    /// Sends made to see whether the kernel copies.
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

/// Large sends of a new connection that are copied before the first try: many connections never have as many. It also
/// keeps tries away from small receive windows: over loopback (Linux 6.18), half of the connections that tried at once
/// stalled for 200 ms with a window of less than a segment, and none did that tried later. Why is not settled.
const YOUTH: u32 = 64;

/// Bytes that a try goes without a copy: the kernel's report is the same for all sizes. Where it copies after all, the
/// receiver's kernel sees a large segment in memory of another kind, and may reckon its window anew from that.
const TRY: usize = 4 << 10;

/// Sends that are copied before the kernel is tried again.
const FIRST_PAUSE: u32 = 1024;

/// The longest pause, to which it doubles.
const LAST_PAUSE: u32 = 64 * 1024;

/// Reports of copies, those to the contrary taken off, after which a connection counts as copied: one may come from
/// somebody who captures packets for a moment.
const PATIENCE: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PolicyState {
    /// One send was made to find out.
    Asked,
    /// The kernel does not copy; `against` counts the reports that say otherwise.
    Pays { against: u32 },
    /// The kernel copies, or nothing is known. The next attempt follows after `left` sends.
    Copies { left: u32 },
}

/// Decides for one connection which sends are made without a copy.
///
/// Adaptive sends what is below the thresholds as usual. Of the rest it makes one without a copy before long, and waits for the
/// kernel's report: over loopback, or through a device without scatter/gather, the kernel copies all the same, and only
/// the bookkeeping comes on top. It then goes on without copies, or with copies and a new try now and then.
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
    /// Of a new connection.
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

    /// The same for a socket whose sends cannot be parted.
    pub fn of_datagrams(self) -> Self {
        Self { try_bytes: usize::MAX, ..self }
    }

    /// Is it worth while to ask at all?
    #[inline]
    pub fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    /// How many bytes of this send, from the first on, are to go without a copy: none, all, or a few to find out. If
    /// any, a [`report`](Self::report) or a [`withdraw`](Self::withdraw) follows. `memory` is asked only if it matters:
    /// the answer may cost a look-up, or a registration.
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

    /// Do the reports so far, or the lack of one, speak against it?
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

    /// Is this send made to find out?
    fn asks(&mut self) -> bool {
        let asks = matches!(self.state, PolicyState::Copies { .. });
        if asks {
            self.state = PolicyState::Asked;
            self.counters.probes += 1;
        }
        asks
    }

    /// The kernel has reported on a send that was to be made without a copy.
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
            // Of a send that was made before it was known.
            PolicyState::Copies { .. } => {}
        }
    }

    fn rest(&mut self) {
        self.state = PolicyState::Copies { left: self.pause };
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }

    /// A send that was to be made without a copy was not made, or was copied for want of room: no report follows.
    pub fn withdraw(&mut self) {
        self.counters.zero_copy -= 1;
        if self.state == PolicyState::Asked {
            self.state = PolicyState::Copies { left: 0 };
        }
    }

    /// The kernel cannot do it on this connection: it is not asked again.
    pub fn disable(&mut self) {
        self.mode = Mode::Off;
    }

    /// What was decided so far.
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

    /// Past its youth.
    fn grown(thresholds: Thresholds) -> Policy {
        let mut policy = Policy::new(Mode::Adaptive, thresholds);
        assert!((0..YOUTH).all(|_| policy.decide(LARGE, registered) == 0));
        policy.counters = Counters::default();
        policy
    }

    fn adaptive() -> Policy {
        grown(Thresholds::default())
    }

    /// Decides `n` times and reports each send that was made; how many were.
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
    fn off_and_on_do_not_look() {
        let mut off = Policy::new(Mode::Off, Thresholds::default());
        assert_eq!(sends(&mut off, 10, false), 0);
        let mut on = Policy::new(Mode::On, Thresholds::default());
        assert_eq!(on.decide(Shape { bytes: 1, ..LARGE }, registered), 1);
        on.report(true);
        assert_eq!(sends(&mut on, 100, true), 100);
        assert_eq!(on.counters(), Counters { zero_copy: 101, copied: 101, ..Counters::default() });
    }

    #[test]
    fn it_waits_for_the_first_report() {
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
    fn copies_of_the_kernel_end_it_and_it_tries_again_ever_more_rarely() {
        let mut policy = adaptive();
        assert_eq!(sends(&mut policy, 1 + FIRST_PAUSE as usize, true), 1);
        assert_eq!(sends(&mut policy, 1 + 2 * FIRST_PAUSE as usize, true), 1);
        let tries = sends(&mut policy, 1_000_000, true);
        assert!((10..20).contains(&tries), "{tries}");
        assert_eq!(policy.pause, LAST_PAUSE);
    }

    #[test]
    fn a_path_that_no_longer_copies_is_found_and_the_pause_is_short_again() {
        let mut policy = adaptive();
        sends(&mut policy, 5000, true);
        let left = sends(&mut policy, 10_000, false);
        assert!(left > 5000, "{left}");
        assert_eq!(policy.pause, FIRST_PAUSE);
    }

    #[test]
    fn a_few_copies_among_many_do_not_end_it_but_a_run_does() {
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
    fn a_try_that_was_not_made_is_made_later() {
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
