//! How much is received in one turn.

/// The most bytes received on one connection in one turn: a fast peer does not starve the others.
pub(super) const MOST: usize = 1 << 20;

/// The least: fewer are not worth a turn.
pub(super) const LEAST: usize = MOST / 8;

/// Waits in a row that show that both sides are in step. Fewer happen where one side is merely slower.
const IN_STEP: u32 = 8;

/// Turns until it is seen whether more has come under way.
const TERM: u32 = 1 << 10;

/// What a connection receives in one turn.
///
/// A peer that has so many requests under way and no more falls in step with this side: it sends all of them and waits until
/// they are answered, and this side does so, and waits until the next come. Only one of them works at a time, and each wait
/// costs both of them. Then all that comes between two waits comes in one turn. From then on a turn receives half of it: what
/// is sent after the first half keeps the peer busy while this side is with the second.
#[derive(Debug)]
pub(super) struct Pace {
    budget: usize,
    /// Waits of the pump before the last turn.
    waits: u64,
    /// Bytes received since that wait...
    came: usize,
    /// ...before the last turn...
    before: usize,
    /// ...and in how many turns.
    turns: u32,
    /// Waits in a row between which all came in one turn.
    in_step: u32,
    /// Turns until the budget is doubled.
    left: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { budget: MOST, waits: 0, came: 0, before: 0, turns: 0, in_step: 0, left: TERM }
    }
}

impl Pace {
    /// Bytes were received.
    pub(super) fn received(&mut self, bytes: usize) {
        self.came += bytes;
    }

    /// A turn begins, of a pump that has waited so many times: how many bytes may it receive?
    pub(super) fn turn(&mut self, waits: u64) -> usize {
        self.turns += u32::from(self.came > self.before);
        self.before = self.came;
        self.left -= 1;
        if self.left == 0 {
            self.left = TERM;
            self.budget = (self.budget * 2).min(MOST);
        }
        if waits != self.waits {
            self.waited();
            self.waits = waits;
        }
        self.budget
    }

    /// The pump has waited since the last turn.
    fn waited(&mut self) {
        // What fits the least budget anyhow says nothing of what else may come.
        self.in_step = if self.turns == 1 && self.came > LEAST { self.in_step + 1 } else { 0 };
        if self.in_step == IN_STEP {
            self.budget = (self.came / 2).clamp(LEAST, MOST);
            (self.in_step, self.left) = (0, TERM);
        }
        (self.came, self.before, self.turns) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pump that waits when everything of a peer's is received, after that many of the peer's rounds, each of so many
    /// bytes: in how many turns is the last round received?
    fn turns_of_last(pace: &mut Pace, rounds: usize, bytes: usize) -> usize {
        let first = pace.waits + 1;
        let mut turns = 0;
        for waits in (first..).take(rounds) {
            let mut left = bytes;
            turns = 0;
            while left > 0 {
                let now = pace.turn(waits).min(left);
                pace.received(now);
                left -= now;
                turns += 1;
            }
        }
        turns
    }

    #[test]
    fn what_a_peer_in_step_sends_is_received_in_two_turns() {
        let mut pace = Pace::default();
        assert_eq!(turns_of_last(&mut pace, IN_STEP as usize, 512 << 10), 1);
        assert_eq!(turns_of_last(&mut pace, 2, 512 << 10), 2);
        assert_eq!(turns_of_last(&mut pace, 100, 512 << 10), 2, "it stays with that");
    }

    #[test]
    fn few_bytes_at_a_time_do_not_slow_down_many() {
        let mut pace = Pace::default();
        assert_eq!(turns_of_last(&mut pace, 1000, LEAST), 1);
        assert_eq!(turns_of_last(&mut pace, 1, MOST), 1);
    }

    #[test]
    fn a_turn_receives_more_again_when_more_is_under_way() {
        let mut pace = Pace::default();
        turns_of_last(&mut pace, 100, 2 * LEAST);
        assert_eq!(turns_of_last(&mut pace, 1, 8 * LEAST), 8);
        assert_eq!(turns_of_last(&mut pace, TERM as usize, 8 * LEAST), 2);
    }

    #[test]
    fn a_peer_whose_bytes_take_several_turns_now_and_then_is_not_in_step() {
        let mut pace = Pace::default();
        for round in 1..1000 {
            let bytes = if round % IN_STEP as usize == 0 { MOST + 1 } else { MOST / 2 };
            turns_of_last(&mut pace, 1, bytes);
            assert_eq!(pace.budget, MOST, "after {round} rounds");
        }
    }

    #[test]
    fn a_pump_that_never_waits_receives_as_much_as_it_may() {
        let mut pace = Pace::default();
        for _ in 0..10 * TERM {
            assert_eq!(pace.turn(0), MOST);
            pace.received(64 << 10);
        }
    }
}
