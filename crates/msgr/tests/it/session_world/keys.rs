//! Monitors that issue tickets, and each end's tickets.

use onego_msgr::auth::{
    Answer, AuthName, Authority, Cipher, Credentials, Entropy, Entry, Gate, Key, Keyring, Lifetimes, Login,
    Principal, Reception, Renewals, mode, service,
};
use onego_msgr::types::Utime;
use onego_wire::Time;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The ticket-issuing part of a cluster's monitors. All services know their keys at once.
pub(crate) struct Monitors {
    authority: Arc<Mutex<Authority>>,
    numbers: u64,
}

fn key(number: u8) -> Key {
    Key::generate(Cipher::Aes, Utime::default(), &mut Entropy::new([number; 32]))
}

pub(crate) fn name(number: u8) -> AuthName {
    format!("osd.{number}").parse().unwrap()
}

impl Monitors {
    pub(crate) fn new(lifetimes: Lifetimes) -> Self {
        let caps = ["mon", "osd"].map(|service| (service.to_owned(), "allow *".to_owned()));
        let entry = |number| Entry { key: key(number), caps: BTreeMap::from(caps.clone()) };
        let keyring = Keyring { entries: [1, 2].map(|number| (name(number), entry(number))).into() };
        let authority = Authority::new(keyring, lifetimes, Entropy::new([99; 32]));
        Self { authority: Arc::new(Mutex::new(authority)), numbers: 0 }
    }

    /// Returns the authentication that a daemon of this service requires.
    pub(crate) fn gate(&self, service: u32) -> Gate {
        Gate::Cephx { authority: Arc::clone(&self.authority), service, modes: vec![mode::CRC, mode::SECURE] }
    }
}

/// One end as a member of the cluster: its key and its tickets.
pub(crate) struct Member {
    principal: Principal,
    session: Option<Renewals>,
    /// Answers to its renewals, and their arrival times.
    answers: VecDeque<(Time, Result<Vec<u8>, i32>)>,
}

impl Member {
    /// Creates instance `life` of an end, which accepts connections in `mode`.
    pub(crate) fn new(number: u8, life: u32, mode: u32) -> Self {
        let credentials = Credentials::new(name(number), Some(key(number)));
        let credentials = Arc::new(Credentials { modes: vec![mode], ..credentials });
        let entropy = Entropy::new([number.wrapping_add(life as u8 * 2 + 100); 32]);
        let principal = Principal::new(credentials, service::OSD, entropy);
        Self { principal, session: None, answers: VecDeque::new() }
    }

    /// Processes the monitors' answers and sends due renewals. The answer takes `delay`, or never arrives.
    pub(crate) fn turn(&mut self, now: Time, monitors: &mut Monitors, delay: Option<Duration>) {
        while self.answers.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, answer)) = self.answers.pop_front()
        {
            match answer {
                // An answer after a repeated request may not match the pending one.
                Ok(payload) => drop(self.principal.renewed(now, &payload)),
                // Log in again, as a client does.
                Err(_) => {
                    self.principal.session_ended();
                    self.session = None;
                }
            }
        }
        let Some(session) = &self.session else { return self.log_in(now, monitors) };
        if let Some(request) = self.principal.renew(now)
            && let Some(delay) = delay
        {
            let answer = session.renew(now, &request);
            self.answers.push_back((now + delay, answer));
        }
    }

    fn log_in(&mut self, now: Time, monitors: &mut Monitors) {
        monitors.numbers += 1;
        let mut reception = Reception::new(monitors.gate(service::AUTH), true, monitors.numbers);
        let mut login = self.principal.login_to_monitor();
        let attempt = login.begin().unwrap();
        let answer = match reception.request(now, attempt.method, &attempt.modes, &attempt.payload) {
            Answer::More(challenge) => reception.more(now, &login.more(&challenge).unwrap()),
            other => panic!("{other:?}"),
        };
        match answer {
            Answer::Done(admitted) => {
                let proved = login.done(admitted.mode, &admitted.payload).unwrap();
                self.principal.session_began(now, admitted.global_id, proved.granted);
                self.session = admitted.renewals;
                self.answers.clear();
            }
            // The ticket that identifies it is too old: it starts as a new client.
            _ => {
                self.principal.refused();
                self.log_in(now, monitors);
            }
        }
    }

    pub(crate) fn login(&mut self, now: Time) -> Login {
        self.principal.login_to_service(now, service::OSD)
    }

    pub(crate) fn doubt(&mut self, now: Time) {
        self.principal.doubt(now, service::OSD);
    }
}
