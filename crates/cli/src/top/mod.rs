//! `onego top`: what processes of Onego do now, as their metrics tell it.

mod activity;
mod fetch;
mod samples;
mod tables;

use crate::failure::Failure;
use crate::listen::Listen;
use crate::metrics::DEFAULT_PORT;
use crate::output;
use crate::size;
use activity::Activity;
use samples::Samples;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const EXAMPLES: &str = "\
Examples:
  onego top
  onego top 10.0.0.5 127.0.0.1:9720 --interval 1s
  onego top --once --json

It reads what commands with --metrics tell. Rates and latencies are those of the last interval.";

/// Where metrics are if nothing is said.
const DEFAULT_ADDRESS: Listen = Listen { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), port: None };

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where processes tell their metrics [default: 127.0.0.1:9719]
    #[arg(value_name = "ADDRESS[:PORT]")]
    addresses: Vec<Listen>,
    /// How long to look before each table
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// Look for one interval, and end
    #[arg(long)]
    once: bool,
    /// Print lines of JSON
    #[arg(long)]
    json: bool,
}

/// An interval of at least ten milliseconds: a shorter one sees nothing but itself.
fn interval(text: &str) -> Result<Duration, String> {
    let time = size::time(text)?;
    if time < Duration::from_millis(10) { Err("it is at least 10ms".to_owned()) } else { Ok(time) }
}

/// A process, and what it told last.
struct Watched {
    addr: SocketAddr,
    last: Option<(Instant, Samples)>,
}

impl Watched {
    /// Asks it. `None`: this was the first time.
    fn look(&mut self) -> io::Result<Option<Activity>> {
        let text = fetch::metrics(self.addr).inspect_err(|_| self.last = None)?;
        let (now, samples) = (Instant::now(), Samples::read(&text));
        let last = self.last.replace((now, samples));
        let current = self.last.as_ref().map(|(_, samples)| samples);
        Ok(last
            .zip(current)
            .map(|((then, before), samples)| Activity::between(&before, samples, now.duration_since(then))))
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let addresses = match options.addresses.as_slice() {
        [] => &[DEFAULT_ADDRESS],
        addresses => addresses,
    };
    let addresses = addresses.iter().map(|address| address.with_default_port(DEFAULT_PORT));
    let mut watched: Vec<_> = addresses.map(|addr| Watched { addr, last: None }).collect();
    // The first look is what the second is compared with.
    let mut seen = look(&mut watched);
    loop {
        if options.once {
            seen.into_iter().try_for_each(|(_, seen)| seen.map(drop))?;
        }
        // A signal ends the program here.
        thread::sleep(options.interval);
        seen = look(&mut watched);
        show(options, &seen)?;
        if options.once {
            return seen.into_iter().try_for_each(|(_, seen)| seen.map(drop));
        }
    }
}

/// What came of a look at each process.
type Seen = Vec<(SocketAddr, Result<Option<Activity>, Failure>)>;

fn look(watched: &mut [Watched]) -> Seen {
    let look = |watched: &mut Watched| {
        let (addr, seen) = (watched.addr, watched.look());
        (addr, seen.map_err(|source| Failure::Metrics { addr, source }))
    };
    watched.iter_mut().map(look).collect()
}

fn show(options: &Options, seen: &Seen) -> Result<(), Failure> {
    if options.json {
        return seen.iter().try_for_each(|(addr, seen)| output::json(&tables::json(*addr, seen)));
    }
    if !options.once {
        let clear = if io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "\n" };
        output::bytes(clear.as_bytes())?;
    }
    output::lines(seen.iter().flat_map(|(addr, seen)| tables::lines(*addr, seen)))
}
