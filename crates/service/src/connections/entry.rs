//! What the table keeps of one connection.

use super::connection::ServerConnection;
use crate::admission::{Account, Admission};
use onego_buf::List;

/// How a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The server reads from it.
    Reading,
    /// The server reads nothing from it until some of its replies are gone.
    Stopped,
    /// The server reads nothing from it, and closes it once all replies are sent.
    Leaving,
    /// It is over, and the driver is still to close it. Until then its name must not be given to another.
    Closing,
    /// It is over, and the driver has closed it. The entry stays until the driver has given the receive buffers back.
    Closed,
}

/// The receive buffers that the driver has.
#[derive(Debug, Default)]
struct Receive {
    buffers: usize,
    /// Bytes in those that are back already.
    filled: usize,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Entry<C> {
    pub(super) connection: C,
    pub(super) account: Account,
    pub(super) state: State,
    /// The driver knows that there is something to send.
    pub(super) announced: bool,
    /// Bytes that the driver has taken, and may not have sent yet.
    pub(super) given: usize,
    /// What is still to be said on a connection that is over.
    pub(super) last_words: List,
    receive: Receive,
}

impl<C: ServerConnection> Entry<C> {
    pub(super) fn new(connection: C, account: Account) -> Self {
        Self {
            connection,
            account,
            state: State::Reading,
            announced: false,
            given: 0,
            last_words: List::new(),
            receive: Receive::default(),
        }
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Reading | State::Stopped | State::Leaving)
    }

    /// Is there nothing left of it but replies that the driver has not sent?
    #[inline]
    pub(super) fn is_leaving(&self) -> bool {
        self.state == State::Leaving
    }

    /// Does the server read from it? A message that waits for its slot is another reason not to (see [`Account`]).
    #[inline]
    pub(super) fn reads(&self) -> bool {
        self.state == State::Reading && !self.connection.defers()
    }

    /// The driver gets receive buffers.
    #[inline]
    pub(super) fn lend(&mut self, buffers: usize) {
        self.receive.buffers = buffers;
    }

    /// Has the driver receive buffers?
    pub(super) fn has_lent(&self) -> bool {
        self.receive.buffers > 0
    }

    /// A buffer is back with `filled` bytes. `Some`: all are back; the number is the sum of their bytes.
    #[inline]
    pub(super) fn take_back(&mut self, filled: usize) -> Option<usize> {
        self.receive.buffers -= 1;
        self.receive.filled += filled;
        (self.receive.buffers == 0).then(|| std::mem::take(&mut self.receive.filled))
    }
}

/// What a connection may still take of the server's memory.
#[derive(Debug, Clone, Copy)]
pub struct Allowance<'a> {
    pub(super) admission: &'a Admission,
    pub(super) account: &'a Account,
}

impl Allowance<'_> {
    /// Would a large message of `bytes` bytes be received now? If not it waits for a slot, and gets fresh memory, which
    /// the system provides page by page as it is filled.
    #[inline]
    pub fn has_slot_for(&self, bytes: usize) -> bool {
        self.account.has_slot() || self.admission.has_room(bytes)
    }

    /// May another request be carried out, as far as the memory of replies is concerned?
    #[inline]
    pub fn may_answer(&self) -> bool {
        self.admission.may_answer(self.account)
    }

    /// Bytes of all connections' replies, as [`Connections::replies`](super::Connections::replies) counts them.
    pub fn replies(&self) -> usize {
        self.admission.replies()
    }

    /// Bytes of its replies that wait, as they were counted last.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.account.waiting()
    }
}
