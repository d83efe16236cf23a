//! Attributes, permissions and bytes: what callers may set and use.

use super::inodes::{Access, Contents, Inodes, Use};
use super::limits::{FILE_MAX, TRANSFER_MAX, check_values};
use crate::file_system::Context;
use onego_buf::List;
use onego_nfs::v3::{FileType, ReadArgs, SetAttributes, Status, WriteArgs, access};

/// SETATTR (RFC 1813, section 3.3.2).
pub(super) fn set<F: Contents>(
    fs: &mut F,
    cx: Context<'_>,
    file: &F::Inode,
    set: &SetAttributes,
) -> Result<(), Status> {
    check_values(set)?;
    match fs.file_type(file) {
        _ if set.size.is_none() => {}
        FileType::Regular => {}
        FileType::Directory => return Err(Status::Isdir),
        _ => return Err(Status::Inval),
    }
    if *set == SetAttributes::default() {
        return Ok(());
    }
    fs.set_attributes(cx, file, set)
}

/// The answer to ACCESS (RFC 1813, section 3.3.4).
pub(super) fn granted<F: Inodes>(fs: &F, cx: Context<'_>, file: &F::Inode, wanted: u32) -> u32 {
    let is_dir = fs.file_type(file) == FileType::Directory;
    let write = access::MODIFY | access::EXTEND | if is_dir { access::DELETE } else { 0 };
    let execute = if is_dir { access::LOOKUP } else { access::EXECUTE };
    let uses = [(Use::Read, access::READ), (Use::Write, write), (Use::Execute, execute)];
    let granted = uses.into_iter().filter(|(way, bits)| wanted & bits != 0 && fs.permits(cx, file, *way));
    granted.fold(0, |granted, (_, bits)| granted | bits) & wanted
}

/// May the caller read or write the bytes of a file? The client has checked the permissions when a program opened the
/// file, and they may have changed since: the owner always may (RFC 1813, section 4.4). The client reads what it
/// executes, too. knfsd has the same two exceptions.
#[inline]
pub(crate) fn check_data<F: Inodes>(
    fs: &F,
    cx: Context<'_>,
    file: &F::Inode,
    access: Access,
) -> Result<(), Status> {
    let may = fs.owns(cx, file)
        || match access {
            Access::Read => fs.permits(cx, file, Use::Read) || fs.permits(cx, file, Use::Execute),
            Access::Write => fs.permits(cx, file, Use::Write),
        };
    if may { Ok(()) } else { Err(Status::Access) }
}

/// Opens a regular file. The RFC has no other error for READ and WRITE of other files (sections 3.3.6 and 3.3.7).
#[inline]
fn open<F: Contents>(
    fs: &mut F,
    cx: Context<'_>,
    file: &F::Inode,
    access: Access,
) -> Result<F::Data, Status> {
    if fs.file_type(file) != FileType::Regular {
        return Err(Status::Inval);
    }
    fs.open_file(cx, file, access)
}

/// READ (RFC 1813, section 3.3.6); `true`: the bytes reach the end.
#[inline]
pub(super) fn read<F: Contents>(
    fs: &mut F,
    cx: Context<'_>,
    file: &F::Inode,
    args: &ReadArgs,
) -> Result<(List, bool), Status> {
    let data = open(fs, cx, file, Access::Read)?;
    let left = fs.size(file).saturating_sub(args.offset);
    let len = left.min(args.count.into()).min(TRANSFER_MAX as u64);
    // A read of nothing leaves the times, which may keep the verifier of an exclusive CREATE.
    let bytes =
        if len == 0 { List::new() } else { fs.read_at(cx, (file, &data), args.offset, len as usize)? };
    let eof = len == left || (bytes.len() as u64) < len;
    Ok((bytes, eof))
}

/// WRITE (RFC 1813, section 3.3.7); the number of bytes that were written.
pub(super) fn write<F: Contents>(
    fs: &mut F,
    cx: Context<'_>,
    file: &F::Inode,
    args: WriteArgs,
) -> Result<u32, Status> {
    let data = open(fs, cx, file, Access::Write)?;
    let end = args.offset.checked_add(args.data.len() as u64);
    if end.is_none_or(|end| end > FILE_MAX) {
        return Err(Status::Fbig);
    }
    fs.write_at(cx, (file, &data), args.offset, args.data, args.stable)
}

/// COMMIT (RFC 1813, section 3.3.21).
pub(super) fn commit<F: Contents>(fs: &mut F, cx: Context<'_>, file: &F::Inode) -> Result<(), Status> {
    match fs.file_type(file) {
        FileType::Regular | FileType::Directory => fs.sync(cx, file),
        _ => Err(Status::Inval),
    }
}
