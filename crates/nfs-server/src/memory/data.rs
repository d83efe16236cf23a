//! The bytes of regular files, and the attributes of all files.

use super::directory::Id;
use super::node::Regular;
use super::permissions::mode;
use super::tree::{Memory, time};
use crate::file_system::Context;
use crate::procedures::attributes::check_data;
use crate::procedures::inodes::{Access, Contents};
use crate::procedures::limits::MODE_ALL;
use onego_buf::{List, SegmentMut};
use onego_nfs::v3::{self, SetAttributes, SetTime, Stability, Status, Verifier};
use std::time::Duration;

/// A file that is only read has its atime set this often, as Linux does: it costs clients what they have cached.
const ATIME_GRAIN: Duration = Duration::from_secs(24 * 3600);

impl Contents for Memory {
    type Data = ();

    fn write_verifier(&self) -> Verifier {
        self.instance.to_be_bytes()
    }

    #[inline]
    fn size(&self, id: &Id) -> u64 {
        self.nodes[*id].regular().map_or(0, |file| file.size)
    }

    /// Sets all attributes, or none.
    fn set_attributes(&mut self, cx: Context<'_>, id: &Id, set: &SetAttributes) -> Result<(), Status> {
        let id = *id;
        self.nodes[id].permissions().check_set(cx.caller, set)?;
        if set.size.is_some() {
            check_data(self, cx, &id, Access::Write)?;
        }
        let now = self.stamp(cx.now);
        if let Some(size) = set.size {
            self.resize(id, size, now)?;
            if !cx.caller.is_root() {
                self.nodes[id].drop_privileges();
            }
        }
        let node = &mut self.nodes[id];
        if set.uid.is_some() || set.gid.is_some() {
            node.drop_privileges();
        }
        node.uid = set.uid.unwrap_or(node.uid);
        node.gid = set.gid.unwrap_or(node.gid);
        if let Some(bits) = set.mode {
            node.mode = bits & MODE_ALL;
            // A caller outside of a group cannot lend its rights.
            if !cx.caller.is_root() && !cx.caller.is_in(node.gid) {
                node.mode &= !mode::SET_GID;
            }
        }
        set_time(&mut node.atime, set.atime, now);
        set_time(&mut node.mtime, set.mtime, now);
        node.ctime = now;
        Ok(())
    }

    #[inline]
    fn open_file(&mut self, cx: Context<'_>, id: &Id, access: Access) -> Result<(), Status> {
        check_data(self, cx, id, access)
    }

    #[inline]
    fn read_at(
        &mut self,
        cx: Context<'_>,
        (id, ()): (&Id, &()),
        offset: u64,
        len: usize,
    ) -> Result<List, Status> {
        let node = &mut self.nodes[*id];
        let file = node.regular()?;
        let data = file.data.read(offset, len as u64, &self.zeros);
        let old = time((cx.now - ATIME_GRAIN).as_nanos());
        if node.atime <= node.mtime || node.atime < old {
            node.atime = time(cx.now.as_nanos());
        }
        Ok(data)
    }

    /// Memory is as durable as this file system ever is, whatever stability is asked for.
    fn write_at(
        &mut self,
        cx: Context<'_>,
        (id, ()): (&Id, &()),
        offset: u64,
        data: List,
        _: Stability,
    ) -> Result<u32, Status> {
        let len = data.len();
        if len == 0 {
            return Ok(0);
        }
        let end = offset + len as u64;
        let file = self.nodes[*id].regular()?;
        let data = match self.room(file.data.growth(offset, len as u64)) {
            Ok(()) => data,
            // Memory that the data fills takes less room than that in which it was received may.
            Err(_) => {
                self.room(file.data.growth_of_tight(offset, len as u64))?;
                let mut tight = SegmentMut::zeroed(len);
                data.copy_to(&mut tight);
                tight.into()
            }
        };
        let now = self.stamp(cx.now);
        self.change_data(*id, |file| {
            file.data.write(offset, data);
            file.size = file.size.max(end);
        })?;
        let node = &mut self.nodes[*id];
        node.modified(now);
        if !cx.caller.is_root() {
            node.drop_privileges();
        }
        Ok(len as u32)
    }

    fn sync(&mut self, _: Context<'_>, _: &Id) -> Result<(), Status> {
        Ok(())
    }
}

impl Memory {
    /// Makes a file shorter, or longer by a hole.
    fn resize(&mut self, id: Id, size: u64, now: v3::Time) -> Result<(), Status> {
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

/// Sets a time.
pub(super) fn set_time(time: &mut v3::Time, set: SetTime, now: v3::Time) {
    match set {
        SetTime::Leave => {}
        SetTime::ServerTime => *time = now,
        SetTime::To(to) => *time = to,
    }
}
