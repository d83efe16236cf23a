//! Pools and objects, listed.

use super::scope::{Scope, Style, json};
use crate::ceph::errno::{because, failed};
use crate::failure::Failure;
use crate::names;
use crate::output;
use onego::rados::{Cluster, ObjectEntry};
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal as _, Write};

#[derive(clap::Args)]
pub(super) struct LsOptions {
    /// "-" for standard output, which is where the list goes without --output
    to: Option<String>,
    /// The objects of all namespaces
    #[arg(long)]
    all: bool,
    /// The objects of the default namespace, whatever else says --all
    #[arg(long)]
    default: bool,
}

/// An object as JSON has it.
#[derive(Serialize)]
struct Listed<'a> {
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    locator: &'a str,
}

pub(super) async fn pools(cluster: &Cluster) -> Result<(), Failure> {
    let pools = cluster.pools().await.map_err(because("error listing pools"))?;
    output::lines(pools.into_iter().map(|pool| pool.name))
}

/// Lists objects as they come, page by page.
pub(super) async fn objects(cluster: &Cluster, scope: &Scope, options: &LsOptions) -> Result<(), Failure> {
    if scope.pool.is_none() {
        return Err(failed("either pool name or pg id needs to be specified"));
    }
    let pool = scope.open_pool(cluster).await?;
    if scope.output.is_none() && options.to.as_deref().is_some_and(|to| to != "-") {
        return Err(failed("Please use --output to specify the output file name"));
    }
    let all = options.all && !options.default && scope.namespace.is_none();
    let mut listing = if all { pool.all_objects() } else { pool.objects() };
    let on_terminal = scope.output.is_none() && io::stdout().is_terminal();
    let mut list =
        List { out: BufWriter::new(scope.sink()?), style: scope.style()?, all, on_terminal, count: 0 };
    list.begin().map_err(output::failed)?;
    while let Some(entry) = listing.try_next().await.map_err(because("error listing objects"))? {
        list.add(&entry).map_err(output::failed)?;
    }
    list.end().map_err(output::failed)
}

/// A list on its way out.
struct List<W> {
    out: W,
    style: Style,
    /// Are namespaces named?
    all: bool,
    on_terminal: bool,
    count: u64,
}

impl<W: Write> List<W> {
    fn begin(&mut self) -> std::io::Result<()> {
        if self.style == Style::Plain { Ok(()) } else { write!(self.out, "[") }
    }

    fn add(&mut self, entry: &ObjectEntry) -> std::io::Result<()> {
        let ObjectEntry { namespace, name, key: locator } = entry;
        self.count += 1;
        if self.style == Style::Plain {
            // Tabs divide the columns; in a name they are escaped.
            let columns = self.all.then_some(namespace).into_iter().chain([name]);
            for (n, column) in columns.chain(Some(locator).filter(|locator| !locator.is_empty())).enumerate()
            {
                let tab: &[u8] = if n > 0 { b"\t" } else { b"" };
                self.out.write_all(tab)?;
                self.out.write_all(&names::shown(column, self.on_terminal))?;
            }
            return self.out.write_all(b"\n");
        }
        let comma = if self.count > 1 { "," } else { "" };
        let text = json(&Listed { namespace, name, locator }, self.style);
        match self.style {
            Style::JsonPretty => {
                write!(self.out, "{comma}\n    {}", text.trim_end().replace('\n', "\n    "))
            }
            _ => write!(self.out, "{comma}{text}"),
        }
    }

    fn end(&mut self) -> std::io::Result<()> {
        match self.style {
            Style::Plain => {}
            Style::Json => write!(self.out, "]")?,
            Style::JsonPretty if self.count == 0 => writeln!(self.out, "]")?,
            Style::JsonPretty => writeln!(self.out, "\n]")?,
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(style: Style, all: bool, entries: &[ObjectEntry]) -> String {
        let mut list = List { out: Vec::new(), style, all, on_terminal: false, count: 0 };
        list.begin().unwrap();
        entries.iter().try_for_each(|entry| list.add(entry)).unwrap();
        list.end().unwrap();
        String::from_utf8(list.out).unwrap()
    }

    #[test]
    fn lists_look_as_those_of_rados() {
        let entry = |namespace: &str, name: &str, key: &str| ObjectEntry {
            namespace: namespace.into(),
            name: name.into(),
            key: key.into(),
        };
        let entries = [entry("", "a", ""), entry("n", "b", "k")];
        assert_eq!(listed(Style::Plain, false, &entries), "a\nb\tk\n");
        assert_eq!(listed(Style::Plain, true, &entries), "\ta\nn\tb\tk\n");
        let expected = r#"[{"namespace":"","name":"a"},{"namespace":"n","name":"b","locator":"k"}]"#;
        assert_eq!(listed(Style::Json, false, &entries), expected);
        let expected = "[\n    {\n        \"namespace\": \"\",\n        \"name\": \"a\"\n    }\n]\n";
        assert_eq!(listed(Style::JsonPretty, false, &entries[..1]), expected);
        assert_eq!(listed(Style::JsonPretty, false, &[]), "[]\n");
    }
}
