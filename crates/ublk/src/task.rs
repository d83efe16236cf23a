use std::io;

/// Marks this thread as a server of a block device: memory allocations in its system calls never reclaim memory by
/// writing to that device, which would deadlock. Requires the capability `CAP_SYS_RESOURCE` (Linux 5.6).
pub fn serve_block_device() -> io::Result<()> {
    /// `PR_SET_IO_FLUSHER` (linux `include/uapi/linux/prctl.h`).
    const SET_IO_FLUSHER: libc::c_int = 57;
    const YES: libc::c_ulong = 1;
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: it takes no pointers, and only sets a flag of this thread.
    match unsafe { libc::prctl(SET_IO_FLUSHER, YES, UNUSED, UNUSED, UNUSED) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
