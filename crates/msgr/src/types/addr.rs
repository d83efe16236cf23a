//! Addresses of Ceph processes.
//!
//! Source: ceph `src/msg/msg_types.{h,cc}`. Written in the form that every release since Nautilus reads (feature
//! `MSG_ADDR2`); the older form is read as well. In `ceph.conf`: ceph `doc/rados/configuration/msgr2.rst`, "Address
//! formats".

use super::encoding::{Decode, Encode, envelope, write_envelope};
use super::entity::ParseError;
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::str::FromStr;

/// Monitor port for version 2 of the messenger protocol.
pub const MON_PORT_MSGR2: u16 = 3300;
/// Monitor port for version 1 of the messenger protocol.
pub const MON_PORT_LEGACY: u16 = 6789;

/// Linux address families, as used on the wire.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// Sizes of `sockaddr_in` and `sockaddr_in6`. A blank address has the size of the larger one.
const SOCKADDR_IN: usize = 16;
const SOCKADDR_IN6: usize = 28;
/// Size of `sockaddr_storage`, which the old form carries in full.
const SOCKADDR_STORAGE: usize = 128;
pub(crate) const LEGACY_LEN: usize = 8 + SOCKADDR_STORAGE;

/// Protocol of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AddrKind {
    /// Blank address.
    #[default]
    None,
    /// Version 1 of the messenger protocol.
    Legacy,
    /// Version 2 of the messenger protocol.
    Msgr2,
    /// Either version.
    Any,
    /// Network in a blocklist; the nonce is its prefix length.
    Cidr,
}

impl AddrKind {
    fn from_wire(value: u32) -> Decoded<Self> {
        Ok(match value {
            0 => Self::None,
            1 => Self::Legacy,
            2 => Self::Msgr2,
            3 => Self::Any,
            4 => Self::Cidr,
            _ => return Err(DecodeError::Invalid { what: "address kind", value: value.into() }),
        })
    }
}

/// Address of a process (`entity_addr_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EntityAddr {
    /// Protocol.
    pub kind: AddrKind,
    /// Distinguishes successive processes with the same port.
    pub nonce: u32,
    /// IP address and port, unless blank.
    pub sock: Option<SocketAddr>,
}

impl EntityAddr {
    /// Creates an address for version 2 of the messenger protocol.
    pub fn msgr2(sock: SocketAddr, nonce: u32) -> Self {
        Self { kind: AddrKind::Msgr2, nonce, sock: Some(sock) }
    }

    /// Creates an address for version 1 of the messenger protocol.
    pub fn legacy(sock: SocketAddr, nonce: u32) -> Self {
        Self { kind: AddrKind::Legacy, nonce, sock: Some(sock) }
    }

    /// Returns whether the address has no IP address and port.
    pub fn is_blank(&self) -> bool {
        self.sock.is_none()
    }

    /// Reads the rest of the old form, whose first byte was read as marker 0.
    fn decode_legacy(r: &mut Reader<'_>) -> Decoded<Self> {
        r.take(3, "old address")?;
        let nonce = r.u32("old address nonce")?;
        let mut r = r.sub(SOCKADDR_STORAGE, "old address")?;
        // The family is in network byte order only here.
        let family = u16::from_be_bytes(r.array("old address family")?);
        let sock = decode_sockaddr(family, &mut r)?;
        let kind = if sock.is_some() { AddrKind::Legacy } else { AddrKind::None };
        Ok(Self { kind, nonce, sock })
    }

    /// Reads an address known to be in the old form.
    pub(crate) fn decode_old(r: &mut Reader<'_>) -> Decoded<Self> {
        // Old kernels use the marker byte for something else.
        r.u8("old address")?;
        Self::decode_legacy(r)
    }

    /// Writes the old form, which has no kind.
    pub(crate) fn encode_old(&self, w: &mut Writer) {
        w.u32(0);
        w.u32(self.nonce);
        let start = w.len();
        match self.sock {
            None => {}
            Some(SocketAddr::V4(v4)) => {
                w.put(&AF_INET.to_be_bytes());
                w.put(&v4.port().to_be_bytes());
                w.put(&v4.ip().octets());
            }
            Some(SocketAddr::V6(v6)) => {
                w.put(&AF_INET6.to_be_bytes());
                w.put(&v6.port().to_be_bytes());
                w.u32(v6.flowinfo());
                w.put(&v6.ip().octets());
                w.u32(v6.scope_id());
            }
        }
        let written = w.len() - start;
        w.put(&[0; SOCKADDR_STORAGE][written..]);
    }

    /// Reads the rest of the new form after its marker 1.
    fn decode_addr2(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 1, "address", |_, r| {
            let kind = AddrKind::from_wire(r.u32("address kind")?)?;
            let nonce = r.u32("address nonce")?;
            let len = r.u32("address length")? as usize;
            let mut r = r.sub(len, "address")?;
            let sock = match len {
                0 => None,
                _ => {
                    let family = r.u16("address family")?;
                    decode_sockaddr(family, &mut r)?
                }
            };
            Ok(Self { kind, nonce, sock })
        })
    }
}

impl Ord for EntityAddr {
    /// Compares the in-memory bytes of Ceph's structure, which is the order of addresses in maps (msg_types.h,
    /// operator<).
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |addr: &Self| {
            let mut w = Writer::new();
            w.u32(addr.kind as u32);
            w.u32(addr.nonce);
            encode_sockaddr(addr.sock.as_ref(), &mut w);
            // The length prefix of the socket address is not part of the structure.
            w.as_mut_slice()[8..12].fill(0);
            w.into_vec()
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for EntityAddr {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn decode_sockaddr(family: u16, r: &mut Reader<'_>) -> Decoded<Option<SocketAddr>> {
    const WHAT: &str = "socket address";
    match family {
        0 => Ok(None),
        AF_INET => {
            let port = u16::from_be_bytes(r.array(WHAT)?);
            let ip = Ipv4Addr::from(r.array::<4>(WHAT)?);
            Ok(Some(SocketAddrV4::new(ip, port).into()))
        }
        AF_INET6 => {
            let port = u16::from_be_bytes(r.array(WHAT)?);
            let flow = r.u32(WHAT)?;
            let ip = Ipv6Addr::from(r.array::<16>(WHAT)?);
            Ok(Some(SocketAddrV6::new(ip, port, flow, r.u32(WHAT)?).into()))
        }
        _ => Err(DecodeError::Invalid { what: "address family", value: family.into() }),
    }
}

fn encode_sockaddr(sock: Option<&SocketAddr>, w: &mut Writer) {
    match sock {
        None => w.blob(&[0; SOCKADDR_IN6]),
        Some(SocketAddr::V4(v4)) => {
            w.count(SOCKADDR_IN);
            w.u16(AF_INET);
            w.put(&v4.port().to_be_bytes());
            w.put(&v4.ip().octets());
            w.put(&[0; 8]);
        }
        Some(SocketAddr::V6(v6)) => {
            w.count(SOCKADDR_IN6);
            w.u16(AF_INET6);
            w.put(&v6.port().to_be_bytes());
            w.u32(v6.flowinfo());
            w.put(&v6.ip().octets());
            w.u32(v6.scope_id());
        }
    }
}

impl Decode for EntityAddr {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        match r.u8("address marker")? {
            0 => Self::decode_legacy(r),
            1 => Self::decode_addr2(r),
            marker => Err(DecodeError::Invalid { what: "address marker", value: marker.into() }),
        }
    }
}

impl Encode for EntityAddr {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        write_envelope(w, 1, 1, |w| {
            w.u32(self.kind as u32);
            w.u32(self.nonce);
            encode_sockaddr(self.sock.as_ref(), w);
        });
    }
}

impl fmt::Display for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            AddrKind::None => return f.write_str("-"),
            AddrKind::Legacy => f.write_str("v1:")?,
            AddrKind::Msgr2 => f.write_str("v2:")?,
            AddrKind::Any => {}
            AddrKind::Cidr => f.write_str("cidr:")?,
        }
        match self.sock {
            Some(sock) => write!(f, "{sock}/{}", self.nonce),
            None => write!(f, ":/{}", self.nonce),
        }
    }
}

impl FromStr for EntityAddr {
    type Err = ParseError;

    /// Parses `[v1:|v2:|any:]IP[:PORT][/NONCE]` or `-`. An IPv6 address with a port is in brackets.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new(text, "an address like v2:192.0.2.1:3300/0");
        if text == "-" {
            return Ok(Self::default());
        }
        let prefixes = [("v1:", AddrKind::Legacy), ("v2:", AddrKind::Msgr2), ("any:", AddrKind::Any)];
        let (kind, rest) = prefixes
            .iter()
            .find_map(|(prefix, kind)| Some((*kind, text.strip_prefix(prefix)?)))
            .unwrap_or((AddrKind::Any, text));
        let (sock, nonce) = match rest.split_once('/') {
            Some((sock, nonce)) => (sock, nonce.parse().map_err(|_| error())?),
            None => (rest, 0),
        };
        let bare = sock.strip_prefix('[').and_then(|s| s.strip_suffix(']')).unwrap_or(sock);
        let sock = sock
            .parse::<SocketAddr>()
            .or_else(|_| bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0)))
            .map_err(|_| error())?;
        Ok(Self { kind, nonce, sock: Some(sock) })
    }
}

/// Protocol versions that a client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Versions {
    /// The one that a daemon lists first (AsyncMessenger.cc, `create_connect`).
    #[default]
    Any,
    /// Only version 1.
    One,
    /// Only version 2.
    Two,
}

/// Addresses of one process, one per protocol (`entity_addrvec_t`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddrVec(
    /// The addresses in order of preference.
    pub Vec<EntityAddr>,
);

impl AddrVec {
    /// Returns the address for version 2 of the messenger protocol.
    pub fn msgr2(&self) -> Option<&EntityAddr> {
        self.0.iter().find(|addr| addr.kind == AddrKind::Msgr2)
    }

    /// Returns the address for version 1 of the messenger protocol.
    pub fn legacy(&self) -> Option<&EntityAddr> {
        self.0.iter().find(|addr| addr.kind == AddrKind::Legacy)
    }

    /// Returns the address for a client that speaks these versions.
    pub fn reached_by(&self, versions: Versions) -> Option<&EntityAddr> {
        let usable = |addr: &&EntityAddr| addr.sock.is_some_and(|sock| sock.port() != 0);
        self.0.iter().filter(usable).find(|addr| match versions {
            Versions::Any => matches!(addr.kind, AddrKind::Msgr2 | AddrKind::Legacy),
            Versions::One => addr.kind == AddrKind::Legacy,
            Versions::Two => addr.kind == AddrKind::Msgr2,
        })
    }

    /// Expands a monitor address that may lack the protocol or the port: to both protocols at their default ports, to
    /// the protocol whose default port it has, or to both protocols at the given port (MonMap.cc,
    /// MonMap::_add_ambiguous_addr).
    fn of_monitor(addr: EntityAddr) -> Self {
        let Some(sock) = addr.sock else { return Self(vec![addr]) };
        let at = |kind, port| EntityAddr { kind, sock: Some(with_port(sock, port)), ..addr };
        Self(match (addr.kind, sock.port()) {
            (AddrKind::Msgr2, 0) | (AddrKind::Any, MON_PORT_MSGR2) => {
                vec![at(AddrKind::Msgr2, MON_PORT_MSGR2)]
            }
            (AddrKind::Legacy, 0) | (AddrKind::Any, MON_PORT_LEGACY) => {
                vec![at(AddrKind::Legacy, MON_PORT_LEGACY)]
            }
            (AddrKind::Any, 0) => {
                vec![at(AddrKind::Msgr2, MON_PORT_MSGR2), at(AddrKind::Legacy, MON_PORT_LEGACY)]
            }
            (AddrKind::Any, port) => vec![at(AddrKind::Msgr2, port), at(AddrKind::Legacy, port)],
            _ => vec![addr],
        })
    }
}

/// Monitor in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonHost {
    /// Addresses.
    pub addrs: AddrVec,
    /// Address for version 1 if version 2 fails; only if the configuration names no protocol.
    pub fallback: Option<EntityAddr>,
}

impl MonHost {
    /// Parses the value of `mon_host`: monitors separated by commas, semicolons or white space. Each is an address, a
    /// bracketed list of addresses, or a name, `HOST` or `HOST:PORT`. `resolve` returns the addresses of a name, each
    /// of which is a monitor.
    pub fn parse_list(text: &str, resolve: impl Fn(&str) -> Vec<IpAddr>) -> Result<Vec<Self>, ParseError> {
        let mut monitors = Vec::new();
        for part in split_outside_brackets(text) {
            let error = match part.parse() {
                Ok(monitor) => {
                    monitors.push(monitor);
                    continue;
                }
                Err(error) => error,
            };
            let (host, port) = part.split_once(':').map_or((part, None), |(host, port)| (host, Some(port)));
            let is_name = host.contains(|c: char| c.is_ascii_alphabetic())
                && host.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_".contains(&c));
            let addresses =
                if is_name && !["v1", "v2", "any"].contains(&host) { resolve(host) } else { Vec::new() };
            if addresses.is_empty() {
                return Err(error);
            }
            for address in addresses {
                let address = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
                monitors.push(port.map_or(address.clone(), |port| format!("{address}:{port}")).parse()?);
            }
        }
        Ok(monitors)
    }
}

impl FromStr for MonHost {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut addrs: AddrVec = text.parse()?;
        let is_guess = text.parse::<EntityAddr>().is_ok_and(|addr| addr.kind == AddrKind::Any);
        let fallback = if is_guess && addrs.0.len() > 1 { addrs.0.pop() } else { None };
        Ok(Self { addrs, fallback })
    }
}

fn with_port(mut sock: SocketAddr, port: u16) -> SocketAddr {
    sock.set_port(port);
    sock
}

fn split_outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (matches!(c, ',' | ';') || c.is_whitespace())
    })
    .filter(|part| !part.is_empty())
}

impl Decode for AddrVec {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        match r.u8("addresses marker")? {
            0 => Ok(Self(vec![EntityAddr::decode_legacy(r)?])),
            1 => Ok(Self(vec![EntityAddr::decode_addr2(r)?])),
            2 => Vec::decode(r).map(Self),
            marker => Err(DecodeError::Invalid { what: "addresses marker", value: marker.into() }),
        }
    }
}

impl Encode for AddrVec {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        self.0.encode(w);
    }
}

impl fmt::Display for AddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [addr] = self.0.as_slice() {
            return addr.fmt(f);
        }
        f.write_str("[")?;
        for (i, addr) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{addr}")?;
        }
        f.write_str("]")
    }
}

impl FromStr for AddrVec {
    type Err = ParseError;

    /// Parses the addresses of one monitor: `[v2:IP:PORT/NONCE,v1:IP:PORT/NONCE]`, or one address with optional
    /// protocol and port.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        // An IPv6 address may be in brackets too; a list contains a protocol or a comma.
        let list = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(list) = list.filter(|list| list.contains(',') || list.starts_with('v') || list.is_empty())
        {
            let mut addrs = Vec::new();
            for part in split_outside_brackets(list) {
                addrs.extend(Self::of_monitor(part.parse()?).0);
            }
            return Ok(Self(addrs));
        }
        Ok(Self::of_monitor(text.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        text.parse::<AddrVec>().unwrap().to_string()
    }

    #[test]
    fn addresses_survive_the_wire() {
        let texts = ["v2:127.0.0.1:3300/0", "v1:[2001:db8::1]:6789/77", "any:10.0.0.1:0/5", "-"];
        for text in texts {
            let addr: EntityAddr = text.parse().unwrap();
            assert_eq!(EntityAddr::from_bytes(&addr.to_bytes()), Ok(addr));
            assert_eq!(AddrVec::from_bytes(&addr.to_bytes()), Ok(AddrVec(vec![addr])));
        }
        let both: AddrVec = "[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]".parse().unwrap();
        assert_eq!(AddrVec::from_bytes(&both.to_bytes()), Ok(both.clone()));
        assert_eq!(both.msgr2().unwrap().to_string(), "v2:127.0.0.1:3300/0");
        assert_eq!(both.legacy().unwrap().to_string(), "v1:127.0.0.1:6789/0");
    }

    #[test]
    fn the_old_form_is_read() {
        let mut bytes = vec![0, 0, 0, 0, 9, 0, 0, 0, 0, 2, 0x1a, 0x85, 192, 0, 2, 1];
        bytes.resize(8 + SOCKADDR_STORAGE, 0);
        let addr = EntityAddr::from_bytes(&bytes).unwrap();
        assert_eq!(addr.to_string(), "v1:192.0.2.1:6789/9");
        assert_eq!(AddrVec::from_bytes(&bytes), Ok(AddrVec(vec![addr])));
        let blank = EntityAddr::from_bytes(&[0; 8 + SOCKADDR_STORAGE]).unwrap();
        assert_eq!(blank, EntityAddr::default());
    }

    #[test]
    fn the_old_form_is_written_as_it_is_read() {
        for text in ["v1:192.0.2.1:6789/9", "v1:[2001:db8::1%7]:6789/77", "-"] {
            let addr: EntityAddr = text.parse().unwrap();
            let mut w = Writer::new();
            addr.encode_old(&mut w);
            assert_eq!(w.len(), LEGACY_LEN);
            assert_eq!(EntityAddr::decode_old(&mut Reader::new(w.as_slice())), Ok(addr));
        }
    }

    #[test]
    fn an_unknown_marker_kind_or_family_is_refused() {
        assert!(EntityAddr::from_bytes(&[3]).is_err());
        assert!(AddrVec::from_bytes(&[3]).is_err());
        let good = "v2:127.0.0.1:3300/0".parse::<EntityAddr>().unwrap().to_bytes();
        for (at, value) in [(7, 9), (19, 1)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(matches!(EntityAddr::from_bytes(&bad), Err(DecodeError::Invalid { .. })), "byte {at}");
        }
    }

    #[test]
    fn a_monitor_of_unknown_protocol_or_port_gets_the_defaults() {
        assert_eq!(printed("10.0.0.1"), "[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]");
        assert_eq!(printed("[::1]"), "[v2:[::1]:3300/0,v1:[::1]:6789/0]");
        assert_eq!(printed("10.0.0.1:6789"), "v1:10.0.0.1:6789/0");
        assert_eq!(printed("[::1]:3300"), "v2:[::1]:3300/0");
        assert_eq!(printed("v2:10.0.0.1"), "v2:10.0.0.1:3300/0");
        assert_eq!(printed("10.0.0.1:40000"), "[v2:10.0.0.1:40000/0,v1:10.0.0.1:40000/0]");
        assert_eq!(printed("[v2:10.0.0.1:40000/3]"), "v2:10.0.0.1:40000/3");
        assert!("mon-a".parse::<AddrVec>().is_err());
    }

    #[test]
    fn a_client_uses_the_version_listed_first_or_its_own() {
        let reached = |text: &str, versions| {
            let addrs: AddrVec = text.parse().unwrap();
            addrs.reached_by(versions).map_or("none".to_owned(), ToString::to_string)
        };
        let both = "[v1:10.0.0.1:6789/0,v2:10.0.0.1:3300/0]";
        assert_eq!(reached(both, Versions::Any), "v1:10.0.0.1:6789/0");
        assert_eq!(reached(both, Versions::One), "v1:10.0.0.1:6789/0");
        assert_eq!(reached(both, Versions::Two), "v2:10.0.0.1:3300/0");
        assert_eq!(reached("v2:10.0.0.1:3300/0", Versions::One), "none");
        let client: EntityAddr = "any:10.0.0.1:0/5".parse().unwrap();
        assert_eq!(AddrVec(vec![client]).reached_by(Versions::Any), None);
    }

    #[test]
    fn mon_host_names_several_monitors() {
        let text = "[v2:10.0.0.1:3300,v1:10.0.0.1:6789], 10.0.0.2:3300;[v2:[::3]:3300/0] [::4]:6789";
        let parse = |text| MonHost::parse_list(text, |_| Vec::new());
        let monitors: Vec<String> = parse(text).unwrap().iter().map(|one| one.addrs.to_string()).collect();
        assert_eq!(
            monitors,
            [
                "[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]",
                "v2:10.0.0.2:3300/0",
                "v2:[::3]:3300/0",
                "v1:[::4]:6789/0"
            ]
        );
        assert!(parse(text).unwrap().iter().all(|one| one.fallback.is_none()));
        assert_eq!(parse(""), Ok(vec![]));
        assert!(parse("10.0.0.1,,what").is_err());
    }

    #[test]
    fn a_monitor_of_unknown_protocol_has_a_fallback() {
        for (text, first, fallback) in [
            ("10.0.0.1", "v2:10.0.0.1:3300/0", "v1:10.0.0.1:6789/0"),
            ("[::1]", "v2:[::1]:3300/0", "v1:[::1]:6789/0"),
            ("10.0.0.1:7000", "v2:10.0.0.1:7000/0", "v1:10.0.0.1:7000/0"),
        ] {
            let host: MonHost = text.parse().unwrap();
            let fallback_of = host.fallback.map(|addr| addr.to_string());
            assert_eq!((host.addrs.to_string().as_str(), fallback_of.as_deref()), (first, Some(fallback)));
        }
    }
}
