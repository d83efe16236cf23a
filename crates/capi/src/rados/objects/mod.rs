//! What is done with objects.

mod aio;
mod checksum;
mod cursor;
mod data;
mod exec;
mod flush;
mod hints;
mod list;
mod lock;
mod ops;
mod pairs;
mod request;
mod rollback;
mod watch;
mod xattr;
