//! The object client: it sends requests to objects, wherever they are placed at the time.
//!
//! The map determines the OSD of a request ([`target`]). It is sent over the one connection to that OSD ([`session`]), and
//! resent whenever the map or the connection invalidates the last attempt, until its reply arrives. Requests to one
//! object go to one OSD over one connection in the order of their ids, which is that of their submission; resends keep that
//! order.
//!
//! Source: ceph `src/osdc/Objecter.cc`, `doc/dev/rados-client-protocol.rst`; linux `net/ceph/osd_client.c`.

mod linger;
mod lingers;
mod list;
mod maps;
mod objects;
mod receive;
mod reply;
mod send;
mod session;
mod table;
mod target;
mod telling;
mod tells;
mod waiting;

pub use list::ALL_NAMESPACES;
pub(super) use objects::Objecter;
pub(super) use receive::Places;
