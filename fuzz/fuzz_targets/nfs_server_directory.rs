//! The same as for the server of NFS in memory to one that serves a directory, in which a local user is at work, too.
//! Nothing beside the directory is touched, and no descriptor stays open.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::nfs_server::{Item, run_directory};

fuzz_target!(|input: (u8, Vec<Item<'_>>)| run_directory(input.0, &input.1));
