//! How calls are carried out: what programs wait for, the thread that calls them back, and the clients that they share.
//!
//! A call that waits runs its future on its own thread ([`block_on`]). One that does not gives it to [`spawn`], and its
//! [`Operation`] completes when the last reference to it is gone: that of the future, and those of the program's memory that
//! was lent to the client. So no completion is told before the memory is the program's again.

mod block;
mod callbacks;
mod client;
mod completion;
mod flights;
mod following;
mod lock;
mod operation;
mod task;

pub(crate) use block::block_on;
pub(crate) use callbacks::Callbacks;
pub(crate) use client::SharedClient;
pub(crate) use completion::{AioCompletion, Callback, Events};
pub(crate) use flights::Flights;
pub(crate) use following::next_of;
pub(crate) use lock::lock;
pub(crate) use operation::Operation;
pub(crate) use task::spawn;
