//! An OSD that keeps its objects in memory, without I/O: requests in, replies out, time as an argument.
//!
//! It takes itself for the primary of whatever it is asked: which OSD serves a placement group, and when, is decided
//! elsewhere. Every request is carried out at once, in the order in which it comes; what it changes can be had as a
//! transaction ([`Answer`]), which the other OSDs of the group follow (`replicas`).
//!
//! What a request passes through: [`Osd::request`] checks that it may be done here (`admit`), recognises one that was
//! done before (`duplicates`), finds the object (`store`), carries out the operations (`execute`, `class`) on its data
//! (`onego_buf::extents`) and metadata (`store::object`), notes the changes (`transaction`), and undoes them if one fails. Watches and notifications live beside the objects
//! (`watch`). The sources of `copy_from` may be on other OSDs: the owner of the OSDs collects them first (`copy`).
//!
//! What an object was at snapshots stands in its state (`store::clones`); the first change after a snapshot puts it there
//! (`snapshots`), and `trim` takes out what was removed.

mod admit;
mod class;
mod codec;
mod copy;
mod daemon;
mod duplicates;
mod errno;
mod events;
mod execute;
mod group;
mod recover;
mod replicas;
mod reply_size;
mod request;
mod rights;
mod session;
mod snapshots;
mod store;
mod transaction;
mod trim;
mod watch;

pub(crate) use admit::may_write;
pub(crate) use codec::{Body, Parts};
pub use copy::CopySources;
pub use daemon::{Config, Osd, Usage};
pub(crate) use group::Group;
pub(crate) use onego_buf::extents::COPY_MAX;
pub(crate) use replicas::Replicas;
pub(crate) use reply_size::MAX_REPLY;
pub use request::{Answer, RequestContext};
pub use rights::Rights;
pub use session::{SessionId, UserId};
pub use store::PoolUsage;
pub(crate) use store::object::State;
pub(crate) use store::{Contents, Name, bounds, identity};
pub(crate) use transaction::Transaction;
pub(crate) use trim::{Next, ToTrim};

#[cfg(test)]
pub(crate) mod tests;
