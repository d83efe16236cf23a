//! Files of NFS servers: their names on command lines, and unfinished copies.

mod partial;
mod target;

pub(crate) use partial::RemotePartial;
pub(crate) use target::{Target, Url, join, last_name, split, url_form, without_slashes};
