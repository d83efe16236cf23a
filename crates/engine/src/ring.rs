//! An io_uring: what both engines over one have in common.
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Submitter, cqueue, squeue};
use std::io;
use std::time::Duration;

/// How many requests and completions a ring holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingSize {
    /// Requests that are queued before they are submitted.
    pub(crate) submissions: u32,
    /// Completions that fit. When there are more, the kernel keeps them and gives them with the next calls.
    pub(crate) completions: u32,
}

impl Default for RingSize {
    /// What the connections of a busy turn ask for, and what comes for them meanwhile.
    fn default() -> Self {
        Self { submissions: 256, completions: 4096 }
    }
}

/// How completions are brought to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Only when the engine asks, without interrupting it (Linux 6.1).
    Deferred,
    /// At the thread's next system call, whichever it is, without interrupting it (Linux 5.19).
    Cooperative,
    /// At any time.
    Interrupting,
}

/// Something that the kernel's io_uring cannot do, and that an engine needs or wants.
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

/// Makes a ring in the kernel; tests put kernels of old in its place.
pub(crate) type Setup<'a> = &'a dyn Fn(Mode, RingSize) -> io::Result<IoUring>;

/// What this kernel can do.
pub(crate) fn setup(mode: Mode, size: RingSize) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    // Disabled until the first poll, which makes the thread that calls it the single issuer.
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
/// It may be built on any thread, and belongs to the one that starts it.
pub(crate) struct Ring {
    ring: IoUring,
    started: bool,
    completions: Vec<cqueue::Entry>,
    /// System calls made.
    calls: u64,
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
        // Resource tags came with multishot poll requests, which cannot be asked about.
        if !ring.params().is_feature_resource_tagging() {
            return Err(Missing::MultishotPoll.into());
        }
        Ok(Self { ring, started: false, completions: Vec::new(), calls: 0 })
    }

    /// From here on the ring is this thread's.
    fn start(&mut self) -> io::Result<()> {
        if !self.started {
            self.ring.submitter().register_enable_rings()?;
            self.started = true;
        }
        Ok(())
    }

    /// To register things with the ring.
    pub(crate) fn submitter(&self) -> Submitter<'_> {
        self.ring.submitter()
    }

    /// Can a request go unanswered if all went well?
    pub(crate) fn skips_success(&self) -> bool {
        self.ring.params().is_feature_skip_cqe_on_success()
    }

    /// System calls made.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// Has everything been handed to the kernel?
    pub(crate) fn all_submitted(&mut self) -> bool {
        self.ring.submission().is_empty()
    }

    /// Completions that the kernel had no memory to keep: nobody knows what they were.
    pub(crate) fn lost(&mut self) -> u32 {
        self.ring.completion().overflow()
    }

    /// Queues a request.
    ///
    /// # Safety
    /// What the request points to stays where it is, and unused, until its completion.
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: promised by the caller.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            if self.start().is_err() {
                return;
            }
            self.calls += 1;
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if retry(&error) => self.collect(),
                // The request is lost with the ring, which the next call finds out.
                Err(_) => return,
            }
        }
    }

    /// Takes over what has completed.
    fn collect(&mut self) {
        self.completions.extend(self.ring.completion());
    }

    /// Is there a completion to be had without a system call?
    #[inline]
    pub(crate) fn has_completions(&mut self) -> bool {
        !self.completions.is_empty() || !self.ring.completion().is_empty()
    }

    /// Submits what is queued, and sleeps if there is time and nothing has completed. It enters the kernel only if
    /// it has to.
    pub(crate) fn enter(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let completed = self.has_completions();
        let submissions = self.ring.submission();
        // Completions that wait to be brought can wait until those that are here are worked off.
        let idle =
            submissions.is_empty() && !submissions.cq_overflow() && (completed || !submissions.taskrun());
        drop(submissions);
        if idle && (completed || timeout == Some(Duration::ZERO)) {
            return Ok(());
        }
        self.start()?;
        self.calls += 1;
        let result = match timeout {
            Some(Duration::ZERO) => self.ring.submit(),
            _ if completed => self.ring.submit(),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
            None => self.ring.submit_and_wait(1),
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) if retry(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What has completed, to be given [back](Self::recycle) empty.
    pub(crate) fn take_completions(&mut self) -> Vec<cqueue::Entry> {
        self.collect();
        std::mem::take(&mut self.completions)
    }

    /// Takes back the memory of completions that are worked off.
    pub(crate) fn recycle(&mut self, mut empty: Vec<cqueue::Entry>) {
        // What was collected meanwhile because the submission queue was full comes first next time.
        empty.append(&mut self.completions);
        self.completions = empty;
    }
}

/// Calls that did nothing wrong and are to be made again: the time was up, a signal came, or completions have to be
/// taken first.
fn retry(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Pump, Uepoll, Uring, Wait, clock};
    use onego_testkit::{FrameEvent, Frames};

    const MODES: [Mode; 3] = [Mode::Deferred, Mode::Cooperative, Mode::Interrupting];
    const TINY: RingSize = RingSize { submissions: 2, completions: 4 };

    /// Many connections between two engines, each with a frame there and back; half of them are closed then, and
    /// come again.
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
                assert!(clock::now() < end, "it takes too long: {} of {CONNS}", conns.len());
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
                assert!(clock::now() < end, "it takes too long to close");
                server.turn(Wait::Poll).unwrap();
                client.turn(Wait::Poll).unwrap();
            }
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
