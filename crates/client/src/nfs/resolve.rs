//! Host name lookup that does not block the polling thread.

use super::core::NfsCommand;
use super::error::Error;
use super::requests::Requests;
use futures_channel::oneshot;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

/// Looks up the address of a host. The system's resolver may block for many seconds if no name server answers, so it
/// runs on a separate thread, which ends with the lookup even if the caller is gone.
pub(super) async fn resolve(requests: &Requests, host: &str) -> Result<IpAddr, Error> {
    if let Ok(addr) = host.parse() {
        return Ok(addr);
    }
    requests.send(NfsCommand::Resolving(Some(host.to_owned()))).await?;
    let (done, answer) = oneshot::channel();
    let name = host.to_owned();
    std::thread::Builder::new()
        .name("onego-resolve".into())
        .spawn(move || drop(done.send(look_up(&name))))
        .map_err(|source| Error::Io { what: "starting the resolver's thread", source })?;
    let resolved = answer.await.map_err(|_| Error::Closed)?;
    requests.send(NfsCommand::Resolving(None)).await?;
    resolved.map_err(|source| Error::Resolve { host: host.to_owned(), source })
}

fn look_up(host: &str) -> io::Result<IpAddr> {
    let first = (host, 0).to_socket_addrs()?.next();
    first.as_ref().map(SocketAddr::ip).ok_or_else(|| io::ErrorKind::NotFound.into())
}
