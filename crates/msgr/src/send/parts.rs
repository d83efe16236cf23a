//! Messages into what is sent: many a call, in as few pieces as can be.

use super::fronts::Fronts;
use super::outbox::Outbox;
use super::queue::{Front, Queued};
use crate::message::Sums;
use onego_buf::{Arena, List, crc32c};

/// Puts messages together, in one version of the protocol.
pub(crate) trait Assemble {
    /// What is on its way out.
    fn arena(&mut self) -> &mut Arena;

    /// Appends a message, whose data it takes.
    fn message(&mut self, message: &mut Queued, fronts: &mut Fronts, out: &mut List);
}

/// Appends `control` and about `limit` bytes of messages to `out`.
pub(crate) fn transmit(
    assembler: &mut impl Assemble,
    control: &[u8],
    out: &mut List,
    limit: usize,
    outbox: &mut Outbox,
) {
    let start = out.len();
    assembler.arena().put(control, out);
    while out.len() + assembler.arena().pending() - start < limit {
        if !outbox.pop(|message, fronts| assembler.message(message, fronts, out)) {
            break;
        }
    }
    assembler.arena().flush(out);
    if outbox.is_empty() {
        assembler.arena().rest();
    }
}

/// Appends front, middle and data of a message, whose data it takes, and returns their checksums. `seed` is what
/// these start with.
#[inline]
pub(crate) fn put_parts(
    message: &mut Queued,
    fronts: &mut Fronts,
    arena: &mut Arena,
    out: &mut List,
    (sums, seed): (Sums, u32),
) -> [u32; 3] {
    let sum = |bytes: &[u8]| if sums == Sums::None { seed } else { crc32c(seed, bytes) };
    let front = match &message.front {
        Front::Encoded(len) => {
            let front = fronts.take(*len);
            arena.bytes(front, out);
            sum(front)
        }
        Front::Own(front) => {
            arena.piece(front, out);
            sum(front)
        }
    };
    let mut middle = seed;
    if let Some(piece) = &message.middle {
        middle = sum(piece);
        arena.piece(piece, out);
    }
    let mut data = seed;
    arena.pieces(&mut message.data, out, |piece| {
        if sums == Sums::All {
            data = crc32c(data, piece);
        }
    });
    [front, middle, data]
}
