//! Discovery of monitors by DNS SRV records, for clusters whose `ceph.conf` does not list them.
//!
//! The system library's lookups of such records cannot be called without unsafe code, so this module queries the
//! servers of `/etc/resolv.conf` itself: by UDP, and by TCP if the answer is too long for that.
//!
//! Source: RFC 1035, sections 4.1 and 4.2; RFC 2782; resolv.conf(5); ceph `doc/rados/configuration/mon-lookup-dns.rst`,
//! `src/common/dns_resolve.cc`, `src/mon/MonMap.cc` (`init_with_dns_srv`).

use onego_ceph::client::Monitor;
use onego_msgr::addr::MonHost;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, ResourceRecord, TYPE, header_buffer};
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const RESOLV_CONF: &str = "/etc/resolv.conf";

const PORT: u16 = 53;

/// Most servers and search domains used, as in the system library (`MAXNS`, `MAXDNSRCH`).
const MAX_SERVERS: usize = 3;
const MAX_DOMAINS: usize = 6;

/// Bounds on the options in `resolv.conf`: attempts per query, and seconds per answer (`RES_MAXRETRY`,
/// `RES_MAXRETRANS`).
const MAX_ATTEMPTS: u32 = 5;
const MAX_PATIENCE: u32 = 30;

/// Limit on the whole lookup, whatever the number of servers and names: as long as connecting may take.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Most records read from one answer. Clusters have a handful of monitors.
const MAX_RECORDS: usize = 64;

/// Longest UDP answer accepted. Servers send at most 512 bytes unless a query allows more.
const MAX_DATAGRAM: usize = 4096;

#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    servers: Vec<SocketAddr>,
    domains: Vec<String>,
    /// Names with at least this many dots are first tried as absolute names.
    ndots: usize,
    attempts: u32,
    patience: Duration,
}

#[derive(Debug)]
enum Failure {
    Nothing,
    Refused(String),
    NoAnswer(String),
}

fn said(error: impl fmt::Display) -> Failure {
    Failure::NoAnswer(error.to_string())
}

impl Resolver {
    pub(crate) fn of_system() -> Result<Self, String> {
        let text = match std::fs::read(RESOLV_CONF) {
            Ok(text) => text,
            // The default is a server on this host.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(format!("{RESOLV_CONF}: {error}")),
        };
        // The system library ignores unknown settings, and so does this.
        let (conf, _) = resolv_conf::Config::parse_with_errors(&text);
        Ok(Self::new(&conf))
    }

    #[cfg(test)]
    pub(crate) fn asking(servers: Vec<SocketAddr>) -> Self {
        let patience = Duration::from_millis(300);
        Self { servers, domains: Vec::new(), ndots: 1, attempts: 2, patience }
    }

    fn new(conf: &resolv_conf::Config) -> Self {
        let servers = conf.get_nameservers_or_local().into_iter().take(MAX_SERVERS).map(|server| {
            let scope = match &server {
                resolv_conf::ScopedIp::V6(_, Some(scope)) => scope.parse().unwrap_or(0),
                _ => 0,
            };
            match server.into() {
                IpAddr::V4(addr) => SocketAddr::new(addr.into(), PORT),
                IpAddr::V6(addr) => std::net::SocketAddrV6::new(addr, PORT, 0, scope).into(),
            }
        });
        let mut domains: Vec<String> = conf.get_last_search_or_domain().cloned().collect();
        if domains.is_empty() {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            domains.extend(host.split_once('.').map(|(_, domain)| domain.to_owned()));
        }
        domains.truncate(MAX_DOMAINS);
        Self {
            servers: servers.collect(),
            domains,
            ndots: conf.ndots as usize,
            attempts: conf.attempts.clamp(1, MAX_ATTEMPTS),
            patience: Duration::from_secs(conf.timeout.clamp(1, MAX_PATIENCE).into()),
        }
    }

    /// Looks up the monitors of the service `name`, such as `ceph-mon`, or `ceph-mon_example.com` for a domain
    /// (`mon_dns_srv_name`). The error states why there are none.
    pub(crate) fn monitors(&self, name: &str) -> Result<Vec<Monitor>, String> {
        let until = Instant::now() + MAX_TIME;
        let (service, domain) = name.split_once('_').unwrap_or((name, ""));
        let wanted = match domain {
            "" => format!("_{service}._tcp"),
            domain => format!("_{service}._tcp.{domain}"),
        };
        let mut monitors = Vec::new();
        for target in self.targets(&wanted, until)? {
            let place = if target.port == 0 {
                target.host.clone()
            } else {
                format!("{}:{}", target.host, target.port)
            };
            // As for a host in `mon_host`, an invalid name or one without addresses is skipped.
            match MonHost::parse_list(&place, |host| self.addresses(host, until)) {
                Ok(hosts) => monitors.extend(
                    hosts
                        .into_iter()
                        .flat_map(|host| Monitor::configured(host, target.priority, target.weight)),
                ),
                Err(error) => {
                    tracing::info!(host = %place, %error, "a monitor in the DNS has no address");
                }
            }
        }
        monitors.truncate(MAX_RECORDS);
        if monitors.is_empty() {
            return Err(format!("the hosts in the SRV records of {wanted} have no addresses"));
        }
        Ok(monitors)
    }

    fn targets(&self, wanted: &str, until: Instant) -> Result<Vec<SrvHost>, String> {
        let whole = std::iter::once(wanted.to_owned());
        let within = self.domains.iter().map(|domain| format!("{wanted}.{domain}"));
        let as_it_is_first = wanted.matches('.').count() >= self.ndots;
        let names: Vec<String> =
            if as_it_is_first { whole.chain(within).collect() } else { within.chain(whole).collect() };
        let mut refused = String::new();
        for name in &names {
            let target = |record: &ResourceRecord<'_>| match &record.rdata {
                RData::SRV(srv) => Some(SrvHost {
                    host: srv.target.to_string(),
                    port: srv.port,
                    priority: srv.priority,
                    weight: srv.weight,
                }),
                _ => None,
            };
            match self.ask(name, TYPE::SRV, target, until) {
                Ok(targets) => return Ok(targets),
                Err(Failure::Nothing) => {}
                // A server may refuse a relative name, and know it in a domain.
                Err(Failure::Refused(why)) => refused = format!(" ({why})"),
                Err(Failure::NoAnswer(why)) => {
                    return Err(format!("no DNS server answered for the SRV records of {name}: {why}"));
                }
            }
        }
        Err(format!("the DNS has no SRV records {}{refused}", names.join(", ")))
    }

    fn addresses(&self, host: &str, until: Instant) -> Vec<IpAddr> {
        let address = |record: &ResourceRecord<'_>| match &record.rdata {
            RData::A(a) => Some(IpAddr::V4(Ipv4Addr::from_bits(a.address))),
            RData::AAAA(aaaa) => Some(IpAddr::V6(Ipv6Addr::from_bits(aaaa.address))),
            _ => None,
        };
        let found = [TYPE::A, TYPE::AAAA].into_iter().map(|kind| self.ask(host, kind, address, until));
        found.filter_map(Result::ok).flatten().collect()
    }

    /// Queries one server after another until one answers; `take` extracts the result.
    fn ask<T>(
        &self,
        name: &str,
        kind: TYPE,
        take: impl Fn(&ResourceRecord<'_>) -> Option<T>,
        until: Instant,
    ) -> Result<Vec<T>, Failure> {
        let question = Asked::new(name, kind)?;
        let mut failure = said("no server to query");
        for server in (0..self.attempts).flat_map(|_| &self.servers) {
            let patience = self.patience.min(until.saturating_duration_since(Instant::now()));
            if patience.is_zero() {
                break;
            }
            match question.answer(*server, Instant::now() + patience, &take) {
                Err(Failure::NoAnswer(why)) => failure = Failure::NoAnswer(format!("{server}: {why}")),
                Err(Failure::Refused(why)) => failure = Failure::Refused(format!("{server}: {why}")),
                answer => return answer,
            }
        }
        Err(failure)
    }
}

#[derive(Debug)]
struct SrvHost {
    host: String,
    port: u16,
    priority: u16,
    weight: u16,
}

struct Asked<'a> {
    id: u16,
    name: Name<'a>,
    kind: TYPE,
    bytes: Vec<u8>,
}

impl<'a> Asked<'a> {
    fn new(name: &'a str, kind: TYPE) -> Result<Self, Failure> {
        // Unpredictable, so that others cannot forge an answer.
        let mut id = [0; 2];
        getrandom::fill(&mut id).map_err(said)?;
        let id = u16::from_ne_bytes(id);
        let name = Name::new(name.trim_end_matches('.')).map_err(said)?;
        let mut packet = Packet::new_query(id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        packet.questions.push(Question::new(name.clone(), kind.into(), CLASS::IN.into(), false));
        let bytes = packet.build_bytes_vec().map_err(said)?;
        Ok(Self { id, name, kind, bytes })
    }

    fn answer<T>(
        &self,
        server: SocketAddr,
        until: Instant,
        take: impl Fn(&ResourceRecord<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Failure> {
        let mut bytes = self.by_udp(server, until).map_err(said)?;
        if header_buffer::has_flags(&bytes, PacketFlag::TRUNCATION).map_err(said)? {
            bytes = self.by_tcp(server, until).map_err(said)?;
        }
        let packet = self.parse(&bytes).ok_or_else(|| said("the reply is not an answer to the query"))?;
        match packet.rcode() {
            RCODE::NoError => {}
            RCODE::NameError => return Err(Failure::Nothing),
            other => return Err(Failure::Refused(format!("it answered {other:?}"))),
        }
        let records: Vec<T> = packet.answers.iter().filter_map(take).take(MAX_RECORDS).collect();
        if records.is_empty() { Err(Failure::Nothing) } else { Ok(records) }
    }

    fn by_udp(&self, server: SocketAddr, until: Instant) -> io::Result<Vec<u8>> {
        let any: IpAddr =
            if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        // A connected socket receives only from that server.
        socket.connect(server)?;
        socket.send(&self.bytes)?;
        let mut buffer = vec![0; MAX_DATAGRAM];
        loop {
            socket.set_read_timeout(Some(left(until)?))?;
            let len = socket.recv(&mut buffer).map_err(named)?;
            // Ignore answers to other queries.
            if self.is_answer(&buffer[..len]) {
                buffer.truncate(len);
                return Ok(buffer);
            }
        }
    }

    /// Queries over TCP, where a length precedes each message (RFC 1035, section 4.2.2).
    fn by_tcp(&self, server: SocketAddr, until: Instant) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&server, left(until)?).map_err(named)?;
        stream.set_write_timeout(Some(left(until)?))?;
        let len = u16::try_from(self.bytes.len()).map_err(io::Error::other)?;
        stream.write_all(&[&len.to_be_bytes()[..], &self.bytes].concat()).map_err(named)?;
        let mut len = [0; 2];
        receive(&mut stream, &mut len, until)?;
        let mut message = vec![0; u16::from_be_bytes(len).into()];
        receive(&mut stream, &mut message, until)?;
        Ok(message)
    }

    /// Returns whether this message answers the query, even if truncated.
    fn is_answer(&self, bytes: &[u8]) -> bool {
        header_buffer::id(bytes) == Ok(self.id)
            && header_buffer::has_flags(bytes, PacketFlag::RESPONSE) == Ok(true)
    }

    fn parse<'b>(&self, bytes: &'b [u8]) -> Option<Packet<'b>> {
        /// Smallest record: an empty name, a type, a class, a time to live, and a length.
        const MIN_RECORD: usize = 11;
        let count =
            |of: fn(&[u8]) -> Result<u16, simple_dns::SimpleDnsError>| of(bytes).map(usize::from).ok();
        let records = count(header_buffer::answers)?
            + count(header_buffer::name_servers)?
            + count(header_buffer::additional_records)?;
        if !self.is_answer(bytes)
            || count(header_buffer::questions)? != 1
            || records > bytes.len() / MIN_RECORD
        {
            return None;
        }
        let packet = Packet::parse(bytes).ok()?;
        let [question] = packet.questions.as_slice() else { return None };
        (question.qname == self.name && question.qtype == self.kind.into()).then_some(packet)
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Fills a buffer from a stream before the deadline, however slowly the peer sends.
fn receive(stream: &mut TcpStream, buffer: &mut [u8], until: Instant) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut buffer[filled..]).map_err(named)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => filled += len,
        }
    }
    Ok(())
}

/// Renames the error of a socket timeout, which is `WouldBlock`.
fn named(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

#[cfg(test)]
mod tests;
