//! Inodes: handles, attributes and permissions.

use super::served::{Directory, File};
use super::system::status;
use crate::file_system::Context;
use crate::procedures::inodes::{Inodes, Use};
use onego_buf::Pool;
use onego_nfs::v3::{Attributes, Before, FileType, FsstatOk, HANDLE_MAX, Handle, Status};
use rustix::fs;

impl Inodes for Directory {
    type Inode = File;
    const HANDLE_LEN: usize = HANDLE_MAX;

    fn pool(&self) -> &Pool {
        &self.shared().pool
    }

    fn root(&self, cx: Context<'_>) -> Result<File, Status> {
        self.open_root(cx)
    }

    fn find(&self, cx: Context<'_>, handle: &Handle) -> Result<File, Status> {
        self.file_of(cx, handle)
    }

    fn handle(&self, file: &File) -> Handle {
        self.handle_of(file)
    }

    fn file_type(&self, file: &File) -> FileType {
        file.attributes.file_type
    }

    fn attributes(&self, file: &File) -> Attributes {
        file.attributes
    }

    /// Others may work on the directory: what a file was just before need not be what the change has found.
    fn before(&self, _: &File) -> Option<Before> {
        None
    }

    fn after(&self, file: &File) -> Option<Attributes> {
        file.now().ok()
    }

    fn owns(&self, cx: Context<'_>, file: &File) -> bool {
        self.acting_uid(cx) == file.attributes.uid || self.overrides(cx)
    }

    fn permits(&self, _: Context<'_>, file: &File, wanted: Use) -> bool {
        file.may(match wanted {
            Use::Read => fs::Access::READ_OK,
            Use::Write => fs::Access::WRITE_OK,
            Use::Execute => fs::Access::EXEC_OK,
        })
    }

    fn space(&self, file: &File) -> Result<FsstatOk, Status> {
        let stat = fs::fstatvfs(&file.fd).map_err(status)?;
        Ok(FsstatOk {
            attributes: None,
            total_bytes: stat.f_blocks * stat.f_frsize,
            free_bytes: stat.f_bfree * stat.f_frsize,
            available_bytes: stat.f_bavail * stat.f_frsize,
            total_files: stat.f_files,
            free_files: stat.f_ffree,
            available_files: stat.f_favail,
            invariant_seconds: 0,
        })
    }
}
