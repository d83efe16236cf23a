//! Assembles messages for the wire, in as few pieces as possible.

use super::frame::{FOOTER_MAX, Footer, Footers, put_head, tag};
use crate::auth::Key;
use crate::message::{Message, Sums};
use crate::send::fronts::Fronts;
use crate::send::outbox::Outbox;
use crate::send::parts::{put_parts, transmit};
use crate::send::queue::Queued;
use crate::types::encoding::Encode;
use crate::types::{EntityName, Utime};
use onego_buf::{Arena, List, Pool};
use onego_wire::Writer;

#[derive(Debug)]
pub(super) struct Sender {
    assembler: Assembler,
    arena: Arena,
    /// Output before the next message: handshake parts and keepalives.
    control: Writer,
}

impl Sender {
    pub(super) fn new(source: EntityName, data_crc: bool, pool: Pool) -> Self {
        Self {
            assembler: Assembler { source, data_crc, footers: Footers { has_room: false }, key: None },
            arena: Arena::new(pool),
            control: Writer::new(),
        }
    }

    /// Returns the writer for output that precedes the next message.
    pub(super) fn control(&mut self) -> &mut Writer {
        &mut self.control
    }

    /// Queues a keepalive request; old peers support only one without a stamp.
    pub(super) fn keepalive(&mut self, stamp: Option<Utime>) {
        match stamp {
            Some(stamp) => {
                self.control.u8(tag::KEEPALIVE2);
                stamp.encode(&mut self.control);
            }
            None => self.control.u8(tag::KEEPALIVE),
        }
    }

    pub(super) fn ack(&mut self, seq: u64) {
        self.control.u8(tag::ACK);
        self.control.u64(seq);
    }

    pub(super) fn keepalive_ack(&mut self, stamp: Utime) {
        self.control.u8(tag::KEEPALIVE2_ACK);
        stamp.encode(&mut self.control);
    }

    /// Ends the handshake: messages come from `source`, have these footers, and are signed with `key`.
    pub(super) fn begin(&mut self, source: EntityName, footers: Footers, key: Option<Key>) {
        self.assembler.source = source;
        self.assembler.footers = footers;
        self.assembler.key = key;
    }

    pub(super) fn omit_data_crc(&mut self) {
        self.assembler.data_crc = false;
    }

    pub(super) fn clear(&mut self) {
        self.control.clear();
    }

    pub(super) fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Appends control output to `out`, and then `first`, which precedes all queued messages.
    pub(super) fn transmit_control(&mut self, out: &mut List, first: Option<Message>, outbox: &mut Outbox) {
        self.arena.put(self.control.as_slice(), out);
        self.control.clear();
        if let Some(message) = first {
            let mut message = Queued::from(message);
            outbox.number(&mut message);
            self.assembler.message(&mut message, &mut Fronts::default(), &mut self.arena, out);
        }
        self.arena.flush(out);
        self.arena.rest();
    }

    /// Appends control output and about `limit` bytes of messages to `out`.
    pub(super) fn transmit(&mut self, out: &mut List, limit: usize, outbox: &mut Outbox) {
        let Self { assembler, arena, control } = self;
        transmit(arena, control.as_slice(), out, limit, outbox, |message, fronts, arena, out| {
            assembler.message(message, fronts, arena, out);
        });
        control.clear();
    }
}

#[derive(Debug)]
struct Assembler {
    source: EntityName,
    data_crc: bool,
    footers: Footers,
    key: Option<Key>,
}

impl Assembler {
    fn message(&mut self, message: &mut Queued, fronts: &mut Fronts, arena: &mut Arena, out: &mut List) {
        let (source, lens) = (self.source, message.lens());
        let mut header_crc = 0;
        arena.write(out, |to| header_crc = put_head(&message.header, source, lens, to));
        let sums = if self.data_crc { Sums::All } else { Sums::AllButData };
        let [front_crc, middle_crc, data_crc] = put_parts(message, fronts, arena, out, (sums, 0));
        let data_crc = self.data_crc.then_some(data_crc);
        let mut footer = Footer { front_crc, middle_crc, data_crc, signature: None };
        footer.signature =
            self.key.as_ref().map(|key| footer.sign(key, header_crc, lens, message.header.seq));
        let mut bytes = [0; FOOTER_MAX];
        let len = self.footers.put(footer, &mut bytes);
        arena.put(&bytes[..len], out);
    }
}
