//! `onego bench zc`, `onego calibrate`.

use super::outputs::{Outputs, check_own};
use super::parts::seconds;
use super::report::print_line;
use crate::failure::Failure;
use crate::interrupt::{self, Unfinished};
use crate::output;
use crate::process::this_program;
use crate::size;
use onego_bench::peer::Peer;
use onego_bench::report::progress::Progress;
use onego_bench::zc::{self, Calibration, Flush, Path, Plan, Row, Sender, Thresholds};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  onego bench zc
  onego bench zc --path sink --sender msg_zerocopy,bare-fixed,fixed --size 65435 --batch 8 --repeat 5
  onego bench zc --path loopback,veth --sender copy,fixed,adaptive --json rows.json --svg rows.svg

Senders:
  send, msg_zerocopy     loops over send(2); notifications are taken after every 16 sends
  bare-copy|zc|fixed     loops over io_uring; fixed: from registered memory
  copy, zc, fixed        Onego's sends by io_uring, policy off, on, and on with registered memory
  adaptive               the same with the adaptive policy, registered memory
  socket-off|on|adaptive Onego's sends by sendmsg(2) and MSG_ZEROCOPY

The sink is a device (ifb) that frees what it gets, in a network namespace of its own, which ends with
the measurement; that and veth take root, and ip of iproute2. \"copied\" is the share of sends that the
kernel reported as copied after all; \"CPU, ratio\" is how many times as cheap a byte is as with
msg_zerocopy; \"both ends to copy\" is the CPU time of sender and receiver together beside that of copy in
the same turn: with --repeat 6 and more the median, and where it is with 95% confidence. Each request has
its notification: Linux refuses to leave it out for SEND_ZC, so to flush a batch saves events here, not in
the kernel.";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Ways of the bytes: sink (UDP), loopback and veth (TCP)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "sink,loopback,veth")]
    path: Vec<Path>,
    /// Senders; "all" is every one of them [default: send,msg_zerocopy,copy,zc,bare-fixed,fixed,adaptive]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = senders, hide_default_value = true)]
    sender: Vec<Senders>,
    /// Bytes of a send [default: 1500,4096,16384,65435 to the sink, 4k,16k,64k,256k,1m by TCP]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = send_size)]
    size: Vec<u32>,
    /// Sends a submission
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8,32", value_parser = clap::value_parser!(u32).range(1..=64))]
    batch: Vec<u32>,
    /// When a notification slot is flushed: behind each request, or each batch
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "request,batch")]
    flush: Vec<Flush>,
    /// How long to measure each
    #[arg(long, visible_alias = "runtime", value_name = "S", default_value_t = 0.3, value_parser = seconds)]
    seconds: f64,
    /// Times that each is measured, in turns with the others of its size; the median counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Measure each five times, for a second
    #[arg(long, conflicts_with_all = ["repeat", "seconds"])]
    long: bool,
    /// Write every row to a file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw bandwidth and CPU by size
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

/// One sender, or all.
#[derive(Debug, Clone, Copy)]
enum Senders {
    All,
    One(Sender),
}

fn senders(text: &str) -> Result<Senders, String> {
    if text == "all" { Ok(Senders::All) } else { text.parse().map(Senders::One) }
}

/// The most that one send of a measurement carries.
const LARGEST: u64 = 4 << 20;

fn send_size(text: &str) -> Result<u32, String> {
    match size::bytes(text)? {
        size @ 1..=LARGEST => Ok(size as u32),
        _ => Err(format!("{text:?} is not from 1 to 4M")),
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let plan = options.plan()?;
    plan.check()?;
    let outputs = Outputs::open(options.json.as_deref(), options.svg.as_deref())?;
    // Network namespaces go with the thread that has made them.
    let _unfinished = Unfinished::winding_down(|| None);
    let progress = Progress::of_time(plan.total(), !options.no_progress);
    let measured = zc::measure(&plan, &progress, interrupt::stop(), |rows| print(&progress, rows));
    progress.finish();
    let rows = measured?;
    outputs.write(&rows, || zc::svg("onego bench zc", &rows))
}

impl Options {
    fn plan(&self) -> Result<Plan, Failure> {
        let (repeat, seconds) = if self.long { (5, 1.0) } else { (self.repeat, self.seconds) };
        Ok(Plan {
            paths: self.path.clone(),
            senders: self.senders(),
            sizes: self.size.clone(),
            batches: self.batch.clone(),
            flushes: self.flush.clone(),
            duration: Duration::from_secs_f64(seconds),
            repeat,
            thresholds: Thresholds::load().map_err(onego_bench::Error::from)?,
            receiver: receiver()?,
        })
    }

    fn senders(&self) -> Vec<Sender> {
        if self.sender.is_empty() {
            return Sender::USUAL.to_vec();
        }
        let each = |senders: &Senders| match senders {
            Senders::All => Sender::ALL.to_vec(),
            Senders::One(sender) => vec![*sender],
        };
        self.sender.iter().flat_map(each).collect()
    }
}

/// This program, as the other end of a connection.
fn receiver() -> Result<Peer, Failure> {
    let arguments = ["bench", "zc-receiver"].map(str::to_owned).to_vec();
    Ok(Peer { program: this_program()?, arguments })
}

fn print(progress: &Progress, rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let baseline = rows.iter().find(|row| row.row.mode == Sender::MsgZerocopy.name());
    print_line(progress, &zc::header(first));
    rows.iter().for_each(|row| print_line(progress, &zc::line(row, baseline)));
}

pub(crate) const CALIBRATE_EXAMPLES: &str = "\
Examples:
  onego calibrate
  onego calibrate --output ~/.config/onego/zero-copy.conf

Sends bytes to a device that discards them, in a network namespace of its own, which takes root. For each
size it prints the CPU time of a send without a copy beside that of one with. The file has a threshold a
line, \"registered = 8192\" or \"= never\"; the adaptive policy finds it at
$XDG_CONFIG_HOME/onego/zero-copy.conf (~/.config), else at /etc/onego/zero-copy.conf, else uses built-in
values. A file that is wrong is an error: remove it, or calibrate again.";

#[derive(clap::Args)]
pub(crate) struct CalibrateOptions {
    /// Where to write the thresholds [default: /etc/onego/zero-copy.conf]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How long each measurement takes
    #[arg(long, visible_alias = "runtime", value_name = "S", default_value_t = 0.1, value_parser = seconds)]
    seconds: f64,
    /// Times that each is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

/// Start of the file that is written.
const CALIBRATED: &str = "# Bytes from which";

pub(crate) fn calibrate(options: &CalibrateOptions) -> Result<(), Failure> {
    let path = options.output.clone().unwrap_or_else(Thresholds::system_path);
    check_own(&path, CALIBRATED)?;
    let calibration =
        Calibration { duration: Duration::from_secs_f64(options.seconds), repeat: options.repeat };
    let _unfinished = Unfinished::winding_down(|| None);
    let progress = Progress::of_time(calibration.total(), !options.no_progress);
    let thresholds = calibration.run(&progress, interrupt::stop());
    progress.finish();
    let text = format!(
        "{CALIBRATED} on a send without a copy is cheaper, written by \"onego calibrate\".\n{}",
        thresholds?
    );
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(Failure::file(parent))?;
    }
    std::fs::write(&path, &text).map_err(Failure::file(&path))?;
    output::lines([format!("{text}written to {}", path.display())])
}
