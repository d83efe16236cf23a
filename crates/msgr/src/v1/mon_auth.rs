//! Authentication between a monitor and its client, by messages. It precedes all other messages.
//!
//! Source: ceph `src/mon/MonClient.cc` (`MonConnection::start`), `src/mon/AuthMonitor.cc` (`prep_auth`), linux
//! `net/ceph/auth.c`.

use crate::auth::messages::{Auth, AuthReply};
use crate::auth::{self, AuthName, Gate, Introduction, Login, Reception, method, mode};
use crate::error::Error;
use crate::message::Message;
use crate::peer::Peer;
use crate::types::encoding::{Decode, Encode};
use onego_wire::{Decoded, Reader, Time, Writer};

const HELLO_VERSION: u8 = 1;
/// No method chosen yet (`CEPH_AUTH_UNKNOWN`).
const METHOD_UNKNOWN: u32 = 0;
/// Error number: none of the client's methods is allowed.
const EOPNOTSUPP: i32 = 95;

/// First payload of a client: its identity and the methods that it knows.
#[derive(Debug, PartialEq, Eq)]
struct Hello {
    methods: Vec<u32>,
    name: AuthName,
    global_id: u64,
}

impl Hello {
    fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(HELLO_VERSION);
        self.methods.encode(&mut w);
        self.name.encode(&mut w);
        w.u64(self.global_id);
        w.into_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Decoded<Self> {
        let mut r = Reader::new(bytes);
        r.u8("auth hello version")?;
        Ok(Self {
            methods: Vec::decode(&mut r)?,
            name: AuthName::decode(&mut r)?,
            global_id: r.u64("auth hello global id")?,
        })
    }
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one per connection, and only during the handshake")]
pub(super) enum MonAuth {
    Client {
        login: Login,
        method: Option<u32>,
    },
    Server {
        reception: Reception,
        method: u32,
        /// Global id of the client in this session, once it has introduced itself.
        global_id: u64,
    },
}

pub(super) struct MonAnswer {
    pub(super) message: Option<Message>,
    pub(super) done: bool,
}

impl MonAuth {
    pub(super) fn client(login: Login) -> Self {
        Self::Client { login, method: None }
    }

    /// Creates the side of a monitor, which assigns `fresh_global_id` to a client that has none.
    pub(super) fn server(gate: Gate, fresh_global_id: u64) -> Self {
        let reception = Reception::new(gate, true, fresh_global_id);
        Self::Server { reception, method: METHOD_UNKNOWN, global_id: 0 }
    }

    pub(super) fn start(&mut self) -> Option<Message> {
        let Self::Client { login, .. } = self else { return None };
        let Introduction { name, global_id, .. } = login.introduction();
        let hello = Hello { methods: login.methods(), name, global_id };
        Some(said(METHOD_UNKNOWN, hello.to_bytes()))
    }

    /// Answers a message and records its results in `peer`.
    pub(super) fn answer(
        &mut self,
        now: Time,
        message: &mut Message,
        peer: &mut Peer,
    ) -> Result<MonAnswer, Error> {
        match self {
            Self::Client { login, method } => answer_monitor(login, method, message.decode()?, peer),
            Self::Server { reception, method, global_id } => {
                let auth: Auth = message.decode()?;
                let (reply, done) = answer_client(now, reception, (method, global_id), &auth, peer)?;
                // The client may retry.
                Ok(MonAnswer { message: Some(Message::of(message.header.tid, &reply)), done })
            }
        }
    }
}

fn said(method: u32, payload: Vec<u8>) -> Message {
    Message::of(0, &Auth { method, payload, monmap_epoch: 0 })
}

fn answer_monitor(
    login: &mut Login,
    chosen: &mut Option<u32>,
    reply: AuthReply,
    peer: &mut Peer,
) -> Result<MonAnswer, Error> {
    let AuthReply { method, result, global_id, payload, .. } = reply;
    if result != 0 {
        return Err(auth::Error::Refused { name: login.introduction().name, errno: result }.into());
    }
    if chosen.is_none() {
        login.choose(method)?;
        *chosen = Some(method);
        if method != method::NONE {
            return Ok(MonAnswer { message: Some(said(method, login.more(&payload)?)), done: false });
        }
    }
    peer.granted = login.done(mode::CRC, &payload)?.granted;
    peer.global_id = global_id;
    Ok(MonAnswer { message: None, done: true })
}

fn answer_client(
    now: Time,
    reception: &mut Reception,
    (chosen, number): (&mut u32, &mut u64),
    auth: &Auth,
    peer: &mut Peer,
) -> Result<(AuthReply, bool), Error> {
    let answer = if auth.method == METHOD_UNKNOWN {
        let Hello { methods, name, global_id } = Hello::from_bytes(&auth.payload)?;
        *number = reception.global_id_for(global_id);
        let introduction = Introduction { to_monitor: true, name, global_id }.to_bytes();
        let known = [method::CEPHX, method::NONE].into_iter().filter(|method| methods.contains(method));
        let mut answers = known.map(|method| {
            *chosen = method;
            reception.request(now, method, &[mode::CRC], &introduction)
        });
        answers.find(|answer| !matches!(answer, auth::Answer::Refuse { .. }))
    } else {
        Some(reception.more(now, &auth.payload))
    };
    // Every reply carries it, even a refusal: Ceph's clients take a different number in a later reply for another
    // session.
    let mut reply = AuthReply { method: *chosen, global_id: *number, ..AuthReply::default() };
    match answer {
        Some(auth::Answer::Done(admitted)) => {
            let auth::Admitted { name, global_id, payload, caps, renewals, .. } = *admitted;
            reply.payload = payload;
            (peer.global_id, peer.name.num) = (global_id, global_id as i64);
            (peer.auth_name, peer.caps, peer.renewals) = (Some(name), caps, renewals);
            return Ok((reply, true));
        }
        Some(auth::Answer::More(challenge)) => reply.payload = challenge,
        Some(auth::Answer::Refuse { result, .. }) => reply.result = result,
        None => {
            reply.result = -EOPNOTSUPP;
            reply.message = "the cluster allows none of the client's authentication methods".to_owned();
        }
    }
    Ok((reply, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Authority, Entropy, Keyring, Lifetimes};
    use crate::types::EntityName;
    use crate::types::addr::AddrVec;
    use std::sync::{Arc, Mutex};

    const NOW: Time = Time::from_nanos(1);

    fn client() -> MonAuth {
        MonAuth::client(Login::unproved("admin", true, 0))
    }

    fn peer() -> Peer {
        Peer {
            name: EntityName { kind: EntityName::CLIENT, num: -1 },
            auth_name: None,
            caps: auth::Caps::Everything,
            renewals: None,
            granted: None,
            secure: false,
            compression: None,
            addrs: AddrVec::default(),
            features: 0,
            global_id: 0,
            own_addrs: AddrVec::default(),
        }
    }

    #[test]
    fn a_client_that_knows_only_other_methods_is_refused_and_may_retry() {
        let (mut client, mut server) = (client(), MonAuth::server(Gate::Open, 9000));
        let hello = Hello { methods: vec![2, 4], name: AuthName::client("admin"), global_id: 0 };
        let auth = Auth { method: METHOD_UNKNOWN, payload: hello.to_bytes(), monmap_epoch: 0 };
        let refusal = server.answer(NOW, &mut Message::of(5, &auth), &mut peer()).unwrap();
        assert!(!refusal.done);
        let mut refusal = refusal.message.unwrap();
        assert_eq!(refusal.header.tid, 5);
        let error = client.answer(NOW, &mut refusal, &mut peer()).err().unwrap();
        assert!(matches!(error, Error::Auth(auth::Error::Refused { errno: -95, .. })), "{error}");

        let mut known = peer();
        let reply = server.answer(NOW, &mut client.start().unwrap(), &mut known).unwrap();
        assert!(reply.done);
        assert_eq!((known.global_id, known.name), (9000, EntityName::client(9000)));
    }

    /// Replies of a monitor that requires keys to a client that claims number `said` and then sends no proof.
    fn replies_to(said: u64) -> Vec<AuthReply> {
        let authority = Authority::new(Keyring::default(), Lifetimes::default(), Entropy::new([1; 32]));
        let authority = Arc::new(Mutex::new(authority));
        let gate = Gate::Cephx { authority, service: auth::service::AUTH, modes: vec![mode::CRC] };
        let mut server = MonAuth::server(gate, 9000);
        let hello = Hello { methods: vec![method::CEPHX], name: AuthName::client("admin"), global_id: said };
        [(METHOD_UNKNOWN, hello.to_bytes()), (method::CEPHX, vec![0; 40])]
            .into_iter()
            .map(|(method, payload)| {
                let auth = Auth { method, payload, monmap_epoch: 0 };
                let answer = server.answer(NOW, &mut Message::of(1, &auth), &mut peer()).unwrap();
                answer.message.unwrap().decode().unwrap()
            })
            .collect()
    }

    #[test]
    fn a_client_learns_its_number_from_the_first_reply_and_later_replies_repeat_it() {
        for (said, given) in [(0, 9000), (55, 55)] {
            let replies = replies_to(said);
            assert!(replies[0].result == 0 && replies[1].result < 0, "{replies:?}");
            assert_eq!(
                [replies[0].global_id, replies[1].global_id],
                [given; 2],
                "for a client of number {said}"
            );
        }
    }

    #[test]
    fn the_first_payload_of_a_client_survives_the_wire() {
        let hello = Hello { methods: vec![1, 2], name: AuthName::client("admin"), global_id: 7 };
        let bytes = hello.to_bytes();
        assert_eq!(Hello::from_bytes(&bytes), Ok(hello));
        for len in 0..bytes.len() {
            assert!(Hello::from_bytes(&bytes[..len]).is_err());
        }
    }
}
