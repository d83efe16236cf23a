//! Destinations of the bytes: empty network namespaces, and their receivers.
//!
//! A namespace has a name only while it is set up, because `ip` needs one. Afterwards it lives as long as the thread
//! and the process in it: however they end, the kernel removes it with its devices.

use super::cell::Path;
use crate::Error;
use crate::peer::{Peer, Running};
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

/// Addresses of this end and the other, within the namespaces.
const HERE: Ipv4Addr = Ipv4Addr::new(10, 11, 12, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 11, 12, 2);

const RECEIVE: usize = 1 << 20;

/// Receives on one connection after the other at that address, whose port it prints: the other half of a measurement,
/// in a process of its own.
pub fn receive(addr: IpAddr) -> io::Result<()> {
    let listener = TcpListener::bind((addr, 0))?;
    println!("{}", listener.local_addr()?.port());
    io::stdout().flush()?;
    let mut buffer = vec![0; RECEIVE];
    loop {
        let (mut stream, _) = listener.accept()?;
        // The sender may end a connection in any way.
        while matches!(stream.read(&mut buffer), Ok(n) if n > 0) {}
    }
}

/// A destination. It belongs to the thread that created it, which stays in the namespace.
pub(super) struct Destination {
    to: SocketAddr,
    receiver: Option<Running>,
}

impl Destination {
    /// Creates the devices of a path, and moves this thread into their namespace.
    pub(super) fn enter(path: Path, receiver: &Peer) -> Result<Self, Error> {
        match path {
            Path::Sink => enter_sink(),
            Path::Loopback => Self::with_receiver(Ipv4Addr::LOCALHOST, receiver),
            Path::Veth => enter_veth(receiver),
        }
    }

    fn with_receiver(addr: Ipv4Addr, receiver: &Peer) -> Result<Self, Error> {
        let failed = || Error::io("starting the receiver");
        let mut process = receiver.start(&[addr.to_string()]).map_err(failed())?;
        let to = SocketAddr::from((addr, process.port().map_err(failed())?));
        Ok(Self { to, receiver: Some(process) })
    }

    pub(super) fn connect(&self) -> Result<OwnedFd, Error> {
        let kind = if self.receiver.is_some() { SocketType::STREAM } else { SocketType::DGRAM };
        let failed = || Error::io(format!("connecting to {}", self.to));
        let socket = socket(AddressFamily::INET, kind, None).map_err(io::Error::from).map_err(failed())?;
        connect(&socket, &self.to).map_err(io::Error::from).map_err(failed())?;
        if self.receiver.is_some() {
            onego_engine::without_pacing(&socket);
        }
        Ok(socket)
    }

    pub(super) fn receiver(&self) -> Option<u32> {
        self.receiver.as_ref().map(Running::pid)
    }
}

/// An ifb device frees every packet that is not redirected to it: an infinitely fast network card.
fn enter_sink() -> Result<Destination, Error> {
    let here = Namespace::new("sink")?;
    here.ip("link add sink type ifb")?;
    here.ip("link set sink mtu 65535 up")?;
    here.ip(&format!("address add {HERE}/24 dev sink"))?;
    here.enter()?;
    // Discarded there as well, but with a fixed, well-known port (discard).
    Ok(Destination { to: SocketAddr::from((THERE, 9)), receiver: None })
}

fn enter_veth(receiver: &Peer) -> Result<Destination, Error> {
    let (here, there) = (Namespace::new("here")?, Namespace::new("there")?);
    here.ip(&format!("link add veth type veth peer name veth netns {}", there.name))?;
    for (end, addr) in [(&here, HERE), (&there, THERE)] {
        end.ip(&format!("address add {addr}/24 dev veth"))?;
        end.ip("link set veth up")?;
    }
    there.enter()?;
    let place = Destination::with_receiver(THERE, receiver)?;
    here.enter()?;
    Ok(place)
}

/// A network namespace that still has a name.
struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    fn new(what: &str) -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            let needs = "the sink and veth are devices in network namespaces, which only root can create: run as root, or \
                         measure only --path loopback";
            return Err(Error::io(needs)(io::ErrorKind::PermissionDenied.into()));
        }
        let name = format!("onego-{}-{what}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let path = format!("/run/netns/{name}");
        match File::open(&path) {
            Ok(file) => Ok(Self { name, file }),
            Err(error) => {
                let _ = ip(&format!("netns delete {name}"));
                Err(Error::io(path)(error))
            }
        }
    }

    fn ip(&self, arguments: &str) -> Result<(), Error> {
        ip(&format!("-netns {} {arguments}", self.name))
    }

    fn enter(&self) -> Result<(), Error> {
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(io::Error::from)
            .map_err(Error::io("entering a network namespace"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&format!("netns delete {}", self.name)) {
            eprintln!("network namespace {} could not be deleted: {error}", self.name);
        }
    }
}

fn ip(arguments: &str) -> Result<(), Error> {
    let output = match Command::new("ip").args(arguments.split(' ')).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::io("program \"ip\" not found: install iproute2")(error));
        }
        output => output.map_err(Error::io("running ip"))?,
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::io(format!("ip {arguments}"))(io::Error::other(said)))
}
