use onego_engine::zero_copy::Settings;
use onego_engine::{AnyEngine, Engine as _, EngineKind, Pump, Spin, Stats, Wait};
use onego_wire::{Machine, Time};
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub(crate) struct Driver<M> {
    pump: Pump<AnyEngine, M>,
    now: Option<Time>,
}

impl<M: Machine> Driver<M> {
    pub(crate) fn open(
        kind: EngineKind,
        zero_copy: Settings,
        spin: Spin,
        machine: impl FnOnce(Time) -> M,
    ) -> io::Result<Self> {
        let mut engine = onego_engine::open(kind)?;
        engine.set_zero_copy(zero_copy);
        let machine = machine(engine.now());
        let mut pump = Pump::new(engine, machine);
        pump.set_spin(spin);
        Ok(Self { pump, now: None })
    }

    pub(crate) fn turn(&mut self, wait: Wait) -> io::Result<()> {
        self.now = None;
        self.pump.turn(wait)
    }

    /// Prepares a sleep outside the engine; see [`Pump::sleep_elsewhere`].
    pub(crate) fn sleep_elsewhere(&mut self) -> io::Result<Option<(BorrowedFd<'_>, Option<Duration>)>> {
        self.pump.sleep_elsewhere()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.pump.stats()
    }

    /// Returns the time for requests. They all go out with the next turn, so one clock read serves all of them.
    pub(crate) fn now(&mut self) -> Time {
        *self.now.get_or_insert_with(|| self.pump.now())
    }

    pub(crate) fn machine(&self) -> &M {
        self.pump.machine()
    }

    pub(crate) fn machine_mut(&mut self) -> &mut M {
        self.pump.machine_mut()
    }

    pub(crate) fn waker(&self) -> onego_engine::Waker {
        self.pump.waker()
    }

    pub(crate) fn block_on<F: Future>(&mut self, future: F) -> io::Result<F::Output> {
        let mut future = pin!(future);
        let alarm = Arc::new(Alarm { rung: AtomicBool::new(true), reactor: self.waker() });
        let waker = Waker::from(Arc::clone(&alarm));
        loop {
            if alarm.rung.swap(false, Ordering::Acquire)
                && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Ok(output);
            }
            let wait = if alarm.rung.load(Ordering::Acquire) { Wait::Poll } else { Wait::Forever };
            self.turn(wait)?;
        }
    }
}

struct Alarm {
    rung: AtomicBool,
    reactor: onego_engine::Waker,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.reactor.wake();
    }
}
