//! The client of NBD by TLS against the server, on a simulated network with virtual time.

use crate::support::tls::{Authority, Identity, NAME};
use onego_block::{Completions, Device, Geometry, Memory, Op, Outcome, Request};
use onego_engine::Pump;
use onego_export::nbd::{Config, Export, Server, Tls};
use onego_nbd::client::{self, ClientError, ClientTls, Endpoint, NbdClient};
use onego_nbd::tls::TlsFault;
use onego_testkit::seeds::Seeds;
use onego_testkit::{Faults, Sim, SimEngine};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const SERVER: &str = "10.0.0.1";
const SIZE: u64 = 4 << 20;

/// A server of one export, and a client of it.
struct TlsWorld {
    sim: Sim,
    server: Pump<SimEngine, Server>,
    client: Pump<SimEngine, NbdClient>,
    device: Rc<dyn Device>,
    completions: Completions,
}

impl TlsWorld {
    fn new(seed: u64, faults: Faults, server_tls: Option<Tls>, tls: Option<ClientTls>) -> Self {
        let mut sim = Sim::new(seed, faults);
        let mut server = Server::new(Config { tls: server_tls, ..Config::default() });
        let device = Rc::new(Memory::new(Geometry::new(SIZE)));
        let export = Export { name: "disk".into(), description: String::new(), device, read_only: false };
        server.add_export(export).unwrap();
        server.listen(format!("{SERVER}:10809").parse().unwrap());
        let mut server = Pump::new(sim.engine(SERVER.parse().unwrap()), server);
        sim.run_for(&mut [&mut server], Duration::from_secs(1));
        let config = client::Config { tls, connections: 2, seed, ..client::Config::new("disk") };
        let endpoint = Endpoint::Tcp(vec![format!("{SERVER}:10809").parse().unwrap()]);
        let client = NbdClient::new(config, endpoint).unwrap();
        let device = client.device();
        let client = Pump::new(sim.engine("10.0.0.2".parse().unwrap()), client);
        Self { sim, server, client, device, completions: Completions::default() }
    }

    fn step(&mut self) -> bool {
        self.sim.step(&mut [&mut self.server, &mut self.client])
    }

    fn open(&mut self) -> Result<(), ClientError> {
        let mut opened = self.client.machine().opened();
        loop {
            if let Poll::Ready(result) = Pin::new(&mut opened).poll(&mut Context::from_waker(Waker::noop())) {
                return result;
            }
            assert!(self.step(), "the client neither opens the export nor fails");
        }
    }

    fn run(&mut self, offset: u64, op: Op) -> Outcome {
        self.device.submit(self.client.now(), Request::new(self.completions.caller(0), offset, op));
        self.client.machine_mut();
        loop {
            if let Some(completion) = self.completions.take() {
                return completion.result.unwrap();
            }
            assert!(self.step(), "a request does not complete");
        }
    }
}

/// A client that trusts this authority.
fn client(trusted: &Authority, name: &str, identity: Option<&Identity>) -> ClientTls {
    let own = identity.map(|own| (own.certificate.as_bytes(), own.key.as_bytes()));
    ClientTls::new(name, trusted.certificate.as_bytes(), own).unwrap()
}

/// What becomes of a client on a server that wants certificates of the authority.
fn opened(authority: &Authority, tls: Option<ClientTls>) -> Result<(), ClientError> {
    TlsWorld::new(1, Faults::none(), Some(authority.serve(Some(authority)).required()), tls).open()
}

#[test]
fn bytes_go_there_and_back_through_tls_whatever_the_network_does() {
    let authority = Authority::new();
    let own = authority.sign_client();
    let seeds = Seeds { short: 4, long: 200 };
    seeds.each("-p onego-export --test it client_tls::", |seed| {
        let tls = client(&authority, NAME, Some(&own));
        let mut world = TlsWorld::new(
            seed,
            Faults::ragged(),
            Some(authority.serve(Some(&authority)).required()),
            Some(tls),
        );
        world.open().unwrap();
        let bytes: Vec<u8> =
            (0..1 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        world.run(4096, Op::Write { data: bytes.clone().into() });
        world.run(0, Op::Flush);
        match world.run(4096, Op::Read { length: bytes.len() as u64 }) {
            Outcome::Data(data) => assert!(data.to_vec() == bytes, "other bytes come back with seed {seed}"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_client_that_the_server_does_not_know_is_refused_and_says_why() {
    let (authority, other) = (Authority::new(), Authority::new());
    let stranger = other.sign_client();
    for identity in [None, Some(&stranger)] {
        let error = opened(&authority, Some(client(&authority, NAME, identity))).unwrap_err();
        assert!(
            matches!(error, ClientError::Tls(TlsFault::Tls(rustls::Error::AlertReceived(_)))),
            "{error:?}"
        );
        assert!(error.to_string().contains("client-cert.pem"), "{error}");
    }
}

#[test]
fn a_server_that_the_client_does_not_know_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let own = authority.sign_client();
    for (trusted, name) in [(&other, NAME), (&authority, "elsewhere.example"), (&authority, "10.0.0.1")] {
        let error = opened(&authority, Some(client(trusted, name, Some(&own)))).unwrap_err();
        assert!(
            matches!(error, ClientError::Tls(TlsFault::Tls(rustls::Error::InvalidCertificate(_)))),
            "{error:?}"
        );
        assert!(error.to_string().contains("ca-cert.pem"), "{error}");
    }
}

#[test]
fn nobody_goes_on_in_the_clear_where_one_side_wants_tls() {
    let authority = Authority::new();
    assert!(matches!(opened(&authority, None), Err(ClientError::TlsRequired)));
    let tls = client(&authority, NAME, None);
    let error = TlsWorld::new(1, Faults::none(), None, Some(tls)).open().unwrap_err();
    assert!(matches!(error, ClientError::NoTls { .. }), "{error:?}");
}

#[test]
fn what_is_no_certificate_is_said_to_be_none() {
    let authority = Authority::new();
    let own = authority.sign_client();
    let roots = authority.certificate.as_bytes();
    let (chain, key) = (own.certificate.as_bytes(), own.key.as_bytes());
    for (name, roots, own, said) in [
        ("a b", roots, None, "neither a name nor an address"),
        (NAME, &b"no PEM"[..], None, "the certificate authority of the server has no certificate"),
        (NAME, roots, Some((&b""[..], key)), "the certificate of the client has no certificate"),
        (NAME, roots, Some((chain, chain)), "the private key cannot be read"),
        (NAME, roots, Some((roots, key)), "belong together"),
    ] {
        let error = ClientTls::new(name, roots, own).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
