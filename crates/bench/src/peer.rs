//! The other half of a measurement: this program in another process, so that its CPU time is measured separately.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Command of the other half.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments, followed by those of a measurement.
    pub arguments: Vec<String>,
}

impl Peer {
    pub(crate) fn start(&self, arguments: &[String]) -> io::Result<Running> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .args(arguments)
            // A pipe that is closed at once instead of /dev/null: containers may lack that device.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An interrupt at the terminal is for the client.
            .process_group(0)
            .spawn()?;
        drop(child.stdin.take());
        let said = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        Ok(Running { child, said })
    }
}

/// The running other half, killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.said.read_line(&mut line)? {
            0 => Err(io::Error::other("the serving process ended early; see its messages above")),
            _ => Ok(line.trim().to_owned()),
        }
    }

    pub(crate) fn port(&mut self) -> io::Result<u16> {
        let line = self.line()?;
        line.parse()
            .map_err(|_| io::Error::other(format!("the serving process printed {line:?} instead of a port")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
