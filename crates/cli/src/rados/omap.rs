//! Maps of objects.

use super::arguments::{ObjectArg, ObjectsArg, value};
use super::hexdump::hexdump;
use crate::ceph::errno::{because, failed, sentence};
use crate::failure::Failure;
use crate::interrupt;
use crate::names;
use crate::output;
use onego::rados::{Omap, OmapPage, Pool, ReadOp, WriteOp};
use onego::text;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, IsTerminal as _, Write};

#[derive(clap::Args)]
pub(super) struct KeyArg {
    /// The object
    object: String,
    /// The key
    key: String,
}

#[derive(clap::Args)]
pub(super) struct GetOptions {
    /// The object
    object: String,
    /// The key
    key: String,
    /// The file for the value; "-" is standard output [default: the value is printed in hexadecimal]
    file: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct SetOptions {
    /// The object
    object: String,
    /// The key
    key: String,
    /// The value [default: what is read from standard input]
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct GetHeaderOptions {
    /// The object
    object: String,
    /// The file for the header; "-" is standard output [default: the header is printed in hexadecimal]
    file: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct SetHeaderOptions {
    /// The object
    object: String,
    /// The header
    #[arg(allow_hyphen_values = true)]
    value: String,
}

/// Keys asked for at a time.
pub(super) const PAGE: u64 = 1024;

/// Goes through a map page by page.
async fn for_each_page(
    pool: &Pool,
    object: &str,
    what: &str,
    mut page: impl FnMut(&mut dyn Write, &Omap) -> io::Result<()>,
) -> Result<(), Failure> {
    let what = format!("error getting omap {what} {}/{object}", pool.name());
    let mut out = BufWriter::new(io::stdout().lock());
    let mut last = Vec::new();
    loop {
        let OmapPage { entries, more } = pool.omap(object, &last, PAGE).await.map_err(because(&what))?;
        page(&mut out, &entries).map_err(output::failed)?;
        match entries.last_key_value() {
            Some((key, _)) if more => last = key.clone(),
            _ => return out.flush().map_err(output::failed),
        }
    }
}

pub(super) async fn list_keys(pool: &Pool, ObjectArg { object }: &ObjectArg) -> Result<(), Failure> {
    let on_terminal = io::stdout().is_terminal();
    let keys = |out: &mut dyn Write, entries: &Omap| {
        entries.keys().try_for_each(|key| {
            match on_terminal {
                true => out.write_all(names::shown_text(key).as_bytes())?,
                false => out.write_all(key)?,
            }
            out.write_all(b"\n")
        })
    };
    for_each_page(pool, object, "key set", keys).await
}

pub(super) async fn list_values(pool: &Pool, ObjectArg { object }: &ObjectArg) -> Result<(), Failure> {
    let values = |out: &mut dyn Write, entries: &Omap| {
        entries.iter().try_for_each(|(key, value)| {
            let value = value.to_vec();
            if is_text(key) {
                out.write_all(key)?;
            } else {
                write!(out, "key ({} bytes):\n{}", key.len(), hexdump(key))?;
            }
            writeln!(out, "\nvalue ({} bytes) :\n{}", value.len(), hexdump(&value))
        })
    };
    for_each_page(pool, object, "keys", values).await
}

fn is_text(key: &[u8]) -> bool {
    key.iter().all(|byte| matches!(byte, 0x20..=0x7e))
}

pub(super) async fn get(pool: &Pool, options: &GetOptions) -> Result<(), Failure> {
    let GetOptions { object, key, file } = options;
    let place = format!("{}/{object}/{key}", pool.name());
    let what = || because(format!("error getting omap value {place}"));
    let mut op = ReadOp::new();
    let found = op.omap_by_keys(BTreeSet::from([text::to_bytes(key).into_owned()]));
    let reply = pool.operate_read(object, op).await.map_err(what())?;
    let found = reply.get(&found).map_err(what())?;
    match found.get(&*text::to_bytes(key)) {
        Some(value) => show("value", &value.to_vec(), file.as_deref()),
        None => {
            output::lines([format!("No such key: {place}")])?;
            Err(failed(""))
        }
    }
}

/// Prints a value, or writes it to a file.
fn show(what: &str, value: &[u8], file: Option<&str>) -> Result<(), Failure> {
    let Some(file) = file else {
        return output::lines([format!("{what} ({} bytes) :\n{}", value.len(), hexdump(value))]);
    };
    interrupt::say_as_it_is(&format!("Writing to {file}"));
    if file == "-" {
        return output::bytes(value);
    }
    output::write_file(&names::path(file), value).map_err(|error| {
        failed(format!("failed to open file: {}", sentence(error.raw_os_error().unwrap_or_default())))
    })
}

pub(super) async fn set(pool: &Pool, options: &SetOptions) -> Result<(), Failure> {
    let SetOptions { object, key, value: given } = options;
    let what = format!("error setting omap value {}/{object}/{key}", pool.name());
    let entries = Omap::from([(text::to_bytes(key).into_owned(), value(given.as_deref())?.into())]);
    pool.set_omap(object, entries).await.map_err(because(what))
}

pub(super) async fn remove(pool: &Pool, KeyArg { object, key }: &KeyArg) -> Result<(), Failure> {
    let what = format!("error removing omap key {}/{object}/{key}", pool.name());
    pool.remove_omap(object, BTreeSet::from([text::to_bytes(key).into_owned()])).await.map_err(because(what))
}

pub(super) async fn clear(pool: &Pool, ObjectsArg { objects }: &ObjectsArg) -> Result<(), Failure> {
    for object in objects {
        let cleared = pool.operate_write(object, WriteOp::new().clear_omap()).await;
        // The words of `rados` lack a colon here.
        cleared.map_err(|error| {
            let what = format!("error clearing omap keys {}/{object}/", pool.name());
            match crate::ceph::errno::number(&error) {
                Some(number) => failed(format!("{what}{}", sentence(number))),
                None => error.into(),
            }
        })?;
    }
    Ok(())
}

pub(super) async fn get_header(pool: &Pool, options: &GetHeaderOptions) -> Result<(), Failure> {
    let GetHeaderOptions { object, file } = options;
    let what = || because(format!("error getting omap header {}/{object}", pool.name()));
    let mut op = ReadOp::new();
    let header = op.omap_header();
    let reply = pool.operate_read(object, op).await.map_err(what())?;
    show("header", &reply.get(&header).map_err(what())?.to_vec(), file.as_deref())
}

pub(super) async fn set_header(pool: &Pool, options: &SetHeaderOptions) -> Result<(), Failure> {
    let SetHeaderOptions { object, value } = options;
    let what = format!("error setting omap value {}/{object}", pool.name());
    let op = WriteOp::new().set_omap_header(text::to_bytes(value).into_owned());
    pool.operate_write(object, op).await.map(drop).map_err(because(what))
}
