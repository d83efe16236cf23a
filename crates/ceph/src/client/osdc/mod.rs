//! The object client: requests to objects, wherever they are now.
//!
//! A request is aimed at an OSD by the map ([`target`]), sent over the one connection to that OSD ([`session`]), and
//! sent again whenever the map or the connection makes the last attempt void, until its reply comes. Requests to one
//! object go to one OSD over one connection in the order of their ids, which is that of their submission; whatever is
//! sent again is sent in that order too.
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
pub(super) use objects::Objects;
pub(super) use receive::Places;
