//! The other half of a measurement: this program again, in a process of its own, so that its CPU time is told apart.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// How the other half is run: a program, and the arguments that make it be that.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; what is to be served is put behind them.
    pub arguments: Vec<String>,
}

impl Peer {
    /// Starts it with these arguments more.
    pub(crate) fn start(&self, arguments: &[String]) -> io::Result<Running> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .args(arguments)
            // A pipe that is closed at once, where /dev/null would be needed: containers may have no such device.
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

/// The other half while it runs. It ends with this.
pub(crate) struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Running {
    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it prints: first the port that it listens on.
    pub(crate) fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.said.read_line(&mut line)? {
            0 => Err(io::Error::other("the serving process ended early; it says why above")),
            _ => Ok(line.trim().to_owned()),
        }
    }

    /// The port that it listens on.
    pub(crate) fn port(&mut self) -> io::Result<u16> {
        let line = self.line()?;
        line.parse()
            .map_err(|_| io::Error::other(format!("the serving process says {line:?}, which is no port")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
