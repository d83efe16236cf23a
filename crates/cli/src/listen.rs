//! Where servers listen: an address, with a port or without.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// `--listen`: an address, and a port if one was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) ip: IpAddr,
    pub(crate) port: Option<u16>,
}

impl Listen {
    /// The address with the port that was said, or else this one; 0 is any free one.
    pub(crate) fn with_default_port(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(port))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let with_port =
            text.parse::<SocketAddr>().map(|addr| Self { ip: addr.ip(), port: Some(addr.port()) });
        let alone = || text.parse::<IpAddr>().map(|ip| Self { ip, port: None });
        with_port
            .or_else(|_| alone())
            .map_err(|_| format!("{text:?} is no IP address, with a port or without"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_a_port() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:7"),
            ("10.0.0.5:3300", "10.0.0.5:3300"),
            ("::1", "[::1]:7"),
            ("[::1]:0", "[::1]:0"),
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().with_default_port(7).to_string(), address);
        }
        assert!("not-an-address".parse::<Listen>().unwrap_err().contains("\"not-an-address\""));
    }
}
