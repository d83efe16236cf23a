//! [`Protocol`] implementation of version 2.1: handshake, receiver and sender.

use super::frame::Framing;
use super::handshake::Handshake;
use super::input::Frame;
use super::receive::Receiver;
use super::send::Sender;
use crate::claim::{Claim, Refusal};
use crate::config::Config;
use crate::error::Error;
use crate::message::Message;
use crate::peer::{Peer, Target, Visitor};
use crate::protocol::{FrameEffect, Protocol};
use crate::state::SessionState;
use crate::tag::Tag;
use crate::types::Utime;
use crate::types::encoding::{Decode, Encode};
use onego_buf::List;
use onego_wire::{Reader, Time};
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Version2 {
    handshake: Option<Box<Handshake>>,
    rx: Receiver,
    tx: Sender,
}

impl Version2 {
    pub(crate) fn client(config: &Arc<Config>, target: Target) -> Self {
        Self::new(config, Handshake::client(Arc::clone(config), target))
    }

    pub(crate) fn server(config: &Arc<Config>, visitor: Visitor) -> Self {
        Self::new(config, Handshake::server(Arc::clone(config), visitor))
    }

    fn new(config: &Config, handshake: Handshake) -> Self {
        let framing = Framing::new(config.data_crc);
        Self {
            handshake: Some(Box::new(handshake)),
            rx: Receiver::new(framing, config.limits),
            tx: Sender::new(framing, config.pool.clone()),
        }
    }

    /// Ends the handshake if the peer is known.
    fn completed(&mut self, peer: Option<Peer>) -> FrameEffect {
        if peer.is_some() {
            self.handshake = None;
            self.rx.allow_messages();
        }
        peer.into()
    }
}

fn effect(tag: Tag, payload: &[u8]) -> Result<FrameEffect, Error> {
    let mut r = Reader::new(payload);
    match tag {
        Tag::Keepalive2 => Ok(FrameEffect::Keepalive(Utime::decode(&mut r)?)),
        Tag::Keepalive2Ack => Ok(Utime::decode(&mut r).map(|_| FrameEffect::Nothing)?),
        Tag::Ack => Ok(FrameEffect::Ack(r.u64("ack seq")?)),
        _ => Err(Error::Unexpected { tag, state: "exchanging messages" }),
    }
}

impl Protocol for Version2 {
    type Receiver = Receiver;

    fn open(&mut self, local: SocketAddr) {
        if let Some(handshake) = &mut self.handshake {
            handshake.open(local, &mut self.tx);
        }
    }

    #[inline]
    fn receiver(&self) -> &Receiver {
        &self.rx
    }

    #[inline]
    fn receiver_mut(&mut self) -> &mut Receiver {
        &mut self.rx
    }

    fn frame(&mut self, now: Time, frame: Frame, session: &mut SessionState) -> Result<FrameEffect, Error> {
        match (frame, &mut self.handshake) {
            (Frame::Banner(banner), Some(handshake)) => {
                handshake.banner(banner, &mut self.tx)?;
                Ok(FrameEffect::Nothing)
            }
            (Frame::Banner(_), None) => Ok(FrameEffect::Nothing),
            (Frame::Control(tag, payload), Some(handshake)) => {
                let (rx, tx) = (&mut self.rx, &mut self.tx);
                let peer = handshake.frame(now, tag, &payload, rx, tx, session)?;
                Ok(self.completed(peer))
            }
            (Frame::Control(tag, payload), None) => effect(tag, &payload),
        }
    }

    /// The receiver lets no message through before the handshake is complete.
    fn early_message(&mut self, _: Time, _: Message, _: &mut SessionState) -> Result<FrameEffect, Error> {
        Err(Error::Unexpected { tag: Tag::Message, state: "performing the handshake" })
    }

    fn claim(&self) -> Option<&Claim> {
        self.handshake.as_ref()?.claimed()
    }

    fn admit(&mut self, session: &mut SessionState) -> Result<FrameEffect, Error> {
        let Some(handshake) = &mut self.handshake else { return Ok(FrameEffect::Nothing) };
        let peer = handshake.admit(&mut self.tx, session)?;
        Ok(self.completed(peer))
    }

    fn refuse(&mut self, refusal: Refusal, _: &SessionState) {
        if let Some(handshake) = &mut self.handshake {
            handshake.refuse(refusal, &mut self.tx);
        }
    }

    fn request_keepalive(&mut self, now: Time) {
        self.tx.control(Tag::Keepalive2, |w| Utime::from(now).encode(w));
    }

    fn answer_keepalive(&mut self, stamp: Utime) {
        self.tx.control(Tag::Keepalive2Ack, |w| stamp.encode(w));
    }

    fn has_output(&self) -> bool {
        self.tx.has_control()
    }

    fn transmit_handshake(&mut self, out: &mut List, _: &mut SessionState) {
        self.tx.transmit_control(out);
    }

    /// A lossy connection acknowledges only in message headers, because no lossy peer keeps sent messages. The kernel
    /// client sends acknowledgements anyway.
    fn transmit(&mut self, out: &mut List, limit: usize, session: &mut SessionState) {
        let SessionState { ack_due, outbox, in_seq, .. } = session;
        if std::mem::take(ack_due) && outbox.is_empty() {
            // No message follows that could carry the acknowledgement.
            self.tx.control(Tag::Ack, |w| w.u64(*in_seq));
        }
        self.tx.transmit(out, limit, outbox, *in_seq);
    }

    fn close(&mut self) {
        self.handshake = None;
        self.tx.clear();
    }
}
