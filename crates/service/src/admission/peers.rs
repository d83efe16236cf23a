//! What the connections of one address hold together.

use rustc_hash::FxHashMap;
use std::net::{IpAddr, Ipv6Addr};

/// Names the peer that a connection belongs to: its place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerId(u32);

/// What the connections of one address hold.
#[derive(Debug, Default)]
pub(super) struct Peer {
    address: Option<IpAddr>,
    pub(super) connections: usize,
    /// Bytes of unfinished messages without a slot.
    pub(super) unfinished: usize,
    /// Bytes of replies.
    pub(super) replies: usize,
}

/// All peers that have a connection.
#[derive(Debug, Default)]
pub(super) struct Peers {
    table: Vec<Peer>,
    free: Vec<PeerId>,
    by_address: FxHashMap<IpAddr, PeerId>,
}

/// Returns what counts as one address: an IPv4 address, or the /64 of an IPv6 address, in which a host has as many as it
/// likes.
pub fn address(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V6(host) => IpAddr::V6(Ipv6Addr::from_bits(host.to_bits() >> 64 << 64)),
        host => host,
    }
}

impl Peers {
    /// A connection from this host is opened. This is the only lookup by address in the life of a connection.
    pub(super) fn open(&mut self, host: IpAddr) -> PeerId {
        let address = address(host);
        let id = *self.by_address.entry(address).or_insert_with(|| {
            let peer = Peer { address: Some(address), ..Peer::default() };
            match self.free.pop() {
                Some(id) => {
                    self.table[id.0 as usize] = peer;
                    id
                }
                None => {
                    self.table.push(peer);
                    PeerId(u32::try_from(self.table.len() - 1).expect("connections are far fewer than 2^32"))
                }
            }
        });
        self.of_mut(id).connections += 1;
        id
    }

    /// A connection is gone.
    pub(super) fn close(&mut self, id: PeerId) {
        let peer = &mut self.table[id.0 as usize];
        peer.connections -= 1;
        if peer.connections == 0
            && let Some(address) = peer.address.take()
        {
            self.by_address.remove(&address);
            self.free.push(id);
        }
    }

    pub(super) fn of(&self, id: PeerId) -> &Peer {
        &self.table[id.0 as usize]
    }

    pub(super) fn of_mut(&mut self, id: PeerId) -> &mut Peer {
        &mut self.table[id.0 as usize]
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    /// The peer that a host is, if it has connections.
    pub(super) fn find(&self, host: IpAddr) -> Option<PeerId> {
        self.by_address.get(&address(host)).copied()
    }

    /// Connections that a host has.
    pub(super) fn connections_of(&self, host: IpAddr) -> usize {
        self.find(host).map_or(0, |id| self.of(id).connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_a_network_of_ipv6_are_one_peer() {
        let mut peers = Peers::default();
        let mut open = |host: &str| peers.open(host.parse().unwrap());
        let first = open("2001:db8::1");
        assert_eq!(first, open("2001:db8::ffff:0:1"));
        assert_ne!(first, open("2001:db8:0:1::1"));
        let four = open("10.0.0.1");
        assert_ne!(four, open("10.0.0.2"));
        assert_eq!(four, open("::ffff:10.0.0.1"));
        assert_eq!((peers.len(), peers.of(first).connections), (4, 2));
        peers.close(first);
        peers.close(first);
        assert_eq!((peers.len(), peers.connections_of("2001:db8::1".parse().unwrap())), (3, 0));
        assert_eq!(peers.open("10.0.0.3".parse().unwrap()), first, "the place is used again");
    }
}
