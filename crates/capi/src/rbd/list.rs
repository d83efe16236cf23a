//! What a pool has of images and namespaces.

use crate::border::{Errno, Handle, In, Out, Text, call, copied_text, done, fill, free};
use crate::rados::IoCtx;
use crate::runtime::block_on;
use onego::ceph::Error;
use onego::rados::Pool;
use onego_ceph::cls::rbd::{DirList, NamespaceList};
use onego_ceph::rbd::DIRECTORY;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};

/// Entries asked for at a time.
const PAGE: u64 = 1024;

/// Names of a pool's images, and their ids.
async fn images(pool: &Pool) -> Result<BTreeMap<String, String>, Error> {
    let mut images = BTreeMap::new();
    loop {
        let after = images.last_key_value().map(|(name, _): (&String, _)| name.clone()).unwrap_or_default();
        match pool.call(DIRECTORY, &DirList { after, max: PAGE }).await {
            Err(Error::NotFound { .. }) => return Ok(images),
            page => {
                let page = page?;
                let is_last = (page.len() as u64) < PAGE;
                images.extend(page);
                if is_last {
                    return Ok(images);
                }
            }
        }
    }
}

/// Names of a pool's namespaces.
async fn namespaces(pool: &Pool) -> Result<Vec<String>, Error> {
    let (pool, mut names) = (pool.in_namespace(""), Vec::<String>::new());
    loop {
        let after = names.last().cloned().unwrap_or_default();
        match pool.call("rbd_namespace", &NamespaceList { after, max: PAGE }).await {
            Err(Error::NotFound { .. }) => return Ok(names),
            page => {
                let page = page?;
                let is_last = (page.len() as u64) < PAGE;
                names.extend(page);
                if is_last {
                    return Ok(names);
                }
            }
        }
    }
}

/// Names one behind the other, each with a zero.
fn joined(names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<u8> {
    let mut all = Vec::new();
    for name in names {
        all.extend_from_slice(name.as_ref().as_bytes());
        all.push(0);
    }
    all
}

#[unsafe(no_mangle)]
extern "C" fn rbd_list(ioctx: Handle<IoCtx>, names: Out<u8>, size: Out<usize>) -> c_int {
    call(|| {
        let all = joined(block_on(images(&ioctx.get()?.pool()?))?.keys());
        fill(names, size, &all)?;
        Ok(all.len() as c_int)
    })
}

/// Id and name of an image (`rbd_image_spec_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct ImageSpec {
    id: *mut c_char,
    name: *mut c_char,
}

#[unsafe(no_mangle)]
extern "C" fn rbd_list2(ioctx: Handle<IoCtx>, specs: Out<ImageSpec>, most: Out<usize>) -> c_int {
    done(|| {
        let all = block_on(images(&ioctx.get()?.pool()?))?;
        let room = most.read()?;
        most.set(all.len())?;
        if all.len() > room {
            return Err(Errno::RANGE);
        }
        let spec = |(name, id): (&String, &String)| {
            Ok(ImageSpec { id: copied_text(id.as_bytes())?, name: copied_text(name.as_bytes())? })
        };
        let all = all.iter().map(spec).collect::<Result<Vec<_>, Errno>>()?;
        specs.copy(&all, room)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_spec_cleanup(spec: In<ImageSpec>) {
    rbd_image_spec_list_cleanup(spec, 1);
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_spec_list_cleanup(specs: In<ImageSpec>, count: usize) {
    call(|| {
        for spec in specs.slice(count)? {
            free(spec.id.cast());
            free(spec.name.cast());
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rbd_namespace_list(ioctx: Handle<IoCtx>, names: Out<u8>, size: Out<usize>) -> c_int {
    call(|| {
        let all = joined(block_on(namespaces(&ioctx.get()?.pool()?))?);
        fill(names, size, &all)?;
        Ok(all.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_namespace_exists(ioctx: Handle<IoCtx>, name: Text, exists: Out<bool>) -> c_int {
    done(|| {
        let name = name.text()?;
        exists.set(block_on(namespaces(&ioctx.get()?.pool()?))?.iter().any(|known| *known == name))
    })
}
