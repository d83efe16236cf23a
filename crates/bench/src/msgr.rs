//! Benchmark of the transport: two messengers without storage, and bare sockets that move the same bytes.
//!
//! As in fio's engine for Ceph's messenger, a request carries data and a small message answers it.

mod client;
mod endpoint;
mod load;
mod messages;
mod row;
mod server;
pub mod table;

use crate::Error;
use crate::floor;
use crate::jobs;
use crate::pattern::SECTOR;
use crate::peer::Peer;
use crate::report::progress::Progress;
use crate::report::table::short_size;
use crate::row::{Count, Ends};
use client::MessengerClient;
use server::Report;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use load::{EndOptions, Load};
pub use row::{Measured, MsgrRow};
pub use server::serve;

const TELL_EVERY: Duration = Duration::from_millis(100);

/// Loads to be measured one after the other.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The loads.
    pub loads: Vec<Load>,
    /// Duration of each measurement.
    pub duration: Duration,
    /// The serving half, to measure messengers.
    pub server: Option<Peer>,
    /// The serving half of bare sockets, to measure the floor.
    pub floor: Option<Peer>,
    /// Seed of the messages' bytes.
    pub seed: u64,
}

impl Plan {
    /// Fails if a load cannot be measured as specified.
    pub fn check(&self) -> Result<(), Error> {
        let unfit =
            self.loads.iter().find(|load| load.verify && !load.block_size.is_multiple_of(SECTOR as u32));
        match unfit {
            Some(load) => Err(Error::Unfit(format!(
                "blocks of {} bytes cannot be verified: they are not whole sectors of {SECTOR} bytes",
                load.block_size
            ))),
            None => Ok(()),
        }
    }

    /// Returns the total duration.
    pub fn total(&self) -> Duration {
        let each = u32::from(self.server.is_some()) + u32::from(self.floor.is_some());
        self.duration * each * self.loads.len() as u32
    }

    /// Measures the loads. Calls `each` after every load; `stop` ends the measurement early.
    pub fn measure(
        &self,
        progress: &Progress,
        stop: &AtomicBool,
        mut each: impl FnMut(&Measured),
    ) -> Result<Vec<Measured>, Error> {
        self.check()?;
        let (mut all, mut from) = (Vec::new(), Duration::ZERO);
        for load in &self.loads {
            progress.task(&format!("{} {}", load.end.engine, short_size(load.block_size.into())));
            let mut measured = Measured { row: None, floor: None, errors: Vec::new() };
            if let Some(server) = &self.server {
                let told = |elapsed| progress.at((from + elapsed).as_millis() as u64);
                let (row, errors) = self.measure_messenger(server, load, told, stop)?;
                (measured.row, measured.errors) = (Some(row), errors);
                from += self.duration;
            }
            if let Some(server) = &self.floor {
                measured.floor = Some(self.measure_floor(server, load)?);
                from += self.duration;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            progress.at(from.as_millis() as u64);
            each(&measured);
            all.push(measured);
        }
        Ok(all)
    }

    fn measure_messenger(
        &self,
        server: &Peer,
        load: &Load,
        told: impl Fn(Duration) + Sync,
        stop: &AtomicBool,
    ) -> Result<(MsgrRow, Vec<String>), Error> {
        let EndOptions { engine, crc, spin } = load.end;
        let crc = if crc { "on" } else { "off" };
        let arguments =
            ["--engine", &engine.to_string(), "--crc", crc, "--spin", &spin.to_string()].map(str::to_owned);
        let arguments = [&arguments[..], &[load.connections.to_string()]].concat();
        let mut serving = server.start(&arguments).map_err(Error::io("starting the serving half"))?;
        let port = serving.port().map_err(Error::io("starting the serving half"))?;
        let work = |client: &mut MessengerClient| {
            let mut next = Duration::ZERO;
            client.run(self.duration, |elapsed| {
                if elapsed >= next {
                    next = elapsed + TELL_EVERY;
                    told(elapsed);
                }
                !stop.load(Ordering::Relaxed)
            })
        };
        let prepare = |_| MessengerClient::connect(port, load, self.seed);
        let (done, cpu_seconds) = jobs::run(1, Some(serving.pid()), prepare, work, MessengerClient::finish)?;
        let line = serving.line().map_err(Error::io("reading the report of the serving half"))?;
        let report: Report = serde_json::from_str(&line).map_err(|error| {
            Error::Failed(format!("invalid report of the serving half {line:?}: {error}"))
        })?;
        let Some(done) = done.into_iter().next() else { return Err(Error::Interrupted) };
        let mut errors = report.errors;
        if report.requests != done.answered {
            errors.push(format!(
                "{} requests were answered, but {} replies came",
                report.requests, done.answered
            ));
        }
        let system_calls_per_io = Ends {
            client: Some(done.system_calls as f64 / done.ios.max(1) as f64),
            server: Some(report.system_calls as f64 / report.requests.max(1) as f64),
        };
        let count = Count {
            ios: done.ios,
            errors: errors.len() as u64,
            seconds: done.seconds,
            latency: done.latency,
            cpu_seconds,
        };
        let row = MsgrRow::new("onego", &done.engine.to_string(), load, &count, system_calls_per_io);
        Ok((row, errors))
    }

    fn measure_floor(&self, server: &Peer, load: &Load) -> Result<MsgrRow, Error> {
        let floor::Measured { count, system_calls } =
            floor::measure(server, load.traffic(), self.duration.as_secs_f64())
                .map_err(Error::io("measuring bare sockets"))?;
        let ios = count.ios.max(1) as f64;
        let each = |calls: Option<f64>| calls.map(|calls| calls / ios);
        let per_io = Ends { client: each(system_calls.client), server: each(system_calls.server) };
        Ok(MsgrRow::new("floor", "sockets", load, &count, per_io))
    }
}
