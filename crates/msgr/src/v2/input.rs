//! Input of a connection, and checks before memory is allocated for a frame.

use super::banner::Banner;
use super::frame::{MAX_SEGMENTS, Preamble};
use super::header::HEADER_LEN;
use crate::config::{Limits, within};
use crate::error::Error;
use crate::tag::Tag;
use onego_buf::Segment;

/// Names of a message's second to fourth segment.
pub(super) const PARTS: [&str; MAX_SEGMENTS - 1] =
    ["a message's front", "a message's middle", "a message's payload"];

pub(super) const HEADER_SIZE: Error = Error::BadFrame("a message header of the wrong size");

#[derive(Debug)]
pub(crate) enum Frame {
    Banner(Banner),
    Control(Tag, Segment),
}

/// Returns the maximum compressed size of a segment of `bound` bytes. No method adds more than a sixth, which snappy
/// reserves, and its lengths.
fn packed_bound(bound: u32) -> u32 {
    bound.saturating_add(bound / 6).saturating_add(64)
}

/// Checks that a frame of this kind and size is allowed now. `messages`: the handshake is over. `unpacks`: compression
/// was negotiated.
pub(super) fn check_preamble(
    preamble: &Preamble,
    messages: bool,
    unpacks: bool,
    limits: &Limits,
) -> Result<(), Error> {
    let Preamble { tag, lens, segments, compressed } = *preamble;
    if compressed && !unpacks {
        return Err(Error::NotAgreed);
    }
    let most = |bound| if compressed { packed_bound(bound) } else { bound };
    if tag != Tag::Message {
        if segments > 1 {
            return Err(Error::BadFrame("several segments instead of one"));
        }
        within("control frame", lens[0], most(limits.control))?;
        return Ok(());
    }
    if !messages {
        return Err(Error::Unexpected { tag, state: "performing the handshake" });
    }
    if compressed {
        within("message header", lens[0], most(HEADER_LEN as u32))?;
    } else if lens[0] as usize != HEADER_LEN {
        return Err(HEADER_SIZE);
    }
    let [_, parts @ ..] = lens;
    // The length of compressed data is known only after decompression.
    let parts = if compressed { parts } else { limits.kept(parts) };
    limits.check(parts, most)
}

/// Returns the announced size of a frame, without discarded data.
pub(super) fn announced(preamble: &Preamble, limits: &Limits) -> usize {
    let [first, parts @ ..] = preamble.lens;
    let parts = if preamble.compressed { parts } else { limits.kept(parts) };
    parts.iter().fold(first as usize, |sum, len| sum + *len as usize)
}
