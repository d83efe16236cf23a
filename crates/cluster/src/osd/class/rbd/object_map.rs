//! The class `rbd`: an image's object map (ceph `src/cls/rbd/cls_rbd.cc`).

use crate::osd::class::context::Context;
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{Reader, Writer};

/// The map as it is stored. ENOENT: it is not there, or empty.
fn read(context: &Context<'_>) -> Outcome<ObjectMap> {
    context.must_exist()?;
    let data = context.read_all();
    if data.is_empty() {
        return Err(Errno::NOENT);
    }
    ObjectMap::decode(&mut Reader::new(&data)).map_err(|_| Errno::INVAL)
}

fn write(context: &mut Context<'_>, map: &ObjectMap) {
    context.write_all(map.to_bytes());
}

/// Sent without checksums: those are for what is stored.
pub(super) fn load(context: &mut Context<'_>, _: &[u8]) -> Outcome<Vec<u8>> {
    let mut w = Writer::new();
    read(context)?.encode_with(&mut w, false);
    Ok(w.into_vec())
}

pub(super) fn save(context: &mut Context<'_>, call: ObjectMapSave) -> Outcome<()> {
    write(context, &call.map);
    Ok(())
}

pub(super) fn resize(context: &mut Context<'_>, call: ObjectMapResize) -> Outcome<()> {
    if call.objects > MAX_OBJECTS {
        return Err(Errno::INVAL);
    }
    let mut map = match read(context) {
        Err(Errno::NOENT) => ObjectMap::default(),
        other => other?,
    };
    if (call.objects..map.len()).any(|object| map.get(object) != call.state) {
        return Err(Errno::STALE);
    }
    map.resize(call.objects, call.state);
    write(context, &map);
    Ok(())
}

pub(super) fn update(context: &mut Context<'_>, call: ObjectMapUpdate) -> Outcome<()> {
    let mut map = read(context)?;
    if call.start >= call.end || call.end > map.len() {
        return Err(Errno::RANGE);
    }
    let mut updated = false;
    for object in call.start..call.end {
        let now = map.get(object);
        let expected = call
            .current
            .is_none_or(|current| now == current || (current == state::EXISTS && now == state::EXISTS_CLEAN));
        if expected && now != call.state {
            map.set(object, call.state);
            updated = true;
        }
    }
    if updated {
        write(context, &map);
    }
    Ok(())
}

pub(super) fn snap_add(context: &mut Context<'_>, _: ObjectMapSnapAdd) -> Outcome<()> {
    let mut map = read(context)?;
    for object in 0..map.len() {
        if map.get(object) == state::EXISTS {
            map.set(object, state::EXISTS_CLEAN);
        }
    }
    write(context, &map);
    Ok(())
}

pub(super) fn snap_remove(context: &mut Context<'_>, call: ObjectMapSnapRemove) -> Outcome<()> {
    let mut map = read(context)?;
    for object in 0..map.len() {
        let written = object >= call.map.len() || call.map.get(object) == state::EXISTS;
        if map.get(object) == state::EXISTS_CLEAN && written {
            map.set(object, state::EXISTS);
        }
    }
    write(context, &map);
    Ok(())
}
