//! Conversion of socket addresses for the libraries.

use libc::{sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

pub(crate) struct RawAddress(sockaddr_storage);

impl RawAddress {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        // SAFETY: all its bytes may be zero.
        let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
        match addr {
            SocketAddr::V4(addr) => {
                let raw = sockaddr_in {
                    sin_family: libc::AF_INET as sa_family_t,
                    sin_port: addr.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(addr.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage has the size and the alignment of every kind of address.
                unsafe { ptr::from_mut(&mut storage).cast::<sockaddr_in>().write(raw) };
            }
            SocketAddr::V6(addr) => {
                let raw = sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as sa_family_t,
                    sin6_port: addr.port().to_be(),
                    sin6_flowinfo: addr.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: addr.ip().octets() },
                    sin6_scope_id: addr.scope_id(),
                };
                // SAFETY: as above.
                unsafe { ptr::from_mut(&mut storage).cast::<sockaddr_in6>().write(raw) };
            }
        }
        Self(storage)
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut sockaddr {
        ptr::from_mut(&mut self.0).cast()
    }
}

/// Converts a C socket address; `0.0.0.0:0` if its family is not IP.
pub(crate) fn from_raw(storage: &sockaddr_storage) -> SocketAddr {
    let storage = ptr::from_ref(storage);
    // SAFETY: the storage has the size and the alignment of every kind of address, and all of them are plain numbers.
    let v4 = unsafe { *storage.cast::<sockaddr_in>() };
    match i32::from(v4.sin_family) {
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { *storage.cast::<sockaddr_in6>() };
            let ip = v6.sin6_addr.s6_addr.into();
            let port = u16::from_be(v6.sin6_port);
            SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into()
        }
        libc::AF_INET => {
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into()
        }
        _ => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_same_after_c_had_them() {
        for addr in ["10.2.3.4:20049", "[fe80::1%3]:77", "[2001:db8::7]:1"] {
            let addr: SocketAddr = addr.parse().unwrap();
            assert_eq!(from_raw(&RawAddress::new(addr).0), addr);
        }
    }
}
