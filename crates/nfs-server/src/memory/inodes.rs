//! Inodes: handles, attributes and permissions.

use super::directory::Id;
use super::tree::Memory;
use crate::file_system::Context;
use crate::procedures::inodes::{Inodes, Use};
use onego_buf::Pool;
use onego_nfs::v3::{Attributes, Before, FileType, FsstatOk, Handle, Status};

/// Bytes of a handle: the file system, the place in its table, and the file's number.
const HANDLE_LEN: usize = 20;

#[inline]
fn parts(handle: &Handle) -> Option<(u64, u32, u64)> {
    let bytes: &[u8; HANDLE_LEN] = handle.as_bytes().try_into().ok()?;
    let (instance, rest) = bytes.split_first_chunk()?;
    let (slot, fileid) = rest.split_first_chunk()?;
    Some((
        u64::from_be_bytes(*instance),
        u32::from_be_bytes(*slot),
        u64::from_be_bytes(fileid.try_into().ok()?),
    ))
}

impl Inodes for Memory {
    type Inode = Id;
    const HANDLE_LEN: usize = HANDLE_LEN;

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn root(&self, _: Context<'_>) -> Result<Id, Status> {
        Ok(self.root)
    }

    #[inline]
    fn find(&self, _: Context<'_>, handle: &Handle) -> Result<Id, Status> {
        let Some((instance, slot, fileid)) = parts(handle) else { return Err(Status::Badhandle) };
        let slot = slot as Id;
        let here =
            instance == self.instance && self.nodes.get(slot).is_some_and(|node| node.fileid == fileid);
        if here { Ok(slot) } else { Err(Status::Stale) }
    }

    fn handle(&self, id: &Id) -> Handle {
        let mut bytes = [0; HANDLE_LEN];
        bytes[..8].copy_from_slice(&self.instance.to_be_bytes());
        bytes[8..12].copy_from_slice(&(*id as u32).to_be_bytes());
        bytes[12..].copy_from_slice(&self.nodes[*id].fileid.to_be_bytes());
        Handle::new(&bytes).expect("it is shorter than the longest")
    }

    #[inline]
    fn file_type(&self, id: &Id) -> FileType {
        self.nodes[*id].content.file_type()
    }

    #[inline]
    fn attributes(&self, id: &Id) -> Attributes {
        self.nodes[*id].attributes(self.instance)
    }

    #[inline]
    fn before(&self, id: &Id) -> Option<Before> {
        Some(self.attributes(id).before())
    }

    #[inline]
    fn after(&self, id: &Id) -> Option<Attributes> {
        Some(self.attributes(id))
    }

    #[inline]
    fn owns(&self, cx: Context<'_>, id: &Id) -> bool {
        self.nodes[*id].permissions().owned_by(cx.caller)
    }

    #[inline]
    fn permits(&self, cx: Context<'_>, id: &Id, wanted: Use) -> bool {
        self.nodes[*id].permissions().permit(cx.caller, wanted)
    }

    fn space(&self, _: &Id) -> Result<FsstatOk, Status> {
        let free_bytes = self.limits.bytes.saturating_sub(self.used);
        let free_files = self.limits.files.saturating_sub(self.nodes.len() as u64);
        Ok(FsstatOk {
            attributes: None,
            total_bytes: self.limits.bytes,
            free_bytes,
            available_bytes: free_bytes,
            total_files: self.limits.files,
            free_files,
            available_files: free_files,
            invariant_seconds: 0,
        })
    }
}
