//! One end: its session with the other, and its connections that do not carry the session yet.

use super::Mode;
use super::keys::{Member, Monitors};
use super::ledger::Number;
use crate::support::message;
use onego_buf::Pool;
use onego_msgr::addr::AddrVec;
use onego_msgr::auth::{Entropy, Login, service};
use onego_msgr::types::EntityName;
use onego_msgr::{Config, Connection, Message, Policy, Session, Target};
use onego_wire::Time;
use std::net::SocketAddr;
use std::sync::Arc;

pub(crate) struct End {
    number: u8,
    /// Number of starts.
    pub(crate) life: u32,
    pub(crate) sock: SocketAddr,
    pub(crate) config: Arc<Config>,
    pub(crate) session: Session,
    pub(crate) carrier: Option<usize>,
    pub(crate) waiting: Vec<(usize, Connection)>,
    pub(crate) member: Option<Member>,
    mode: Mode,
    /// Every instance of it has its own address.
    moves: bool,
    /// Latest instance of the other end that it knows.
    pub(crate) knows: u32,
    pub(crate) sent: u64,
    /// Instance of the other end that it received from last, and the reset count at that time.
    pub(crate) partner: Option<(u32, u64)>,
}

pub(crate) fn number(tid: u64) -> Number {
    ((tid >> 32) as u32, tid & 0xffff_ffff)
}

/// Returns the message of that number, partly compressible.
pub(crate) fn numbered((life, n): Number) -> Message {
    let mut message = message(u64::from(life) << 32 | n, n as usize % 300, (n as usize * 37) % 5000);
    message.data.push(vec![n as u8; n as usize % 900]);
    message
}

/// Creates a session between these instances of an end and its peer, with its own cookies.
fn session(number: u8, [own, other]: [u32; 2], config: &Arc<Config>) -> Session {
    let mut seed = [number; 32];
    seed[..4].copy_from_slice(&own.to_le_bytes());
    seed[4..8].copy_from_slice(&other.to_le_bytes());
    Session::new(Arc::clone(config), Entropy::new(seed))
}

impl End {
    pub(crate) fn new(
        number: u8,
        mode: Mode,
        policy: Policy,
        moves: bool,
        monitors: Option<&Monitors>,
    ) -> Self {
        let sock: SocketAddr = format!("10.0.0.{number}:6800").parse().unwrap();
        let addrs = format!("{}:{sock}/1", mode.version()).parse().unwrap();
        let mut config = Config::server(EntityName::osd(number.into()), addrs, Pool::new(1 << 20));
        config.policy = policy;
        config.compression = mode.compression();
        config.supported &= !mode.lacks();
        if let Some(monitors) = monitors {
            config.gate = monitors.gate(service::OSD);
        }
        let config = Arc::new(config);
        Self {
            number,
            life: 1,
            sock,
            session: session(number, [1, 1], &config),
            config,
            carrier: None,
            waiting: Vec::new(),
            member: mode.auth_mode().map(|mode| Member::new(number, 1, mode)),
            mode,
            moves,
            knows: 1,
            sent: 0,
            partner: None,
        }
    }

    pub(crate) fn restart(&mut self, other: u32) {
        self.life += 1;
        if self.moves {
            let mut config = Config::clone(&self.config);
            config.addrs.0[0].nonce = self.life;
            self.config = Arc::new(config);
        }
        self.waiting.clear();
        self.member = self.mode.auth_mode().map(|mode| Member::new(self.number, self.life, mode));
        self.sent = 0;
        self.meet(other);
    }

    /// Switches to instance `other` of the other end.
    pub(crate) fn meet(&mut self, other: u32) {
        (self.knows, self.carrier, self.partner) = (other, None, None);
        self.session = session(self.number, [self.life, other], &self.config);
    }

    /// Returns the instance of the other end that claims a session, if its address tells.
    pub(crate) fn claimed_by(&self, claimed: &AddrVec) -> u32 {
        if self.moves { claimed.0[0].nonce } else { self.knows }
    }

    pub(crate) fn target(&self, life: u32, login: Login) -> Target {
        let mut addr = self.config.addrs.0[0];
        if self.moves {
            addr.nonce = life;
        }
        Target { kind: EntityName::OSD, addr, login }
    }

    pub(crate) fn login(&mut self, now: Time) -> Login {
        match &mut self.member {
            Some(member) => member.login(now),
            None => Login::unproved("admin", false, 4123),
        }
    }

    pub(crate) fn connection(&mut self, line: usize) -> Option<&mut Connection> {
        if self.carrier == Some(line) {
            return self.session.connection();
        }
        self.waiting.iter_mut().find(|(waits, _)| *waits == line).map(|(_, connection)| connection)
    }

    pub(crate) fn send(&mut self) {
        if self.session.send(numbered((self.life, self.sent + 1))).is_ok() {
            self.sent += 1;
        }
    }

    pub(crate) fn overdue(&mut self, now: Time) -> Vec<usize> {
        let due = |connection: &Connection| connection.deadline().is_some_and(|deadline| deadline <= now);
        let carrier = self.carrier.filter(|_| self.session.connection().is_some_and(|it| due(it)));
        let waiting = self.waiting.iter().filter(|(_, connection)| due(connection)).map(|(line, _)| *line);
        carrier.into_iter().chain(waiting).collect()
    }
}
