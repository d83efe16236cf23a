//! The lock that users of an image take by hand.

use super::owners::{cut_off, is_own};
use crate::border::{Errno, Handle, Out, Text, call, done, fill};
use crate::rbd::image::RbdImage;
use crate::rbd::lists::joined;
use crate::runtime::block_on;
use onego::rados::{LockHolder, LockKind};
use onego::rbd::upkeep::{add_lock, locks, remove_lock};
use std::borrow::Cow;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rbd_list_lockers(
    image: Handle<RbdImage>,
    is_exclusive: Out<c_int>,
    tag: Out<u8>,
    tag_len: Out<usize>,
    clients: Out<u8>,
    clients_len: Out<usize>,
    cookies: Out<u8>,
    cookies_len: Out<usize>,
    addresses: Out<u8>,
    addresses_len: Out<usize>,
) -> isize {
    call(|| {
        let image = image.get()?;
        let found = block_on(locks(image.pool(), &image.name()?))?;
        let holders = &found.holders;
        is_exclusive.set((found.kind != Some(LockKind::Shared)).into())?;
        let all = [
            fill(tag, tag_len, &joined([&found.tag])),
            fill(clients, clients_len, &joined(holders.iter().map(|holder| holder.client.to_string()))),
            fill(cookies, cookies_len, &joined(holders.iter().map(|holder| &holder.cookie))),
            fill(addresses, addresses_len, &joined(holders.iter().map(|holder| holder.addr.to_string()))),
        ];
        all.into_iter().collect::<Result<Vec<()>, Errno>>()?;
        Ok(holders.len() as isize)
    })
}

fn lock(image: Handle<RbdImage>, cookie: Text, tag: Option<Text>) -> Result<(), Errno> {
    let (image, cookie) = (image.get()?, cookie.text()?);
    let tag = tag.map(|tag| tag.text().map(Cow::into_owned)).transpose()?;
    image.check_access()?;
    Ok(block_on(add_lock(image.pool(), &image.name()?, &cookie, tag.as_deref()))?)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_lock_exclusive(image: Handle<RbdImage>, cookie: Text) -> c_int {
    done(|| lock(image, cookie, None))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_lock_shared(image: Handle<RbdImage>, cookie: Text, tag: Text) -> c_int {
    done(|| lock(image, cookie, Some(tag)))
}

fn unlock(image: &RbdImage, client: &str, cookie: Text) -> Result<(), Errno> {
    image.check_access()?;
    Ok(block_on(remove_lock(image.pool(), &image.name()?, &cookie.text()?, client))?)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_unlock(image: Handle<RbdImage>, cookie: Text) -> c_int {
    done(|| {
        let image = image.get()?;
        let client = block_on(image.client().cluster().global_id())?;
        unlock(image, &format!("client.{client}"), cookie)
    })
}

/// Takes the lock away from a client, whom the cluster refuses from then on, unless the configuration says otherwise.
#[unsafe(no_mangle)]
extern "C" fn rbd_break_lock(image: Handle<RbdImage>, client: Text, cookie: Text) -> c_int {
    done(|| {
        let (image, client) = (image.get()?, client.text()?);
        let name = cookie.text()?;
        let found = block_on(locks(image.pool(), &image.name()?))?;
        let is_it = |holder: &&LockHolder| holder.client.to_string() == client && holder.cookie == name;
        if let Some(holder) = found.holders.iter().find(is_it)
            && !is_own(image, holder.client)?
        {
            cut_off(image, holder)?;
        }
        unlock(image, &client, cookie)
    })
}
