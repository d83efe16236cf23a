//! The bytes of regular files.

use super::node::{Id, Regular};
use super::{Context, FILE_MAX, Memory, Status, TRANSFER_MAX, time};
use onego_buf::List;
use onego_nfs::v3;
use std::time::Duration;

/// A file that is only read has its atime set this often, as Linux does: it costs clients what they have cached.
const ATIME_GRAIN: Duration = Duration::from_secs(24 * 3600);

impl Memory {
    /// Reads bytes; `true`: they reach the end.
    pub(super) fn read_data(
        &mut self,
        cx: Context<'_>,
        id: Id,
        offset: u64,
        count: u32,
    ) -> Result<(List, bool), Status> {
        let node = &mut self.nodes[id];
        let file = node.regular()?;
        if !cx.caller.may_read_data(node.guarded()) {
            return Err(Status::Access);
        }
        let left = file.size.saturating_sub(offset);
        let len = left.min(count.into()).min(TRANSFER_MAX as u64);
        let data = if len == 0 { List::new() } else { file.data.read(offset, len, &self.zeros) };
        let old = time((cx.now - ATIME_GRAIN).as_nanos());
        if node.atime <= node.mtime || node.atime < old {
            node.atime = time(cx.now.as_nanos());
        }
        Ok((data, len == left))
    }

    /// Writes bytes.
    pub(super) fn write_data(
        &mut self,
        cx: Context<'_>,
        id: Id,
        offset: u64,
        data: List,
    ) -> Result<(), Status> {
        let node = &self.nodes[id];
        let file = node.regular()?;
        if !cx.caller.may_write_data(node.guarded()) {
            return Err(Status::Access);
        }
        let len = data.len() as u64;
        let end = offset.checked_add(len).filter(|end| *end <= FILE_MAX).ok_or(Status::Fbig)?;
        if len == 0 {
            return Ok(());
        }
        self.room(file.data.growth(offset, len))?;
        let now = self.stamp(cx.now);
        self.change_data(id, |file| {
            file.data.write(offset, data);
            file.size = file.size.max(end);
        })?;
        let node = &mut self.nodes[id];
        node.modified(now);
        if !cx.caller.is_root() {
            node.drop_privileges();
        }
        Ok(())
    }

    /// Makes a file shorter, or longer by a hole.
    pub(super) fn resize(&mut self, id: Id, size: u64, now: v3::Time) -> Result<(), Status> {
        self.change_data(id, |file| {
            if size < file.size {
                file.data.truncate(size);
            }
            file.size = size;
        })?;
        self.nodes[id].modified(now);
        Ok(())
    }

    /// Does something to the data of a file, and counts what it takes.
    fn change_data(&mut self, id: Id, change: impl FnOnce(&mut Regular)) -> Result<(), Status> {
        let file = self.nodes[id].regular_mut()?;
        let before = file.data.pinned();
        change(file);
        self.used = self.used - before + file.data.pinned();
        Ok(())
    }
}
