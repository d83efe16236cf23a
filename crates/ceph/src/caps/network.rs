//! Restriction of a grant to client addresses: ` network 10.0.0.0/8` after the grant.

use super::scan::Scanner;
use std::net::IpAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    Prefix {
        address: IpAddr,
        bits: u32,
    },
    /// An invalid network, which contains no address (`MonCapGrant::network_valid`).
    Nowhere,
}

impl Network {
    pub(super) fn read(scanner: &mut Scanner<'_>) -> Option<Self> {
        scanner.attempt(|scanner| {
            scanner.keyword("network")?;
            scanner.spaces()?;
            let text = scanner.run(|c| c.is_ascii_hexdigit() || "/.:[]".contains(c))?;
            Some(Self::parse(text).unwrap_or(Self::Nowhere))
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        let (address, bits) = (address.parse::<IpAddr>().ok()?, bits.parse::<u32>().ok()?);
        (bits <= width(address)).then_some(Self::Prefix { address, bits })
    }

    pub(super) fn contains(&self, who: IpAddr) -> bool {
        let Self::Prefix { address, bits } = *self else { return false };
        let differing = number(address) ^ number(who);
        width(address) == width(who) && differing.checked_shr(width(who) - bits).unwrap_or(0) == 0
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { u32::BITS } else { u128::BITS }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_addresses_with_its_prefix() {
        for (network, inside, outside) in [
            ("127.0.0.1/8", "127.9.9.9", "128.0.0.1"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.2"),
            ("[ff::1]/128", "ff::1", "ff::2"),
            ("2001:db8::/32", "2001:db8:1::9", "10.0.0.1"),
        ] {
            let parsed = Network::parse(network).unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{inside} in {network}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{outside} in {network}");
        }
        let all = Network::parse("0.0.0.0/0").unwrap();
        assert!(all.contains("9.9.9.9".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
        for wrong in ["10.0.0.0", "10.0.0.0/33", "::/129", "a/8", "/8"] {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }
}
