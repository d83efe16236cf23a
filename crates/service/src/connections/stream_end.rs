use crate::admission::LAST_REPLIES;
use onego_wire::Time;

/// How far a client is that may end its direction of the stream (a half-close). It gets the replies to all requests that have
/// come in full. A client that is gone looks the same, so the server's work on them is limited in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamEnd {
    /// The client may send more.
    #[default]
    Open,
    /// It sends no more. Requests that came before may still wait to be handled. All have to be answered by that time.
    HalfClosed(Time),
    /// Each request is answered, or being carried out.
    Handled(Time),
    /// That time has passed.
    Late,
}

impl StreamEnd {
    /// The client has ended its direction of the stream.
    pub fn half_close(&mut self, now: Time) {
        *self = Self::HalfClosed(now + LAST_REPLIES);
    }

    /// No request that has come in full is left to be handled. Returns whether none can come any more.
    pub fn all_handled(&mut self) -> bool {
        if let Self::HalfClosed(ends) = *self {
            *self = Self::Handled(ends);
        }
        matches!(self, Self::Handled(_) | Self::Late)
    }

    /// Returns whether the requests of a client that sends no more have taken too long.
    pub fn is_late(self) -> bool {
        self == Self::Late
    }

    /// When [`timeout`](Self::timeout) is to be called.
    pub fn deadline(self) -> Option<Time> {
        match self {
            Self::HalfClosed(ends) | Self::Handled(ends) => Some(ends),
            Self::Open | Self::Late => None,
        }
    }

    /// A deadline may have passed.
    pub fn timeout(&mut self, now: Time) {
        if self.deadline().is_some_and(|ends| ends <= now) {
            *self = Self::Late;
        }
    }
}
