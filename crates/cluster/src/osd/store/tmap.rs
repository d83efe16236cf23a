//! Changes of the maps of an old kind that objects' data may be.
//!
//! Ceph's OSD takes commands in the order of their keys by one way and all others by another one, which knows no `Create`
//! and writes two entries for a key that is set twice. Here commands are taken one after the other, in any order, as
//! crimson does. Sources: ceph `src/osd/PrimaryLogPG.cc` (do_tmapup, do_tmapup_slow), `src/crimson/common/tmap_helpers.cc`.

use crate::osd::errno::{Errno, Outcome};
use onego_ceph::ops::{Tmap, TmapCommand};
use onego_wire::Reader;

/// The data of an object after these commands. Nothing stands for a map without entries.
pub(crate) fn updated(data: &[u8], commands: &[u8]) -> Outcome<Vec<u8>> {
    let mut map = if data.is_empty() { Tmap::default() } else { decode(data)? };
    let mut r = Reader::new(commands);
    while !r.is_empty() {
        run(&mut map, TmapCommand::decode(&mut r).map_err(|_| Errno::INVAL)?)?;
    }
    Ok(map.to_bytes())
}

/// The same map in the order of its keys.
pub(crate) fn sorted(map: &[u8]) -> Outcome<Vec<u8>> {
    Ok(decode(map)?.to_bytes())
}

fn decode(data: &[u8]) -> Outcome<Tmap<'_>> {
    Tmap::decode(data).map_err(|_| Errno::INVAL)
}

fn run<'a>(map: &mut Tmap<'a>, command: TmapCommand<'a>) -> Outcome<()> {
    match command {
        TmapCommand::SetHeader { header } => map.header = header,
        TmapCommand::Create { key, .. } if map.entries.contains_key(key) => return Err(Errno::EXIST),
        TmapCommand::Create { key, value } | TmapCommand::Set { key, value } => {
            map.entries.insert(key, value);
        }
        TmapCommand::Remove { key } => {
            map.entries.remove(key).ok_or(Errno::NOENT)?;
        }
        TmapCommand::RemoveIfThere { key } => {
            map.entries.remove(key);
        }
    }
    Ok(())
}
