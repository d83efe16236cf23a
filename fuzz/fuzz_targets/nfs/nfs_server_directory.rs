//! The same as for the server of NFS in memory to one that serves a directory, in which a local user is at work, too.
//! Nothing beside the directory is touched, and no descriptor stays open.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::nfs_server::{Exported, Item, check_floor, run};

fuzz_target!(
    init: check_floor::<Exported>(),
    |input: (u8, Vec<Item<'_>>)| run::<Exported>(input.0, &input.1)
);
