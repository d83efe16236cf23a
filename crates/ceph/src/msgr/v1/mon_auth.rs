//! The authentication between a monitor and its client, which goes by messages: nothing else is said before it is
//! through.
//!
//! Source: ceph `src/mon/MonClient.cc` (`MonConnection::start`), `src/mon/AuthMonitor.cc` (`prep_auth`), linux
//! `net/ceph/auth.c`.

use super::super::error::Error;
use super::super::handshake::Peer;
use super::super::message::Message;
use crate::auth::{self, AuthName, Introduction, method};
use crate::encoding::{Decode, Encode};
use crate::messages::{Auth, AuthReply};
use onego_wire::{Decoded, Reader, Writer};

/// Version of what a client says first.
const HELLO_VERSION: u8 = 1;
/// No method has been chosen (`CEPH_AUTH_UNKNOWN`).
const METHOD_UNKNOWN: u32 = 0;
/// Error number: none of the client's methods is allowed.
const EOPNOTSUPP: i32 = 95;

/// What a client says first: who it is, and which methods it knows.
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

/// One side of it.
#[derive(Debug)]
pub(super) enum MonAuth {
    Client { name: AuthName, global_id: u64 },
    Server { fresh_global_id: u64 },
}

/// What is to be said, and whether that was all.
pub(super) struct Answer {
    pub(super) message: Option<Message>,
    pub(super) done: bool,
}

impl MonAuth {
    /// The side of a client, which has a global id already, or 0.
    pub(super) fn client(client: Introduction) -> Self {
        Self::Client { name: client.name, global_id: client.global_id }
    }

    /// The side of a monitor, which gives `fresh_global_id` to who has none.
    pub(super) fn server(fresh_global_id: u64) -> Self {
        Self::Server { fresh_global_id }
    }

    /// What is said before anything was heard.
    pub(super) fn start(&self) -> Option<Message> {
        let Self::Client { name, global_id } = self else { return None };
        let hello = Hello { methods: vec![method::NONE], name: name.clone(), global_id: *global_id };
        let auth = Auth { method: METHOD_UNKNOWN, payload: hello.to_bytes(), monmap_epoch: 0 };
        Some(Message::of(0, &auth))
    }

    /// Answers a message, and notes in `peer` what it says.
    pub(super) fn answer(&mut self, message: &mut Message, peer: &mut Peer) -> Result<Answer, Error> {
        match self {
            Self::Client { name, .. } => {
                let AuthReply { method, result, global_id, .. } = message.decode()?;
                if result != 0 || method != method::NONE {
                    return Err(auth::Error::Refused { name: name.clone(), errno: result }.into());
                }
                peer.global_id = global_id;
                Ok(Answer { message: None, done: true })
            }
            &mut Self::Server { fresh_global_id } => {
                let auth: Auth = message.decode()?;
                let hello = Hello::from_bytes(&auth.payload)?;
                let known = auth.method == METHOD_UNKNOWN && hello.methods.contains(&method::NONE);
                let mut reply = AuthReply { method: method::NONE, ..AuthReply::default() };
                if known {
                    let id = if hello.global_id == 0 { fresh_global_id } else { hello.global_id };
                    (reply.global_id, peer.global_id, peer.name.num) = (id, id, id as i64);
                    peer.auth_name = Some(hello.name);
                } else {
                    reply.result = -EOPNOTSUPP;
                    reply.message = "this cluster knows no authentication but none".to_owned();
                }
                // The client may try again.
                Ok(Answer { message: Some(Message::of(message.header.tid, &reply)), done: known })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::AddrVec;
    use crate::types::EntityName;

    fn client() -> MonAuth {
        let name = AuthName::client("admin");
        MonAuth::client(Introduction { to_monitor: true, name, global_id: 0 })
    }

    fn peer() -> Peer {
        Peer {
            name: EntityName { kind: EntityName::CLIENT, num: -1 },
            auth_name: None,
            caps: auth::Caps::Everything,
            renewals: None,
            granted: None,
            secure: false,
            addrs: AddrVec::default(),
            features: 0,
            global_id: 0,
            own_addrs: AddrVec::default(),
        }
    }

    #[test]
    fn a_client_that_knows_other_methods_only_is_refused_and_may_try_again() {
        let (mut client, mut server) = (client(), MonAuth::server(9000));
        let hello = Hello { methods: vec![2, 4], name: AuthName::client("admin"), global_id: 0 };
        let auth = Auth { method: METHOD_UNKNOWN, payload: hello.to_bytes(), monmap_epoch: 0 };
        let refusal = server.answer(&mut Message::of(5, &auth), &mut peer()).unwrap();
        assert!(!refusal.done);
        let mut refusal = refusal.message.unwrap();
        assert_eq!(refusal.header.tid, 5);
        let error = client.answer(&mut refusal, &mut peer()).err().unwrap();
        assert!(matches!(error, Error::Auth(auth::Error::Refused { errno: -95, .. })), "{error}");

        let mut known = peer();
        let reply = server.answer(&mut client.start().unwrap(), &mut known).unwrap();
        assert!(reply.done);
        assert_eq!((known.global_id, known.name), (9000, EntityName::client(9000)));
    }

    #[test]
    fn what_a_client_says_first_survives_the_wire() {
        let hello = Hello { methods: vec![1, 2], name: AuthName::client("admin"), global_id: 7 };
        let bytes = hello.to_bytes();
        assert_eq!(Hello::from_bytes(&bytes), Ok(hello));
        for len in 0..bytes.len() {
            assert!(Hello::from_bytes(&bytes[..len]).is_err());
        }
    }
}
