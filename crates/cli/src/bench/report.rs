//! What is printed of measurements, and what they end with.

use crate::failure::Failure;
use crate::interrupt;
use onego_bench::load::Measured;
use onego_bench::report::progress::Progress;
use onego_bench::report::table;
use onego_bench::row::Row;

/// Prints each measurement below the head of its pattern.
pub(crate) fn printer(progress: &Progress, with_floor: bool) -> impl FnMut(&Measured) {
    let mut last = None;
    move |measured| {
        let row = &measured.row;
        let kind = (row.rw, row.mode.clone());
        if last.replace(kind.clone()) != Some(kind) {
            print_line(progress, &table::header(row, with_floor));
        }
        print_line(progress, &table::line(row, measured.floor.as_ref()));
        measured.errors.iter().for_each(|error| print_line(progress, &format!("      {error}")));
    }
}

/// Prints a line of results. When nobody reads them any more the measurement ends.
pub(crate) fn print_line(progress: &Progress, line: &str) {
    if progress.print(line).is_err() {
        interrupt::raise_unread();
    }
}

/// All figures, those of bare sockets beside what they are to be compared with.
pub(crate) fn rows(measured: &[Measured]) -> Vec<Row> {
    measured
        .iter()
        .flat_map(|measured| [Some(&measured.row), measured.floor.as_ref()])
        .flatten()
        .cloned()
        .collect()
}

/// What is the same in all rows, behind what measured them.
pub(crate) fn title(what: &str, rows: &[Row]) -> String {
    match rows.first() {
        Some(Row { engine, jobs, io_depth, .. }) => {
            format!("{what}: numjobs={jobs} iodepth={io_depth}, {engine}")
        }
        None => what.to_owned(),
    }
}

/// Fails if anything did.
pub(crate) fn judge(measured: &[Measured], verify: bool) -> Result<(), Failure> {
    match measured.iter().map(|measured| measured.row.errors).sum() {
        0 => Ok(()),
        errors if verify => Err(Failure::Corrupt(errors)),
        errors => Err(Failure::Requests(errors)),
    }
}
