//! How much a pool may hold.
//!
//! Source: ceph `src/mon/OSDMonitor.cc` ("osd pool set-quota", "osd pool get-quota"), `src/common/strtol.cc`
//! (`strict_si_cast`, `strict_iec_cast`).

use crate::mon::command::call::{Call, CommandOutcome, Reply};
use crate::mon::monitor::Mon;
use crate::mon::refusal::Refusal;
use crate::mon::text;
use serde_json::json;

/// Prefixes of units, each a step above the one before.
const PREFIXES: &str = "KMGTPE";

/// A number with the prefix of a unit behind it: `10K`, in steps of 1000; or `10K`, `10Ki`, `10B` in steps of 1024 where
/// `binary`.
fn parse(text: &str, binary: bool) -> Result<u64, Refusal> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let wrong = |why: &str| Refusal::invalid(format!("error parsing value '{text}': {why}"));
    let unit =
        if binary { unit.strip_suffix('i').filter(|unit| !unit.is_empty()).unwrap_or(unit) } else { unit };
    let mut letters = unit.chars();
    let steps = match (letters.next(), letters.next()) {
        (None, _) => 0,
        (Some('B'), None) => 0,
        (Some(letter), None) => {
            PREFIXES.find(letter).ok_or_else(|| wrong("unit prefix not recognized"))? as u32 + 1
        }
        _ => return Err(wrong("unit prefix not recognized")),
    };
    let number: u64 = number.parse().map_err(|_| wrong("no number"))?;
    let step: u64 = if binary { 1024 } else { 1000 };
    let value = step.checked_pow(steps).and_then(|unit| number.checked_mul(unit));
    value.filter(|value| i64::try_from(*value).is_ok()).ok_or_else(|| wrong("value is too large"))
}

pub(crate) fn set(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, field) = (call.text("pool"), call.text("field"));
    let id = mon.find_pool(name)?;
    let value = parse(call.text("val"), field == "max_bytes")?;
    mon.edit_pool(call.now, id, |pool, epoch| {
        let quota =
            if field == "max_bytes" { &mut pool.quota_max_bytes } else { &mut pool.quota_max_objects };
        *quota = value;
        pool.last_change = epoch;
    });
    Ok(Reply::done(format!("set-quota {field} = {value} for pool {name}")))
}

pub(crate) fn get(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let name = call.text("pool");
    let id = mon.find_pool(name)?;
    let (pool, used) = (&mon.osdmap().pools[&id], call.usage.pool(id));
    let (objects, bytes) = (pool.quota_max_objects, pool.quota_max_bytes);
    let json = json!({
        "pool_name": name, "pool_id": id,
        "quota_max_objects": objects, "current_num_objects": used.objects,
        "quota_max_bytes": bytes, "current_num_bytes": used.bytes,
    });
    let objects = match objects {
        0 => "N/A".to_owned(),
        most => format!("{} objects  (current num objects: {} objects)", text::number(most), used.objects),
    };
    let bytes = match bytes {
        0 => "N/A".to_owned(),
        most => format!("{}  (current num bytes: {} bytes)", text::bytes(most), used.bytes),
    };
    let plain = format!("quotas for pool '{name}':\n  max objects: {objects}\n  max bytes  : {bytes}\n");
    Ok(call.show(&json, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (text, binary, value) in [
            ("0", true, 0),
            ("4M", true, 4 << 20),
            ("4Mi", true, 4 << 20),
            ("10B", true, 10),
            ("4M", false, 4_000_000),
            ("1E", true, 1 << 60),
        ] {
            assert_eq!(parse(text, binary), Ok(value), "{text}");
        }
        for (text, binary) in
            [("1k", false), ("4Q", true), ("4Mi", false), ("", true), ("M", true), ("8E", true)]
        {
            assert!(parse(text, binary).is_err(), "{text}");
        }
    }
}
