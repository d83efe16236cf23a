//! The io_uring under both engines that use one.
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Submitter, cqueue, squeue};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(crate) struct RingSize {
    /// Requests queued before they are submitted.
    pub(crate) submissions: u32,
    /// Completions that fit. The kernel keeps further ones and delivers them with the next calls.
    pub(crate) completions: u32,
}

impl Default for RingSize {
    /// Room for the requests of a busy turn and the completions that arrive meanwhile.
    fn default() -> Self {
        Self { submissions: 256, completions: 4096 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Only on the engine's request, without interrupting it (Linux 6.1).
    Deferred,
    /// At the thread's next system call of any kind, without interrupting it (Linux 5.19).
    Cooperative,
    Interrupting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error("the kernel has no io_uring (Linux 5.1)")]
    Everything,
    #[error("io_uring is not allowed here (the sysctl kernel.io_uring_disabled, or a seccomp filter)")]
    Permission,
    #[error("the kernel's io_uring has no timeout when it waits, IORING_FEAT_EXT_ARG (Linux 5.11)")]
    ExtArg,
    #[error("the kernel's io_uring has no multishot poll requests (Linux 5.13)")]
    MultishotPoll,
    #[error("the kernel's io_uring has no IOSQE_CQE_SKIP_SUCCESS (Linux 5.17)")]
    SkipSuccess,
    #[error("the kernel's io_uring has no incremental buffer rings, IOU_PBUF_RING_INC (Linux 6.12)")]
    IncrementalBuffers,
    #[error("the kernel's io_uring has no IORING_SETUP_DEFER_TASKRUN (Linux 6.1)")]
    DeferTaskrun,
    #[error("the kernel's io_uring has no IORING_SETUP_COOP_TASKRUN (Linux 5.19)")]
    CoopTaskrun,
}

impl From<Missing> for io::Error {
    fn from(missing: Missing) -> Self {
        io::Error::new(io::ErrorKind::Unsupported, missing)
    }
}

/// Creates a ring in the kernel; tests substitute older kernels.
pub(crate) type Setup<'a> = &'a dyn Fn(Mode, RingSize) -> io::Result<IoUring>;

pub(crate) fn setup(mode: Mode, size: RingSize) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    // Disabled until the first poll, which makes the calling thread the single issuer.
    builder.dontfork().setup_cqsize(size.completions).setup_r_disabled();
    match mode {
        Mode::Deferred => {
            builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        }
        Mode::Cooperative => {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        }
        Mode::Interrupting => {}
    }
    builder.build(size.submissions)
}

/// An io_uring.
///
/// It may be built on any thread; the thread that starts it owns it.
pub(crate) struct Ring {
    ring: IoUring,
    mode: Mode,
    size: RingSize,
    started: bool,
    completions: Vec<cqueue::Entry>,
    /// Requests, in order, that did not fit into the submission queue while the kernel refused its entries. Callers
    /// bound them: a few per socket.
    waiting: VecDeque<squeue::Entry>,
    calls: u64,
    #[cfg(test)]
    faults: faults::Faults,
}

impl Ring {
    /// Opens a ring in `mode`, or in the next best that the kernel has.
    pub(crate) fn open(mode: Mode, size: RingSize, setup: Setup<'_>) -> io::Result<Self> {
        let ring = match setup(mode, size) {
            Ok(ring) => ring,
            Err(error) => match (error.raw_os_error(), mode) {
                (Some(libc::EINVAL), Mode::Deferred) => {
                    tracing::warn!("{}: completions cost more", Missing::DeferTaskrun);
                    return Self::open(Mode::Cooperative, size, setup);
                }
                (Some(libc::EINVAL), Mode::Cooperative) => {
                    tracing::warn!("{}: completions cost more", Missing::CoopTaskrun);
                    return Self::open(Mode::Interrupting, size, setup);
                }
                (Some(libc::ENOSYS), _) => return Err(Missing::Everything.into()),
                (Some(libc::EPERM | libc::EACCES), _) => return Err(Missing::Permission.into()),
                _ => return Err(error),
            },
        };
        if !ring.params().is_feature_ext_arg() {
            return Err(Missing::ExtArg.into());
        }
        // Multishot poll requests cannot be probed; resource tags arrived in the same release.
        if !ring.params().is_feature_resource_tagging() {
            return Err(Missing::MultishotPoll.into());
        }
        Ok(Self {
            ring,
            mode,
            size,
            started: false,
            completions: Vec::new(),
            waiting: VecDeque::new(),
            calls: 0,
            #[cfg(test)]
            faults: faults::Faults::default(),
        })
    }

    /// Replaces the ring with a new, empty one. The kernel cancels the old ring's requests some time after this
    /// returns, without completions.
    pub(crate) fn replace(&mut self) -> io::Result<()> {
        let calls = self.calls;
        *self = Self::open(self.mode, self.size, &setup)?;
        self.calls = calls;
        Ok(())
    }

    fn start(&mut self) -> io::Result<()> {
        if !self.started {
            self.ring.submitter().register_enable_rings()?;
            self.started = true;
        }
        Ok(())
    }

    pub(crate) fn submitter(&self) -> Submitter<'_> {
        self.ring.submitter()
    }

    /// Returns whether a successful request may go without a completion.
    pub(crate) fn skips_success(&self) -> bool {
        self.ring.params().is_feature_skip_cqe_on_success()
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns whether all requests have been handed to the kernel.
    pub(crate) fn all_submitted(&mut self) -> bool {
        self.waiting.is_empty() && self.ring.submission().is_empty()
    }

    /// Returns whether completions wait in the kernel for room in the queue (`IORING_SQ_CQ_OVERFLOW`). While they do,
    /// requests without a completion in the queue may have completed.
    pub(crate) fn overflows(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Returns how many completions the kernel has dropped for lack of memory since the ring was created. Their
    /// contents are unknown.
    pub(crate) fn lost(&mut self) -> u32 {
        let lost = self.ring.completion().overflow();
        #[cfg(test)]
        let lost = lost + self.faults.lost;
        lost
    }

    /// Queues a request. It is never lost: if it cannot be submitted now, a later [`enter`](Self::enter) submits it,
    /// and returns the error if that fails, too.
    ///
    /// # Safety
    /// The memory that the request points to stays in place and unused until its completion.
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: guaranteed by the caller.
        if !self.waiting.is_empty() || unsafe { self.ring.submission().push(entry) }.is_err() {
            self.push_waiting(entry.clone());
        }
    }

    #[cold]
    fn push_waiting(&mut self, entry: squeue::Entry) {
        self.waiting.push_back(entry);
        // The next `enter` returns the error, if it persists.
        let _ = self.submit_waiting();
    }

    /// Moves waiting requests into the submission queue, submitting its entries to make room.
    fn submit_waiting(&mut self) -> io::Result<()> {
        while let Some(entry) = self.waiting.front() {
            // SAFETY: guaranteed to `push`.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.waiting.pop_front();
                continue;
            }
            self.start()?;
            match self.call(SystemCall::Submit) {
                Ok(1..) => {}
                // Unprocessed completions may block the queue.
                Ok(0) => return Err(io::Error::from_raw_os_error(libc::EAGAIN)),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn call(&mut self, call: SystemCall) -> io::Result<usize> {
        self.calls += 1;
        #[cfg(test)]
        if let Some(errno) = self.faults.errors.pop_front() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        match call {
            SystemCall::Submit => self.ring.submit(),
            SystemCall::Wait(None) => self.ring.submit_and_wait(1),
            SystemCall::Wait(Some(timeout)) => {
                let timeout = Timespec::from(timeout);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        }
    }

    fn collect(&mut self) {
        self.completions.extend(self.ring.completion());
    }

    #[inline]
    pub(crate) fn has_completions(&mut self) -> bool {
        !self.completions.is_empty() || !self.ring.completion().is_empty()
    }

    /// Submits queued requests, and sleeps if there is time and nothing has completed. Enters the kernel only if
    /// necessary.
    pub(crate) fn enter(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let completed = self.has_completions();
        let submissions = self.ring.submission();
        // Undelivered completions can wait until those in the queue are processed.
        let idle = submissions.is_empty()
            && self.waiting.is_empty()
            && !submissions.cq_overflow()
            && (completed || !submissions.taskrun());
        drop(submissions);
        if idle && (completed || timeout == Some(Duration::ZERO)) {
            return Ok(());
        }
        self.start()?;
        let call = match timeout {
            Some(Duration::ZERO) => SystemCall::Submit,
            _ if completed => SystemCall::Submit,
            timeout => SystemCall::Wait(timeout),
        };
        match self.submit_waiting().and_then(|()| self.call(call)) {
            Ok(_) => Ok(()),
            Err(error) if retry(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the completions, in a vector to be given [back](Self::recycle) empty.
    pub(crate) fn take_completions(&mut self) -> Vec<cqueue::Entry> {
        self.collect();
        std::mem::take(&mut self.completions)
    }

    pub(crate) fn recycle(&mut self, mut empty: Vec<cqueue::Entry>) {
        // Completions collected meanwhile because the submission queue was full come first next time.
        empty.append(&mut self.completions);
        self.completions = empty;
    }
}

#[derive(Debug, Clone, Copy)]
enum SystemCall {
    Submit,
    Wait(Option<Duration>),
}

/// Returns whether the call was harmless and is to be repeated: timeout, signal, completions to be taken first, or lost
/// completions (`EBADR`), which [`Ring::lost`] reports as well.
fn retry(error: &io::Error) -> bool {
    let errors = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN, libc::EBADR];
    error.raw_os_error().is_some_and(|errno| errors.contains(&errno))
}

/// Simulates a kernel without memory, a state that tests cannot cause.
#[cfg(test)]
mod faults {
    use super::Ring;
    use std::collections::VecDeque;

    #[derive(Default)]
    pub(super) struct Faults {
        pub(super) errors: VecDeque<i32>,
        pub(super) lost: u32,
    }

    impl Ring {
        pub(crate) fn fail_next(&mut self, errno: i32) {
            self.faults.errors.push_back(errno);
        }

        /// Drops all completions and reports that as the kernel does: by a counter, and by an error of the next waiting
        /// call. Returns how many completions there were.
        pub(crate) fn lose_completions(&mut self) -> usize {
            let lost = self.take_completions().len();
            self.faults.lost += lost as u32;
            self.fail_next(libc::EBADR);
            lost
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::clock;
    use crate::{Engine, Pump, Uepoll, Uring, Wait};
    use io_uring::opcode;
    use onego_testkit::{FrameEvent, Frames};

    const MODES: [Mode; 3] = [Mode::Deferred, Mode::Cooperative, Mode::Interrupting];
    const TINY: RingSize = RingSize { submissions: 2, completions: 4 };

    /// Opens many connections between two engines, echoes a frame on each, then closes and reopens half of them.
    fn echo<E: Engine>(mut open: impl FnMut() -> E) {
        const CONNS: usize = 60;
        let mut machine = Frames::echo();
        machine.listen(0, "127.0.0.1:0".parse().unwrap());
        let mut server = Pump::new(open(), machine);
        server.turn(Wait::Poll).unwrap();
        let Some(FrameEvent::Listening(_, Ok(addr))) = server.machine_mut().events.pop_front() else {
            panic!()
        };
        let mut client = Pump::new(open(), Frames::default());
        let end = clock::now() + Duration::from_secs(20);
        for round in 0..2 {
            for i in 0..CONNS / (1 + round) {
                let conn = client.machine_mut().connect(addr);
                client.machine_mut().send(conn, vec![i as u8; 1000 * i]);
            }
            let mut conns = Vec::new();
            while conns.len() < CONNS / (1 + round) {
                assert!(clock::now() < end, "timeout: {} of {CONNS} connections", conns.len());
                server.turn(Wait::Poll).unwrap();
                client.turn(Wait::Poll).unwrap();
                while let Some(event) = client.machine_mut().events.pop_front() {
                    assert!(!matches!(event, FrameEvent::Disconnected(..)), "{event:?}");
                    if let FrameEvent::Frame(conn, frame) = event {
                        assert!(frame.to_vec().iter().all(|&byte| byte == (frame.len() / 1000) as u8));
                        conns.push(conn);
                    }
                }
            }
            for conn in conns.into_iter().take(CONNS / 2) {
                client.machine_mut().close(conn);
            }
            while server.connections() > CONNS / 2 || client.connections() > CONNS / 2 {
                assert!(clock::now() < end, "timeout while closing");
                server.turn(Wait::Poll).unwrap();
                client.turn(Wait::Poll).unwrap();
            }
        }
    }

    #[test]
    fn requests_are_not_lost_when_submitting_fails() {
        for errno in [libc::ENOMEM, libc::EAGAIN, libc::EBUSY, libc::EINTR] {
            let mut ring = Ring::open(Mode::Deferred, TINY, &setup).unwrap();
            ring.fail_next(errno);
            for i in 0..7 {
                // SAFETY: a no-op request uses no memory.
                unsafe { ring.push(&opcode::Nop::new().build().user_data(i)) };
            }
            let (mut done, end) = (Vec::new(), clock::now() + Duration::from_secs(20));
            while done.len() < 7 {
                assert!(clock::now() < end, "errno {errno}: only {done:?} are done");
                ring.enter(Some(Duration::ZERO)).unwrap();
                done.extend(ring.take_completions().iter().map(cqueue::Entry::user_data));
            }
            assert_eq!(done, [0, 1, 2, 3, 4, 5, 6], "errno {errno}");
            assert!(ring.all_submitted());
        }
    }

    #[test]
    fn completions_work_in_each_mode() {
        for mode in MODES {
            echo(|| Uring::with(mode, RingSize::default(), &setup).unwrap());
        }
    }

    #[test]
    fn completions_work_with_an_older_kernel() {
        for mode in MODES {
            echo(|| Uring::with(mode, RingSize::default(), &setup).unwrap().of_old());
            echo(|| Uring::with(mode, TINY, &setup).unwrap().of_old());
        }
    }

    #[test]
    fn readiness_works_in_each_mode() {
        let old_kernel = |mode, size| {
            if mode == Mode::Cooperative {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            } else {
                setup(mode, size)
            }
        };
        echo(|| Uepoll::with(RingSize::default(), &setup).unwrap());
        echo(|| Uepoll::with(RingSize::default(), &old_kernel).unwrap());
    }

    #[test]
    fn rings_that_overflow_lose_nothing() {
        for mode in MODES {
            echo(|| Uring::with(mode, TINY, &setup).unwrap());
        }
        echo(|| Uepoll::with(TINY, &setup).unwrap());
    }
}
