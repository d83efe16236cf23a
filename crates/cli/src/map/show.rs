//! The list of devices.

use super::records::{self, Record};
use super::states::States;
use crate::failure::Failure;
use crate::output::{self, Format};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(crate) struct ShowOptions {
    /// How to print them
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn show(options: &ShowOptions) -> Result<(), Failure> {
    let records = records::all()?;
    match options.format {
        Format::Json => output::json(&Value::Array(records.iter().map(fields).collect())),
        Format::Plain if records.is_empty() => Ok(()),
        Format::Plain => {
            let mut states = States::default();
            let mut row = |record: &Record| {
                let state = states.of(record)?.map_or("gone".to_owned(), |state| state.to_string());
                let (pool, namespace, image) = path(record);
                Ok([
                    record.id.to_string(),
                    pool.to_owned(),
                    namespace.to_owned(),
                    image.to_owned(),
                    record.snap.clone().unwrap_or_else(|| "-".to_owned()),
                    record.device().display().to_string(),
                    state,
                ])
            };
            let head = ["id", "pool", "namespace", "image", "snap", "device", "state"].map(str::to_owned);
            let rows = std::iter::once(Ok(head)).chain(records.iter().map(&mut row));
            output::lines(table(&rows.collect::<Result<Vec<_>, Failure>>()?))
        }
    }
}

/// A device as `rbd device list --format json` has it.
fn fields(record: &Record) -> Value {
    let (pool, namespace, image) = path(record);
    json!({
        "id": record.id.to_string(),
        "pool": pool,
        "namespace": namespace,
        "name": image,
        "snap": record.snap.as_deref().unwrap_or("-"),
        "device": record.device(),
    })
}

/// What is no image stands in the column of images.
fn path(record: &Record) -> (&str, &str, &str) {
    match record.image.as_str() {
        "" => ("", "", &record.source),
        image => (&record.pool, &record.namespace, image),
    }
}

/// Lines with columns as wide as their longest word.
fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let words = row.iter().zip(widths).map(|(word, width)| format!("{word:width$}"));
        words.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::options::DeviceType;

    #[test]
    fn columns_are_as_wide_as_their_longest_word() {
        let rows = [["id", "device", "state"], ["0", "/dev/ublkb0", "served"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), ["id  device       state", "0   /dev/ublkb0  served"]);
    }

    #[test]
    fn images_have_the_fields_of_rbd_device_list() {
        let record = Record {
            kind: DeviceType::Ublk,
            id: 3,
            source: "rbd:pool/ns/disk".into(),
            identity: "rbd:cluster/1/ns/id".into(),
            pool: "pool".into(),
            namespace: "ns".into(),
            image: "disk".into(),
            snap: None,
            pid: 1,
            arguments: Vec::new(),
            directory: "/".into(),
        };
        let said = fields(&record).to_string();
        let expected =
            r#"{"id":"3","pool":"pool","namespace":"ns","name":"disk","snap":"-","device":"/dev/ublkb3"}"#;
        assert_eq!(said, expected);
    }
}
