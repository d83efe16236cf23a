//! `onego rados bench`: loads on objects, and what is left of them. What it writes `rados bench` reads, and the other way
//! round.

mod content;
mod number;
mod run;
mod statistics;

use super::objects::remove_all;
use super::scope::{Scope, Style, json, nonsense};
use crate::ceph::errno::{because_twice, failed};
use crate::failure::Failure;
use crate::interrupt::Unfinished;
use crate::output;
use crate::size;
use content::{Series, Stored};
use number::shown;
use onego::ceph::Error;
use onego::rados::Pool;
use run::{Load, Run};
use statistics::Fields;
use std::time::{Duration, Instant};

/// The object that says what the last series was, if nothing else is said.
const LAST_RUN: &str = "benchmark_last_metadata";

#[derive(clap::Args)]
pub(super) struct BenchOptions {
    /// How long
    seconds: String,
    /// What is done: write, seq or rand; reads take what the last write with --no-cleanup has left
    kind: String,
    /// Requests in flight
    #[arg(short = 't', long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    concurrent_ios: u16,
    /// Leave what is written
    #[arg(long)]
    no_cleanup: bool,
    /// The object that says what was written
    #[arg(long, value_name = "NAME", default_value = LAST_RUN)]
    run_name: String,
    /// Bytes of an object, of which each request writes a part [default: those of a request]
    #[arg(short = 'O', long, value_name = "SIZE")]
    object_size: Option<String>,
    /// The most objects that are written [default: any number]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    max_objects: u64,
    /// Say when each line is printed
    #[arg(long)]
    show_time: bool,
    /// Do not look at what is read
    #[arg(long)]
    no_verify: bool,
    /// Say nothing of hints, which are not sent
    #[arg(long, hide = true)]
    no_hints: bool,
}

#[derive(clap::Args)]
pub(super) struct CleanupOptions {
    /// What the objects' names begin with [default: what this host's benchmarks have]
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// The object that says what was written
    #[arg(long, value_name = "NAME", default_value = LAST_RUN)]
    run_name: String,
    /// Requests in flight
    #[arg(short = 't', long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    concurrent_ios: u16,
}

const ABOUT: &str = "error during benchmark";

pub(super) async fn bench(pool: &Pool, scope: &Scope, options: &BenchOptions) -> Result<(), Failure> {
    let seconds = options.seconds.parse::<u32>();
    let seconds = seconds.map_err(|_| failed(format!("Invalid value for seconds: '{}'", options.seconds)))?;
    let duration = Duration::from_secs(seconds.into());
    let load = match options.kind.as_str() {
        "write" => Load::Write,
        "seq" => Load::Sequential,
        "rand" => Load::Random,
        _ => return Err(failed(format!("rados: bench does write, seq or rand, and not {}", options.kind))),
    };
    if load != Load::Write && (scope.block_size.is_some() || options.object_size.is_some()) {
        return Err(failed("-b|--block_size option can be used only with 'write' bench test"));
    }
    if scope.style()? == Style::Plain && scope.output.is_some() {
        return Err(failed("-o|--output option can only be used with '--format' option"));
    }
    output::lines([format!("hints = {}", u8::from(!options.no_hints))])?;
    let series =
        if load == Load::Write { new_series(scope, options)? } else { stored(pool, options).await? };
    let style = scope.style()?;
    let mut fields = Fields::default();
    if load == Load::Write {
        introduce(&series, options, seconds, style, &mut fields)?;
    }
    let unfinished = Unfinished::new({
        let (pool, prefix) = (pool.name().to_owned(), series.prefix.clone());
        let is_left = load == Load::Write;
        move || {
            is_left.then(|| {
                format!(
                    "what was written is left: \"onego rados -p {pool} cleanup --prefix {prefix}\" removes it"
                )
            })
        }
    });
    let ops = if load == Load::Write { series.per_object() * options.max_objects } else { series.ops };
    let run = Run {
        pool,
        series: &series,
        load,
        duration,
        depth: options.concurrent_ios.into(),
        ops,
        verify: !options.no_verify,
        style,
        show_time: options.show_time,
    };
    let statistics = run.measure(&mut fields).await.map_err(because_twice(ABOUT))?;
    statistics.report(load == Load::Write, &series, style, &mut fields)?;
    if load == Load::Write {
        let written = Stored { ops: statistics.finished(), ..series.stored() };
        pool.write_full(&options.run_name, written.encode()).await.map_err(because_twice(ABOUT))?;
        if !options.no_cleanup {
            clean_up(pool, options, &series, written.ops).await?;
        }
    }
    drop(unfinished);
    if style == Style::Plain {
        return Ok(());
    }
    let mut sink = scope.sink()?;
    sink.write_all(json(&fields, style).as_bytes()).and_then(|()| sink.flush()).map_err(output::failed)
}

fn new_series(scope: &Scope, options: &BenchOptions) -> Result<Series, Failure> {
    let mut op_size = scope.op_size()?;
    let object_size = match options.object_size.as_deref().map(size::bytes) {
        None => op_size,
        Some(Ok(size @ 1..)) => size,
        Some(Ok(0)) => return Err(nonsense("Invalid value for object-size: an object needs a byte")),
        Some(Err(error)) => return Err(nonsense(format!("Invalid value for object-size: {error}"))),
    };
    op_size = op_size.min(object_size);
    Ok(Series::new(object_size, op_size))
}

/// What an earlier write has left.
async fn stored(pool: &Pool, options: &BenchOptions) -> Result<Series, Failure> {
    match Stored::read(pool, &options.run_name).await {
        Ok(stored) => Ok(Series::of(stored)),
        Err(error @ Error::NotFound { .. }) => {
            crate::interrupt::say_as_it_is("Must write data before running a read benchmark!");
            Err(because_twice(ABOUT)(error))
        }
        Err(error) => Err(because_twice(ABOUT)(error)),
    }
}

/// Says what is going to be written.
fn introduce(
    series: &Series,
    options: &BenchOptions,
    seconds: u32,
    style: Style,
    fields: &mut Fields,
) -> Result<(), Failure> {
    let (depth, prefix) = (options.concurrent_ios, &series.prefix);
    let (op_size, object_size) = (series.op_size, series.object_size);
    fields.add("concurrent_ios", depth);
    fields.add("object_size", object_size);
    fields.add("op_size", op_size);
    fields.add("seconds_to_run", seconds);
    fields.add("max_objects", options.max_objects);
    fields.add("object_prefix", prefix);
    if style != Style::Plain {
        return Ok(());
    }
    output::lines([
        format!(
            "Maintaining {depth} concurrent writes of {op_size} bytes to objects of size {object_size} for up to \
             {seconds} seconds or {} objects",
            options.max_objects
        ),
        format!("Object prefix: {prefix}"),
    ])
}

async fn clean_up(pool: &Pool, options: &BenchOptions, series: &Series, ops: u64) -> Result<(), Failure> {
    let start = Instant::now();
    output::lines(["Cleaning up (deleting benchmark objects)"])?;
    remove_series(pool, series, ops, &options.run_name, options.concurrent_ios).await?;
    let took = shown(start.elapsed().as_secs_f64());
    output::lines([format!("Clean up completed and total clean up time :{took}")])
}

async fn remove_series(
    pool: &Pool,
    series: &Series,
    ops: u64,
    run_name: &str,
    depth: u16,
) -> Result<(), Failure> {
    let objects = ops.div_ceil(series.per_object());
    let removed = remove_all(pool, (0..objects).map(|number| series.object(number)), depth.into()).await;
    let removed = removed.map_err(because_twice("error during cleanup"))?;
    match pool.remove(run_name).await {
        Ok(()) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(because_twice("error during cleanup")(error)),
    }
    output::lines([format!("Removed {removed} objects")])
}

/// Removes what an object says that was written, or, without such an object, all that is called so. Where nothing is, nothing
/// is said.
pub(super) async fn cleanup(pool: &Pool, options: &CleanupOptions) -> Result<(), Failure> {
    let what = || because_twice("error during cleanup");
    let prefix = options.prefix.clone().unwrap_or_else(content::prefix_of_host);
    if !has_objects(pool, &prefix).await.map_err(what())? {
        return Ok(());
    }
    match Stored::read(pool, &options.run_name).await {
        Ok(stored) => {
            let series = Series::of(stored);
            remove_series(pool, &series, series.ops, &options.run_name, options.concurrent_ios).await
        }
        Err(Error::NotFound { .. }) => {
            output::lines(["Warning: using slow linear search"])?;
            let removed = remove_found(pool, &prefix, options.concurrent_ios).await.map_err(what())?;
            output::lines([format!("Removed {removed} objects")])
        }
        Err(error) => Err(what()(error)),
    }
}

async fn has_objects(pool: &Pool, prefix: &str) -> Result<bool, Error> {
    let mut listing = pool.objects();
    while let Some(entry) = listing.try_next().await? {
        if entry.name.starts_with(prefix) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Names that are remembered before their objects are removed.
const BATCH: usize = 1000;

async fn remove_found(pool: &Pool, prefix: &str, depth: u16) -> Result<u64, Error> {
    let mut listing = pool.objects();
    let (mut removed, mut batch) = (0, Vec::new());
    loop {
        let entry = listing.try_next().await?;
        let is_last = entry.is_none();
        batch.extend(entry.map(|entry| entry.name).filter(|name| name.starts_with(prefix)));
        if is_last || batch.len() >= BATCH {
            removed += remove_all(pool, std::mem::take(&mut batch).into_iter(), depth.into()).await?;
        }
        if is_last {
            return Ok(removed);
        }
    }
}
