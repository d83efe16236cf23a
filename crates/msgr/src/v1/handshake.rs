//! Handshake of both sides, from the banner until messages can be exchanged.
//!
//! Source: ceph `doc/dev/network-protocol.rst`; `src/msg/async/ProtocolV1.cc`; linux `net/ceph/messenger_v1.c`.
//!
//! With a lossy policy, neither side keeps a session when a connection breaks, as in version 2. Sessions have no
//! cookies in this version: a peer that has lost its session is recognized by its connection count, which restarts at
//! 0.

use super::connect::{CONNECT_LEN, Connect, ConnectReply, LOSSY, REPLY_LEN};
use super::frame::tag;
use super::mon_auth::MonAuth;
use crate::auth::{self, Admitted, Answer, Attempt, AuthName, Caps, Gate, Key, mode};
use crate::claim::{Claim, ConnectRequest, Refusal, SessionPeer};
use crate::config::{Config, within};
use crate::error::Error;
use crate::peer::{Peer, Role, Target, Visitor, own_addrs};
use crate::policy::Policy;
use crate::state::SessionState;
use crate::types::EntityName;
use crate::types::addr::{AddrVec, EntityAddr, LEGACY_LEN};
use crate::types::features::{self, CEPHX_V2, MSG_AUTH, MSGR_KEEPALIVE2, RECONNECT_SEQ};
use onego_wire::{Reader, Time, Writer};
use std::net::SocketAddr;
use std::sync::Arc;

const BANNER: &[u8] = b"ceph v027";
const BANNER_V2: &[u8] = b"ceph v2\n";

/// Size of the number of the last message received, in bytes. Only sessions that survive their connections exchange it.
const SEQ_LEN: usize = 8;

/// Maximum number of attempts in a negotiation: a client retries with other sequence numbers or another authorizer.
/// Without a limit, answers to an endlessly retrying peer would pile up.
const MAX_ATTEMPTS: u32 = 16;

/// Version of the protocol between a kind of daemon and its clients (`CEPH_*C_PROTOCOL`, ceph `src/include/ceph_fs.h`).
fn protocol_version(server: u8) -> u32 {
    match server {
        EntityName::MON => 15,
        EntityName::OSD => 24,
        EntityName::MDS => 32,
        _ => 0,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Banner,
    /// The server's address and the client's as seen by the server; on a server, the client's address.
    Addresses,
    Connect,
    Authorizer(Connect),
    ConnectReply,
    ReplyAuthorizer(ConnectReply),
    Claim,
    /// Number of the last message that the peer received, which ends the handshake.
    Seq,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the value is consumed immediately")]
pub(super) enum Next {
    /// Wait for another part of this length in bytes.
    Part(usize),
    Agreed(Box<Agreed>),
    /// Wait for the decision about the client's claim to a session.
    Claim,
}

/// Result of the handshake; partly provisional until an authentication by messages succeeds.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) peer: Peer,
    pub(super) has_signatures: bool,
    pub(super) has_keepalive2: bool,
    pub(super) session_key: Option<Key>,
    pub(super) auth: Option<MonAuth>,
}

#[derive(Debug)]
pub(super) struct Handshake {
    config: Arc<Config>,
    role: Role,
    state: State,
    attempts: u32,
    addrs: AddrVec,
    /// A client's authorizer for a service: method and payload.
    authorizer: (u32, Vec<u8>),
    /// The client's claim while the decision is pending, and this side's authentication payload.
    claim: Option<(Claim, Vec<u8>)>,
    challenged: bool,
    session_key: Option<Key>,
    peer: Peer,
}

impl Handshake {
    pub(super) fn client(config: Arc<Config>, target: Target) -> Self {
        let name = EntityName { kind: target.kind, num: -1 };
        let (addr, global_id) = (target.addr, target.login.introduction().global_id);
        Self::new(config, Role::Client(target), name, addr, global_id)
    }

    pub(super) fn server(config: Arc<Config>, visitor: Visitor) -> Self {
        let addr = EntityAddr::legacy(visitor.addr, 0);
        let role = Role::server(&config, visitor);
        Self::new(config, role, EntityName { kind: 0, num: -1 }, addr, 0)
    }

    fn new(config: Arc<Config>, role: Role, name: EntityName, addr: EntityAddr, global_id: u64) -> Self {
        Self {
            addrs: AddrVec::default(),
            config,
            role,
            state: State::Banner,
            attempts: 0,
            authorizer: (0, Vec::new()),
            claim: None,
            challenged: false,
            session_key: None,
            peer: Peer {
                name,
                auth_name: None,
                caps: Caps::Everything,
                renewals: None,
                granted: None,
                secure: false,
                compression: None,
                addrs: AddrVec(vec![addr]),
                features: 0,
                global_id,
                own_addrs: AddrVec::default(),
            },
        }
    }

    /// Starts the handshake on an open transport. Returns the length of the first part.
    pub(super) fn open(&mut self, local: SocketAddr, out: &mut Writer) -> usize {
        self.addrs = own_addrs(&self.config, local);
        out.put(BANNER);
        if let Role::Server(visitor, _) = &self.role {
            self.own_addr().encode_old(out);
            EntityAddr::legacy(visitor.addr, 0).encode_old(out);
        }
        BANNER.len()
    }

    fn own_addr(&self) -> EntityAddr {
        let addr = self.addrs.legacy().or(self.addrs.0.first());
        addr.copied().unwrap_or_default()
    }

    pub(super) fn part(
        &mut self,
        now: Time,
        bytes: &[u8],
        out: &mut Writer,
        session: &mut SessionState,
    ) -> Result<Next, Error> {
        let mut r = Reader::new(bytes);
        match self.state {
            State::Banner => self.banner(bytes),
            State::Addresses => match &self.role {
                Role::Client(_) => self.server_addresses(&mut r, out, session),
                Role::Server(..) => self.client_address(&mut r),
            },
            State::Connect => {
                let connect = Connect::decode(&mut r)?;
                self.state = State::Authorizer(connect);
                self.bounded(connect.authorizer_len)
            }
            State::Authorizer(connect) => self.connect(now, &connect, bytes, out, session),
            State::ConnectReply => {
                let reply = ConnectReply::decode(&mut r)?;
                self.state = State::ReplyAuthorizer(reply);
                self.bounded(reply.authorizer_len)
            }
            State::ReplyAuthorizer(reply) => self.reply(&reply, bytes, out, session),
            // No part is requested in this state.
            State::Claim => Ok(Next::Claim),
            State::Seq => {
                let seq = r.u64("number of the last message")?;
                if !session.policy.lossy {
                    session.outbox.resume(seq)?;
                }
                if matches!(self.role, Role::Client(_)) {
                    out.u64(session.in_seq);
                }
                self.agreed(session)
            }
        }
    }

    fn expect(&mut self, state: State, len: usize) -> Result<Next, Error> {
        self.state = state;
        Ok(Next::Part(len))
    }

    /// Waits for the authorizer, which may be empty.
    fn bounded(&self, len: u32) -> Result<Next, Error> {
        within("authorizer", len, self.config.limits.control)?;
        Ok(Next::Part(len as usize))
    }

    fn banner(&mut self, bytes: &[u8]) -> Result<Next, Error> {
        if bytes.starts_with(BANNER_V2) {
            return Err(Error::Msgr2);
        }
        if bytes != BANNER {
            return Err(Error::NotMsgr1);
        }
        let addresses = if matches!(self.role, Role::Client(_)) { 2 } else { 1 };
        self.expect(State::Addresses, addresses * LEGACY_LEN)
    }

    fn server_addresses(
        &mut self,
        r: &mut Reader<'_>,
        out: &mut Writer,
        session: &SessionState,
    ) -> Result<Next, Error> {
        let found = EntityAddr::decode_old(r)?;
        if let Role::Client(target) = &self.role {
            let wanted = target.addr;
            // A server may not know its IP address yet.
            let port = |addr: &EntityAddr| addr.sock.map_or(0, |sock| sock.port());
            let same = found.sock == wanted.sock || (is_unspecified(&found) && port(&found) == port(&wanted));
            if !same || found.nonce != wanted.nonce {
                return Err(Error::WrongPeer { wanted, found: AddrVec(vec![found]) });
            }
        }
        self.own_addr().encode_old(out);
        if let Role::Client(target) = &mut self.role
            && target.kind != EntityName::MON
        {
            let Attempt { method, payload, .. } = target.login.begin()?;
            self.authorizer = (method, payload);
        }
        self.ask(out, session);
        self.expect(State::ConnectReply, REPLY_LEN)
    }

    fn ask(&self, out: &mut Writer, session: &SessionState) {
        let Role::Client(target) = &self.role else { return };
        let (method, authorizer) = &self.authorizer;
        let connect = Connect {
            features: self.config.supported,
            host_kind: self.config.entity.kind.into(),
            global_seq: session.global_seq as u32,
            connect_seq: session.connect_seq as u32,
            protocol_version: protocol_version(target.kind),
            method: *method,
            authorizer_len: authorizer.len() as u32,
            flags: flags(session),
        };
        connect.encode(out);
        out.put(authorizer);
    }

    fn reply(
        &mut self,
        reply: &ConnectReply,
        proof: &[u8],
        out: &mut Writer,
        session: &mut SessionState,
    ) -> Result<Next, Error> {
        self.count_attempt()?;
        let lacked_there = self.config.required & !reply.features;
        match reply.tag {
            tag::READY | tag::SEQ if lacked_there != 0 => {
                Err(Error::Features { lacked_here: 0, lacked_there })
            }
            tag::READY | tag::SEQ => {
                self.peer.features = reply.features & self.config.supported;
                if let Role::Client(target) = &mut self.role
                    && target.kind != EntityName::MON
                {
                    // The server proves its identity in turn.
                    self.session_key = target.login.done(mode::CRC, proof)?.session_key;
                }
                if !session.policy.lossy {
                    // The server decides whether a session is kept.
                    session.policy.lossy = reply.flags & LOSSY != 0;
                    session.peer_global_seq = reply.global_seq.into();
                    if session.connect_seq == 0 {
                        session.begin();
                    }
                    session.connect_seq = reply.connect_seq.into();
                }
                if reply.tag == tag::READY { self.agreed(session) } else { self.expect(State::Seq, SEQ_LEN) }
            }
            tag::CHALLENGE_AUTHORIZER => {
                if let Role::Client(target) = &mut self.role {
                    self.authorizer.1 = target.login.more(proof)?;
                }
                self.ask_again(out, session)
            }
            tag::FEATURES => {
                let lacked_here = reply.features & !self.config.supported;
                Err(Error::Features { lacked_here, lacked_there: 0 })
            }
            tag::BAD_PROTOCOL_VERSION => {
                let ours = protocol_version(self.peer.name.kind);
                Err(Error::ProtocolVersion { ours, theirs: reply.protocol_version })
            }
            tag::BAD_AUTHORIZER => Err(self.refused()),
            tag::WAIT => {
                session.wait = true;
                Err(Error::Wait)
            }
            tag::RETRY_GLOBAL => {
                session.global_seq = session.global_seq.max(reply.global_seq.into()) + 1;
                self.ask_again(out, session)
            }
            tag::RETRY_SESSION => {
                session.connect_seq = reply.connect_seq.into();
                self.ask_again(out, session)
            }
            tag::RESET_SESSION => {
                session.connect_seq = 0;
                if !session.policy.lossy {
                    session.reset(true);
                }
                self.ask_again(out, session)
            }
            unknown => Err(Error::UnknownTag(unknown)),
        }
    }

    fn refused(&self) -> Error {
        let name = match &self.role {
            Role::Client(target) => target.login.introduction().name,
            Role::Server(..) => AuthName::client(""),
        };
        auth::Error::TicketRefused { name, errno: -1 }.into()
    }

    fn ask_again(&mut self, out: &mut Writer, session: &SessionState) -> Result<Next, Error> {
        self.ask(out, session);
        self.expect(State::ConnectReply, REPLY_LEN)
    }

    fn count_attempt(&mut self) -> Result<(), Error> {
        self.attempts += 1;
        if self.attempts > MAX_ATTEMPTS {
            return Err(Error::EndlessHandshake(MAX_ATTEMPTS));
        }
        Ok(())
    }

    fn client_address(&mut self, r: &mut Reader<'_>) -> Result<Next, Error> {
        let mut addr = EntityAddr::decode_old(r)?;
        if let Role::Server(visitor, _) = &self.role
            && is_unspecified(&addr)
        {
            // A client that does not know its IP address uses the connection's source address.
            let port = addr.sock.map_or(0, |sock| sock.port());
            addr = EntityAddr::legacy(SocketAddr::new(visitor.addr.ip(), port), addr.nonce);
        }
        self.peer.addrs = AddrVec(vec![addr]);
        self.expect(State::Connect, CONNECT_LEN)
    }

    fn connect(
        &mut self,
        now: Time,
        connect: &Connect,
        authorizer: &[u8],
        out: &mut Writer,
        session: &mut SessionState,
    ) -> Result<Next, Error> {
        self.count_attempt()?;
        self.peer.features = connect.features & self.config.supported;
        let (tag, proof) = self.check_request(now, connect, authorizer, session.policy);
        let next = connect.connect_seq.wrapping_add(1);
        match tag {
            tag::READY | tag::SEQ if !session.policy.lossy => {
                let request = ConnectRequest::Legacy {
                    addrs: self.peer.addrs.clone(),
                    global_seq: connect.global_seq.into(),
                    connect_seq: connect.connect_seq.into(),
                };
                let auth_name = self.peer.auth_name.clone();
                self.claim = Some((Claim { request, kind: self.peer.name.kind, auth_name }, proof));
                self.state = State::Claim;
                Ok(Next::Claim)
            }
            tag::READY | tag::SEQ => Ok(self.welcome(tag, next, &proof, out, session)),
            // The client may retry with what is required.
            _ => {
                self.answer(tag, session.global_seq as u32, next, &proof, out, session);
                self.expect(State::Connect, CONNECT_LEN)
            }
        }
    }

    fn answer(
        &self,
        tag: u8,
        global_seq: u32,
        connect_seq: u32,
        proof: &[u8],
        out: &mut Writer,
        session: &SessionState,
    ) {
        let reply = ConnectReply {
            tag,
            features: match tag {
                tag::READY | tag::SEQ => self.config.supported,
                _ => self.peer.features | self.required(),
            },
            global_seq,
            connect_seq,
            protocol_version: protocol_version(self.config.entity.kind),
            authorizer_len: proof.len() as u32,
            flags: flags(session),
        };
        reply.encode(out);
        out.put(proof);
    }

    fn welcome(
        &mut self,
        tag: u8,
        connect_seq: u32,
        proof: &[u8],
        out: &mut Writer,
        session: &mut SessionState,
    ) -> Next {
        self.answer(tag, session.global_seq as u32, connect_seq, proof, out, session);
        if tag == tag::READY {
            return self.agree(session);
        }
        out.u64(session.in_seq);
        self.state = State::Seq;
        Next::Part(SEQ_LEN)
    }

    pub(super) fn claimed(&self) -> Option<&Claim> {
        self.claim.as_ref().map(|(claim, _)| claim)
    }

    pub(super) fn admit(&mut self, out: &mut Writer, session: &mut SessionState) -> Next {
        let Some((Claim { request: ConnectRequest::Legacy { global_seq, connect_seq, .. }, .. }, proof)) =
            self.claim.take()
        else {
            return Next::Claim;
        };
        session.peer_global_seq = global_seq;
        session.connect_seq = connect_seq + 1;
        if connect_seq == 0 {
            session.begin();
        }
        let tag = if features::has(self.peer.features, RECONNECT_SEQ) { tag::SEQ } else { tag::READY };
        self.welcome(tag, session.connect_seq as u32, &proof, out, session)
    }

    /// Refuses the client's claim. Returns the length of the next part, in which the client may ask again.
    pub(super) fn refuse(&mut self, refusal: Refusal, out: &mut Writer, session: &SessionState) -> usize {
        let (tag, global_seq, connect_seq) = match refusal {
            Refusal::Reset { .. } => (tag::RESET_SESSION, 0, 0),
            Refusal::Retry { connect_seq } => (tag::RETRY_SESSION, 0, connect_seq),
            Refusal::RetryGlobal { global_seq } => (tag::RETRY_GLOBAL, global_seq, 0),
            Refusal::Wait => (tag::WAIT, 0, 0),
        };
        self.claim = None;
        self.answer(tag, global_seq as u32, connect_seq as u32, &[], out, session);
        self.state = State::Connect;
        CONNECT_LEN
    }

    /// Features that a client must have, including those needed for authentication.
    fn required(&self) -> u64 {
        match self.config.gate {
            Gate::Open => self.config.required,
            Gate::Cephx { .. } => self.config.required | MSG_AUTH | CEPHX_V2,
        }
    }

    /// Returns the answer to a client and this side's authentication payload.
    fn check_request(
        &mut self,
        now: Time,
        connect: &Connect,
        authorizer: &[u8],
        policy: Policy,
    ) -> (u8, Vec<u8>) {
        if connect.protocol_version != protocol_version(self.config.entity.kind) {
            return (tag::BAD_PROTOCOL_VERSION, Vec::new());
        }
        if self.required() & !connect.features != 0 {
            return (tag::FEATURES, Vec::new());
        }
        let Ok(kind) = u8::try_from(connect.host_kind) else { return (tag::BAD_AUTHORIZER, Vec::new()) };
        self.peer.name.kind = kind;
        if connect.connect_seq > 0 && policy.lossy {
            // The client tries to resume a session, and this side keeps none.
            return (tag::RESET_SESSION, Vec::new());
        }
        let welcome = if features::has(connect.features, RECONNECT_SEQ) { tag::SEQ } else { tag::READY };
        let Role::Server(_, reception) = &mut self.role else { return (welcome, Vec::new()) };
        // A monitor's client authenticates by messages.
        if self.config.entity.kind == EntityName::MON {
            return (welcome, Vec::new());
        }
        let challenged = std::mem::take(&mut self.challenged);
        let answer = if challenged {
            reception.more(now, authorizer)
        } else {
            reception.request(now, connect.method, &[mode::CRC], authorizer)
        };
        match answer {
            Answer::Refuse { .. } => (tag::BAD_AUTHORIZER, Vec::new()),
            Answer::More(challenge) => {
                self.challenged = true;
                (tag::CHALLENGE_AUTHORIZER, challenge)
            }
            Answer::Done(admitted) => {
                let Admitted { name, global_id, payload, session_key, caps, .. } = *admitted;
                (self.peer.global_id, self.peer.name.num) = (global_id, global_id as i64);
                (self.peer.auth_name, self.peer.caps) = (Some(name), caps);
                self.session_key = session_key;
                (welcome, payload)
            }
        }
    }

    fn agreed(&mut self, session: &mut SessionState) -> Result<Next, Error> {
        Ok(self.agree(session))
    }

    fn agree(&mut self, session: &mut SessionState) -> Next {
        let (kind, auth_name) = (self.peer.name.kind, self.peer.auth_name.clone());
        session.peer = Some(SessionPeer { ident: None, kind, auth_name });
        let auth = match &self.role {
            Role::Client(target) if target.kind == EntityName::MON => {
                Some(MonAuth::client(target.login.clone()))
            }
            Role::Server(visitor, _) if self.config.entity.kind == EntityName::MON => {
                Some(MonAuth::server(self.config.gate.clone(), visitor.fresh_global_id))
            }
            _ => None,
        };
        let mut peer = self.peer.clone();
        peer.own_addrs = self.addrs.clone();
        Next::Agreed(Box::new(Agreed {
            has_signatures: features::has(peer.features, MSG_AUTH),
            has_keepalive2: features::has(peer.features, MSGR_KEEPALIVE2),
            session_key: self.session_key.take(),
            peer,
            auth,
        }))
    }
}

fn flags(session: &SessionState) -> u8 {
    if session.policy.lossy { LOSSY } else { 0 }
}

fn is_unspecified(addr: &EntityAddr) -> bool {
    addr.sock.is_none_or(|sock| sock.ip().is_unspecified())
}
