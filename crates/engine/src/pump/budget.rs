//! Receive budget of a turn.

/// Maximum bytes received on one connection in one turn, so that a fast peer does not starve the others.
pub(super) const MOST: usize = 1 << 20;

/// Minimum: fewer bytes are not worth a turn.
pub(super) const LEAST: usize = MOST / 8;

/// Consecutive rounds in one turn each that indicate lockstep. A peer that is merely slower causes fewer.
const LOCKSTEP: u32 = 8;

/// Turns until the budget is doubled to probe whether more bytes arrive.
const TERM: u32 = 1 << 10;

/// Budget of a connection: the bytes it receives in one turn.
///
/// At a fixed queue depth both sides fall into lockstep: the peer sends all of its requests and waits for the replies;
/// this side answers all of them and waits for the next requests. Only one side works at a time, and each wait costs
/// both. So a turn receives half of a round: the replies to the first half keep the peer busy while this side works on
/// the second.
///
/// A machine that requested bytes states half of what it expects ([`expect`](Self::expect)). Without that, lockstep is
/// detected: everything between two waits of the pump arrives in one turn, several times in a row.
#[derive(Debug)]
pub(super) struct Budget {
    /// Half of what the machine expects. At most 1: the machine states nothing.
    expected: usize,
    /// Budget of a connection whose machine states nothing.
    bytes: usize,
    /// The pump's count of waits at the last turn.
    waits: u64,
    /// Bytes received since that wait.
    came: usize,
    /// Value of `came` at the last turn.
    before: usize,
    /// Turns that received bytes since that wait.
    turns: u32,
    /// Consecutive rounds that each arrived in one turn.
    rounds: u32,
    /// Turns until the budget is doubled.
    left: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { expected: 0, bytes: MOST, waits: 0, came: 0, before: 0, turns: 0, rounds: 0, left: TERM }
    }
}

impl Budget {
    pub(super) fn expect(&mut self, half: usize) {
        self.expected = half;
    }

    pub(super) fn received(&mut self, bytes: usize) {
        self.came += bytes;
    }

    pub(super) fn turn(&mut self, waits: u64) -> usize {
        self.turns += u32::from(self.came > self.before);
        self.before = self.came;
        self.left -= 1;
        if self.left == 0 {
            self.left = TERM;
            self.bytes = (self.bytes * 2).min(MOST);
        }
        if waits != self.waits {
            self.waited();
            self.waits = waits;
        }
        if self.expected > 1 { self.expected.clamp(LEAST, MOST) } else { self.bytes }
    }

    fn waited(&mut self) {
        // A round that fits the minimum budget is no evidence of lockstep.
        self.rounds = if self.turns == 1 && self.came > LEAST { self.rounds + 1 } else { 0 };
        if self.rounds == LOCKSTEP {
            self.bytes = (self.came / 2).clamp(LEAST, MOST);
            (self.rounds, self.left) = (0, TERM);
        }
        (self.came, self.before, self.turns) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns_of_last(budget: &mut Budget, rounds: usize, bytes: usize) -> usize {
        let first = budget.waits + 1;
        let mut turns = 0;
        for waits in (first..).take(rounds) {
            let mut left = bytes;
            turns = 0;
            while left > 0 {
                let now = budget.turn(waits).min(left);
                budget.received(now);
                left -= now;
                turns += 1;
            }
        }
        turns
    }

    #[test]
    fn a_lockstep_round_is_received_in_two_turns() {
        let mut budget = Budget::default();
        assert_eq!(turns_of_last(&mut budget, LOCKSTEP as usize, 512 << 10), 1);
        assert_eq!(turns_of_last(&mut budget, 2, 512 << 10), 2);
        assert_eq!(turns_of_last(&mut budget, 100, 512 << 10), 2, "it stays with that");
    }

    #[test]
    fn few_bytes_at_a_time_do_not_slow_down_many() {
        let mut budget = Budget::default();
        assert_eq!(turns_of_last(&mut budget, 1000, LEAST), 1);
        assert_eq!(turns_of_last(&mut budget, 1, MOST), 1);
    }

    #[test]
    fn a_turn_receives_more_when_more_is_in_flight() {
        let mut budget = Budget::default();
        turns_of_last(&mut budget, 100, 2 * LEAST);
        assert_eq!(turns_of_last(&mut budget, 1, 8 * LEAST), 8);
        assert_eq!(turns_of_last(&mut budget, TERM as usize, 8 * LEAST), 2);
    }

    #[test]
    fn occasional_rounds_of_several_turns_are_not_lockstep() {
        let mut budget = Budget::default();
        for round in 1..1000 {
            let bytes = if round % LOCKSTEP as usize == 0 { MOST + 1 } else { MOST / 2 };
            turns_of_last(&mut budget, 1, bytes);
            assert_eq!(budget.bytes, MOST, "after {round} rounds");
        }
    }

    #[test]
    fn a_pump_that_never_waits_uses_its_whole_budget() {
        let mut budget = Budget::default();
        for _ in 0..10 * TERM {
            assert_eq!(budget.turn(0), MOST);
            budget.received(64 << 10);
        }
    }

    #[test]
    fn a_turn_receives_what_the_machine_states_within_bounds() {
        let turn = |half| {
            let mut budget = Budget::default();
            budget.expect(half);
            budget.turn(0)
        };
        assert_eq!([0, 1].map(turn), [MOST; 2], "it states nothing");
        assert_eq!(turn(4 << 10), LEAST);
        assert_eq!(turn(512 << 10), 512 << 10);
        assert_eq!(turn(1 << 30), MOST);
    }
}
