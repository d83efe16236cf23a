//! A socket of generic netlink.

use super::message::{self, Attributes, Said};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The family that knows all others, its command and its attributes (linux `include/uapi/linux/genetlink.h`).
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const CONTROL_VERSION: u8 = 1;

/// More than the kernel says at a time: the longest is what it says of a family, some hundred bytes.
const MESSAGES_MAX: usize = 64 << 10;

/// How long the kernel may take for a command. To end a device takes it as long as what is in flight.
const PATIENCE: Duration = Duration::from_secs(120);

/// A socket by which one family is asked.
pub(super) struct Netlink {
    socket: OwnedFd,
    family: u16,
    /// Of the last request.
    number: u32,
}

impl Netlink {
    /// Opens a socket, and finds the family. An error of the kind `NotFound`: there is none of that name.
    pub(super) fn open(family: &str) -> io::Result<Self> {
        let protocol = Some(netlink::GENERIC);
        let socket =
            net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let mut netlink = Self { socket, family: CONTROL, number: 0 };
        let query = Attributes::default().text(FAMILY_NAME, family);
        let id = netlink.ask(GET_FAMILY, CONTROL_VERSION, &query, FAMILY_ID)?;
        let id = id.and_then(|id| message::u16_at(&id, 0));
        netlink.family =
            id.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a family has no number"))?;
        Ok(netlink)
    }

    /// Sends a command, waits for its outcome, and gives the attribute of type `wanted` of what the kernel said before.
    pub(super) fn ask(
        &mut self,
        command: u8,
        version: u8,
        attributes: &Attributes,
        wanted: u16,
    ) -> io::Result<Option<Vec<u8>>> {
        self.number += 1;
        let request = message::request(self.family, command, version, self.number, attributes);
        net::sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut buffer = vec![0; MESSAGES_MAX];
        let mut found = None;
        loop {
            let (_, length) = net::recv(&self.socket, &mut buffer[..], RecvFlags::TRUNC)?;
            let mut bytes =
                buffer.get(..length).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
            while let Some((said, rest)) = message::next(bytes) {
                bytes = rest;
                match said {
                    Said::Data { number, attributes } if number == self.number => {
                        found = found.or_else(|| message::attribute(attributes, wanted).map(<[u8]>::to_vec));
                    }
                    Said::Outcome { number, error } if number == self.number => {
                        return error.map_or(Ok(found), |code| Err(io::Error::from_raw_os_error(code)));
                    }
                    // The answer to one that was given up.
                    Said::Data { .. } | Said::Outcome { .. } => {}
                }
            }
        }
    }
}
