//! Provider of remote direct memory access over rdma-core (libibverbs and librdmacm), for the system's devices.
//!
//! [`Verbs`] opens and accepts connections over every device with a Linux driver: hardware, and the software drivers
//! siw (iWARP) and rxe (RoCE). Users access it through the traits of `onego-rdma`.
//!
//! - **Libraries** are loaded on first use, so that a program with this crate builds and runs on a machine without
//!   them.
//! - **Memory** crosses the interface by ownership, as with every provider. Memory for work is registered with the
//!   device: blocks of a registrable pool once per slab, other memory for each piece of work. Memory for the peer is
//!   registered each time, by itself, and in a protection domain of this connection only.
//! - **Limits**: the queues are as long as the device allows, and the completion queue has room for all posted work.
//! - **Shutdown**: all memory comes back once the work queues are destroyed, which is when the device has released it.
//!
//! A peer cannot invalidate user-space registrations: users of this provider should not offer that.

mod address;
mod config;
mod device;
mod endpoint;
mod ffi;
mod library;
mod memory;
mod objects;
mod queue_pair;
mod work;

pub use config::{Config, PRIVATE_DATA_MAX};

use endpoint::{Connection, short};
use library::Library;
use objects::{Events, Id};
use onego_rdma::{Asked, Endpoint, Listener, Provider};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Maximum number of clients waiting to be accepted.
const BACKLOG: libc::c_int = 128;

/// The system's RDMA devices. The system selects the device that leads to an address.
#[derive(Debug, Clone)]
pub struct Verbs {
    rdma_core: &'static Library,
    config: Config,
}

impl Verbs {
    /// Loads the libraries. Fails with the name of the missing one.
    pub fn open(config: Config) -> io::Result<Self> {
        Ok(Self { rdma_core: Library::get()?, config })
    }
}

impl Provider for Verbs {
    fn connect(&self, server: SocketAddr, private_data: &[u8]) -> io::Result<Box<dyn Endpoint>> {
        short(private_data).map_err(io::Error::other)?;
        let events = open_events(self.rdma_core)?;
        let connection = Connection::connect(&events, self.config, server, private_data)?;
        Ok(Box::new(connection))
    }

    fn listen(&self, addr: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let events = open_events(self.rdma_core)?;
        let id = Id::new(&events)?;
        id.listen(addr, BACKLOG)?;
        Ok(Box::new(Listening { id, config: self.config }))
    }
}

/// Opens an event channel, the first call that fails on a machine without RDMA.
fn open_events(rdma_core: &'static Library) -> io::Result<Arc<Events>> {
    Events::open(rdma_core).map_err(|error| {
        let text = format!(
            "RDMA is unavailable: {error} (is the kernel's module rdma_ucm loaded, and is there a device?)"
        );
        io::Error::new(error.kind(), text)
    })
}

#[derive(Debug)]
struct Listening {
    id: Arc<Id>,
    config: Config,
}

impl Listener for Listening {
    fn local_addr(&self) -> SocketAddr {
        self.id.local_addr()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.id.events().descriptor()
    }

    fn accept(&mut self) -> Option<io::Result<Asked>> {
        loop {
            let mut event = match self.id.events().next() {
                Ok(event) => event?,
                Err(error) => return Some(Err(error)),
            };
            match Id::of_client(self.id.events(), &mut event) {
                Ok(Some(id)) => return Some(self.asked(id, event)),
                // Another event than a client, such as the removal of a device.
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Listening {
    fn asked(&self, id: Arc<Id>, event: objects::Event) -> io::Result<Asked> {
        let client = id.peer_addr();
        let endpoint = Connection::serve(id, self.config, &event)?;
        Ok(Asked { endpoint: Box::new(endpoint), client, private_data: event.private_data })
    }
}

/// Returns a C program that compiles if the libraries' headers match this crate's declarations; for a test.
#[doc(hidden)]
pub fn layout_in_c() -> String {
    let mut text = String::from("#include <stddef.h>\n#include <rdma/rdma_cma.h>\n");
    for (name, size, fields) in ffi::LAYOUT {
        if let Some(size) = size {
            text += &format!("_Static_assert(sizeof(struct {name}) == {size}, \"size of {name}\");\n");
        }
        for (field, offset) in *fields {
            text += &format!(
                "_Static_assert(offsetof(struct {name}, {field}) == {offset}, \"place of {field} in {name}\");\n"
            );
        }
    }
    for (name, value) in ffi::CONSTANTS {
        text += &format!("_Static_assert({name} == {value}, \"value of {name}\");\n");
    }
    text
}
