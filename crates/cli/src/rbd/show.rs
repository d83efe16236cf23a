//! `onego rbd ls` and `onego rbd info`, as `rbd` prints them.

use crate::failure::Failure;
use crate::output::{self, Format};
use crate::size::human;
use onego::Error;
use onego::rados::Pool;
use onego::rbd::{self, Features, ImageInfo};
use serde_json::{Value, json};
use std::time::SystemTime;

/// Prints the images of a pool.
pub(super) async fn list(pool: &Pool, long: bool, format: Format) -> Result<(), Failure> {
    let names = rbd::list(pool).await?;
    match (long, format) {
        (false, Format::Plain) => output::lines(names),
        (false, Format::Json) => output::json(&json!(names)),
        (true, _) => {
            let mut images = Vec::new();
            for name in names {
                match rbd::info(pool, &name).await {
                    Ok(info) => images.push((name, Some(info))),
                    // It may be removed by now, or be of a kind that cannot be opened.
                    Err(Error::NotFound { .. }) => {}
                    Err(Error::Invalid(_) | Error::Features { .. }) => images.push((name, None)),
                    Err(error) => return Err(error.into()),
                }
            }
            match format {
                Format::Plain => output::lines(columns(&images)),
                Format::Json => output::json(&images.iter().map(long_json).collect()),
            }
        }
    }
}

fn columns(images: &[(String, Option<ImageInfo>)]) -> Vec<String> {
    if images.is_empty() {
        return Vec::new();
    }
    let width = images.iter().map(|(name, _)| name.chars().count()).chain([4]).max().unwrap_or(4);
    let line = |name: &str, size: &str, format: &str| format!("{name:width$}  {size:>8}  {format}");
    let image = |(name, info): &(String, Option<ImageInfo>)| {
        line(name, &info.as_ref().map_or_else(|| "?".to_owned(), |info| human(info.size)), "  2")
    };
    [line("NAME", "SIZE", "FMT")].into_iter().chain(images.iter().map(image)).collect()
}

fn long_json((name, info): &(String, Option<ImageInfo>)) -> Value {
    match info {
        Some(info) => json!({"image": name, "id": info.id, "size": info.size, "format": 2}),
        None => json!({"image": name, "format": 2}),
    }
}

/// Prints what is known of an image.
pub(super) async fn info(pool: &Pool, name: &str, format: Format) -> Result<(), Failure> {
    let info = rbd::info(pool, name).await?;
    let data_pool = match info.data_pool {
        Some(id) => {
            let pools = pool.cluster().pools().await?;
            let known = pools.into_iter().find(|pool| pool.id == id).map(|pool| pool.name);
            Some(known.unwrap_or_else(|| id.to_string()))
        }
        None => None,
    };
    let parent = match &info.parent {
        Some(parent) => Some((parent.name(pool.cluster()).await?, parent.overlap)),
        None => None,
    };
    match format {
        Format::Plain => output::lines(info_lines(&info, data_pool.as_deref(), parent.as_ref())),
        Format::Json => output::json(&info_json(&info, data_pool.as_deref(), parent.as_ref())),
    }
}

fn info_lines(info: &ImageInfo, data_pool: Option<&str>, parent: Option<&(String, u64)>) -> Vec<String> {
    let layout = &info.layout;
    let mut lines = vec![
        format!("rbd image '{}':", info.name),
        format!("\tsize {} in {} objects", human(info.size), info.objects()),
        format!("\torder {} ({} objects)", layout.order(), human(layout.object_size())),
        format!("\tsnapshot_count: {}", info.snapshots.len()),
        format!("\tid: {}", info.id),
    ];
    lines.extend(data_pool.map(|pool| format!("\tdata_pool: {pool}")));
    lines.push(format!("\tblock_name_prefix: {}", info.object_prefix));
    lines.push("\tformat: 2".to_owned());
    lines.push(format!("\tfeatures: {}", info.features));
    lines.extend(info.created.map(|at| format!("\tcreate_timestamp: {}", utc(at))));
    if let Some((name, overlap)) = parent {
        lines.push(format!("\tparent: {name}"));
        lines.push(format!("\toverlap: {}", human(*overlap)));
    }
    if layout.is_striped() {
        lines.push(format!("\tstripe unit: {}", human(layout.stripe_unit())));
        lines.push(format!("\tstripe count: {}", layout.stripe_count()));
    }
    lines
}

fn info_json(info: &ImageInfo, data_pool: Option<&str>, parent: Option<&(String, u64)>) -> Value {
    let layout = &info.layout;
    let mut value = json!({
        "name": info.name,
        "id": info.id,
        "size": info.size,
        "objects": info.objects(),
        "order": layout.order(),
        "object_size": layout.object_size(),
        "snapshot_count": info.snapshots.len(),
        "block_name_prefix": info.object_prefix,
        "format": 2,
        "features": Features::names(info.features),
    });
    if let Some(pool) = data_pool {
        value["data_pool"] = pool.into();
    }
    if let Some(at) = info.created {
        value["create_timestamp"] = utc(at).into();
    }
    if let Some((name, overlap)) = parent {
        value["parent"] = json!({"name": name, "overlap": overlap});
    }
    if layout.is_striped() {
        value["stripe_unit"] = layout.stripe_unit().into();
        value["stripe_count"] = layout.stripe_count().into();
    }
    value
}

/// A time as `rbd` prints it where the clock is set to UTC: `Thu Jan  1 00:00:00 1970`.
fn utc(at: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the leap day is the last of its year; 400 years have 146097 days.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let calendar_month = (month + 2) % 12;
    let year = era * 400 + year + u64::from(calendar_month < 2);
    format!(
        "{} {} {day_of_month:2} {:02}:{:02}:{:02} {year}",
        DAYS[(days % 7) as usize],
        MONTHS[calendar_month as usize],
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (951_868_799, "Tue Feb 29 23:59:59 2000"),
            (1_709_251_200, "Fri Mar  1 00:00:00 2024"),
            (1_735_689_599, "Tue Dec 31 23:59:59 2024"),
            (4_102_444_800, "Fri Jan  1 00:00:00 2100"),
        ] {
            assert_eq!(utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
