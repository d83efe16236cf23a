//! Gathers messages into as few send pieces as possible.

use super::fronts::Fronts;
use super::outbox::Outbox;
use super::queue::{Front, Queued};
use crate::message::Sums;
use onego_buf::{Arena, List, crc32c};

/// Appends `control` and about `limit` bytes of messages to `out`. `put` appends a message and takes its data.
#[inline]
pub(crate) fn transmit(
    arena: &mut Arena,
    control: &[u8],
    out: &mut List,
    limit: usize,
    outbox: &mut Outbox,
    mut put: impl FnMut(&mut Queued, &mut Fronts, &mut Arena, &mut List),
) {
    let start = out.len();
    arena.put(control, out);
    while out.len() + arena.pending() - start < limit {
        if !outbox.pop(|message, fronts| put(message, fronts, arena, out)) {
            break;
        }
    }
    arena.flush(out);
    if outbox.is_empty() {
        arena.rest();
    }
}

/// Appends front, middle and data of a message, taking its data. Returns their checksums, computed from the initial
/// value `seed`.
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
