//! Handshake of both sides, from the banner until messages can be exchanged.
//!
//! Source: ceph `doc/dev/msgr2.rst`, "Authentication", "Message flow handshake"; `src/msg/async/ProtocolV2.cc`.
//!
//! With a lossy policy, neither side keeps a session when a connection breaks. A client never tries to resume one
//! (SESSION_RECONNECT), and a server answers such an attempt with SESSION_RESET, after which the client requests a new
//! one. With other policies, the claimed session decides.

use super::banner::Banner;
use super::control::{
    AuthBadMethod, AuthDone, AuthMore, AuthRequest, CompressionDone, CompressionRequest, FLAG_LOSSY, Hello,
    NO_SIGNATURE, SIGNATURE_LEN,
};
use super::pack::Packer;
use super::receive::Receiver;
use super::secure;
use super::send::Sender;
use super::unpack::Unpacker;
use crate::auth::{Admitted, Answer, Attempt, AuthName, Caps, Granted, Key, Renewals, Secret, mode};
use crate::claim::{Claim, ConnectRequest, Ident, Reconnect, Refusal, SessionPeer};
use crate::compression::Method;
use crate::config::Config;
use crate::error::Error;
use crate::peer::{Peer, Role, Target, Visitor, own_addrs};
use crate::state::SessionState;
use crate::tag::Tag;
use crate::types::EntityName;
use crate::types::addr::{AddrVec, EntityAddr};
use crate::types::encoding::{Decode, Encode};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use onego_wire::{Reader, Time};
use std::net::SocketAddr;
use std::sync::Arc;

/// Maximum number of frames in a handshake. Four in each direction are needed, and a few more if a peer first tries
/// another method or an old session. Without a limit, answers to an endlessly retrying peer would pile up.
const MAX_FRAMES: u32 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Banner,
    Hello,
    /// AUTH_REQUEST or AUTH_REQUEST_MORE on a server, their answers on a client.
    Auth,
    Signature,
    /// COMPRESSION_REQUEST on a server, its answer on a client.
    Compression,
    /// CLIENT_IDENT on a server, SERVER_IDENT on a client.
    Ident,
    Reconnect,
    Claim,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Banner => "waiting for a banner",
            Self::Hello => "waiting for HELLO",
            Self::Auth => "authenticating",
            Self::Signature => "waiting for AUTH_SIGNATURE",
            Self::Compression => "negotiating compression",
            Self::Ident => "waiting for the identification",
            Self::Reconnect => "waiting for the answer about the session",
            Self::Claim => "looking up its session",
        }
    }
}

#[derive(Debug)]
pub(super) struct Handshake {
    config: Arc<Config>,
    role: Role,
    state: State,
    frames: u32,
    addrs: AddrVec,
    peer_kind: u8,
    expected: [u8; SIGNATURE_LEN],
    auth_name: Option<AuthName>,
    caps: Caps,
    renewals: Option<Renewals>,
    granted: Option<Granted>,
    secure: bool,
    compression: bool,
    compressed: Option<Method>,
    global_id: u64,
    claim: Option<Claim>,
}

impl Handshake {
    pub(super) fn client(config: Arc<Config>, target: Target) -> Self {
        Self::new(config, Role::Client(target))
    }

    pub(super) fn server(config: Arc<Config>, visitor: Visitor) -> Self {
        let role = Role::server(&config, visitor);
        Self::new(config, role)
    }

    fn new(config: Arc<Config>, role: Role) -> Self {
        Self {
            addrs: AddrVec::default(),
            config,
            role,
            state: State::Banner,
            frames: 0,
            peer_kind: 0,
            expected: NO_SIGNATURE,
            auth_name: None,
            caps: Caps::Everything,
            renewals: None,
            granted: None,
            secure: false,
            compression: false,
            compressed: None,
            global_id: 0,
            claim: None,
        }
    }

    pub(super) fn open(&mut self, local: SocketAddr, out: &mut Sender) {
        self.addrs = own_addrs(&self.config, local);
        out.raw(&self.banner_here().to_wire());
    }

    fn banner_here(&self) -> Banner {
        Banner::of_this_side(self.config.compression.is_some())
    }

    pub(super) fn banner(&mut self, banner: Banner, out: &mut Sender) -> Result<(), Error> {
        self.compression = self.banner_here().check(banner)?;
        let your_addr = match &self.role {
            Role::Client(target) => target.addr,
            Role::Server(visitor, _) => EntityAddr::msgr2(visitor.addr, 0),
        };
        let hello = Hello { kind: self.config.entity.kind, your_addr };
        out.control(Tag::Hello, |w| hello.encode(w));
        self.state = State::Hello;
        Ok(())
    }

    /// Processes a frame. Returns the peer after the handshake's last one.
    pub(super) fn frame(
        &mut self,
        now: Time,
        tag: Tag,
        payload: &[u8],
        from: &mut Receiver,
        out: &mut Sender,
        session: &mut SessionState,
    ) -> Result<Option<Peer>, Error> {
        self.frames += 1;
        if self.frames > MAX_FRAMES {
            return Err(Error::EndlessHandshake(MAX_FRAMES));
        }
        let mut r = Reader::new(payload);
        let server = matches!(self.role, Role::Server(..));
        match (self.state, tag, server) {
            (State::Hello, Tag::Hello, _) => self.hello(&Hello::decode(&mut r)?, out)?,
            (State::Auth, Tag::AuthRequest | Tag::AuthRequestMore, true) => {
                self.receive_client(now, tag, &mut r, from, out)?;
            }
            (State::Auth, Tag::AuthDone | Tag::AuthReplyMore | Tag::AuthBadMethod, false) => {
                self.log_in(tag, &mut r, from, out)?;
            }
            (State::Signature, Tag::AuthSignature, _) => {
                self.signature(&r.array("signature")?, out, session)?;
            }
            (State::Compression, Tag::CompressionRequest, true) => {
                self.answer_compression(&CompressionRequest::decode(&mut r)?, from, out)?;
            }
            (State::Compression, Tag::CompressionDone, false) => {
                self.compression_done(&CompressionDone::decode(&mut r)?, from, out)?;
                self.ask(out, session);
            }
            (State::Ident, Tag::ClientIdent, true) => {
                return self.client_ident(Ident::decode_client(&mut r)?, out, session);
            }
            (State::Ident, Tag::SessionReconnect, true) => {
                let reconnect = Reconnect::decode(&mut r)?;
                if session.policy.lossy {
                    out.control(Tag::SessionReset, |w| w.bool(true));
                } else {
                    self.claim(ConnectRequest::Resume(reconnect));
                }
            }
            (State::Ident, Tag::ServerIdent, false) => {
                return self.server_ident(Ident::decode_server(&mut r)?, session).map(Some);
            }
            (State::Reconnect, Tag::SessionReconnectOk, false) => {
                session.outbox.resume(r.u64("msg_seq")?)?;
                return Ok(self.resumed(session));
            }
            (State::Reconnect, Tag::SessionReset | Tag::SessionRetry | Tag::SessionRetryGlobal, false) => {
                self.refused(tag, &mut r, out, session)?;
            }
            (State::Ident, Tag::IdentMissingFeatures, false) => {
                let lacked_here = r.u64("missing features")?;
                return Err(Error::Features { lacked_here, lacked_there: 0 });
            }
            (State::Ident | State::Reconnect, Tag::Wait, false) => {
                session.wait = true;
                return Err(Error::Wait);
            }
            (state, tag, _) => return Err(Error::Unexpected { tag, state: state.name() }),
        }
        Ok(None)
    }

    fn hello(&mut self, hello: &Hello, out: &mut Sender) -> Result<(), Error> {
        self.peer_kind = hello.kind;
        self.state = State::Auth;
        let Role::Client(target) = &mut self.role else { return Ok(()) };
        if hello.kind != target.kind {
            return Err(Error::WrongKind { expected: target.kind, found: hello.kind });
        }
        send_attempt(target.login.begin()?, out);
        Ok(())
    }

    /// Processes the server's answer to a client's authentication.
    fn log_in(
        &mut self,
        tag: Tag,
        r: &mut Reader<'_>,
        from: &mut Receiver,
        out: &mut Sender,
    ) -> Result<(), Error> {
        let Role::Client(Target { login, .. }) = &mut self.role else { return Ok(()) };
        match tag {
            Tag::AuthBadMethod => {
                let AuthBadMethod { result, methods, modes, .. } = AuthBadMethod::decode(r)?;
                send_attempt(login.refused(result, &methods, &modes)?, out);
            }
            Tag::AuthReplyMore => {
                let answer = AuthMore { payload: login.more(&AuthMore::decode(r)?.payload)? };
                out.control(Tag::AuthRequestMore, |w| answer.encode(w));
            }
            _ => {
                let done = AuthDone::decode(r)?;
                let proved = login.done(done.mode, &done.payload)?;
                self.global_id = done.global_id;
                self.granted = proved.granted;
                let (key, secret) = (proved.session_key, proved.connection_secret);
                self.sign(key.as_ref(), done.mode, &secret, from, out)?;
            }
        }
        Ok(())
    }

    fn receive_client(
        &mut self,
        now: Time,
        tag: Tag,
        r: &mut Reader<'_>,
        from: &mut Receiver,
        out: &mut Sender,
    ) -> Result<(), Error> {
        let Role::Server(_, reception) = &mut self.role else { return Ok(()) };
        let mut asked = 0;
        let answer = if tag == Tag::AuthRequest {
            let AuthRequest { method, modes, payload } = AuthRequest::decode(r)?;
            asked = method;
            reception.request(now, method, &modes, &payload)
        } else {
            reception.more(now, &AuthMore::decode(r)?.payload)
        };
        match answer {
            Answer::Refuse { result, methods, modes } => {
                let method = if asked == 0 { methods.first().copied().unwrap_or_default() } else { asked };
                let refusal = AuthBadMethod { method, result, methods, modes };
                out.control(Tag::AuthBadMethod, |w| refusal.encode(w));
            }
            Answer::More(payload) => {
                let more = AuthMore { payload };
                out.control(Tag::AuthReplyMore, |w| more.encode(w));
            }
            Answer::Done(admitted) => {
                let Admitted { name, global_id, mode, payload, .. } = *admitted;
                let done = AuthDone { global_id, mode, payload };
                out.control(Tag::AuthDone, |w| done.encode(w));
                (self.auth_name, self.global_id) = (Some(name), global_id);
                (self.caps, self.renewals) = (admitted.caps, admitted.renewals);
                let (key, secret) = (admitted.session_key, admitted.connection_secret);
                self.sign(key.as_ref(), mode, &secret, from, out)?;
            }
        }
        Ok(())
    }

    /// Signs everything received so far, once the authentication has succeeded. This protects what was exchanged in the
    /// clear, such as the offered modes, from modification. The signature is the first encrypted frame in secure mode.
    /// Without a session key it is all zeros (ProtocolV2.cc, finish_auth).
    fn sign(
        &mut self,
        key: Option<&Key>,
        mode: u32,
        secret: &Secret,
        from: &mut Receiver,
        out: &mut Sender,
    ) -> Result<(), Error> {
        let (received, sent) = (from.take_transcript(), out.take_transcript());
        let signed = |bytes: &[u8]| key.map_or(NO_SIGNATURE, |key| key.sign(&[bytes]));
        self.expected = signed(&sent);
        if mode == mode::SECURE {
            let (rx, tx) = secure::keys(secret, matches!(self.role, Role::Client(_)))?;
            from.secure(rx, self.config.pool.clone());
            out.secure(tx);
            self.secure = true;
        }
        out.control(Tag::AuthSignature, |w| w.put(&signed(&received)));
        self.state = State::Signature;
        Ok(())
    }

    fn signature(
        &mut self,
        signature: &[u8; SIGNATURE_LEN],
        out: &mut Sender,
        session: &mut SessionState,
    ) -> Result<(), Error> {
        verify_slices_are_equal(signature, &self.expected).map_err(|_| Error::BadSignature)?;
        let client = matches!(self.role, Role::Client(_));
        if let Some(compression) = self.config.compression.as_ref().filter(|_| self.compression) {
            self.state = State::Compression;
            if client {
                let request = compression.request(self.secure);
                out.control(Tag::CompressionRequest, |w| request.encode(w));
            }
            return Ok(());
        }
        self.state = State::Ident;
        if client {
            self.ask(out, session);
        }
        Ok(())
    }

    fn answer_compression(
        &mut self,
        request: &CompressionRequest,
        from: &mut Receiver,
        out: &mut Sender,
    ) -> Result<(), Error> {
        let Some(compression) = &self.config.compression else { return Ok(()) };
        let done = compression.answer(request, self.secure);
        out.control(Tag::CompressionDone, |w| done.encode(w));
        self.state = State::Ident;
        self.compression_done(&done, from, out)
    }

    /// Starts compression if both sides agreed to it.
    fn compression_done(
        &mut self,
        done: &CompressionDone,
        from: &mut Receiver,
        out: &mut Sender,
    ) -> Result<(), Error> {
        let Some(compression) = &self.config.compression else { return Ok(()) };
        let Some(method) = compression.agreed(done, self.secure)? else { return Ok(()) };
        let (limits, pool) = (self.config.limits, &self.config.pool);
        let unpacker = Unpacker::new(method, limits, pool.clone()).ok_or(Error::NoMemory(method))?;
        let packer =
            Packer::new(method, compression.min_size, pool.clone()).ok_or(Error::NoMemory(method))?;
        from.unpack(unpacker);
        out.pack(packer);
        self.compressed = Some(method);
        Ok(())
    }

    /// Requests a session for a client, or resumes the one that it has.
    fn ask(&mut self, out: &mut Sender, session: &mut SessionState) {
        let Role::Client(target) = &self.role else { return };
        if session.server_cookie != 0 {
            let reconnect = Reconnect {
                addrs: self.addrs.clone(),
                client_cookie: session.client_cookie,
                server_cookie: session.server_cookie,
                global_seq: session.global_seq,
                connect_seq: session.connect_seq,
                msg_seq: session.in_seq,
            };
            out.control(Tag::SessionReconnect, |w| reconnect.encode(w));
            self.state = State::Reconnect;
            return;
        }
        if session.client_cookie == 0 {
            session.client_cookie = session.fresh_cookie();
        }
        let ident = self.ident(Some(target.addr), session, session.client_cookie);
        out.control(Tag::ClientIdent, |w| ident.encode(w));
        self.state = State::Ident;
    }

    /// Retries after the server rejected the session's state.
    fn refused(
        &mut self,
        tag: Tag,
        r: &mut Reader<'_>,
        out: &mut Sender,
        session: &mut SessionState,
    ) -> Result<(), Error> {
        match tag {
            Tag::SessionReset => session.reset(r.bool("full reset")?),
            Tag::SessionRetry => session.connect_seq = r.u64("connect_seq")?.saturating_add(1),
            _ => session.global_seq = session.global_seq.max(r.u64("global_seq")?).saturating_add(1),
        }
        self.ask(out, session);
        Ok(())
    }

    /// Leaves the decision about the connection to the claimed session.
    fn claim(&mut self, request: ConnectRequest) {
        self.claim = Some(Claim { request, kind: self.peer_kind, auth_name: self.auth_name.clone() });
        self.state = State::Claim;
    }

    pub(super) fn claimed(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    pub(super) fn admit(
        &mut self,
        out: &mut Sender,
        session: &mut SessionState,
    ) -> Result<Option<Peer>, Error> {
        match self.claim.take().map(|claim| claim.request) {
            Some(ConnectRequest::New(ident)) => {
                session.client_cookie = ident.cookie;
                session.server_cookie = session.fresh_cookie();
                session.begin();
                let answer = self.ident(None, session, session.server_cookie);
                out.control(Tag::ServerIdent, |w| answer.encode(w));
                Ok(Some(self.begun(ident, session)))
            }
            Some(ConnectRequest::Resume(reconnect)) => {
                session.connect_seq = reconnect.connect_seq;
                session.peer_global_seq = reconnect.global_seq;
                session.outbox.resume(reconnect.msg_seq)?;
                out.control(Tag::SessionReconnectOk, |w| w.u64(session.in_seq));
                Ok(self.resumed(session))
            }
            Some(ConnectRequest::Legacy { .. }) | None => Ok(None),
        }
    }

    /// Rejects the client's claim. It may make another one.
    pub(super) fn refuse(&mut self, refusal: Refusal, out: &mut Sender) {
        self.claim = None;
        self.state = State::Ident;
        match refusal {
            Refusal::Reset { full } => out.control(Tag::SessionReset, |w| w.bool(full)),
            Refusal::Retry { connect_seq } => out.control(Tag::SessionRetry, |w| w.u64(connect_seq)),
            Refusal::RetryGlobal { global_seq } => {
                out.control(Tag::SessionRetryGlobal, |w| w.u64(global_seq));
            }
            Refusal::Wait => out.control(Tag::Wait, |_| {}),
        }
    }

    fn ident(&self, target: Option<EntityAddr>, session: &SessionState, cookie: u64) -> Ident {
        let num = match self.config.entity.num {
            // A client's number is its global id.
            ..0 => self.global_id as i64,
            num => num,
        };
        Ident {
            addrs: self.addrs.clone(),
            target,
            num,
            global_seq: session.global_seq,
            supported: self.config.supported,
            required: self.config.required,
            flags: if session.policy.lossy { FLAG_LOSSY } else { 0 },
            cookie,
        }
    }

    fn client_ident(
        &mut self,
        ident: Ident,
        out: &mut Sender,
        session: &mut SessionState,
    ) -> Result<Option<Peer>, Error> {
        if ident.addrs.0.first().is_none_or(EntityAddr::is_blank) {
            return Err(Error::BadFrame("a client identification without an address"));
        }
        if let Some(wanted) = ident.target.filter(|target| !contains(&self.addrs, target)) {
            return Err(Error::WrongPeer { wanted, found: self.addrs.clone() });
        }
        let missing = self.config.required & !ident.supported;
        if missing != 0 {
            // The client disconnects, or identifies itself again with these features.
            out.control(Tag::IdentMissingFeatures, |w| w.u64(missing));
            return Ok(None);
        }
        if !session.policy.lossy {
            self.claim(ConnectRequest::New(ident));
            return Ok(None);
        }
        let answer = self.ident(None, session, 0);
        out.control(Tag::ServerIdent, |w| answer.encode(w));
        Ok(Some(self.peer(ident)))
    }

    fn server_ident(&mut self, ident: Ident, session: &mut SessionState) -> Result<Peer, Error> {
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
        if session.policy.lossy {
            return Ok(self.peer(ident));
        }
        // The server decides whether a session is kept.
        session.policy.lossy = ident.flags & FLAG_LOSSY != 0;
        session.server_cookie = ident.cookie;
        session.begin();
        Ok(self.begun(ident, session))
    }

    fn begun(&mut self, ident: Ident, session: &mut SessionState) -> Peer {
        session.peer_global_seq = ident.global_seq;
        let auth_name = self.auth_name.clone();
        session.peer = Some(SessionPeer { ident: Some(ident.clone()), kind: self.peer_kind, auth_name });
        self.peer(ident)
    }

    fn resumed(&mut self, session: &mut SessionState) -> Option<Peer> {
        let ident = session.peer.as_ref()?.ident.clone()?;
        Some(self.peer(ident))
    }

    fn peer(&mut self, ident: Ident) -> Peer {
        // A client's number is its proved global id, whatever it claims. A server that requires no proof knows it only
        // from the client.
        let num = match (self.peer_kind, self.global_id) {
            (EntityName::CLIENT, 1..) => self.global_id as i64,
            _ => ident.num,
        };
        Peer {
            name: EntityName { kind: self.peer_kind, num },
            auth_name: self.auth_name.take(),
            caps: self.caps.clone(),
            renewals: self.renewals.take(),
            granted: self.granted.take(),
            secure: self.secure,
            compression: self.compressed,
            addrs: ident.addrs,
            features: ident.supported & self.config.supported,
            global_id: self.global_id,
            own_addrs: self.addrs.clone(),
        }
    }
}

/// Returns whether `addrs` contains `addr`, ignoring the protocol.
fn contains(addrs: &AddrVec, addr: &EntityAddr) -> bool {
    addrs.0.iter().any(|a| a.sock == addr.sock && a.nonce == addr.nonce)
}

fn send_attempt(attempt: Attempt, out: &mut Sender) {
    let Attempt { method, modes, payload } = attempt;
    let request = AuthRequest { method, modes, payload };
    out.control(Tag::AuthRequest, |w| request.encode(w));
}
