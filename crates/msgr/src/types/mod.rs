//! Basic types of Ceph: process names, addresses, features, time and encoding.

pub mod addr;
pub mod encoding;
mod entity;
pub mod features;
pub mod kind;
mod payload;
mod time;

pub use entity::{EntityName, ParseError};
pub use payload::{Payload, decode_service_head, encode_service_head};
pub use time::Utime;
