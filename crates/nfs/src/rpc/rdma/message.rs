//! Message helpers for both sides.

use super::header::RdmaSegment;
use crate::rpc::record::{Record, Split, Splitter};
use crate::xdr::padding;
use onego_buf::{List, Segment};

pub(super) fn total(targets: &[RdmaSegment]) -> u64 {
    targets.iter().map(|target| u64::from(target.length)).sum()
}

pub(super) fn number(message: &[u8]) -> Option<u32> {
    message.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns the lengths of a complete message's front and payload.
pub(super) fn split(message: &[u8], splitter: &mut dyn Splitter) -> Option<(usize, usize)> {
    match splitter.split(message) {
        Split::At(front, payload) => Some((front, payload)),
        Split::Never | Split::More(_) => None,
    }
}

/// Splits a message that was received inline into front and payload. A message shorter than it claims stays whole and
/// is marked broken.
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

pub(super) fn pad(mut payload: List) -> List {
    payload.push(Segment::from_static(&[0; 3][..padding(payload.len())]));
    payload
}
