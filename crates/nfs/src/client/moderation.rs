//! How many replies are worth a wake-up.

/// Bytes of a reply beside its payload, roughly: too few are better than too many, which would be waited for in vain.
const REPLY_FRONT: usize = 100;

/// Of what is to come, a part is worth a wake-up: half of it, so that the server has the other half of the calls to do
/// meanwhile.
const PARTS: usize = 2;

/// The most that is worth one.
const MOST: usize = 1 << 20;

/// What is to come by a connection.
///
/// Where calls come one after the other, nothing is waited for but the rest of a reply. Where many are under way, those that
/// a server answers one by one are taken many at a time.
#[derive(Debug, Default)]
pub(super) struct Moderation {
    /// Bytes of replies that are to come.
    expected: usize,
    /// What the driver was told to wait for.
    told: usize,
}

impl Moderation {
    /// A call was sent whose reply has so many bytes of payload at the most.
    pub(super) fn sent(&mut self, payload: usize) {
        self.expected += payload + REPLY_FRONT;
    }

    /// Its reply has come, or nobody waits for it any more.
    pub(super) fn done(&mut self, payload: usize) {
        self.expected -= payload + REPLY_FRONT;
    }

    /// How many bytes are worth a wake-up, if that is another number than the last.
    pub(super) fn wish(&mut self) -> Option<usize> {
        // In steps, so that it is not another number each time.
        let least = 1 << (self.expected / PARTS).clamp(1, MOST).ilog2();
        (std::mem::replace(&mut self.told, least) != least).then_some(least)
    }
}
