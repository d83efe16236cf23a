//! ONC RPC, version 2 (RFC 5531): calls, replies, and credentials.

mod auth;
mod call;
mod message;
mod procedure;
pub mod rdma;
mod record;
mod reply;
mod stream;

pub use auth::{AuthSys, Credential, flavor};
pub(crate) use call::put_call;
pub use call::{Call, Header, HeaderError};
pub use procedure::Procedure;
pub(crate) use procedure::procedures;
pub use record::{Record, RecordError, RecordReader, Split, Splitter, put_record};
pub use reply::{Accepted, Denied, Reply};
pub use stream::Stream;
