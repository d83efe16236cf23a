//! The kernel's side of request queues.

use crate::error::Error;
use crate::info::DeviceInfo;
use crate::kernel::{self, DEPTH_MAX, IoCommand};
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use onego_buf::SegmentMut;
use onego_export::ublk::{DESCRIPTOR, Fetched, KernelQueue};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// The character device of a block device, `/dev/ublkcN`. Only one process at a time can open it.
pub struct CharDevice {
    file: File,
    info: DeviceInfo,
}

impl CharDevice {
    /// Opens the character device.
    pub fn open(info: DeviceInfo) -> Result<Self, Error> {
        let path = format!("/dev/ublkc{}", info.id);
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::NotPermitted(path),
            _ => Error::failed("open the character device")(error),
        })?;
        Ok(Self { file, info })
    }

    /// Duplicates the handle, for another thread.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let file = self.file.try_clone().map_err(Error::failed("duplicate the handle of a block device"))?;
        Ok(Self { file, info: self.info })
    }

    /// Returns the device's settings.
    pub fn info(&self) -> DeviceInfo {
        self.info
    }
}

/// A queue of a device. It belongs to the thread that fetches the first request: the kernel accepts commands from no
/// other.
pub struct Queue {
    ring: IoUring<squeue::Entry, cqueue::Entry>,
    descriptors: Descriptors,
    /// Buffers that the kernel owns, by tag. It may write to them at any time, so nothing else may reference their
    /// bytes.
    buffers: Vec<Option<SegmentMut>>,
    device: CharDevice,
    number: u16,
}

impl Queue {
    /// Opens queue `number` of a device.
    ///
    /// # Panics
    /// If the device has no such queue.
    pub fn open(device: CharDevice, number: u16) -> Result<Self, Error> {
        let info = device.info;
        assert!(number < info.queues, "the device has {} queues", info.queues);
        let size = u32::from(info.depth).max(1);
        let ring = IoUring::builder().dontfork().setup_coop_taskrun().build(size).map_err(Error::NoRing)?;
        let descriptors = Descriptors::map(&device.file, number, info.depth);
        let descriptors = descriptors.map_err(Error::failed("map the requests of a queue"))?;
        let buffers = (0..info.depth).map(|_| None).collect();
        Ok(Self { ring, descriptors, buffers, device, number })
    }

    /// Queues a command with a buffer, which the kernel owns until the command completes.
    ///
    /// # Panics
    /// If the kernel already owns a buffer for the tag, or if `buffer` is shorter than the device's maximum request.
    fn push(&mut self, command: u32, tag: u16, result: i32, mut buffer: SegmentMut) {
        let slot = &mut self.buffers[usize::from(tag)];
        assert!(slot.is_none(), "the kernel has a buffer of tag {tag}");
        assert!(buffer.len() >= self.device.info.max_io as usize, "a buffer holds the longest request");
        let address = buffer.as_mut_ptr() as u64;
        *slot = Some(buffer);
        let about = IoCommand { queue: self.number, tag, result, address };
        let entry = opcode::UringCmd16::new(Fd(self.device.file.as_raw_fd()), command).cmd(about.encode());
        // SAFETY: the buffer stays in its slot until the command completes, or forever; it can hold any request.
        unsafe { self.ring.submission().push(&entry.build().user_data(u64::from(tag))) }
            .expect("a tag has one command at a time, and there is room for all tags");
    }
}

impl KernelQueue for Queue {
    fn depth(&self) -> u16 {
        self.device.info.depth
    }

    fn max_io(&self) -> u32 {
        self.device.info.max_io
    }

    fn watched(&self) -> io::Result<OwnedFd> {
        // SAFETY: the ring is open for as long as it is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }.try_clone_to_owned()
    }

    fn fetch(&mut self, tag: u16, buffer: SegmentMut) {
        self.push(kernel::FETCH, tag, 0, buffer);
    }

    fn commit(&mut self, tag: u16, result: i32, buffer: SegmentMut) {
        self.push(kernel::COMMIT_AND_FETCH, tag, result, buffer);
    }

    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Fetched> {
        let completion = self.ring.completion().next()?;
        let tag = u16::try_from(completion.user_data()).ok()?;
        let buffer = self.buffers.get_mut(usize::from(tag))?.take()?;
        Some(match completion.result() {
            0 => Fetched::Request { tag, descriptor: self.descriptors.read(tag), buffer },
            errno => Fetched::Ended { tag, errno: -errno },
        })
    }
}

impl Drop for Queue {
    /// Leaks the buffers that the kernel still owns: it may write to them until the process ends.
    fn drop(&mut self) {
        self.buffers.drain(..).flatten().for_each(std::mem::forget);
    }
}

/// The descriptors of a queue's requests by tag, in memory that the kernel writes.
struct Descriptors {
    start: NonNull<u8>,
    bytes: usize,
    depth: u16,
}

impl Descriptors {
    fn map(file: &File, queue: u16, depth: u16) -> io::Result<Self> {
        let pages =
            |depth: u16| (usize::from(depth) * DESCRIPTOR).next_multiple_of(rustix::param::page_size());
        let offset = (usize::from(queue) * pages(DEPTH_MAX)) as u64;
        let bytes = pages(depth);
        // SAFETY: a new mapping at an arbitrary address does not affect memory in use.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::POPULATE,
                file,
                offset,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { start, bytes, depth })
    }

    /// Reads the descriptor of the fetched request with this tag. The kernel does not modify it before the request is
    /// committed.
    fn read(&self, tag: u16) -> [u8; DESCRIPTOR] {
        assert!(tag < self.depth, "the queue has {} tags", self.depth);
        // SAFETY: it is within the mapping.
        let descriptor = unsafe { self.start.add(usize::from(tag) * DESCRIPTOR) };
        // SAFETY: the mapping is readable, and all byte patterns are valid. The read is volatile because the memory is shared.
        unsafe { descriptor.cast::<[u8; DESCRIPTOR]>().as_ptr().read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` created, and nothing references it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping our own mapping succeeds");
    }
}
