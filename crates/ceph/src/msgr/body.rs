//! The parts of a message behind its header, as they come in: front, middle, payload.
//!
//! Fronts and payloads are slices of what was received. Only a front that is cut, and a payload that has a place, are
//! copied: the payload only as far as it was here before its place was known.

use super::message::{Header, Message, Placer};
use super::receive::{AHEAD, AHEAD_OF_BULK, BULK, COPY_CHUNK, LAND, Place, gather};
use onego_buf::{List, Segment, SegmentMut, crc32c};
use onego_wire::Landing;

/// What comes next of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Front,
    Middle,
    Data,
    Whole,
}

/// One body after the other.
#[derive(Debug)]
pub(super) struct Body {
    stage: Stage,
    lens: [usize; 3],
    /// Checksums of the parts.
    crcs: [u32; 3],
    /// Is the payload summed up as it comes?
    sums_data: bool,
    /// Does the connection carry bulk at the moment?
    bulk: bool,
    /// What is here of a front or a middle that came in pieces.
    gathered: Vec<u8>,
    front: Option<Segment>,
    middle: Option<Segment>,
    data: List,
    place: Option<Place>,
}

impl Body {
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Whole,
            lens: [0; 3],
            crcs: [0; 3],
            sums_data: true,
            bulk: false,
            gathered: Vec::new(),
            front: None,
            middle: None,
            data: List::new(),
            place: None,
        }
    }

    /// A body with parts of these lengths begins. `sums_data`: make the checksum of the payload as it comes, while it
    /// is in the cache.
    pub(super) fn begin(&mut self, lens: [usize; 3], sums_data: bool) {
        self.stage = Stage::Front;
        self.lens = lens;
        self.crcs = [0; 3];
        self.sums_data = sums_data;
    }

    /// Takes what is here of it. `true`: all of it is here.
    pub(super) fn take(&mut self, header: &Header, bytes: &mut Segment, placer: &mut dyn Placer) -> bool {
        loop {
            match self.stage {
                Stage::Front => {
                    let Some(front) = gather(&mut self.gathered, self.lens[0], bytes) else { return false };
                    self.crcs[0] = crc32c(0, &front);
                    self.front = Some(front);
                    self.stage = Stage::Middle;
                }
                Stage::Middle => {
                    if self.lens[1] > 0 {
                        let Some(middle) = gather(&mut self.gathered, self.lens[1], bytes) else {
                            return false;
                        };
                        self.crcs[1] = crc32c(0, &middle);
                        self.middle = Some(middle);
                    }
                    self.find_place(header, placer);
                    self.stage = Stage::Data;
                }
                Stage::Data => {
                    if !self.take_data(bytes) {
                        return false;
                    }
                    self.stage = Stage::Whole;
                }
                Stage::Whole => return true,
            }
        }
    }

    /// Asks where the payload goes, now that the message is known up to it.
    fn find_place(&mut self, header: &Header, placer: &mut dyn Placer) {
        let len = self.lens[2];
        let front = self.front.as_deref().unwrap_or_default();
        let buffer = if len > 0 { placer.place(header, front, len) } else { None };
        self.bulk = buffer.is_some() && len >= BULK;
        self.place = buffer.map(|buffer| {
            assert_eq!(buffer.len(), len, "a place has the size of the payload");
            Place { buffer, filled: 0, out: false }
        });
    }

    /// Takes what is here of the payload. `true`: all of it is here.
    fn take_data(&mut self, bytes: &mut Segment) -> bool {
        let Some(place) = &mut self.place else {
            let more = bytes.len().min(self.lens[2] - self.data.len());
            if more > 0 {
                let piece = bytes.split_to(more);
                if self.sums_data {
                    self.crcs[2] = crc32c(self.crcs[2], &piece);
                }
                self.data.push(piece);
            }
            return self.data.len() == self.lens[2];
        };
        assert!(!place.out, "bytes behind a place that is out come after it");
        let taken = bytes.len().min(self.lens[2] - place.filled);
        for chunk in bytes[..taken].chunks(COPY_CHUNK) {
            place.buffer[place.filled..place.filled + chunk.len()].copy_from_slice(chunk);
            if self.sums_data {
                self.crcs[2] = crc32c(self.crcs[2], chunk);
            }
            place.filled += chunk.len();
        }
        bytes.advance(taken);
        place.filled == self.lens[2]
    }

    /// Where the next bytes go.
    pub(super) fn landing(&mut self) -> Landing {
        let ahead = if self.bulk { AHEAD_OF_BULK } else { AHEAD };
        let Some(place) = &mut self.place else { return Landing { place: None, ahead } };
        assert!(!place.out, "the place that was handed out comes back before the next is asked for");
        let rest = place.buffer.len() - place.filled;
        if rest < LAND {
            return Landing { place: None, ahead: ahead + rest };
        }
        place.out = true;
        let filled = place.buffer.split_to(place.filled);
        let rest = std::mem::replace(&mut place.buffer, filled);
        Landing { place: Some(rest), ahead }
    }

    /// The rest of a place comes back with `filled` bytes more.
    pub(super) fn landed(&mut self, rest: SegmentMut, filled: usize) {
        let place = self.place.as_mut().filter(|place| place.out).expect("only what was handed out lands");
        if self.sums_data {
            self.crcs[2] = crc32c(self.crcs[2], &rest[..filled]);
        }
        place.buffer.try_join(rest).expect("what lands is the buffer that was handed out");
        place.filled += filled;
        place.out = false;
    }

    /// The place of the payload that is being received, if it is not out.
    pub(super) fn take_place(&mut self) -> Option<SegmentMut> {
        self.place.take_if(|place| !place.out).map(|place| place.buffer)
    }

    /// Checksums of the front and the middle that were received.
    pub(super) fn crcs(&self) -> [u32; 2] {
        [self.crcs[0], self.crcs[1]]
    }

    /// Checksum of the payload that was received, which is made now if it was not made before.
    pub(super) fn data_crc(&self) -> u32 {
        match &self.place {
            _ if self.sums_data => self.crcs[2],
            Some(place) => crc32c(0, &place.buffer),
            None => self.data.crc32c(0),
        }
    }

    /// Forgets a message whose sender gave it up, and gives back the place of its payload.
    pub(super) fn give_up(&mut self) -> Option<SegmentMut> {
        self.bulk = false;
        self.take_message(Header::default()).placed
    }

    /// The message, all of whose parts are here.
    pub(super) fn take_message(&mut self, header: Header) -> Message {
        Message {
            header,
            front: self.front.take().unwrap_or_else(|| Segment::from_static(b"")),
            middle: self.middle.take(),
            data: std::mem::take(&mut self.data),
            placed: self.place.take().map(|place| place.buffer),
        }
    }
}
