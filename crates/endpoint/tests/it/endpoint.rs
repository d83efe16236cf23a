//! The endpoint with well-behaved and malicious clients, in memory and on virtual time.

use onego_endpoint::{EndpointMachine, Health, Pages};
use onego_metrics::{Families, Registry};
use onego_testkit::{DrivenServer, Who};
use onego_wire::{Action, Disconnect, ListenerId, Machine as _};
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn pages() -> Pages {
    let (registry, health) = (Registry::default(), Health::default());
    registry.add(|families: &mut Families| {
        families.counter("onego_things_total", "Things", Vec::new(), 7.0);
    });
    Pages { registry, health }
}

struct EndpointWorld {
    server: DrivenServer<EndpointMachine>,
    pages: Pages,
}

struct Got {
    head: String,
    body: String,
}

impl EndpointWorld {
    fn new() -> Self {
        let pages = pages();
        let machine = EndpointMachine::new(addr("127.0.0.1:9719"), pages.clone());
        Self { server: DrivenServer::new(machine), pages }
    }

    fn try_connect(&mut self) -> Option<Who> {
        self.try_connect_from("10.0.0.1:700")
    }

    fn try_connect_from(&mut self, from: &str) -> Option<Who> {
        self.server.accept(ListenerId(0), addr(from), addr("127.0.0.1:9719"))
    }

    fn connect(&mut self) -> Who {
        self.try_connect().expect("the connection is accepted")
    }

    fn send(&mut self, who: Who, text: &str) {
        self.server.send_bytes(who, text.as_bytes());
        self.server.turn();
    }

    fn got(&mut self, who: Who) -> Got {
        assert!(self.server.is_closed(who), "the connection closes after its reply");
        let text = String::from_utf8(std::mem::take(self.server.came(who))).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        Got { head: head.to_owned(), body: body.to_owned() }
    }

    fn ask(&mut self, text: &str) -> Got {
        let who = self.connect();
        self.send(who, text);
        self.server.pass(2 * SECOND);
        self.got(who)
    }

    fn get(&mut self, path: &str) -> Got {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost:9719\r\n\r\n"))
    }
}

impl Got {
    fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

#[test]
fn metrics_have_the_requested_format() {
    let mut world = EndpointWorld::new();
    let got = world.get("/metrics");
    assert_eq!(got.status(), "200");
    assert_eq!(got.field("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(got.body.contains("# TYPE onego_things_total counter\nonego_things_total 7\n"), "{}", got.body);
    assert_eq!(got.field("Content-Length"), Some(got.body.len().to_string().as_str()));
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";
    let got = world.ask(&format!("GET /metrics?a=b HTTP/1.0\r\n{accept}\r\n\r\n"));
    assert_eq!(got.field("Content-Type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(got.body.ends_with("onego_things_total 7\n# EOF\n"), "{}", got.body);
}

#[test]
fn a_head_reply_has_the_length_of_the_body() {
    let mut world = EndpointWorld::new();
    let whole = world.get("/metrics");
    let head = world.ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert_eq!((head.head, head.body.as_str()), (whole.head, ""));
}

#[test]
fn readiness_follows_the_state_of_the_process() {
    let mut world = EndpointWorld::new();
    let ready = |world: &mut EndpointWorld| {
        let got = world.get("/readyz");
        (got.status().to_owned(), got.body)
    };
    let health = world.pages.health.clone();
    assert_eq!(ready(&mut world), ("503".into(), "starting\n".into()));
    health.ready();
    assert_eq!(ready(&mut world), ("200".into(), "ready\n".into()));
    health.drain();
    assert_eq!(ready(&mut world), ("503".into(), "draining\n".into()));
    assert_eq!(world.get("/healthz").status(), "200");
}

#[test]
fn other_pages_and_methods_are_rejected() {
    let mut world = EndpointWorld::new();
    assert_eq!(world.get("/").body, "/metrics\n/healthz\n/readyz\n");
    assert_eq!(world.get("/metrics/").status(), "404");
    assert_eq!(world.get("/../etc/passwd").status(), "404");
    let got = world.ask("DELETE /metrics HTTP/1.1\r\n\r\n");
    assert_eq!((got.status(), got.field("Allow")), ("405", Some("GET, HEAD")));
    assert_eq!(world.ask("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\n").status(), "400");
    assert_eq!(world.ask("\r\n\r\n\r\nnonsense\r\n\r\n").status(), "400");
}

#[test]
fn a_request_may_arrive_byte_by_byte_and_only_one_is_read() {
    let mut world = EndpointWorld::new();
    let who = world.connect();
    for byte in "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r".chars() {
        world.send(who, &byte.to_string());
    }
    assert!(world.server.came(who).is_empty());
    world.send(who, "\nGET /readyz HTTP/1.1\r\n\r\n");
    let got = world.got(who);
    assert_eq!((got.status(), got.body.as_str()), ("200", "ok\n"));
}

#[test]
fn slow_requests_time_out() {
    let mut world = EndpointWorld::new();
    let slow = world.connect();
    world.send(slow, "G");
    world.server.pass(4 * SECOND);
    assert!(!world.server.is_closed(slow));
    world.server.pass(SECOND);
    assert!(world.server.is_closed(slow) && world.server.came(slow).is_empty());
    assert_eq!(world.get("/healthz").status(), "200");
}

#[test]
fn an_endless_head_is_rejected_within_bounded_memory() {
    let mut world = EndpointWorld::new();
    let who = world.connect();
    world.send(who, "GET / HTTP/1.1\r\nA: ");
    for _ in 0..8 {
        world.send(who, &"a".repeat(4096));
    }
    assert_eq!(world.got(who).status(), "431");
    assert!(world.server.unreceived(who) > 0, "most of it is not read");
    let many = "a: b\r\n".repeat(100);
    assert_eq!(world.ask(&format!("GET / HTTP/1.1\r\n{many}\r\n")).status(), "431");
}

#[test]
fn idle_connections_give_way_to_new_ones() {
    let mut world = EndpointWorld::new();
    let idle: Vec<Who> = (0..16).map(|_| world.connect()).collect();
    let late = world.connect();
    assert!(world.server.step() || world.server.is_closed(idle[0]), "the oldest gives way");
    world.send(late, "GET /healthz HTTP/1.1\r\n\r\n");
    assert_eq!(world.got(late).status(), "200");
    assert_eq!(idle.iter().filter(|who| world.server.is_closed(**who)).count(), 1);
}

#[test]
fn a_flood_of_connections_is_rejected_until_earlier_ones_are_closed() {
    let mut world = EndpointWorld::new();
    let accepted = (0..1000).filter(|_| world.try_connect().is_some()).count();
    assert_eq!(accepted, 32);
    world.server.turn();
    world.server.pass(2 * SECOND);
    assert_eq!(world.get("/healthz").status(), "200");
}

#[test]
fn a_flood_from_one_address_does_not_lock_out_others() {
    let mut world = EndpointWorld::new();
    for round in 0..20 {
        for _ in 0..100 {
            let _ = world.try_connect();
        }
        let other =
            world.try_connect_from("10.0.0.2:700").unwrap_or_else(|| panic!("refused in round {round}"));
        for _ in 0..100 {
            let _ = world.try_connect();
        }
        world.send(other, "GET /healthz HTTP/1.1\r\n\r\n");
        assert_eq!(world.got(other).status(), "200");
        world.server.pass(SECOND);
    }
}

#[test]
fn dns_rebinding_is_rejected() {
    let mut world = EndpointWorld::new();
    let ask = |host: &str| format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let got = world.ask(&ask("evil.example:9719"));
    assert_eq!((got.status(), got.body.as_str()), ("421", "421 Misdirected Request\n"));
    assert_eq!(world.ask(&ask("127.0.0.1:9719")).status(), "200");
    assert_eq!(world.ask("GET /metrics HTTP/1.0\r\n\r\n").status(), "200");
    // On other addresses, Prometheus may use any host name.
    let who = world.server.accept(ListenerId(0), addr("10.0.0.2:700"), addr("10.0.0.9:9719")).unwrap();
    world.send(who, &ask("server.example:9719"));
    assert_eq!(world.got(who).status(), "200");
}

#[test]
fn clients_that_do_not_read_their_reply_time_out() {
    let mut world = EndpointWorld::new();
    let lazy = world.connect();
    world.server.set_reading(lazy, false);
    world.send(lazy, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(!world.server.is_closed(lazy));
    world.server.pass(9 * SECOND);
    assert!(!world.server.is_closed(lazy));
    world.server.pass(SECOND);
    assert!(world.server.is_closed(lazy));
}

#[test]
fn connection_ids_are_reused_only_after_closing() {
    let machine = EndpointMachine::new(addr("127.0.0.1:9719"), pages());
    let (mut machine, now) = (machine, onego_testkit::START);
    let names: Vec<_> = (0..20)
        .filter_map(|_| machine.accepted(now, ListenerId(0), addr("10.0.0.1:700"), addr("127.0.0.1:9719")))
        .collect();
    let slots: std::collections::BTreeSet<usize> = names.iter().map(|name| name.slot()).collect();
    assert_eq!((names.len(), slots.len()), (20, 20));
    // A connection that gave way is not closed again if its client disconnects first.
    machine.disconnected(now, names[0], Disconnect::Closed);
    let closed = std::iter::from_fn(|| machine.next_action(now));
    let closed = closed.filter(|action| matches!(action, Action::Close { .. })).count();
    assert_eq!(closed, 3);
}
