//! What both ends do with messages.

use super::header::RdmaSegment;
use crate::rpc::record::{Record, Split, Splitter};
use crate::xdr::padding;
use onego_buf::{List, Segment};

/// Bytes of a chunk.
pub(super) fn total(targets: &[RdmaSegment]) -> u64 {
    targets.iter().map(|target| u64::from(target.length)).sum()
}

/// The number of a message of RPC.
pub(super) fn number(message: &[u8]) -> Option<u32> {
    message.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Where the payload of a whole message begins, and how long it says to be.
pub(super) fn split(message: &[u8], splitter: &mut dyn Splitter) -> Option<(usize, usize)> {
    match splitter.split(message) {
        Split::At(front, payload) => Some((front, payload)),
        Split::Never | Split::More(_) => None,
    }
}

/// Cuts a message that came in one piece in front and payload. One that says to be longer than it is stays whole, and
/// is found to be broken by who reads it.
pub(super) fn cut(mut message: Segment, splitter: &mut dyn Splitter) -> Record {
    let parts = split(&message, splitter);
    let whole = |&(front, payload): &(usize, usize)| {
        (front.saturating_add(payload)..=front.saturating_add(payload) + padding(payload))
            .contains(&message.len())
    };
    let Some((front, payload)) = parts.filter(whole) else {
        return Record { broken: parts.is_some(), ..Record::of(message) };
    };
    let front = message.split_to(front);
    message.truncate(payload);
    match splitter.place(&front, payload) {
        Some(mut place) => {
            place.copy_from_slice(&message);
            Record { placed: Some(place), ..Record::of(front) }
        }
        None => Record { payload: List::from(message), ..Record::of(front) },
    }
}

/// A payload that is filled up to whole units, as it follows its front.
pub(super) fn fill_up(mut payload: List) -> List {
    payload.push(Segment::from_static(&[0; 3][..padding(payload.len())]));
    payload
}
