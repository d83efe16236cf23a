//! From the banner to the point where messages may flow, on both sides.
//!
//! Source: ceph `doc/dev/network-protocol.rst`; `src/msg/async/ProtocolV1.cc`; linux `net/ceph/messenger_v1.c`.
//!
//! The policies are those of librados (`lossy_client`) and of a server for clients (`stateless_server`), as in
//! version 2.

use super::super::config::Config;
use super::super::error::Error;
use super::super::features::{self, MSG_AUTH, MSGR_KEEPALIVE2, RECONNECT_SEQ};
use super::super::handshake::{Peer, Target, Visitor};
use super::connect::{CONNECT_LEN, Connect, LOSSY, REPLY_LEN, Reply};
use super::frame::tag;
use super::mon_auth::MonAuth;
use crate::addr::{AddrKind, AddrVec, EntityAddr, LEGACY_LEN};
use crate::auth::{self, AuthName, Caps, Gate, Introduction, method};
use crate::encoding::{Decode, Encode};
use crate::types::EntityName;
use onego_wire::{Reader, Writer};
use std::net::SocketAddr;
use std::sync::Arc;

const BANNER: &[u8] = b"ceph v027";
/// What a peer of version 2 starts with.
const BANNER_V2: &[u8] = b"ceph v2\n";

/// Numbers of messages that either side has received: only sessions that survive their connections have any.
const SEQ_LEN: usize = 8;

/// Attempts that a negotiation may take: a client tries again with other sequence numbers or another authorizer. A
/// peer that goes on for ever would have its answers pile up here.
const MAX_ATTEMPTS: u32 = 16;

/// Versions of what the kinds of daemons and their clients say to each other (`CEPH_*C_PROTOCOL`, ceph
/// `src/include/ceph_fs.h`).
fn protocol_version(server: u8) -> u32 {
    match server {
        EntityName::MON => 15,
        EntityName::OSD => 24,
        EntityName::MDS => 32,
        _ => 0,
    }
}

#[derive(Debug)]
enum Role {
    Client(Target),
    Server(Visitor),
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Banner,
    /// The server's address and the client's as the server sees it, or the client's.
    Addresses,
    Connect,
    Authorizer(Connect),
    Reply,
    ReplyAuthorizer(Reply),
    /// The number of the last message that the peer received, after which all is ready.
    Seq,
}

/// What comes after a part of the handshake.
#[derive(Debug)]
pub(super) enum Next {
    /// Another part, of so many bytes.
    Part(usize),
    /// All is agreed upon.
    Agreed(Agreed),
}

/// What is agreed upon when messages may flow, some of it only if the authentication goes well that follows.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) peer: Peer,
    pub(super) has_signatures: bool,
    pub(super) has_keepalive2: bool,
    /// Monitors and their clients authenticate by messages.
    pub(super) auth: Option<MonAuth>,
}

#[derive(Debug)]
pub(super) struct Handshake {
    config: Arc<Config>,
    role: Role,
    state: State,
    attempts: u32,
    /// This side's addresses.
    addrs: AddrVec,
    global_seq: u32,
    connect_seq: u32,
    peer: Peer,
}

impl Handshake {
    pub(super) fn client(config: Arc<Config>, target: Target, global_seq: u32) -> Self {
        let name = EntityName { kind: target.kind, num: -1 };
        let (addr, global_id) = (target.addr, target.login.introduction().global_id);
        Self::new(config, Role::Client(target), global_seq, name, addr, global_id)
    }

    pub(super) fn server(config: Arc<Config>, visitor: Visitor, global_seq: u32) -> Self {
        let addr = EntityAddr::legacy(visitor.addr, 0);
        Self::new(config, Role::Server(visitor), global_seq, EntityName { kind: 0, num: -1 }, addr, 0)
    }

    fn new(
        config: Arc<Config>,
        role: Role,
        global_seq: u32,
        name: EntityName,
        addr: EntityAddr,
        global_id: u64,
    ) -> Self {
        Self {
            addrs: config.addrs.clone(),
            config,
            role,
            state: State::Banner,
            attempts: 0,
            global_seq,
            connect_seq: 0,
            peer: Peer {
                name,
                auth_name: None,
                caps: Caps::Everything,
                renewals: None,
                granted: None,
                secure: false,
                addrs: AddrVec(vec![addr]),
                features: 0,
                global_id,
                own_addrs: AddrVec::default(),
            },
        }
    }

    /// The transport is there. Returns the length of the first part.
    pub(super) fn open(&mut self, local: SocketAddr, out: &mut Writer) -> usize {
        if self.addrs.0.is_empty() {
            let sock = Some(SocketAddr::new(local.ip(), 0));
            self.addrs.0.push(EntityAddr { kind: AddrKind::Any, nonce: self.config.nonce, sock });
        }
        out.put(BANNER);
        if let Role::Server(visitor) = &self.role {
            self.own_addr().encode_old(out);
            EntityAddr::legacy(visitor.addr, 0).encode_old(out);
        }
        BANNER.len()
    }

    /// This side's address for version 1.
    fn own_addr(&self) -> EntityAddr {
        let addr = self.addrs.legacy().or(self.addrs.0.first());
        addr.copied().unwrap_or_default()
    }

    /// Answers a part.
    pub(super) fn part(&mut self, bytes: &[u8], out: &mut Writer) -> Result<Next, Error> {
        let mut r = Reader::new(bytes);
        match self.state {
            State::Banner => self.banner(bytes),
            State::Addresses => match &self.role {
                Role::Client(_) => self.server_addresses(&mut r, out),
                Role::Server(_) => self.client_address(&mut r),
            },
            State::Connect => {
                let connect = Connect::decode(&mut r)?;
                self.state = State::Authorizer(connect);
                self.bounded(connect.authorizer_len)
            }
            State::Authorizer(connect) => self.connect(&connect, bytes, out),
            State::Reply => {
                let reply = Reply::decode(&mut r)?;
                self.state = State::ReplyAuthorizer(reply);
                self.bounded(reply.authorizer_len)
            }
            State::ReplyAuthorizer(reply) => self.reply(&reply, out),
            State::Seq => {
                r.u64("number of the last message")?;
                if matches!(self.role, Role::Client(_)) {
                    out.u64(0);
                }
                self.agreed()
            }
        }
    }

    fn expect(&mut self, state: State, len: usize) -> Result<Next, Error> {
        self.state = state;
        Ok(Next::Part(len))
    }

    /// The authorizer comes next, which may be empty.
    fn bounded(&self, len: u32) -> Result<Next, Error> {
        let bound = self.config.limits.control;
        if len > bound {
            return Err(Error::TooLong { what: "authorizer", len: len.into(), bound: bound.into() });
        }
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

    fn server_addresses(&mut self, r: &mut Reader<'_>, out: &mut Writer) -> Result<Next, Error> {
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
        self.ask(out);
        self.expect(State::Reply, REPLY_LEN)
    }

    /// A client asks for a connection.
    fn ask(&self, out: &mut Writer) {
        let Role::Client(target) = &self.role else { return };
        let mut authorizer = Vec::new();
        if target.kind != EntityName::MON {
            authorizer = target.login.introduction().to_bytes();
        }
        let connect = Connect {
            features: self.config.supported,
            host_kind: self.config.entity.kind.into(),
            global_seq: self.global_seq,
            connect_seq: self.connect_seq,
            protocol_version: protocol_version(target.kind),
            method: if authorizer.is_empty() { 0 } else { method::NONE },
            authorizer_len: authorizer.len() as u32,
            flags: LOSSY,
        };
        connect.encode(out);
        out.put(&authorizer);
    }

    fn reply(&mut self, reply: &Reply, out: &mut Writer) -> Result<Next, Error> {
        self.count_attempt()?;
        let lacked_there = self.config.required & !reply.features;
        match reply.tag {
            tag::READY | tag::SEQ if lacked_there != 0 => {
                Err(Error::Features { lacked_here: 0, lacked_there })
            }
            tag::READY => {
                self.peer.features = reply.features & self.config.supported;
                self.agreed()
            }
            tag::SEQ => {
                self.peer.features = reply.features & self.config.supported;
                self.expect(State::Seq, SEQ_LEN)
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
            tag::WAIT => Err(Error::Wait),
            tag::RETRY_GLOBAL => {
                self.global_seq = self.global_seq.max(reply.global_seq).wrapping_add(1);
                self.ask_again(out)
            }
            tag::RETRY_SESSION => {
                self.connect_seq = reply.connect_seq;
                self.ask_again(out)
            }
            tag::RESET_SESSION => {
                self.connect_seq = 0;
                self.ask_again(out)
            }
            unknown => Err(Error::UnknownTag(unknown)),
        }
    }

    /// The server does not believe the client.
    fn refused(&self) -> Error {
        let name = match &self.role {
            Role::Client(target) => target.login.introduction().name,
            Role::Server(..) => AuthName::client(""),
        };
        auth::Error::TicketRefused { name, errno: -1 }.into()
    }

    fn ask_again(&mut self, out: &mut Writer) -> Result<Next, Error> {
        self.ask(out);
        self.expect(State::Reply, REPLY_LEN)
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
        if let Role::Server(visitor) = &self.role
            && is_unspecified(&addr)
        {
            // It does not know its IP address, which is the one that the connection comes from.
            let port = addr.sock.map_or(0, |sock| sock.port());
            addr = EntityAddr::legacy(SocketAddr::new(visitor.addr.ip(), port), addr.nonce);
        }
        self.peer.addrs = AddrVec(vec![addr]);
        self.expect(State::Connect, CONNECT_LEN)
    }

    /// A server lets a client in, or says what is in the way.
    fn connect(&mut self, connect: &Connect, authorizer: &[u8], out: &mut Writer) -> Result<Next, Error> {
        self.count_attempt()?;
        let tag = self.judge(connect, authorizer);
        let reply = Reply {
            tag,
            features: match tag {
                tag::READY | tag::SEQ => self.config.supported,
                _ => connect.features & self.config.supported | self.config.required,
            },
            global_seq: self.global_seq,
            connect_seq: connect.connect_seq.wrapping_add(1),
            protocol_version: protocol_version(self.config.entity.kind),
            authorizer_len: 0,
            flags: LOSSY,
        };
        reply.encode(out);
        self.peer.features = connect.features & self.config.supported;
        match tag {
            tag::SEQ => {
                out.u64(0);
                self.expect(State::Seq, SEQ_LEN)
            }
            tag::READY => self.agreed(),
            // The client may try again with what is asked for.
            _ => self.expect(State::Connect, CONNECT_LEN),
        }
    }

    /// What to answer to a client.
    fn judge(&mut self, connect: &Connect, authorizer: &[u8]) -> u8 {
        if connect.protocol_version != protocol_version(self.config.entity.kind) {
            return tag::BAD_PROTOCOL_VERSION;
        }
        if self.config.required & !connect.features != 0 {
            return tag::FEATURES;
        }
        let Ok(kind) = u8::try_from(connect.host_kind) else { return tag::BAD_AUTHORIZER };
        if !matches!(self.config.gate, Gate::Open) {
            // Nobody can prove anything in this version yet.
            return tag::BAD_AUTHORIZER;
        }
        self.peer.name.kind = kind;
        // Who comes to a monitor says who it is by messages.
        if self.config.entity.kind != EntityName::MON {
            match Introduction::from_bytes(authorizer) {
                Ok(client) if connect.method == method::NONE && !client.to_monitor => {
                    self.peer.global_id = client.global_id;
                    self.peer.name.num = client.global_id as i64;
                    self.peer.auth_name = Some(client.name);
                }
                _ => return tag::BAD_AUTHORIZER,
            }
        }
        if connect.connect_seq > 0 {
            // It asks to go on with a session, and none is kept here.
            return tag::RESET_SESSION;
        }
        if features::has(connect.features, RECONNECT_SEQ) { tag::SEQ } else { tag::READY }
    }

    fn agreed(&mut self) -> Result<Next, Error> {
        let auth = match &self.role {
            Role::Client(target) if target.kind == EntityName::MON => {
                Some(MonAuth::client(target.login.introduction()))
            }
            Role::Server(visitor) if self.config.entity.kind == EntityName::MON => {
                Some(MonAuth::server(visitor.fresh_global_id))
            }
            _ => None,
        };
        let mut peer = self.peer.clone();
        peer.own_addrs = self.addrs.clone();
        Ok(Next::Agreed(Agreed {
            has_signatures: features::has(peer.features, MSG_AUTH),
            has_keepalive2: features::has(peer.features, MSGR_KEEPALIVE2),
            peer,
            auth,
        }))
    }
}

fn is_unspecified(addr: &EntityAddr) -> bool {
    addr.sock.is_none_or(|sock| sock.ip().is_unspecified())
}
