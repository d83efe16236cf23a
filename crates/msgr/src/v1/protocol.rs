//! [`Protocol`] implementation of version 1: handshake, authentication by messages, receiver and sender.

use super::frame::Footers;
use super::handshake::{Agreed, Handshake, Next};
use super::mon_auth::{MonAnswer, MonAuth};
use super::receive::{Frame, Receiver};
use super::send::Sender;
use crate::auth::messages::{Auth, AuthReply};
use crate::claim::{Claim, Refusal};
use crate::config::Config;
use crate::error::Error;
use crate::message::Message;
use crate::peer::{Peer, Target, Visitor};
use crate::protocol::{FrameEffect, Protocol, Receive as _};
use crate::state::SessionState;
use crate::types::{EntityName, Payload, Utime};
use onego_buf::List;
use onego_wire::Time;
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Debug)]
enum Opening {
    Handshake(Box<Handshake>),
    /// Monitor and client exchange only authentication messages.
    Authentication(Box<Authentication>),
    Done,
}

#[derive(Debug)]
struct Authentication {
    exchange: MonAuth,
    peer: Peer,
    out: Option<Message>,
}

#[derive(Debug)]
pub(crate) struct Version1 {
    opening: Opening,
    rx: Receiver,
    tx: Sender,
    entity: EntityName,
    server: bool,
    has_keepalive2: bool,
}

impl Version1 {
    pub(crate) fn client(config: &Arc<Config>, target: Target) -> Self {
        Self::new(config, Handshake::client(Arc::clone(config), target), false)
    }

    pub(crate) fn server(config: &Arc<Config>, visitor: Visitor) -> Self {
        Self::new(config, Handshake::server(Arc::clone(config), visitor), true)
    }

    fn new(config: &Config, handshake: Handshake, server: bool) -> Self {
        Self {
            opening: Opening::Handshake(Box::new(handshake)),
            rx: Receiver::new(config.limits, config.data_crc),
            tx: Sender::new(config.entity, config.data_crc, config.pool.clone()),
            entity: config.entity,
            server,
            has_keepalive2: false,
        }
    }

    fn go_on(&mut self, next: Next) -> FrameEffect {
        match next {
            Next::Part(len) => self.rx.want_part(len),
            Next::Agreed(agreed) => return self.agreed(*agreed),
            Next::Claim => {}
        }
        FrameEffect::Nothing
    }

    fn agreed(&mut self, agreed: Agreed) -> FrameEffect {
        let Agreed { peer, has_signatures, has_keepalive2, session_key, auth } = agreed;
        let footers = Footers { has_room: has_signatures };
        self.has_keepalive2 = has_keepalive2;
        self.rx.allow_messages(footers, session_key.clone());
        let mut source = self.entity;
        if source.num < 0 && peer.global_id > 0 {
            // A client's number is its global id.
            source = EntityName { num: peer.global_id as i64, ..source };
        }
        self.tx.begin(source, footers, session_key);
        match auth {
            Some(mut exchange) => {
                let out = exchange.start();
                self.opening = Opening::Authentication(Box::new(Authentication { exchange, peer, out }));
                FrameEffect::Nothing
            }
            None => self.completed(peer),
        }
    }

    fn completed(&mut self, peer: Peer) -> FrameEffect {
        self.opening = Opening::Done;
        FrameEffect::Ready(peer)
    }
}

impl Protocol for Version1 {
    type Receiver = Receiver;

    fn open(&mut self, local: SocketAddr) {
        if let Opening::Handshake(handshake) = &mut self.opening {
            let first = handshake.open(local, self.tx.control());
            self.rx.want_part(first);
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

    #[inline]
    fn take_message(&mut self) -> Message {
        if self.server && self.rx.peer_omits_data_crc() {
            // A client that sends no checksums gets none.
            self.tx.omit_data_crc();
        }
        self.rx.take_message()
    }

    fn frame(&mut self, now: Time, frame: Frame, session: &mut SessionState) -> Result<FrameEffect, Error> {
        match frame {
            Frame::Part(part) => {
                let Opening::Handshake(handshake) = &mut self.opening else {
                    return Ok(FrameEffect::Nothing);
                };
                let next = handshake.part(now, &part, self.tx.control(), session)?;
                Ok(self.go_on(next))
            }
            Frame::Alive => Ok(FrameEffect::Nothing),
            Frame::Keepalive2(stamp) => Ok(FrameEffect::Keepalive(stamp)),
            Frame::Ack(seq) => Ok(FrameEffect::Ack(seq)),
            Frame::Close => Err(Error::Closed),
        }
    }

    fn early_message(
        &mut self,
        now: Time,
        mut message: Message,
        session: &mut SessionState,
    ) -> Result<FrameEffect, Error> {
        let Opening::Authentication(auth) = &mut self.opening else { return Ok(FrameEffect::Nothing) };
        let expected = if self.server { Auth::KIND } else { AuthReply::KIND };
        if message.header.kind != expected {
            // A monitor may send its map first. It resends it to every subscriber.
            tracing::debug!(kind = message.header.kind, "ignored a message before authentication");
            return Ok(FrameEffect::Nothing);
        }
        let MonAnswer { message, done } = auth.exchange.answer(now, &mut message, &mut auth.peer)?;
        auth.out = message.or(auth.out.take());
        if !done {
            return Ok(FrameEffect::Nothing);
        }
        let (peer, out) = (auth.peer.clone(), auth.out.take());
        if let Some(out) = out {
            session.outbox.push_first(out);
        }
        Ok(self.completed(peer))
    }

    fn claim(&self) -> Option<&Claim> {
        match &self.opening {
            Opening::Handshake(handshake) => handshake.claimed(),
            Opening::Authentication(_) | Opening::Done => None,
        }
    }

    fn admit(&mut self, session: &mut SessionState) -> Result<FrameEffect, Error> {
        let Opening::Handshake(handshake) = &mut self.opening else { return Ok(FrameEffect::Nothing) };
        let next = handshake.admit(self.tx.control(), session);
        Ok(self.go_on(next))
    }

    fn refuse(&mut self, refusal: Refusal, session: &SessionState) {
        if let Opening::Handshake(handshake) = &mut self.opening {
            let len = handshake.refuse(refusal, self.tx.control(), session);
            self.rx.want_part(len);
        }
    }

    fn request_keepalive(&mut self, now: Time) {
        self.tx.keepalive(self.has_keepalive2.then(|| Utime::from(now)));
    }

    fn answer_keepalive(&mut self, stamp: Utime) {
        self.tx.keepalive_ack(stamp);
    }

    fn has_output(&self) -> bool {
        self.tx.has_control() || matches!(&self.opening, Opening::Authentication(auth) if auth.out.is_some())
    }

    fn transmit_handshake(&mut self, out: &mut List, session: &mut SessionState) {
        let first = match &mut self.opening {
            Opening::Authentication(auth) => auth.out.take(),
            Opening::Handshake(_) | Opening::Done => None,
        };
        self.tx.transmit_control(out, first, &mut session.outbox);
    }

    fn transmit(&mut self, out: &mut List, limit: usize, session: &mut SessionState) {
        if std::mem::take(&mut session.ack_due) {
            self.tx.ack(session.in_seq);
        }
        self.tx.transmit(out, limit, &mut session.outbox);
    }

    fn close(&mut self) {
        self.opening = Opening::Done;
        self.tx.clear();
    }
}
