//! What is done with objects.

mod aio;
mod data;
mod exec;
mod flush;
mod list;
mod lock;
mod ops;
mod pairs;
mod request;
mod rollback;
mod watch;
mod xattr;
