//! The class `rbd`: a pool's own objects (ceph `src/cls/rbd/cls_rbd.cc`).

use super::header::is_valid_id;
use crate::osd::class::context::{Context, at_most};
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;
use onego_msgr::encoding::Decode;
use onego_wire::Reader;
use std::collections::BTreeMap;

const NAME: &str = "name_";
const ID: &str = "id_";

fn name_key(name: &str) -> String {
    [NAME, name].concat()
}

fn id_key(id: &str) -> String {
    [ID, id].concat()
}

pub(super) fn get_id(context: &mut Context<'_>, call: DirGetId) -> Outcome<String> {
    context.get(&name_key(&call.name))
}

pub(super) fn get_name(context: &mut Context<'_>, call: DirGetName) -> Outcome<String> {
    context.get(&id_key(&call.id))
}

/// Names behind `after`, and their ids.
pub(super) fn names(context: &Context<'_>, after: &str, max: u64) -> Outcome<Images> {
    let names = context.entries(NAME, after).take(at_most(max));
    names.map(|(name, id)| Ok((name, String::decode(&mut Reader::new(id)).map_err(|_| Errno::IO)?))).collect()
}

pub(super) fn list(context: &mut Context<'_>, call: DirList) -> Outcome<Images> {
    names(context, &call.after, call.max)
}

/// Adds a name and its id, which may be there already if `renamed`.
pub(super) fn add(context: &mut Context<'_>, name: &str, id: &str, renamed: bool) -> Outcome<()> {
    if name.is_empty() || !is_valid_id(id) {
        return Err(Errno::INVAL);
    }
    if context.raw(&name_key(name)).is_ok() {
        return Err(Errno::EXIST);
    }
    if context.raw(&id_key(id)).is_ok() && !renamed {
        return Err(Errno::BADF);
    }
    context.set(&name_key(name), &id.to_owned());
    context.set(&id_key(id), &name.to_owned());
    Ok(())
}

/// ESTALE unless name and id belong together.
fn check(context: &Context<'_>, name: &str, id: &str) -> Outcome<()> {
    let (stored_id, stored_name): (String, String) =
        (context.get(&name_key(name))?, context.get(&id_key(id))?);
    if stored_id == id && stored_name == name { Ok(()) } else { Err(Errno::STALE) }
}

/// Removes a name and its id. ESTALE: they do not belong together.
pub(super) fn remove(context: &mut Context<'_>, name: &str, id: &str) -> Outcome<()> {
    check(context, name, id)?;
    context.unset(&name_key(name))?;
    context.unset(&id_key(id))
}

pub(super) fn add_image(context: &mut Context<'_>, call: DirAddImage) -> Outcome<()> {
    add(context, &call.name, &call.id, false)
}

pub(super) fn remove_image(context: &mut Context<'_>, call: DirRemoveImage) -> Outcome<()> {
    remove(context, &call.name, &call.id)
}

/// Gives an id another name. ESTALE: name and id do not belong together.
pub(super) fn rename(context: &mut Context<'_>, from: &str, to: &str, id: &str) -> Outcome<()> {
    check(context, from, id)?;
    add(context, to, id, true)?;
    context.unset(&name_key(from))
}

pub(super) fn rename_image(context: &mut Context<'_>, call: DirRenameImage) -> Outcome<()> {
    rename(context, &call.from, &call.to, &call.id)
}

pub(super) fn state_assert(context: &mut Context<'_>, call: DirStateAssert) -> Outcome<()> {
    if context.get::<u8>("state")? == call.state { Ok(()) } else { Err(Errno::NOENT) }
}

pub(super) fn state_set(context: &mut Context<'_>, call: DirStateSet) -> Outcome<()> {
    match call.state {
        directory_state::READY => {}
        directory_state::ADD_DISABLED => {
            context.must_exist()?;
            if context.entries(NAME, "").next().is_some() {
                return Err(Errno::BUSY);
            }
        }
        _ => return Err(Errno::INVAL),
    }
    context.set("state", &call.state);
    Ok(())
}

pub(super) fn trash_list(
    context: &mut Context<'_>,
    call: TrashList,
) -> Outcome<BTreeMap<String, TrashImageSpec>> {
    let images = context.entries(ID, &call.after).take(at_most(call.max));
    images
        .map(|(id, spec)| Ok((id, TrashImageSpec::decode(&mut Reader::new(spec)).map_err(|_| Errno::IO)?)))
        .collect()
}

pub(super) fn trash_get(context: &mut Context<'_>, call: TrashGet) -> Outcome<TrashImageSpec> {
    context.get(&id_key(&call.id))
}

pub(super) fn trash_add(context: &mut Context<'_>, call: TrashAdd) -> Outcome<()> {
    if !is_valid_id(&call.id) {
        return Err(Errno::INVAL);
    }
    if context.raw(&id_key(&call.id)).is_ok() {
        return Err(Errno::EXIST);
    }
    context.set(&id_key(&call.id), &call.spec);
    Ok(())
}

pub(super) fn trash_remove(context: &mut Context<'_>, call: TrashRemove) -> Outcome<()> {
    context.raw(&id_key(&call.id))?;
    context.unset(&id_key(&call.id))
}

pub(super) fn trash_state_set(context: &mut Context<'_>, call: TrashStateSet) -> Outcome<()> {
    let mut spec: TrashImageSpec = context.get(&id_key(&call.id))?;
    if spec.state == call.expected {
        spec.state = call.state;
        context.set(&id_key(&call.id), &spec);
        Ok(())
    } else if spec.state == call.state {
        Ok(())
    } else {
        Err(Errno::STALE)
    }
}

pub(super) fn namespace_list(context: &mut Context<'_>, call: NamespaceList) -> Outcome<Vec<String>> {
    let names = context.entries(NAME, &call.after).take(at_most(call.max));
    Ok(names.map(|(name, _)| name).collect())
}

pub(super) fn namespace_add(context: &mut Context<'_>, call: NamespaceAdd) -> Outcome<()> {
    if context.raw(&name_key(&call.name)).is_ok() {
        return Err(Errno::EXIST);
    }
    context.set_raw(&name_key(&call.name), Vec::new());
    Ok(())
}

pub(super) fn namespace_remove(context: &mut Context<'_>, call: NamespaceRemove) -> Outcome<()> {
    context.raw(&name_key(&call.name))?;
    context.unset(&name_key(&call.name))
}
