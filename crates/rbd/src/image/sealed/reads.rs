//! Reads that start or end within a sector.

use crate::encryption::Encryption;
use crate::host::{Host, Purpose, Ticket};
use crate::image::machine::OpenImage;
use crate::image::running::{Cut, Gather, InflightIo, pieces};
use crate::request::Io;
use onego_buf::{List, SegmentMut};
use onego_ceph::client::OpReply;
use onego_wire::Time;
use smallvec::SmallVec;

impl Encryption {
    /// Returns whether the request is a read that is not sector-aligned.
    pub(in crate::image) fn cuts(&self, io: &Io) -> bool {
        let (start, length) = match io {
            Io::Read { offset, length } => (*offset, *length),
            Io::ReadInto { offset, buffer } => (*offset, buffer.len() as u64),
            _ => return false,
        };
        self.aligned(start..start + length) != (start..start + length)
    }
}

impl<T> OpenImage<T> {
    /// Starts a read of whole sectors around the requested range.
    #[cold]
    pub(in crate::image) fn read_around(&mut self, now: Time, host: &mut impl Host<T>, io: Io, token: T) {
        let Some(encryption) = &self.facts.data.encryption else { return };
        let (offset, length, buffer) = match io {
            Io::Read { offset, length } => (offset, length, None),
            Io::ReadInto { offset, buffer } => (offset, buffer.len() as u64, Some(buffer)),
            _ => return,
        };
        let range = encryption.aligned(offset..offset + length);
        let cut = Cut { skip: (offset - range.start) as usize, length: length as usize, buffer };
        let (offset, length) = (self.facts.data.start() + range.start, range.end - range.start);
        let key = self.ios.vacant_key() as u32;
        let mut parts = SmallVec::new();
        for piece in pieces(&self.facts.data.layout, offset, length) {
            let index = parts.len() as u32;
            parts.push((piece.length, List::new()));
            let request = self.facts.data.request(piece.object, piece.read());
            host.request(request, Ticket(Purpose::Piece { io: key, index }));
        }
        let outstanding = parts.len() as u32;
        let gather = Gather::Sectors { parts, cut: Box::new(cut) };
        self.ios.insert(InflightIo { token, offset, length, outstanding, error: None, gather });
        if outstanding == 0 {
            self.finish(now, host, key);
        }
    }

    pub(in crate::image) fn decrypt_piece(
        &self,
        io: u32,
        index: u32,
        reply: &mut OpReply,
        buffer: Option<&mut SegmentMut>,
    ) {
        let data = &self.facts.data;
        let (Some(encryption), Some(running)) = (&data.encryption, self.ios.get(io as usize)) else { return };
        let at = pieces(&data.layout, running.offset, running.length)[index as usize].at;
        match buffer {
            Some(buffer) => reply.filled = encryption.decrypt_in_place(at, buffer, reply.filled),
            None => {
                if let Some(op) = reply.ops.first_mut() {
                    op.output = encryption.decrypt(at, &op.output);
                }
            }
        }
    }
}
