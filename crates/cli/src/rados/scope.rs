//! What the commands have in common: which objects are meant, and how results are printed.

use crate::ceph::errno::{because, failed};
use crate::failure::Failure;
use crate::size;
use onego::rados::{Cluster, Pool};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// Bytes of a request if nothing else is said.
pub(super) const OP_SIZE: u64 = 4 << 20;

/// The most bytes of a request, by which memory is bounded.
pub(super) const MAX_OP_SIZE: u64 = 64 << 20;

#[derive(clap::Args)]
#[command(next_help_heading = "Objects and output")]
pub(crate) struct Scope {
    /// The pool
    #[arg(short, long, global = true, value_name = "POOL")]
    pub(super) pool: Option<String>,
    /// The namespace within the pool
    #[arg(short = 'N', long, global = true, value_name = "NAMESPACE")]
    pub(super) namespace: Option<String>,
    /// Place objects by this instead of their names
    #[arg(long, global = true, value_name = "KEY")]
    object_locator: Option<String>,
    /// How results are printed: json or json-pretty [default: for people]
    #[arg(short, long, global = true, value_name = "FORMAT")]
    format: Option<String>,
    /// Print JSON in lines
    #[arg(long, global = true, hide = true)]
    pretty_format: bool,
    /// The file to write to, for "ls" and "bench"
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Bytes of a request of "get", "put", "append" and "bench write" [default: 4M]
    #[arg(short, long, global = true, value_name = "SIZE")]
    pub(super) block_size: Option<String>,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Json,
    JsonPretty,
}

impl Scope {
    /// The pool that the options name, in the namespace that they name.
    pub(super) async fn open_pool(&self, cluster: &Cluster) -> Result<Pool, Failure> {
        let name = self.pool.as_ref().ok_or_else(|| failed("rados: name the pool with --pool"))?;
        self.open(cluster, name).await
    }

    async fn open(&self, cluster: &Cluster, name: &str) -> Result<Pool, Failure> {
        let pool = cluster.pool(name).await.map_err(because(format!("error opening pool {name}")))?;
        let pool = pool.in_namespace(self.namespace.as_deref().unwrap_or_default());
        Ok(pool.with_locator(self.object_locator.as_deref().unwrap_or_default()))
    }

    /// Bytes of a request.
    pub(super) fn op_size(&self) -> Result<u64, Failure> {
        number("block-size", self.block_size.as_deref(), OP_SIZE)
    }

    pub(super) fn style(&self) -> Result<Style, Failure> {
        match self.format.as_deref() {
            None => Ok(Style::Plain),
            Some("json") => Ok(Style::Json),
            Some("json-pretty") => Ok(Style::JsonPretty),
            Some(other) => Err(nonsense(format!("unrecognized format: {other}"))),
        }
    }

    /// How results are printed that people get as JSON, too.
    pub(super) fn json_style(&self) -> Result<Style, Failure> {
        Ok(match self.style()? {
            Style::Plain if !self.pretty_format => Style::Json,
            Style::Plain => Style::JsonPretty,
            style => style,
        })
    }

    /// Where results go that may go to a file.
    pub(super) fn sink(&self) -> Result<Box<dyn Write>, Failure> {
        match &self.output {
            None => Ok(Box::new(io::stdout().lock())),
            Some(path) => Ok(Box::new(File::create(path).map_err(Failure::file(path))?)),
        }
    }
}

/// An option that makes no sense. `rados` gives the negative number to the system, which keeps eight bits of it.
pub(super) fn nonsense(said: impl Into<String>) -> Failure {
    Failure::AsCeph { code: 234, said: said.into() }
}

/// Reads the number of an option.
pub(super) fn number(option: &str, text: Option<&str>, default: u64) -> Result<u64, Failure> {
    let Some(text) = text else { return Ok(default) };
    match size::bytes(text) {
        Ok(size @ 1..=MAX_OP_SIZE) => Ok(size),
        Ok(_) => Err(nonsense(format!("Invalid value for {option}: {text:?} is not from 1 to 64M"))),
        Err(error) => Err(nonsense(format!("Invalid value for {option}: {error}"))),
    }
}

/// JSON with the spaces that Ceph puts into it.
pub(super) fn json(value: &impl Serialize, style: Style) -> String {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail, and neither can what is written.
    let _ = match style {
        Style::JsonPretty => {
            let formatter = PrettyFormatter::with_indent(b"    ");
            value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))
        }
        Style::Json | Style::Plain => value.serialize(&mut Serializer::new(&mut bytes)),
    };
    if style == Style::JsonPretty {
        bytes.push(b'\n');
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
