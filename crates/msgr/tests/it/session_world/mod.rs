//! Two ends with a session over breaking lines, in all modes of the messenger.
//!
//! A seed determines everything: which line carries how much and when, where it breaks, which bytes it corrupts, when
//! an end accepts, sends, waits or restarts, and how long the monitors take to answer.

mod end;
mod keys;
mod ledger;
mod line;
mod plan;

pub(crate) use end::End;
pub(crate) use line::Line;
pub(crate) use plan::{Mode, Seen, Troubles};

use crate::support::START;
use end::{number, numbered};
use keys::Monitors;
use ledger::Ledger;
use line::Delivery;
use onego_buf::{List, Segment};
use onego_msgr::auth;
use onego_msgr::types::EntityName;
use onego_msgr::{Accepted, Blame, Connection, Error, Event, Message, NoPlacer, Peer, Policy, Visitor};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashSet;
use std::time::Duration;

/// One in this many opportunities to give up a line is taken.
const HANG_UPS: u32 = 50;

/// Approximate size of the checksums and signatures at the end of frames, in bytes.
const SUMS: usize = 20;

/// Maximum delay of bytes in flight on a line that was given up, in milliseconds.
const MOST_LATE: u64 = 12_000;

/// More than the rounds of any handshake.
const HANDSHAKE_ROUNDS: usize = 14;

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) ends: [End; 2],
    pub(crate) lines: Vec<Line>,
    /// Lines that at least one end still has.
    alive: Vec<usize>,
    mode: Mode,
    moves: bool,
    pub(crate) troubles: Troubles,
    monitors: Option<Monitors>,
    /// By sender.
    ledgers: [Ledger; 2],
    /// Last line that was accepted, by the end that opened it.
    taken: [Option<usize>; 2],
    /// Beginnings of encrypted output.
    sealed: HashSet<[u8; 16]>,
    random: SmallRng,
    pub(crate) seen: Seen,
}

impl World {
    /// Creates the world of a seed, in which everything may go wrong.
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mode = Mode::ALL[seed as usize % Mode::ALL.len()];
        let policies = mode.policies();
        let policies = policies[seed as usize / Mode::ALL.len() % policies.len()];
        Self::new(seed, mode, policies, Troubles::random(seed))
    }

    pub(crate) fn new(seed: u64, mode: Mode, policies: [Policy; 2], troubles: Troubles) -> Self {
        let monitors = mode.auth_mode().map(|_| Monitors::new(troubles.lifetimes));
        // In version 1, only a policy that distinguishes instances allows all of them the same address.
        let moves = troubles.moves || (mode.version() == "v1" && !policies[0].reset_check);
        let end = |number| End::new(number, mode, policies[number as usize - 1], moves, monitors.as_ref());
        let mut this = Self {
            now: START,
            ends: [end(1), end(2)],
            lines: Vec::new(),
            alive: Vec::new(),
            mode,
            moves,
            troubles,
            monitors,
            ledgers: <[Ledger; 2]>::default(),
            taken: [None; 2],
            sealed: HashSet::new(),
            random: SmallRng::seed_from_u64(seed),
            seen: Seen::default(),
        };
        this.ask_monitors();
        this
    }

    pub(crate) fn connect(&mut self, end: usize) {
        if !self.ends[end].session.wants_connection(self.now) {
            return;
        }
        let left = match self.troubles.breaks {
            usize::MAX => usize::MAX,
            breaks => self.random.random_range(0..breaks),
        };
        let at = self.lines.len();
        self.lines.push(Line::new(end, [self.ends[0].life, self.ends[1].life], left));
        self.alive.push(at);
        let login = self.ends[end].login(self.now);
        let target = self.ends[1 - end].target(self.ends[end].knows, login);
        let this = &mut self.ends[end];
        this.session.connect(self.now, target);
        this.session.connection().unwrap().opened(self.now, this.sock);
        this.carrier = Some(at);
    }

    /// Closes a line on an end, or tells it that the line broke.
    pub(crate) fn close(&mut self, end: usize, at: usize) {
        self.let_go(end, at);
        let this = &mut self.ends[end];
        if this.carrier == Some(at) {
            this.carrier = None;
            let over = this.session.lost(self.now);
            assert!(over.is_some_and(|mut it| it.poll().is_none()), "unprocessed events");
        }
        this.waiting.retain(|(waits, _)| *waits != at);
        self.look(end);
    }

    fn hang_up(&mut self, end: usize) {
        if let Some(at) = self.ends[end].carrier {
            self.close(end, at);
        }
    }

    /// Releases a line; bytes in flight to the other end may or may not be lost with it.
    fn let_go(&mut self, end: usize, at: usize) {
        let line = &mut self.lines[at];
        line.held[end] = false;
        match self.random.random_range(0..4) {
            0 | 1 => line.left = 0,
            // Bytes sent in time arrive late.
            2 => line.sleeps_until = self.now + Duration::from_millis(self.random.random_range(0..MOST_LATE)),
            _ => {}
        }
        if line.held == [false; 2] {
            self.alive.retain(|alive| *alive != at);
        }
    }

    /// Compares the end's view of its messages with what happened to them.
    fn look(&mut self, end: usize) {
        let End { session, sent, life, .. } = &self.ends[end];
        self.ledgers[end].look(*life, *sent, session.unacknowledged() as u64, session.resets());
    }

    pub(crate) fn send(&mut self, end: usize) {
        self.ends[end].send();
        self.look(end);
    }

    pub(crate) fn restart(&mut self, end: usize) {
        for at in self.alive.clone() {
            if self.lines[at].held[end] {
                self.let_go(end, at);
            }
        }
        let other = self.ends[1 - end].life;
        self.ends[end].restart(other);
        self.ledgers[end].sender_died();
        self.ledgers[1 - end].receiver_died();
        self.seen.restarts += 1;
        self.ask_monitors();
    }

    /// Tells the end the address of the other's latest instance, if it differs.
    fn hear(&mut self, end: usize) {
        let other = self.ends[1 - end].life;
        if !self.moves || self.ends[end].knows == other {
            return;
        }
        self.hang_up(end);
        let this = &mut self.ends[end];
        self.ledgers[end].give_up(this.life);
        this.meet(other);
    }

    pub(crate) fn deliver(&mut self, end: usize, at: usize, most: usize) {
        let line = &mut self.lines[at];
        if !line.held[end] {
            return;
        }
        if !line.accepted && line.opener != end {
            return self.accept(end, at);
        }
        match line.deliver(self.now, end, most) {
            Delivery::Nothing => {}
            Delivery::Over => {
                self.seen.broken += 1;
                self.close(end, at);
            }
            Delivery::Bytes(bytes) => {
                if let Some(connection) = self.ends[end].connection(at) {
                    connection.received(self.now, Segment::from(bytes), &mut NoPlacer);
                    self.events(end, at);
                }
                let line = &self.lines[at];
                assert!(!line.held[end] || !line.must_be_over(end), "corruption on line {at} is undetected");
            }
        }
    }

    fn accept(&mut self, end: usize, at: usize) {
        self.lines[at].accepted = true;
        let visitor = Visitor { addr: self.ends[1 - end].sock, fresh_global_id: 9000 };
        let this = &mut self.ends[end];
        self.lines[at].lives[end] = this.life;
        let accepted = Connection::accept(self.now, this.config.clone(), visitor, this.sock);
        this.waiting.push((at, accepted));
    }

    fn events(&mut self, end: usize, at: usize) {
        let Some(connection) = self.ends[end].connection(at) else { return };
        let events: Vec<Event> = std::iter::from_fn(|| connection.poll()).collect();
        let claimed = connection.claimed_by().is_some();
        let mut over = false;
        for event in events {
            match event {
                Event::Message(got) => self.arrived(end, at, &got),
                Event::Ready(peer) => self.ready(end, at, &peer),
                Event::Unplaced(..) => panic!("nothing was placed"),
                Event::Fault(error) => {
                    self.failed(end, at, &error);
                    over = true;
                }
            }
        }
        self.look(end);
        if over {
            self.close(end, at);
        } else if claimed {
            self.decide(end, at);
        }
    }

    fn arrived(&mut self, end: usize, at: usize, got: &Message) {
        assert!(!self.lines[at].is_tainted(end), "a corrupt message, or one after it, is delivered");
        let number = number(got.header.tid);
        let sent = numbered(number);
        assert_eq!((&got.front, got.data.to_vec()), (&sent.front, sent.data.to_vec()));
        assert_eq!(number.0, self.lines[at].lives[1 - end], "it comes from the instance at the other end");
        self.ledgers[1 - end].receive(number);
        self.ends[end].partner = Some((number.0, self.ends[end].session.resets()));
    }

    fn ready(&mut self, end: usize, at: usize, peer: &Peer) {
        assert_eq!((peer.name.kind, peer.secure), (EntityName::OSD, self.mode.is_secure()));
        assert_eq!(peer.compression, self.mode.compression().map(|it| it.methods[0]));
        if self.lines[at].opener != end && self.mode.auth_mode().is_some() {
            assert_eq!(peer.auth_name, Some(keys::name(2 - end as u8)), "it has proved its name");
        }
        for to in 0..2 {
            self.lines[at].told[to] = self.ledgers[1 - to].last();
        }
        // With `reset_check`, messages for an earlier instance are dropped and reported.
        let (life, resets) = (self.lines[at].lives[1 - end], self.ends[end].session.resets());
        if let Some((life_before, resets_before)) = self.ends[end].partner
            && self.ends[end].config.policy.reset_check
            && life_before != life
        {
            assert!(resets > resets_before, "the loss of the session was not reported");
        }
    }

    /// Checks a failed connection: conforming ends never accuse each other of a protocol violation.
    fn failed(&mut self, end: usize, at: usize, error: &Error) {
        match error {
            Error::Wait => self.seen.waits += 1,
            Error::Auth(auth::Error::TicketRefused { .. }) => {
                self.seen.refused_tickets += 1;
                let member = self.ends[end].member.as_mut().expect("without keys there are no tickets");
                member.doubt(self.now);
            }
            Error::WrongPeer { .. } if self.moves => {}
            Error::Auth(auth::Error::NoTicket { .. }) | Error::HandshakeTimeout(_) => {}
            error if self.lines[at].is_tainted(end) => {
                self.seen.damaged += 1;
                // A length or a number may be corrupt, but without signatures forgery is not suspected.
                assert!(matches!(error.blame(), Blame::Transport | Blame::Peer), "{error:?}");
            }
            error => panic!("{error:?}"),
        }
    }

    /// Lets the session decide about a connection that claims it.
    fn decide(&mut self, end: usize, at: usize) {
        let this = &mut self.ends[end];
        let place = this.waiting.iter().position(|(waits, _)| *waits == at).unwrap();
        let (_, connection) = this.waiting.remove(place);
        let life = this.claimed_by(connection.claimed_by().expect("it has claimed the session"));
        if life < this.knows {
            return self.close(end, at);
        }
        if life > this.knows {
            self.hear(end);
        }
        let this = &mut self.ends[end];
        match this.session.accept(connection) {
            Accepted::Carries(before) => {
                let old = this.carrier.replace(at);
                assert_eq!(before.is_some(), old.is_some());
                assert!(before.is_none_or(|mut it| it.poll().is_none()), "unprocessed events");
                let taken = self.taken[1 - end].replace(at);
                assert!(
                    taken < Some(at) || self.seen.restarts > 0,
                    "an earlier attempt replaces a later one"
                );
                if let Some(old) = old {
                    self.close(end, old);
                }
                self.events(end, at);
            }
            Accepted::Refused(connection) => {
                self.seen.refused += 1;
                this.waiting.push((at, connection));
            }
            Accepted::Stale(_) => self.close(end, at),
        }
    }

    /// Sends the end's output on a line.
    fn transmit_on(&mut self, end: usize, at: usize) {
        let line = &mut self.lines[at];
        if !line.held[end] || line.under_way(1 - end) >= self.troubles.window {
            return;
        }
        let limit = self.random.random_range(1..3000);
        let Some(connection) = self.ends[end].connection(at).filter(|it| it.has_output()) else { return };
        let mut out = List::new();
        connection.transmit(&mut out, limit);
        let open = connection.is_ready();
        let bytes = out.to_vec();
        let line = &mut self.lines[at];
        // In version 1, the first output may still contain part of the handshake, which is not framed.
        let was_open = std::mem::replace(&mut line.open[end], open);
        let frames = if was_open || (open && self.mode.version() == "v2") {
            self.mode.protection().frames(&bytes)
        } else {
            Vec::new()
        };
        self.seen.compressed += frames.iter().filter(|frame| frame.compressed).count() as u64;
        let told = line.told[1 - end];
        for tid in frames.iter().filter_map(|frame| frame.tid) {
            assert!(
                told < Some(number(tid)) || self.mode == Mode::Old,
                "a message that the peer reported as received is resent"
            );
        }
        let mut damaged = None;
        if let Some(seldom) = self.troubles.damage
            && !frames.is_empty()
            && self.random.random_range(0..seldom) == 0
        {
            let mut part = frames[self.random.random_range(0..frames.len())].protected.clone();
            if self.random.random() {
                // Checksums and signatures are few bytes, but present in every message.
                part.start = part.start.max(part.end.saturating_sub(SUMS));
            }
            damaged = (!part.is_empty()).then(|| self.random.random_range(part));
        }
        if open && self.mode.is_secure() {
            // Preambles of frames with the same lengths are equal; sealed with the same nonce, their records would be,
            // too.
            let first = *bytes.first_chunk().unwrap();
            assert!(self.sealed.insert(first), "two records are sealed with the same key and nonce");
        }
        line.send(1 - end, bytes, damaged);
    }

    pub(crate) fn transmit(&mut self, end: usize) {
        for at in self.alive.clone() {
            self.transmit_on(end, at);
        }
    }

    /// Carries something to the end on a random line.
    pub(crate) fn carry(&mut self, end: usize) {
        let held: Vec<usize> = self.alive.iter().copied().filter(|at| self.lines[*at].held[end]).collect();
        if held.is_empty() {
            return;
        }
        let at = held[self.random.random_range(0..held.len())];
        let most = match self.random.random_range(0..3) {
            0 => self.random.random_range(1..60),
            1 => self.random.random_range(1..2000),
            _ => 1 << 20,
        };
        self.deliver(end, at, most);
    }

    pub(crate) fn step(&mut self, sends: u64) {
        let end = self.random.random_range(0..2);
        if let Some(seldom) = self.troubles.restarts
            && self.random.random_range(0..seldom) == 0
        {
            return self.restart(end);
        }
        match self.random.random_range(0..10) {
            0 => self.connect(end),
            1..4 => self.transmit(end),
            4 if self.ends[end].sent < sends => self.send(end),
            5 => self.wait(),
            6 if self.random.random_range(0..50) == 0 => self.hear(end),
            7 if self.random.random_range(0..HANG_UPS) == 0 && self.troubles.hang_ups => self.hang_up(end),
            _ => self.carry(end),
        }
    }

    fn wait(&mut self) {
        self.now = self.now + Duration::from_millis(self.random.random_range(1..500));
        self.ask_monitors();
        for end in 0..2 {
            for at in self.ends[end].overdue(self.now) {
                if let Some(connection) = self.ends[end].connection(at) {
                    connection.timeout(self.now);
                    self.events(end, at);
                }
            }
        }
    }

    fn ask_monitors(&mut self) {
        for end in 0..2 {
            let delay = match self.troubles.lost_answers.map(|seldom| self.random.random_range(0..=seldom)) {
                Some(0) => None,
                Some(1) => Some(self.troubles.lifetimes.service * self.random.random_range(1..6)),
                _ => Some(Duration::from_millis(self.random.random_range(0..500))),
            };
            self.see_to_tickets(end, delay);
        }
    }

    /// Renews an end's tickets: a request made now is answered after `delay`, or never.
    pub(crate) fn see_to_tickets(&mut self, end: usize, delay: Option<Duration>) {
        if let (Some(monitors), Some(member)) = (&mut self.monitors, &mut self.ends[end].member) {
            member.turn(self.now, monitors, delay);
        }
    }

    /// Breaks all lines and notifies both ends.
    pub(crate) fn break_lines(&mut self) {
        for at in self.alive.clone() {
            for end in 0..2 {
                (self.lines[at].left, self.lines[at].sleeps_until) = (0, self.now);
                self.deliver(end, at, 0);
            }
        }
    }

    /// Delivers everything in flight, on lines that carry at most `cut` bytes, except what takes longer than a
    /// handshake.
    pub(crate) fn exchange(&mut self, cut: usize) {
        for at in &self.alive {
            self.lines[*at].left = cut;
        }
        for _ in 0..HANDSHAKE_ROUNDS {
            for end in 0..2 {
                self.transmit(end);
                self.alive.clone().into_iter().for_each(|at| self.deliver(end, at, usize::MAX));
            }
        }
    }

    /// After both have connected, carries bytes until both have received everything, without advancing the time.
    pub(crate) fn settle(&mut self, sends: u64) {
        let mut steps = 0;
        while !self.is_done(sends) {
            let end = self.random.random_range(0..2);
            if self.random.random() {
                self.transmit(end);
            } else {
                self.carry(end);
            }
            steps += 1;
            assert!(steps < 10_000, "no progress");
        }
    }

    fn is_done(&self, sends: u64) -> bool {
        (0..2).all(|end| self.ends[end].sent == sends && self.ledgers[end].is_done())
    }

    /// Performs random actions until both ends have received everything.
    pub(crate) fn run(&mut self, sends: u64) {
        let mut steps = 0;
        while !self.is_done(sends) {
            self.step(sends);
            steps += 1;
            assert!(steps < 1_000_000, "no progress: {:?}", self.ends.each_ref().map(|end| &end.session));
        }
        for (end, ledger) in self.ends.iter().zip(&self.ledgers) {
            assert_eq!(end.session.unacknowledged(), 0);
            self.seen.lost += ledger.lost() as u64;
            if self.seen.restarts == 0 {
                assert_eq!((end.session.resets(), ledger.lost()), (0, 0), "neither end was restarted");
            }
        }
    }
}
