//! `onego rbd ls` and `onego rbd info`, as `rbd` prints them.

use super::partial_import::PartialImport;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::size::human;
use onego::ceph::Error;
use onego::rados::Pool;
use onego::rbd::{self, Features, ImageInfo};
use serde_json::{Value, json};
use std::time::SystemTime;

/// Prints the images of a pool.
pub(super) async fn list(pool: &Pool, long: bool, format: Format) -> Result<(), Failure> {
    let names = rbd::list(pool).all().await?;
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
    // A user who may not ask sees the rest.
    let partial = PartialImport::at(pool, &info).await.unwrap_or_default();
    match format {
        Format::Plain => {
            let mut lines = info_lines(&info, data_pool.as_deref(), parent.as_ref());
            lines
                .extend(partial.map(|partial| {
                    format!("\tnot whole: {partial} (\"onego rbd import --resume\" goes on)")
                }));
            output::lines(lines)
        }
        Format::Json => {
            let mut value = info_json(&info, data_pool.as_deref(), parent.as_ref());
            if let Some(PartialImport { done, of }) = partial {
                value["partial_import"] = json!({"done": done, "of": of});
            }
            output::json(&value)
        }
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
    lines.extend(info.created.map(|at| format!("\tcreate_timestamp: {}", when(at))));
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
        value["create_timestamp"] = when(at).into();
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

/// A time in UTC, as RFC 3339 writes it.
fn when(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_have_their_zone() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_709_251_200);
        assert_eq!(when(at), "2024-03-01T00:00:00Z");
    }
}
