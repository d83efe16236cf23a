//! From the banner to the point where messages may flow, on both sides.
//!
//! Source: ceph `doc/dev/msgr2.rst`, "Authentication", "Message flow handshake"; `src/msg/async/ProtocolV2.cc`.
//!
//! The policies are those of librados (`lossy_client`) and of a server for clients (`stateless_server`): nobody keeps
//! a session when a connection breaks. So a client never asks to go on with one (SESSION_RECONNECT), and a server
//! that is asked says that it knows of none (SESSION_RESET), after which the client asks for a new one.

use super::auth::{AuthName, Introduction, METHOD_NONE, MODE_CRC};
use super::banner::Banner;
use super::config::Config;
use super::control::{
    AuthBadMethod, AuthDone, AuthRequest, FLAG_LOSSY, Hello, Ident, NO_SIGNATURE, Reconnect,
};
use super::error::Error;
use super::frame::Tag;
use super::send::Sender;
use crate::addr::{AddrKind, AddrVec, EntityAddr};
use crate::encoding::{Decode, Encode};
use crate::types::EntityName;
use onego_wire::Reader;
use std::net::SocketAddr;
use std::sync::Arc;

/// Frames that a handshake may take: four in each direction are needed, a few more when a peer tries another method
/// or an old session first. A peer that goes on for ever would have its answers pile up here.
const MAX_FRAMES: u32 = 32;

/// Error numbers in AUTH_BAD_METHOD.
const EACCES: i32 = 13;
const EOPNOTSUPP: i32 = 95;

/// Whom a client connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The kind that it must be, one of [`EntityName`]'s constants.
    pub kind: u8,
    /// Its address.
    pub addr: EntityAddr,
    /// The global id that a monitor gave this client, or 0.
    pub global_id: u64,
}

/// Who connected to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visitor {
    /// The address that the connection comes from.
    pub addr: SocketAddr,
    /// The global id to give to the client if it wants one: on a monitor, a number that no client had before.
    pub fresh_global_id: u64,
}

/// What is known of the peer once messages may flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: EntityName,
    /// The name that a client gave to the authentication; none of a server.
    pub auth_name: Option<AuthName>,
    /// Its addresses.
    pub addrs: AddrVec,
    /// Features that both sides have.
    pub features: u64,
    /// The client's global id: this side's on a client, the peer's on a server.
    pub global_id: u64,
    /// The addresses that this side gave itself.
    pub own_addrs: AddrVec,
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
    Hello,
    /// AUTH_REQUEST on a server, AUTH_DONE on a client.
    Auth,
    Signature,
    /// CLIENT_IDENT on a server, SERVER_IDENT on a client.
    Ident,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Banner => "a banner was due",
            Self::Hello => "HELLO was due",
            Self::Auth => "the authentication was going on",
            Self::Signature => "AUTH_SIGNATURE was due",
            Self::Ident => "the identification was due",
        }
    }
}

#[derive(Debug)]
pub(super) struct Handshake {
    config: Arc<Config>,
    role: Role,
    state: State,
    frames: u32,
    /// This side's addresses.
    addrs: AddrVec,
    /// Orders the connections of a process. Lossy peers do not look at it.
    global_seq: u64,
    peer_kind: u8,
    auth_name: Option<AuthName>,
    global_id: u64,
}

impl Handshake {
    pub(super) fn client(config: Arc<Config>, target: Target, global_seq: u64) -> Self {
        Self::new(config, Role::Client(target), global_seq)
    }

    pub(super) fn server(config: Arc<Config>, visitor: Visitor, global_seq: u64) -> Self {
        Self::new(config, Role::Server(visitor), global_seq)
    }

    fn new(config: Arc<Config>, role: Role, global_seq: u64) -> Self {
        Self {
            addrs: config.addrs.clone(),
            config,
            role,
            state: State::Banner,
            frames: 0,
            global_seq,
            peer_kind: 0,
            auth_name: None,
            global_id: 0,
        }
    }

    /// The transport is there.
    pub(super) fn open(&mut self, local: SocketAddr, out: &mut Sender) {
        if self.addrs.0.is_empty() {
            // Nobody connects to a client: its address is its IP address and its nonce, of no particular protocol, as
            // librados and the kernel have it. Locks and blocklists name clients so.
            let sock = Some(SocketAddr::new(local.ip(), 0));
            self.addrs.0.push(EntityAddr { kind: AddrKind::Any, nonce: self.config.nonce, sock });
        }
        out.raw(&Banner::encode());
    }

    pub(super) fn banner(&mut self, banner: Banner, out: &mut Sender) -> Result<(), Error> {
        banner.check()?;
        let your_addr = match &self.role {
            Role::Client(target) => target.addr,
            Role::Server(visitor) => EntityAddr::msgr2(visitor.addr, 0),
        };
        let hello = Hello { kind: self.config.entity.kind, your_addr };
        out.control(Tag::Hello, |w| hello.encode(w));
        self.state = State::Hello;
        Ok(())
    }

    /// Answers a frame. When it was the last one of the handshake, returns what is known of the peer.
    pub(super) fn frame(
        &mut self,
        tag: Tag,
        payload: &[u8],
        out: &mut Sender,
    ) -> Result<Option<Peer>, Error> {
        self.frames += 1;
        if self.frames > MAX_FRAMES {
            return Err(Error::EndlessHandshake(MAX_FRAMES));
        }
        let mut r = Reader::new(payload);
        let server = matches!(self.role, Role::Server(_));
        match (self.state, tag, server) {
            (State::Hello, Tag::Hello, _) => self.hello(Hello::decode(&mut r)?, out)?,
            (State::Auth, Tag::AuthRequest, true) => self.auth_request(AuthRequest::decode(&mut r)?, out),
            (State::Auth, Tag::AuthDone, false) => self.auth_done(AuthDone::decode(&mut r)?, out)?,
            (State::Auth, Tag::AuthBadMethod, false) => {
                let AuthBadMethod { method, result, methods, modes } = AuthBadMethod::decode(&mut r)?;
                return Err(Error::AuthRefused { method, result, methods, modes });
            }
            (State::Signature, Tag::AuthSignature, _) => {
                self.signature(r.array("signature")?, out)?;
            }
            (State::Ident, Tag::ClientIdent, true) => {
                return self.client_ident(Ident::decode_client(&mut r)?, out);
            }
            (State::Ident, Tag::SessionReconnect, true) => {
                Reconnect::decode(&mut r)?;
                out.control(Tag::SessionReset, |w| w.bool(true));
            }
            (State::Ident, Tag::ServerIdent, false) => {
                return self.server_ident(Ident::decode_server(&mut r)?).map(Some);
            }
            (State::Ident, Tag::IdentMissingFeatures, false) => {
                let lacked_here = r.u64("missing features")?;
                return Err(Error::Features { lacked_here, lacked_there: 0 });
            }
            (State::Ident, Tag::Wait, false) => return Err(Error::Wait),
            (state, tag, _) => return Err(Error::Unexpected { tag, state: state.name() }),
        }
        Ok(None)
    }

    fn hello(&mut self, hello: Hello, out: &mut Sender) -> Result<(), Error> {
        self.peer_kind = hello.kind;
        self.state = State::Auth;
        let Role::Client(target) = &self.role else { return Ok(()) };
        if hello.kind != target.kind {
            return Err(Error::WrongKind { expected: target.kind, found: hello.kind });
        }
        let introduction = Introduction {
            to_monitor: target.kind == EntityName::MON,
            name: self.config.auth_name.clone(),
            global_id: target.global_id,
        };
        let request =
            AuthRequest { method: METHOD_NONE, modes: vec![MODE_CRC], payload: introduction.to_bytes() };
        out.control(Tag::AuthRequest, |w| request.encode(w));
        Ok(())
    }

    fn auth_request(&mut self, request: AuthRequest, out: &mut Sender) {
        match self.admit(&request) {
            Ok(global_id) => {
                self.global_id = global_id;
                let done = AuthDone { global_id, mode: MODE_CRC, payload: Vec::new() };
                out.control(Tag::AuthDone, |w| done.encode(w));
                self.sign(out);
            }
            // The client may try again with what is allowed.
            Err(error) => {
                let refusal = AuthBadMethod {
                    method: request.method,
                    result: -error,
                    methods: vec![METHOD_NONE],
                    modes: vec![MODE_CRC],
                };
                out.control(Tag::AuthBadMethod, |w| refusal.encode(w));
            }
        }
    }

    /// Lets a client in under the global id that is returned, or refuses it with an error number.
    fn admit(&mut self, request: &AuthRequest) -> Result<u64, i32> {
        // A client that insists on secure connections sends no mode at all with this method, and gets crc mode from
        // Ceph's servers too (AuthRegistry.cc, get_supported_modes and pick_mode).
        let crc = request.modes.is_empty() || request.modes.contains(&MODE_CRC);
        if request.method != METHOD_NONE || !crc {
            return Err(EOPNOTSUPP);
        }
        let introduction = Introduction::decode(&mut Reader::new(&request.payload)).map_err(|_| EACCES)?;
        if introduction.to_monitor && self.config.entity.kind != EntityName::MON {
            return Err(EACCES);
        }
        let global_id = match (&self.role, introduction.global_id) {
            (Role::Server(visitor), 0) if introduction.to_monitor => visitor.fresh_global_id,
            (_, known) => known,
        };
        self.auth_name = Some(introduction.name);
        Ok(global_id)
    }

    fn auth_done(&mut self, done: AuthDone, out: &mut Sender) -> Result<(), Error> {
        if done.mode != MODE_CRC {
            return Err(Error::Mode(done.mode));
        }
        self.global_id = done.global_id;
        self.sign(out);
        Ok(())
    }

    /// Each side signs what it received before, as soon as it knows that the authentication succeeded. Without a
    /// session key, as with the method "none", the signature is all zeros (ProtocolV2.cc, finish_auth).
    fn sign(&mut self, out: &mut Sender) {
        out.control(Tag::AuthSignature, |w| w.put(&NO_SIGNATURE));
        self.state = State::Signature;
    }

    fn signature(&mut self, signature: [u8; NO_SIGNATURE.len()], out: &mut Sender) -> Result<(), Error> {
        if signature != NO_SIGNATURE {
            return Err(Error::BadSignature);
        }
        self.state = State::Ident;
        if let Role::Client(target) = &self.role {
            let ident = self.ident(Some(target.addr));
            out.control(Tag::ClientIdent, |w| ident.encode(w));
        }
        Ok(())
    }

    /// This side's identification.
    fn ident(&self, target: Option<EntityAddr>) -> Ident {
        let num = match self.config.entity.num {
            // The number of a client is its global id.
            ..0 => self.global_id as i64,
            num => num,
        };
        Ident {
            addrs: self.addrs.clone(),
            target,
            num,
            global_seq: self.global_seq,
            supported: self.config.supported,
            required: self.config.required,
            flags: FLAG_LOSSY,
            cookie: 0,
        }
    }

    fn client_ident(&mut self, ident: Ident, out: &mut Sender) -> Result<Option<Peer>, Error> {
        if ident.addrs.0.first().is_none_or(EntityAddr::is_blank) {
            return Err(Error::BadFrame("the identification of a client without an address"));
        }
        if let Some(wanted) = ident.target.filter(|target| !contains(&self.addrs, target)) {
            return Err(Error::WrongPeer { wanted, found: self.addrs.clone() });
        }
        let missing = self.config.required & !ident.supported;
        if missing != 0 {
            // The client hangs up, or identifies itself again as somebody who has them.
            out.control(Tag::IdentMissingFeatures, |w| w.u64(missing));
            return Ok(None);
        }
        let answer = self.ident(None);
        out.control(Tag::ServerIdent, |w| answer.encode(w));
        Ok(Some(self.peer(ident)))
    }

    fn server_ident(&mut self, ident: Ident) -> Result<Peer, Error> {
        if let Role::Client(target) = &self.role
            && !contains(&ident.addrs, &target.addr)
        {
            return Err(Error::WrongPeer { wanted: target.addr, found: ident.addrs });
        }
        let lacked_here = ident.required & !self.config.supported;
        let lacked_there = self.config.required & !ident.supported;
        if lacked_here | lacked_there != 0 {
            return Err(Error::Features { lacked_here, lacked_there });
        }
        Ok(self.peer(ident))
    }

    fn peer(&mut self, ident: Ident) -> Peer {
        let num = match ident.num {
            // librados, to its first monitor.
            ..0 if self.peer_kind == EntityName::CLIENT => self.global_id as i64,
            num => num,
        };
        Peer {
            name: EntityName { kind: self.peer_kind, num },
            auth_name: self.auth_name.take(),
            addrs: ident.addrs,
            features: ident.supported & self.config.supported,
            global_id: self.global_id,
            own_addrs: self.addrs.clone(),
        }
    }
}

/// Is `addr` one of `addrs`, whatever protocol it was said to speak?
fn contains(addrs: &AddrVec, addr: &EntityAddr) -> bool {
    addrs.0.iter().any(|a| a.sock == addr.sock && a.nonce == addr.nonce)
}
