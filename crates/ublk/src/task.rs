use std::io;

/// Tells the kernel that this thread serves a block device: the memory that its system calls take is not gained by writing to
/// that device, which would wait for this thread. Takes the capability `CAP_SYS_RESOURCE` (Linux 5.6).
pub fn serve_block_device() -> io::Result<()> {
    /// `PR_SET_IO_FLUSHER` (linux `include/uapi/linux/prctl.h`).
    const SET_IO_FLUSHER: libc::c_int = 57;
    const YES: libc::c_ulong = 1;
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: it takes no pointers, and changes nothing but a mark of this thread.
    match unsafe { libc::prctl(SET_IO_FLUSHER, YES, UNUSED, UNUSED, UNUSED) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
