//! The class `rbd`: the snapshots of an image of format 1 (ceph `src/cls/rbd/cls_rbd.cc`).

use crate::osd::class::context::Context;
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;
use onego_msgr::encoding::{Decode as _, Encode as _};
use onego_wire::Reader;

/// The header. EINVAL: the object is too short to be one; EIO: it says of itself what is not so.
pub(super) fn read(context: &Context<'_>) -> Outcome<Format1Header> {
    if context.state.size < Format1Header::MIN_LEN as u64 {
        return Err(Errno::INVAL);
    }
    Format1Header::decode(&mut Reader::new(&context.read_all())).map_err(|_| Errno::IO)
}

/// A name as a header can hold it, where it ends with the first byte of 0.
fn stored_name(mut name: String) -> String {
    name.truncate(name.find('\0').unwrap_or(name.len()));
    name
}

pub(super) fn list(context: &mut Context<'_>, _: Format1SnapshotList) -> Outcome<Format1Snapshots> {
    let Format1Header { snap_seq: seq, snapshots, .. } = read(context)?;
    Ok(Format1Snapshots { seq, snapshots })
}

pub(super) fn add(context: &mut Context<'_>, call: Format1SnapshotAdd) -> Outcome<()> {
    let mut header = read(context)?;
    // A client that has lost a race against another one tries again with a newer id.
    if call.snap < header.snap_seq {
        return Err(Errno::STALE);
    }
    if header.snapshots.len() as u64 >= context.get_opt("snap_limit")?.unwrap_or(u64::MAX) {
        return Err(Errno::DQUOT);
    }
    let name = stored_name(call.name);
    check_is_free(&header, &name)?;
    header.snap_seq = call.snap;
    header.snapshots.insert(0, Format1Snapshot { id: call.snap, image_size: header.image_size, name });
    context.write_all(header.to_bytes());
    Ok(())
}

pub(super) fn remove(context: &mut Context<'_>, call: Format1SnapshotRemove) -> Outcome<()> {
    let mut header = read(context)?;
    let name = stored_name(call.name);
    let at = header.snapshots.iter().position(|snapshot| snapshot.name == name).ok_or(Errno::NOENT)?;
    header.snapshots.remove(at);
    context.write_all(header.to_bytes());
    Ok(())
}

pub(super) fn rename(context: &mut Context<'_>, call: Format1SnapshotRename) -> Outcome<()> {
    let mut header = read(context)?;
    let name = stored_name(call.name);
    check_is_free(&header, &name)?;
    let snapshot = header.snapshots.iter_mut().find(|snapshot| snapshot.id == call.snap);
    snapshot.ok_or(Errno::NOENT)?.name = name;
    context.write_all(header.to_bytes());
    Ok(())
}

/// EEXIST if a snapshot has the name.
fn check_is_free(header: &Format1Header, name: &str) -> Outcome<()> {
    let is_taken = header.snapshots.iter().any(|snapshot| snapshot.name == name);
    if is_taken { Err(Errno::EXIST) } else { Ok(()) }
}
