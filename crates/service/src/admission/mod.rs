//! Bounds on what clients may hold of a server: connections, memory of messages that come in, memory of replies.
//!
//! All servers use it. It has no I/O and knows no protocol: the owner of the connections tells it what happens, and closes
//! the connections that it names. What one address may have is a share, which counts when others need the room.
//!
//! **Connections.** When the table is full, the idlest connection of the address that has the most gives way, to an address
//! that has fewer. An address that has the most itself gets one for an idle one of its own.
//!
//! **Unfinished messages.** A message that has begun has to go on at 4 KiB a second on the average, with 30 s for pauses.
//! Time in which the server does not read from the connection does not count.
//!
//! **Large messages** (from [`Bounds::slot_from`] on) come in only with a slot, which counts the bytes that are announced,
//! because memory for them may be taken at once. Addresses take turns in getting slots. A message that has had its slot for
//! a second while others wait gives it up, is not read from, and waits at the end of the line: slow senders delay others by
//! a turn at most, and lose nothing, since what they send meanwhile waits in the system. The memory of a message that waits
//! counts by what has come of it. It is taken so, too: such a message gets fresh memory, which the system provides page by
//! page as it is filled.
//!
//! **Replies** that wait are counted with those that the driver holds and those that are still to be made. Below half of
//! the bound everybody is answered, below three quarters every connection that holds none, and above that the addresses
//! that hold less than their share. Connections that have taken nothing for ten seconds give way then.

mod peers;
mod slots;

use onego_wire::{ConnId, ConnTable, Time, Unfinished};
pub use peers::address;
use peers::{Peer, PeerId, Peers};
use slots::{Slot, Slots};
use std::cmp::Reverse;
use std::net::IpAddr;
use std::time::Duration;

/// Bytes a second that an unfinished message has to get on the average: a thirtieth of what a slow mobile link carries.
const RATE: u64 = 4 << 10;

/// Time that an unfinished message may be behind: connections that are alive pause for this long when a path changes or
/// packets are lost again and again.
const GRACE: Duration = Duration::from_secs(30);

/// The same before the first message: a client connects because it has a request. The handshakes of the messenger and of
/// iWARP have as much.
const FIRST: Duration = Duration::from_secs(10);

/// Time for which a message keeps its slot while others wait. At full speed a message takes milliseconds.
const TURN: Duration = Duration::from_secs(1);

/// Time after which a client that takes no replies gives way to others.
const STALL: Duration = Duration::from_secs(10);

/// Time that the requests of a client may take that sends no more: as long as a message that comes in may pause.
pub(crate) const LAST_REPLIES: Duration = GRACE;

/// Time without progress after which such a client loses the rest of its replies. Progress shows when a third of the system's
/// send buffer (4 MiB) has gone, which takes that long at [`RATE`].
const LAST_TAKEN: Duration = Duration::from_secs(5 * 60);

/// Time without a message after which a connection gives way to another of its own address.
const IDLE: Duration = Duration::from_secs(1);

/// How often connections are looked at while there is something to look for.
const TICK: Duration = Duration::from_secs(1);

/// Bytes that are received ahead from an address that holds much of the memory for unfinished messages: the beginning of a
/// message is among them, so that it goes on.
const AHEAD_UNDER_PRESSURE: usize = 4 << 10;

/// Connections that are looked up to give way at a time: a look at all costs what many closes do.
const VICTIMS: usize = 64;

/// Time for which it is remembered that no connection gives way.
const NO_VICTIM: Duration = Duration::from_millis(10);

/// How much a server holds at the most.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections.
    pub connections: usize,
    /// Bytes of large messages that come in.
    pub slots: usize,
    /// Bytes of a message from which on it is a large one.
    pub slot_from: usize,
    /// Bytes of unfinished messages without slots; one address may have half of them.
    pub unfinished: usize,
    /// Bytes of replies.
    pub replies: usize,
    /// Most bytes of one reply.
    pub reply_max: usize,
}

/// What one connection holds. Its owner keeps it beside the connection.
#[derive(Debug)]
pub struct Account {
    peer: PeerId,
    /// When something came or was taken last.
    active: Time,
    /// When the message that has begun is given up.
    deadline: Option<Time>,
    /// Bytes that are held of it, and how many of them are counted.
    held: usize,
    unfinished: usize,
    /// Bytes that have come since it began.
    came: usize,
    slot: Slot,
    /// When it got its slot.
    slot_since: Time,
    /// Bytes of replies that wait, and of those and the ones that are still to be made.
    waiting: usize,
    replies: usize,
    /// When replies were taken last, or began to wait.
    taken: Time,
    /// Nothing is left but to send the replies that wait.
    leaves: bool,
}

impl Account {
    /// May the connection be read from, as far as its message is concerned?
    #[inline]
    pub fn is_read(&self) -> bool {
        !matches!(self.slot, Slot::Waiting(_))
    }

    /// Has its message a slot?
    pub fn has_slot(&self) -> bool {
        matches!(self.slot, Slot::Held(_))
    }

    /// Bytes of its replies that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of its replies that wait, and of those that are still to be made.
    pub fn replies(&self) -> usize {
        self.replies
    }

    /// Does it hold nothing but its place in the table?
    fn is_quiet(&self) -> bool {
        self.held == 0 && self.waiting == 0 && self.slot == Slot::None
    }
}

/// What has become of a connection at the time of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing is wrong.
    Fine,
    /// Its message is too slow: the connection is to be closed.
    Overdue,
    /// It has had its slot for a turn, since then.
    HadItsTurn(Time),
    /// It takes no replies, of which its address holds so much.
    Stalled(usize),
    /// It sends no more, and has taken no replies for long.
    Left,
}

/// All that the connections of a server hold.
#[derive(Debug)]
pub struct Admission {
    bounds: Bounds,
    peers: Peers,
    connections: usize,
    unfinished: usize,
    replies: usize,
    slots: Slots,
    /// Connections that may give way, the idlest last, and when they were active.
    victims: Vec<(ConnId, Time)>,
    /// When none was found last, and how many connections the host had that asked.
    no_victim: Option<(Time, usize)>,
    tick: Option<Time>,
    /// Time between the last two looks at all connections.
    elapsed: Duration,
}

impl Admission {
    /// Nothing is held yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            peers: Peers::default(),
            connections: 0,
            unfinished: 0,
            replies: 0,
            slots: Slots::new(bounds.slots),
            victims: Vec::new(),
            no_victim: None,
            tick: None,
            elapsed: Duration::ZERO,
        }
    }

    /// Sets how many connections there may be.
    pub fn limit_connections(&mut self, most: usize) {
        self.bounds.connections = self.bounds.connections.min(most);
    }

    /// Are there as many connections as there may be?
    pub fn is_full(&self) -> bool {
        self.connections >= self.bounds.connections
    }

    /// Connections from that host's address.
    pub fn connections_of(&self, host: IpAddr) -> usize {
        self.peers.connections_of(host)
    }

    /// A connection is opened. `speaks`: it has to begin with a message soon, and has no handshake that sees to that.
    pub fn open(&mut self, now: Time, host: IpAddr, speaks: bool) -> Account {
        self.connections += 1;
        if speaks {
            self.watch(now);
        }
        Account {
            peer: self.peers.open(host),
            active: now,
            deadline: speaks.then_some(now + FIRST),
            held: 0,
            unfinished: 0,
            came: 0,
            slot: Slot::None,
            slot_since: now,
            waiting: 0,
            replies: 0,
            taken: now,
            leaves: false,
        }
    }

    /// Nothing more is read from a connection. It has five minutes to take replies, and again
    /// after each that it takes.
    pub fn leave(&mut self, now: Time, account: &mut Account) {
        account.leaves = true;
        account.taken = now;
        self.watch(now);
    }

    /// A connection is gone, and all that it held.
    pub fn close(&mut self, conn: ConnId, account: &mut Account) {
        self.settle(conn, account);
        self.count(account, |peer| &mut peer.replies, 0);
        self.connections -= 1;
        self.peers.close(account.peer);
    }

    /// The connection that gives way to one from `host`, if the table is full. `account` gives the account of a connection,
    /// unless it cannot give way because it is in work or over.
    pub fn pick<L>(
        &mut self,
        now: Time,
        host: IpAddr,
        table: &ConnTable<L>,
        account: impl Fn(&L) -> Option<&Account>,
    ) -> Option<ConnId> {
        let own = self.peers.connections_of(host);
        let asks = self.peers.find(host);
        if let Some(found) = self.next_victim(now, asks, table, &account) {
            return Some(found);
        }
        if self.no_victim.is_some_and(|(at, than)| now.since(at) < NO_VICTIM && own >= than) {
            return None;
        }
        let all = table.iter().filter_map(|(conn, link)| Some((conn, account(link)?)));
        let yielding = all.filter(|(_, account)| self.yields(now, account, asks));
        let mut found: Vec<_> = yielding
            .map(|(conn, account)| {
                let connections = self.peers.of(account.peer).connections;
                ((!account.is_quiet(), Reverse(connections), account.active), conn)
            })
            .collect();
        found.sort_unstable_by_key(|(order, _)| *order);
        found.truncate(VICTIMS);
        self.victims = found.into_iter().rev().map(|((.., active), conn)| (conn, active)).collect();
        let found = self.next_victim(now, asks, table, &account);
        self.no_victim = found.is_none().then_some((now, own));
        found
    }

    fn next_victim<L>(
        &mut self,
        now: Time,
        asks: Option<PeerId>,
        table: &ConnTable<L>,
        account: &impl Fn(&L) -> Option<&Account>,
    ) -> Option<ConnId> {
        while let Some((conn, active)) = self.victims.pop() {
            let found = table.get(conn).and_then(account);
            if found.is_some_and(|account| account.active == active && self.yields(now, account, asks)) {
                return Some(conn);
            }
        }
        None
    }

    /// May a connection give way to one of that peer; `None`: of one that has none?
    fn yields(&self, now: Time, account: &Account, asks: Option<PeerId>) -> bool {
        if asks == Some(account.peer) {
            let long = if account.is_quiet() { IDLE } else { STALL };
            return now.since(account.active) >= long;
        }
        let own = asks.map_or(0, |peer| self.peers.of(peer).connections);
        self.peers.of(account.peer).connections > own
    }

    /// `came` bytes have come on a connection. `whole`: messages ended in them. `unfinished`: another one has begun.
    /// `true`: unfinished messages take too much memory, and [`heaviest`](Self::heaviest) says whose have to go.
    #[inline]
    pub fn progress(
        &mut self,
        now: Time,
        conn: ConnId,
        account: &mut Account,
        came: usize,
        whole: bool,
        unfinished: Option<Unfinished>,
    ) -> bool {
        account.active = now;
        match unfinished {
            None if account.deadline.is_none() => false,
            None => {
                self.settle(conn, account);
                false
            }
            Some(unfinished) => self.begun(now, conn, account, came, whole, unfinished),
        }
    }

    fn begun(
        &mut self,
        now: Time,
        conn: ConnId,
        account: &mut Account,
        came: usize,
        whole: bool,
        Unfinished { announced, held }: Unfinished,
    ) -> bool {
        const NANOS_PER_BYTE: u64 = 1_000_000_000 / RATE;
        self.watch(now);
        if whole {
            self.leave_slot(conn, account);
        }
        let latest = now + GRACE;
        let earned = Duration::from_nanos(NANOS_PER_BYTE * came as u64);
        let deadline = account.deadline.filter(|_| !whole).map_or(latest, |before| before + earned);
        account.deadline = Some(deadline.min(latest));
        account.came = if whole { came } else { account.came + came };
        // A connection over RDMA does not say how much is here.
        account.held = held.max(account.came.min(announced));
        match account.slot {
            Slot::None if announced >= self.bounds.slot_from => self.ask_slot(now, conn, account, announced),
            Slot::Held(bytes) if announced > bytes => {
                self.slots.take(announced - bytes);
                account.slot = Slot::Held(announced);
            }
            _ => {}
        }
        self.count_unfinished(account);
        self.peers.of(account.peer).unfinished > self.bounds.unfinished / 2
            || self.unfinished > self.bounds.unfinished
    }

    /// There is no unfinished message any more.
    fn settle(&mut self, conn: ConnId, account: &mut Account) {
        account.deadline = None;
        (account.held, account.came) = (0, 0);
        self.leave_slot(conn, account);
        self.count_unfinished(account);
    }

    fn count_unfinished(&mut self, account: &mut Account) {
        let bytes = if account.has_slot() { 0 } else { account.held };
        let before = std::mem::replace(&mut account.unfinished, bytes);
        let peer = &mut self.peers.of_mut(account.peer).unfinished;
        *peer = *peer - before + bytes;
        self.unfinished = self.unfinished - before + bytes;
    }

    fn count(&mut self, account: &mut Account, of: impl Fn(&mut Peer) -> &mut usize, bytes: usize) {
        let before = std::mem::replace(&mut account.replies, bytes);
        let peer = of(self.peers.of_mut(account.peer));
        *peer = *peer - before + bytes;
        self.replies = self.replies - before + bytes;
    }

    /// The connection that holds most of an unfinished message, of the address that holds most.
    pub fn heaviest<'a>(&self, accounts: impl Iterator<Item = (ConnId, &'a Account)>) -> Option<ConnId> {
        let weigh = |account: &Account| (self.peers.of(account.peer).unfinished, account.unfinished);
        let heaviest = accounts.max_by_key(|(_, account)| weigh(account))?;
        (heaviest.1.unfinished > 0).then_some(heaviest.0)
    }

    /// Bytes that may be received ahead on a connection.
    #[inline]
    pub fn ahead(&self, account: &Account) -> usize {
        let much = self.bounds.unfinished / 4;
        if self.unfinished <= much { usize::MAX } else { self.ahead_under_pressure(account, much) }
    }

    #[cold]
    fn ahead_under_pressure(&self, account: &Account, much: usize) -> usize {
        let share = much / self.peers.len().max(1);
        if self.peers.of(account.peer).unfinished > share { AHEAD_UNDER_PRESSURE } else { usize::MAX }
    }

    /// Would a message of `bytes` bytes get a slot now? Otherwise it gets fresh memory (see above).
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.slots.has_room(bytes)
    }

    fn ask_slot(&mut self, now: Time, conn: ConnId, account: &mut Account, bytes: usize) {
        if self.slots.has_room(bytes) {
            self.take_slot(now, account, bytes);
        } else {
            account.slot = Slot::Waiting(bytes);
            self.slots.wait(account.peer, conn, bytes);
        }
    }

    fn take_slot(&mut self, now: Time, account: &mut Account, bytes: usize) {
        self.slots.take(bytes);
        account.slot = Slot::Held(bytes);
        account.slot_since = now;
    }

    fn leave_slot(&mut self, conn: ConnId, account: &mut Account) {
        match std::mem::take(&mut account.slot) {
            Slot::None => {}
            Slot::Held(bytes) => self.slots.give_back(bytes),
            Slot::Waiting(_) => self.slots.leave(account.peer, conn),
        }
    }

    /// Does a message wait for a slot?
    #[inline]
    pub fn is_anybody_waiting(&self) -> bool {
        self.slots.is_anybody_waiting()
    }

    /// The next connection that gets a slot, if one is free: [`grant`](Self::grant) it.
    pub fn next_waiting(&mut self) -> Option<ConnId> {
        self.slots.next()
    }

    /// Gives a connection the slot that it waited for. It is to be read from again.
    pub fn grant(&mut self, now: Time, account: &mut Account) {
        let Slot::Waiting(bytes) = account.slot else { return };
        self.take_slot(now, account, bytes);
        self.count_unfinished(account);
    }

    /// Of the connections that have [had their turn](Look::HadItsTurn) since then, leaves those that make room for others:
    /// the first ones, one for each that waits.
    pub fn turns_to_end(&self, turns: &mut Vec<(Time, ConnId)>) {
        turns.sort_unstable();
        turns.truncate(self.slots.waiting());
    }

    /// A connection waits for another turn.
    pub fn end_turn(&mut self, conn: ConnId, account: &mut Account) {
        if let Slot::Held(bytes) = account.slot {
            self.slots.give_back(bytes);
            account.slot = Slot::Waiting(bytes);
            self.slots.wait(account.peer, conn, bytes);
            self.count_unfinished(account);
        }
    }

    /// Counts the replies of a connection: `waiting` bytes of those that are there, `to_come` bytes of those that are still
    /// to be made.
    #[inline]
    pub fn count_replies(&mut self, now: Time, account: &mut Account, waiting: usize, to_come: usize) {
        if waiting < account.waiting || account.waiting == 0 {
            account.taken = now;
        }
        account.waiting = waiting;
        if waiting + to_come != account.replies {
            self.count(account, |peer| &mut peer.replies, waiting + to_come);
        }
    }

    /// Bytes of replies from which on only those are answered who hold less than their share.
    fn much(&self) -> usize {
        self.bounds.replies / 4 * 3
    }

    /// May another call of the connection be carried out, as far as the memory of replies is concerned?
    #[inline]
    pub fn may_answer(&self, account: &Account) -> bool {
        self.has_room_for_replies() || self.may_answer_under_pressure(account)
    }

    #[cold]
    fn may_answer_under_pressure(&self, account: &Account) -> bool {
        if self.replies < self.much() && account.replies == 0 {
            return true;
        }
        let share = self.much() / self.peers.len().max(1);
        let holds = self.peers.of(account.peer).replies;
        holds < share && self.replies + self.bounds.reply_max <= self.bounds.replies
    }

    /// Bytes of all replies that wait, and of those that are still to be made.
    pub fn replies(&self) -> usize {
        self.replies
    }

    /// Are there so few replies again that all may go on who were stopped for that?
    pub fn has_room_for_replies(&self) -> bool {
        self.replies <= self.bounds.replies / 2
    }

    /// Bytes of replies that have to go until there is room again.
    pub fn excess_of_replies(&self) -> usize {
        self.replies.saturating_sub(self.bounds.replies / 2)
    }

    /// Sees to it that connections are looked at before long.
    #[inline]
    pub fn watch(&mut self, now: Time) {
        self.tick.get_or_insert(now + TICK);
    }

    /// When connections are to be looked at.
    pub fn deadline(&self) -> Option<Time> {
        self.tick
    }

    /// Is it time to look at all connections?
    pub fn is_due(&mut self, now: Time) -> bool {
        let due = self.tick.take_if(|tick| *tick <= now);
        self.elapsed = due.map_or(self.elapsed, |due| now.since(due) + TICK);
        due.is_some()
    }

    /// Looks at a connection. `reads`: the server reads from it, but for what it says itself.
    pub fn look(&mut self, now: Time, account: &mut Account, reads: bool) -> Look {
        if account.leaves {
            self.watch(now);
            if now.since(account.taken) >= LAST_TAKEN {
                return Look::Left;
            }
        }
        let is_stalled = account.waiting > 0 && now.since(account.taken) >= STALL;
        if account.waiting > 0 && self.replies >= self.much() {
            self.watch(now);
            if is_stalled {
                return Look::Stalled(self.peers.of(account.peer).replies);
            }
        }
        let Some(deadline) = account.deadline else { return Look::Fine };
        self.watch(now);
        // Stopped connections count, too: the server does not read from them, so they would keep their slots until then.
        let keeps_others = account.has_slot() && self.slots.is_anybody_waiting();
        let had_its_turn = keeps_others && now.since(account.slot_since) >= TURN;
        if !reads || !account.is_read() {
            account.deadline = Some(deadline + self.elapsed);
            return if had_its_turn { Look::HadItsTurn(account.slot_since) } else { Look::Fine };
        }
        if deadline <= now {
            return Look::Overdue;
        }
        if had_its_turn { Look::HadItsTurn(account.slot_since) } else { Look::Fine }
    }
}
