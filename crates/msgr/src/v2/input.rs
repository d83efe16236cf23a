//! What a receiver hands on, and what it checks before it takes memory for a frame.

use super::banner::Banner;
use super::frame::{MAX_SEGMENTS, Preamble};
use super::header::HEADER_LEN;
use crate::config::{Limits, within};
use crate::error::Error;
use crate::tag::Tag;
use onego_buf::Segment;

/// The second to fourth segment of a message.
pub(super) const PARTS: [&str; MAX_SEGMENTS - 1] =
    ["a message's front", "a message's middle", "a message's payload"];

pub(super) const HEADER_SIZE: Error = Error::BadFrame("a message header of another size");

/// What is received beside messages.
#[derive(Debug)]
pub(crate) enum Frame {
    Banner(Banner),
    Control(Tag, Segment),
}

/// The most bytes that a segment of `bound` bytes takes when it is compressed: no method adds more than a sixth, which
/// is what snappy reserves, and its lengths.
fn packed_bound(bound: u32) -> u32 {
    bound.saturating_add(bound / 6).saturating_add(64)
}

/// Checks that a frame of that kind and size may come now. `messages`: is the handshake over? `unpacks`: was it agreed to
/// compress?
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
            return Err(Error::BadFrame("several segments where there is one"));
        }
        within("control frame", lens[0], most(limits.control))?;
        return Ok(());
    }
    if !messages {
        return Err(Error::Unexpected { tag, state: "the handshake goes on" });
    }
    if compressed {
        within("message header", lens[0], most(HEADER_LEN as u32))?;
    } else if lens[0] as usize != HEADER_LEN {
        return Err(HEADER_SIZE);
    }
    let [_, parts @ ..] = lens;
    // How long compressed data is shows only when it is decompressed.
    let parts = if compressed { parts } else { limits.kept(parts) };
    limits.check(parts, most)
}

/// Bytes that a frame is announced to have, without those that are not kept.
pub(super) fn announced(preamble: &Preamble, limits: &Limits) -> usize {
    let [first, parts @ ..] = preamble.lens;
    let parts = if preamble.compressed { parts } else { limits.kept(parts) };
    parts.iter().fold(first as usize, |sum, len| sum + *len as usize)
}
