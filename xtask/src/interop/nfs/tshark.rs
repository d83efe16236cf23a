//! What our client and our server say to each other over RDMA, as another program reads it.

use crate::cluster::process::Daemon;
use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::sh;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// How long the capture may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);
/// The capture reads packets some time after they went by.
const LAG: Duration = Duration::from_secs(1);

/// Of the ports below 1024 one may come twice within a second, and tshark takes the second connection of these ports for the
/// first.
const OPTIONS: &str = "rdma&noresvport";

/// NFS's READ and WRITE.
const READ: &str = "6";
const WRITE: &str = "7";
const CALL: &str = "0";
const REPLY: &str = "1";
/// RDMAP's Send with Invalidate.
const SEND_INVALIDATE: &str = "0x04";

/// tshark reads all that is said; with large messages some is said in another way than with small ones.
pub(crate) fn decodes(stage: &Stage) -> Result<()> {
    let large = capture(stage, "--mem --rdma")?;
    ensure!(large.iter().any(|frame| frame.has(&frame.opcodes, SEND_INVALIDATE)), "nothing is invalidated");
    ensure!(large.iter().any(CapturedFrame::is_short_read), "no READ is answered in one message");
    let small = capture(stage, "--mem --rdma --inline 1K --no-remote-invalidation")?;
    ensure!(!small.iter().any(|frame| frame.has(&frame.opcodes, SEND_INVALIDATE)), "memory is invalidated");
    ensure!(
        !small.iter().any(CapturedFrame::is_short_read),
        "a READ is answered in a message of more than 1 KiB"
    );
    Ok(())
}

/// A frame of the capture, with what tshark finds in it. It may have several messages.
struct CapturedFrame {
    malformed: bool,
    opcodes: String,
    procedures: String,
    kinds: String,
    /// Write chunks.
    writes: String,
}

impl CapturedFrame {
    fn parse(line: &str) -> Self {
        let mut fields = line.split('|').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        Self {
            malformed: !next().is_empty(),
            opcodes: next(),
            procedures: next(),
            kinds: next(),
            writes: next(),
        }
    }

    fn has(&self, field: &str, value: &str) -> bool {
        field.split(',').any(|found| found == value)
    }

    fn is(&self, procedure: &str, kind: &str) -> bool {
        self.has(&self.procedures, procedure) && self.has(&self.kinds, kind)
    }

    /// Is it a reply to READ with the data in it?
    fn is_short_read(&self) -> bool {
        self.is(READ, REPLY) && !self.has_data_beside()
    }

    fn has_data_beside(&self) -> bool {
        self.has(&self.writes, "1")
    }
}

/// Serves with those arguments, writes and reads files of some sizes, and has that read by tshark.
fn capture(stage: &Stage, arguments: &str) -> Result<Vec<CapturedFrame>> {
    let server = Embedded::start_nfs(stage, &format!("{arguments} --insecure"))?;
    let log = stage.path("dumpcap.out");
    if log.exists() {
        fs::remove_file(&log)?;
    }
    let line = "-q -B 64 -i lo -f tcp -w capture.pcapng";
    let mut dumpcap = Daemon::spawn("dumpcap", stage.program(Path::new("dumpcap"), line), &log)?;
    let begun = || fs::read_to_string(&log).is_ok_and(|said| said.contains("File: "));
    dumpcap.wait_until("the beginning of the capture", PATIENCE, begun)?;
    for size in [700_usize, 3000, 300_001] {
        fs::write(stage.path("there"), vec![7; size])?;
        let url = |options: &str| format!("nfs://{ADDRESS}:2049/export/{size}?{OPTIONS}{options}");
        stage.onego(&format!("nfs put there {}", url("")))?;
        stage.onego(&format!("nfs cp {} back", url("")))?;
        stage.onego(&format!("nfs cp {} back", url("&rsize=1024")))?;
        ensure!(fs::read(stage.path("back"))? == vec![7; size], "{size} bytes came back as others");
    }
    stage.onego(&format!("nfs ls nfs://{ADDRESS}:2049/export?{OPTIONS}"))?;
    sleep(LAG);
    dumpcap.stop()?;
    drop(server);
    let fields =
        "-e _ws.malformed -e iwarp_rdma.opcode -e nfs.procedure_v3 -e rpc.msgtyp -e rpcordma.writes_count";
    let line = format!("-r capture.pcapng -Y iwarp_mpa -T fields -E separator=| {fields}");
    let said = sh::text(&mut stage.program(Path::new("tshark"), &line))?;
    let frames: Vec<CapturedFrame> = said.lines().map(CapturedFrame::parse).collect();
    for (procedure, kind) in [(READ, CALL), (READ, REPLY), (WRITE, CALL), (WRITE, REPLY)] {
        let found = frames.iter().any(|frame| frame.is(procedure, kind));
        ensure!(found, "tshark finds no message of procedure {procedure} and type {kind}:\n{said}");
    }
    // It does not follow RDMA Writes: data that is written beside its reply it misses there, in the kernel's
    // conversations, too.
    let beside = |frame: &CapturedFrame| frame.is(READ, REPLY) && frame.has_data_beside();
    let malformed = frames.iter().position(|frame| frame.malformed && !beside(frame));
    ensure!(malformed.is_none(), "tshark finds frame {malformed:?} malformed:\n{said}");
    Ok(frames)
}
