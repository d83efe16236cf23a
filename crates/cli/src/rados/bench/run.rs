//! A load on its way: requests in flight, and a line each second.

use super::content::Series;
use super::statistics::{Fields, Statistics};
use crate::interrupt::say_as_it_is;
use crate::rados::scope::Style;
use crate::rados::window::Window;
use onego::ceph::Error;
use onego::rados::Pool;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    Write,
    Sequential,
    Random,
}

/// A load.
pub(super) struct Run<'a> {
    pub(super) pool: &'a Pool,
    pub(super) series: &'a Series,
    pub(super) load: Load,
    pub(super) duration: Duration,
    /// Requests in flight.
    pub(super) depth: usize,
    /// Requests in all; 0: as many as the time lets be.
    pub(super) ops: u64,
    /// Is what is read looked at?
    pub(super) verify: bool,
    pub(super) style: Style,
    pub(super) show_time: bool,
}

/// A line is printed as often.
const SECOND: Duration = Duration::from_secs(1);

impl Run<'_> {
    pub(super) async fn measure(&self, fields: &mut Fields) -> Result<Statistics, Error> {
        let start = Instant::now();
        let mut statistics = Statistics::new(start, self.series.op_size, self.style, self.show_time);
        let mut window = Window::new(self.depth);
        let ticker = Ticker::start(SECOND);
        let mut random = Random(u64::from(std::process::id()) | 1);
        let mut next = 0;
        statistics.tick(0, fields);
        loop {
            while window.has_room() && self.goes_on(next, start) {
                let op = if self.load == Load::Random { random.below(self.series.ops) } else { next };
                window.begin(self.request(op));
                next += 1;
                statistics.started();
            }
            let event = std::future::poll_fn(|context| {
                if let Some(second) = ticker.second(context.waker()) {
                    return Poll::Ready(Event::Tick(second));
                }
                window.poll_any(context).map(|done| done.map_or(Event::Over, Event::Done))
            });
            match event.await {
                Event::Tick(second) => statistics.tick(second, fields),
                Event::Done(result) => statistics.done(result?),
                Event::Over => break,
            }
        }
        statistics.end();
        Ok(statistics)
    }

    /// Is there another request to be made? A write has as many as there are in flight at least.
    fn goes_on(&self, next: u64, start: Instant) -> bool {
        let is_first = self.load == Load::Write && next < self.depth as u64;
        let is_left = self.load == Load::Random || self.ops == 0 || next < self.ops;
        is_first || is_left && start.elapsed() < self.duration
    }

    /// Makes a request, and says how long it took.
    async fn request(&self, op: u64) -> Result<Duration, Error> {
        let (object, offset) = self.series.place(op);
        if self.load == Load::Write {
            let content = self.series.content(op);
            let start = Instant::now();
            self.pool.write(&object, offset, content).await?;
            return Ok(start.elapsed());
        }
        let start = Instant::now();
        let read = self.pool.read(&object, offset, self.series.op_size).await?;
        let took = start.elapsed();
        if self.verify && read.to_vec() != self.series.content(op) {
            say_as_it_is(&format!("{object} is not correct!"));
        }
        Ok(took)
    }
}

enum Event<T> {
    Tick(u64),
    Done(T),
    Over,
}

/// Wakes a task each second, so that it has something to say while nothing answers.
struct Ticker {
    state: Arc<Mutex<TickerState>>,
}

#[derive(Default)]
struct TickerState {
    second: u64,
    told: u64,
    waker: Option<Waker>,
}

impl Ticker {
    fn start(period: Duration) -> Self {
        let state = Arc::new(Mutex::new(TickerState::default()));
        let weak = Arc::downgrade(&state);
        thread::spawn(move || {
            loop {
                thread::sleep(period);
                // It ends with its owner.
                let Some(state) = weak.upgrade() else { return };
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                state.second += 1;
                state.waker.take().into_iter().for_each(Waker::wake);
            }
        });
        Self { state }
    }

    /// The second that has come, if it was not given yet.
    fn second(&self, waker: &Waker) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waker = Some(waker.clone());
        (state.second > state.told).then(|| {
            state.told = state.second;
            state.second
        })
    }
}

/// Numbers in no order that anybody depends on (xorshift64, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}
