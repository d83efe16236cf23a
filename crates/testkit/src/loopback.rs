//! Addresses for servers that tests start as programs of their own.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Addresses that one process can have. All process numbers of Linux (22 bits) times four fill the loopback network;
/// one of the four is left out, so that the last is not the network's broadcast address.
const MAX_ADDRESSES: u32 = 3;

/// An address of the loopback network, 127.0.0.0/8, that no other test has.
///
/// A port that was free on 127.0.0.1 a moment ago may be taken: by any listener that asks for a free port. Servers that get
/// their port as an argument, or come back to the port that they had, listen on an address of their own instead.
///
/// # Panics
///
/// Where one process asks for a fourth address.
pub fn own_address() -> Ipv4Addr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let number = GIVEN.fetch_add(1, Ordering::Relaxed);
    assert!(number < MAX_ADDRESSES, "a process has {MAX_ADDRESSES} loopback addresses of its own");
    let host = (std::process::id() << 2 | number) & 0x00ff_ffff;
    Ipv4Addr::from(Ipv4Addr::new(127, 0, 0, 0).to_bits() | host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn each_address_is_on_the_loopback_network_and_differs_from_those_before() {
        let (one, two) = (own_address(), own_address());
        assert!(one.is_loopback() && two.is_loopback() && one != two, "{one} {two}");
        // One port on both: neither stands in the other's way.
        let first = TcpListener::bind((one, 0)).unwrap();
        TcpListener::bind((two, first.local_addr().unwrap().port())).unwrap();
    }
}
