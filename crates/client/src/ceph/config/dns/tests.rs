//! A small DNS server on the loopback device that gives correct and faulty answers.

use super::*;
use simple_dns::rdata::{A, AAAA, SRV};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Maps a query to the messages that the server sends, by UDP or (if the flag is set) by TCP.
type Answers = dyn Fn(&Packet<'_>, bool) -> Vec<Vec<u8>> + Send + Sync;

/// The server. Dropping it ends its threads.
struct DnsServer {
    addr: SocketAddr,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

const TICK: Duration = Duration::from_millis(20);

impl DnsServer {
    fn start(answers: impl Fn(&Packet<'_>, bool) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let answers: Arc<Answers> = Arc::new(answers);
        let (udp, tcp) = bind();
        let addr = udp.local_addr().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let udp_thread = {
            let (answers, over) = (Arc::clone(&answers), Arc::clone(&over));
            std::thread::spawn(move || serve_udp(&udp, &*answers, &over))
        };
        let tcp_over = Arc::clone(&over);
        let tcp_thread = std::thread::spawn(move || serve_tcp(&tcp, &*answers, &tcp_over));
        Self { addr, over, threads: vec![udp_thread, tcp_thread] }
    }
}

/// Binds sockets at one port that is free for both protocols. A port free for UDP may be taken for TCP by closed
/// connections for up to a minute.
fn bind() -> (UdpSocket, TcpListener) {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        match UdpSocket::bind(tcp.local_addr().unwrap()) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            udp => return (udp.unwrap(), tcp),
        }
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the thread in `accept`.
        let _ = TcpStream::connect(self.addr);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn serve_udp(socket: &UdpSocket, answers: &Answers, over: &AtomicBool) {
    socket.set_read_timeout(Some(TICK)).unwrap();
    let mut buffer = [0; 512];
    while !over.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        for answer in answers(&Packet::parse(&buffer[..len]).unwrap(), false) {
            socket.send_to(&answer, from).unwrap();
        }
    }
}

fn serve_tcp(listener: &TcpListener, answers: &Answers, over: &AtomicBool) {
    for stream in listener.incoming() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let mut stream = stream.unwrap();
        let mut len = [0; 2];
        stream.read_exact(&mut len).unwrap();
        let mut question = vec![0; u16::from_be_bytes(len).into()];
        stream.read_exact(&mut question).unwrap();
        for answer in answers(&Packet::parse(&question).unwrap(), true) {
            let len = u16::try_from(answer.len()).unwrap().to_be_bytes();
            stream.write_all(&[&len[..], &answer].concat()).unwrap();
        }
    }
}

/// Creates a resolver with a timeout long enough for a busy machine.
fn resolver(servers: &[SocketAddr], domains: &[&str]) -> Resolver {
    Resolver { patience: Duration::from_secs(10), ..impatient(servers, domains) }
}

/// Creates a resolver with a short timeout, for tests with a silent server.
fn impatient(servers: &[SocketAddr], domains: &[&str]) -> Resolver {
    let domains = domains.iter().map(|domain| (*domain).to_owned()).collect();
    Resolver { domains, ..Resolver::asking(servers.to_vec()) }
}

fn answer(question: &Packet<'_>, records: Vec<RData<'_>>) -> Vec<u8> {
    let mut packet = Packet::new_reply(question.id());
    packet.questions.clone_from(&question.questions);
    let name = &question.questions[0].qname;
    packet.answers =
        records.into_iter().map(|data| ResourceRecord::new(name.clone(), CLASS::IN, 60, data)).collect();
    packet.build_bytes_vec_compressed().unwrap()
}

fn refusal(question: &Packet<'_>, code: RCODE) -> Vec<u8> {
    let mut packet = Packet::new_reply(question.id());
    packet.questions.clone_from(&question.questions);
    *packet.rcode_mut() = code;
    packet.build_bytes_vec().unwrap()
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> RData<'_> {
    RData::SRV(SRV { priority, weight, port, target: Name::new_unchecked(target) })
}

fn zone(question: &Packet<'_>) -> Vec<u8> {
    let asked = &question.questions[0];
    let name = asked.qname.to_string();
    let kind = asked.qtype;
    let records = match name.as_str() {
        "_ceph-mon._tcp.example.com" if kind == TYPE::SRV.into() => vec![
            srv(10, 20, 3300, "mon1.example.com"),
            srv(10, 30, 6789, "mon2.example.com"),
            srv(20, 50, 0, "mon3.example.com"),
            srv(20, 50, 3300, "gone.example.com"),
        ],
        "mon1.example.com" if kind == TYPE::A.into() => vec![RData::A(A { address: 0x0a00_0001 })],
        "mon2.example.com" if kind == TYPE::AAAA.into() => {
            vec![RData::AAAA(AAAA { address: 0xfd << 120 | 2 })]
        }
        "mon3.example.com" if kind == TYPE::A.into() => vec![RData::A(A { address: 0x0a00_0003 })],
        "mon1.example.com" | "mon2.example.com" | "mon3.example.com" => Vec::new(),
        _ => return refusal(question, RCODE::NameError),
    };
    answer(question, records)
}

fn found(resolver: &Resolver, name: &str) -> Vec<String> {
    let monitors = resolver.monitors(name).unwrap();
    monitors.iter().map(|one| format!("{} {}/{}", one.addrs, one.priority, one.weight)).collect()
}

const MONITORS: [&str; 4] = [
    "v2:10.0.0.1:3300/0 10/20",
    "v1:[fd00::2]:6789/0 10/30",
    "v2:10.0.0.3:3300/0 20/50",
    "v1:10.0.0.3:6789/0 21/50",
];

#[test]
fn monitors_are_found_in_the_domain_that_is_named_or_searched() {
    let server = DnsServer::start(|question, _| vec![zone(question)]);
    assert_eq!(found(&resolver(&[server.addr], &[]), "ceph-mon_example.com"), MONITORS);
    let searching = resolver(&[server.addr], &["nothing.test", "example.com"]);
    assert_eq!(found(&searching, "ceph-mon"), MONITORS);
    let error = searching.monitors("other").unwrap_err();
    assert_eq!(
        error,
        "the DNS has no SRV records _other._tcp, _other._tcp.nothing.test, _other._tcp.example.com"
    );
}

#[test]
fn a_truncated_answer_is_requested_again_over_tcp() {
    let server = DnsServer::start(|question, by_tcp| {
        let mut whole = zone(question);
        if !by_tcp {
            // Truncated: the flag, and no answer (RFC 1035, section 4.1.1).
            whole = refusal(question, RCODE::NoError);
            whole[2] |= 2;
        }
        vec![whole]
    });
    assert_eq!(found(&resolver(&[server.addr], &["example.com"]), "ceph-mon"), MONITORS);
}

#[test]
fn the_next_server_is_asked_if_one_fails_or_is_silent() {
    let failing = DnsServer::start(|question, _| vec![refusal(question, RCODE::ServerFailure)]);
    let silent = DnsServer::start(|_, _| Vec::new());
    let good = DnsServer::start(|question, _| vec![zone(question)]);
    let resolver = impatient(&[failing.addr, silent.addr, good.addr], &["example.com"]);
    assert_eq!(found(&resolver, "ceph-mon_example.com"), MONITORS);
}

#[test]
fn a_server_that_refuses_a_name_is_asked_for_it_in_a_domain() {
    let server = DnsServer::start(|question, _| {
        let whole = question.questions[0].qname.to_string().ends_with("example.com");
        vec![if whole { zone(question) } else { refusal(question, RCODE::Refused) }]
    });
    assert_eq!(found(&resolver(&[server.addr], &["example.com"]), "ceph-mon"), MONITORS);
    let error = resolver(&[server.addr], &[]).monitors("ceph-mon").unwrap_err();
    assert!(error.contains("no SRV records _ceph-mon._tcp") && error.contains("answered Refused"), "{error}");
}

#[test]
fn silent_servers_are_an_error_after_the_timeout() {
    let silent = DnsServer::start(|_, _| Vec::new());
    let start = Instant::now();
    let error = impatient(&[silent.addr], &["example.com"]).monitors("ceph-mon").unwrap_err();
    assert!(error.contains("_ceph-mon._tcp") && error.contains("timed out"), "{error}");
    assert!(error.contains(&silent.addr.to_string()), "{error}");
    assert!((Duration::from_millis(600)..Duration::from_secs(20)).contains(&start.elapsed()));
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = resolver(&[closed], &[]).monitors("ceph-mon").unwrap_err();
    assert!(error.contains("refused"), "{error}");
    let error = resolver(&[], &[]).monitors("ceph-mon").unwrap_err();
    assert!(error.contains("no server to query"), "{error}");
}

#[test]
fn answers_to_other_queries_are_ignored() {
    let server = DnsServer::start(|question, _| {
        let good = zone(question);
        let mut other_id = good.clone();
        other_id[0] ^= 1;
        let mut no_answer = good.clone();
        no_answer[2] &= 0x7f;
        vec![other_id, no_answer, vec![0; 3], Vec::new(), good]
    });
    assert_eq!(found(&resolver(&[server.addr], &[]), "ceph-mon_example.com"), MONITORS);
}

#[test]
fn hostile_answers_are_errors() {
    type Break = fn(&Packet<'_>) -> Vec<u8>;
    let breaks: [(Break, &str); 6] = [
        // More records than the message has bytes for.
        (|question| with_bytes(zone(question), 6, &[0xff; 6]), "not an answer"),
        // A name that points to itself: that of the first record.
        (|question| with_bytes(zone(question), 12 + question_len(question), &[0xc0, 44]), "not an answer"),
        // The answer to another query.
        (|question| with_bytes(zone(question), 13, b"_CEPH-OSD"), "not an answer"),
        (|question| zone(question)[..30].to_vec(), "not an answer"),
        (|question| question.build_bytes_vec().unwrap()[..12].to_vec(), "timed out"),
        (|question| answer(question, vec![srv(1, 1, 3300, "")]), "no addresses"),
    ];
    for (number, (broken, said)) in breaks.into_iter().enumerate() {
        let server = DnsServer::start(move |question, _| vec![broken(question)]);
        let new = if said == "timed out" { impatient } else { resolver };
        let error = new(&[server.addr], &[]).monitors("ceph-mon_example.com").unwrap_err();
        assert!(error.contains(said), "{number}: {error}");
    }
}

fn with_bytes(mut message: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    message[at..at + bytes.len()].copy_from_slice(bytes);
    message
}

fn question_len(question: &Packet<'_>) -> usize {
    question.build_bytes_vec().unwrap().len() - 12
}

#[test]
fn a_tcp_answer_that_ends_or_stalls_is_an_error() {
    let server = DnsServer::start(|question, by_tcp| {
        let mut cut = refusal(question, RCODE::NoError);
        cut[2] |= 2;
        if by_tcp { Vec::new() } else { vec![cut] }
    });
    let error = resolver(&[server.addr], &[]).monitors("ceph-mon").unwrap_err();
    assert!(error.contains("end of file") || error.contains("reset"), "{error}");
}

#[test]
fn monitors_are_limited_to_the_maximum() {
    let server = DnsServer::start(|question, by_tcp| {
        if question.questions[0].qtype == TYPE::A.into() {
            return vec![answer(question, vec![RData::A(A { address: 0x7f00_0001 })])];
        }
        if !by_tcp {
            let mut cut = refusal(question, RCODE::NoError);
            cut[2] |= 2;
            return vec![cut];
        }
        let names: Vec<String> = (0..500).map(|number| format!("mon{number}.example.com")).collect();
        vec![answer(question, names.iter().map(|name| srv(0, 0, 3300, name)).collect())]
    });
    assert_eq!(resolver(&[server.addr], &[]).monitors("ceph-mon").unwrap().len(), MAX_RECORDS);
}

#[test]
fn servers_and_domains_are_those_of_the_system_within_bounds() {
    let text = "\
search a.test b.test c.test d.test e.test f.test g.test
nameserver 10.0.0.1
nameserver fe80::1%2
nameserver 10.0.0.2
nameserver 10.0.0.3
options ndots:2 timeout:100 attempts:100 strange
";
    let (conf, _) = resolv_conf::Config::parse_with_errors(text.as_bytes());
    let resolver = Resolver::new(&conf);
    let servers: Vec<String> = resolver.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["10.0.0.1:53", "[fe80::1%2]:53", "10.0.0.2:53"]);
    assert_eq!((resolver.domains.len(), resolver.ndots), (6, 2));
    assert_eq!((resolver.attempts, resolver.patience), (5, Duration::from_secs(30)));
    let none = Resolver::new(&resolv_conf::Config::parse_with_errors(b"").0);
    assert_eq!((none.servers[0].to_string().as_str(), none.attempts), ("127.0.0.1:53", 2));
}
