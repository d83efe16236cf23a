//! The class `rbd`: an image's header and id (ceph `src/cls/rbd/cls_rbd.cc`).

use crate::osd::class::context::Context;
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;
use onego_ceph::types::{NOSNAP, SnapContext, Utime};
use onego_msgr::encoding::Decode;
use onego_wire::Reader;

/// What the key of a snapshot starts with; its id in 16 hexadecimal digits follows.
pub(super) const SNAPSHOT: &str = "snapshot_";
const METADATA: &str = "metadata_";

/// Entries that are listed if nobody says how many.
const DEFAULT_MAX: u64 = 64;

pub(super) fn is_valid_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

pub(super) fn snapshot_key(snap: u64) -> String {
    format!("{SNAPSHOT}{snap:016x}")
}

/// All snapshots, the oldest first.
pub(super) fn snapshots(context: &Context<'_>) -> Outcome<Vec<Snapshot>> {
    let snapshots = context.entries(SNAPSHOT, "");
    snapshots.map(|(_, bytes)| Snapshot::decode(&mut Reader::new(bytes)).map_err(|_| Errno::IO)).collect()
}

/// ENOEXEC unless the image has the feature.
pub(super) fn require(context: &Context<'_>, feature: u64) -> Outcome<()> {
    let features = context.get_opt::<u64>("features")?.unwrap_or(0);
    if features & feature == feature { Ok(()) } else { Err(Errno::NOEXEC) }
}

pub(super) fn create(context: &mut Context<'_>, call: Create) -> Outcome<()> {
    if call.features & !feature::ALL != 0 {
        return Err(Errno::NOSYS);
    }
    let has_data_pool = call.features & feature::DATA_POOL != 0;
    if call.object_prefix.is_empty() {
        return Err(Errno::INVAL);
    }
    if context.raw("object_prefix").is_ok() {
        return Err(Errno::EXIST);
    }
    if call.features & feature::OPERATIONS != 0 || has_data_pool != (call.data_pool != -1) {
        return Err(Errno::INVAL);
    }
    let now = context.now;
    context.set("size", &call.size);
    context.set("order", &call.order);
    context.set("features", &call.features);
    context.set("object_prefix", &call.object_prefix);
    context.set("snap_seq", &0u64);
    context.set("create_timestamp", &now);
    context.set("access_timestamp", &now);
    context.set("modify_timestamp", &now);
    if has_data_pool {
        context.set("data_pool_id", &call.data_pool);
    }
    Ok(())
}

pub(super) fn get_features(context: &mut Context<'_>, call: GetFeatures) -> Outcome<Features> {
    let features: u64 = context.get("features")?;
    let known = if call.read_only { feature::INCOMPATIBLE } else { feature::RW_INCOMPATIBLE };
    Ok(Features { features, incompatible: features & known })
}

pub(super) fn set_features(context: &mut Context<'_>, call: SetFeatures) -> Outcome<()> {
    let before = context.get_opt::<u64>("features")?.unwrap_or(0);
    if call.mask & feature::INTERNAL != 0 {
        return Err(Errno::INVAL);
    }
    // Newer clients may want to switch off what is not known here.
    let mask = call.mask & feature::ALL;
    let (enabled, disabled) = (call.features & mask, !call.features & mask);
    if enabled & !feature::MUTABLE != 0 || disabled & !(feature::MUTABLE | feature::DISABLE_ONLY) != 0 {
        return Err(Errno::INVAL);
    }
    context.set("features", &(before & !mask | enabled));
    Ok(())
}

pub(super) fn get_all_features(_: &mut Context<'_>, _: GetAllFeatures) -> Outcome<u64> {
    Ok(feature::ALL)
}

pub(super) fn get_size(context: &mut Context<'_>, call: GetSize) -> Outcome<Size> {
    let order = context.get("order")?;
    let size = match call.snap {
        NOSNAP => context.get("size")?,
        snap => context.get::<Snapshot>(&snapshot_key(snap))?.image_size,
    };
    Ok(Size { order, size })
}

pub(super) fn set_size(context: &mut Context<'_>, call: SetSize) -> Outcome<()> {
    let before: u64 = context.get("size")?;
    context.set("size", &call.size);
    if call.size < before
        && let Some(mut parent) = context.get_opt::<Parent>("parent")?
        && parent.exists()
        && parent.head_overlap.is_some_and(|overlap| overlap > call.size)
    {
        parent.head_overlap = Some(call.size);
        context.set("parent", &parent);
    }
    Ok(())
}

pub(super) fn get_object_prefix(context: &mut Context<'_>, _: GetObjectPrefix) -> Outcome<String> {
    context.get("object_prefix")
}

pub(super) fn get_data_pool(context: &mut Context<'_>, _: GetDataPool) -> Outcome<i64> {
    Ok(context.get_opt("data_pool_id")?.unwrap_or(-1))
}

pub(super) fn get_flags(context: &mut Context<'_>, call: GetFlags) -> Outcome<u64> {
    match call.snap {
        NOSNAP => Ok(context.get_opt("flags")?.unwrap_or(0)),
        snap => Ok(context.get::<Snapshot>(&snapshot_key(snap))?.flags),
    }
}

pub(super) fn set_flags(context: &mut Context<'_>, call: SetFlags) -> Outcome<()> {
    let merge = |before: u64| before & !call.mask | call.flags & call.mask;
    if call.snap == NOSNAP {
        let before = context.get_opt("flags")?.unwrap_or(0);
        context.set("flags", &merge(before));
    } else {
        let key = snapshot_key(call.snap);
        let mut snapshot: Snapshot = context.get(&key)?;
        snapshot.flags = merge(snapshot.flags);
        context.set(&key, &snapshot);
    }
    Ok(())
}

pub(super) fn op_features_get(context: &mut Context<'_>, _: OpFeaturesGet) -> Outcome<u64> {
    Ok(context.get_opt("op_features")?.unwrap_or(0))
}

/// Changes the operation features in `mask` to those of `features`, and whether the image has any.
pub(super) fn set_op_features(context: &mut Context<'_>, features: u64, mask: u64) -> Outcome<()> {
    let image_features: u64 = context.get("features")?;
    let before = context.get_opt("op_features")?.unwrap_or(0);
    let after = before & !mask | features & mask;
    if after == before {
        return Ok(());
    }
    if after == 0 {
        context.unset("op_features")?;
        context.set("features", &(image_features & !feature::OPERATIONS));
    } else {
        context.set("op_features", &after);
        context.set("features", &(image_features | feature::OPERATIONS));
    }
    Ok(())
}

/// The image has these operation features no more.
pub(super) fn clear_op_features(context: &mut Context<'_>, mask: u64) -> Outcome<()> {
    if mask == 0 { Ok(()) } else { set_op_features(context, 0, mask) }
}

pub(super) fn op_features_set(context: &mut Context<'_>, call: OpFeaturesSet) -> Outcome<()> {
    if call.mask & !op_feature::ALL != 0 {
        return Err(Errno::INVAL);
    }
    set_op_features(context, call.features, call.mask)
}

pub(super) fn get_snapcontext(context: &mut Context<'_>, _: GetSnapContext) -> Outcome<SnapContext> {
    let ids =
        context.entries(SNAPSHOT, "").map(|(id, _)| u64::from_str_radix(&id, 16).map_err(|_| Errno::IO));
    let mut snaps = ids.collect::<Outcome<Vec<u64>>>()?;
    snaps.reverse();
    Ok(SnapContext { seq: context.get("snap_seq")?, snaps })
}

pub(super) fn get_stripe_unit_count(
    context: &mut Context<'_>,
    _: GetStripeUnitCount,
) -> Outcome<StripeUnitCount> {
    context.must_exist()?;
    require(context, feature::STRIPING_V2)?;
    let unit = match context.get_opt("stripe_unit")? {
        Some(unit) => unit,
        None => {
            let order = context.get::<u8>("order").map_err(|_| Errno::IO)?;
            1u64.checked_shl(order.into()).ok_or(Errno::IO)?
        }
    };
    Ok(StripeUnitCount { unit, count: context.get_opt("stripe_count")?.unwrap_or(1) })
}

pub(super) fn set_stripe_unit_count(context: &mut Context<'_>, call: SetStripeUnitCount) -> Outcome<()> {
    if call.unit == 0 || call.count == 0 {
        return Err(Errno::INVAL);
    }
    context.must_exist()?;
    require(context, feature::STRIPING_V2)?;
    let order: u8 = context.get("order")?;
    let object_size = 1u64.checked_shl(order.into()).ok_or(Errno::IO)?;
    if call.unit > object_size || !object_size.is_multiple_of(call.unit) {
        return Err(Errno::INVAL);
    }
    context.set("stripe_unit", &call.unit);
    context.set("stripe_count", &call.count);
    Ok(())
}

fn timestamp(context: &Context<'_>, key: &str) -> Outcome<Utime> {
    Ok(context.get_opt(key)?.unwrap_or_default())
}

pub(super) fn get_create_timestamp(context: &mut Context<'_>, _: GetCreateTimestamp) -> Outcome<Utime> {
    timestamp(context, "create_timestamp")
}

pub(super) fn get_access_timestamp(context: &mut Context<'_>, _: GetAccessTimestamp) -> Outcome<Utime> {
    timestamp(context, "access_timestamp")
}

pub(super) fn get_modify_timestamp(context: &mut Context<'_>, _: GetModifyTimestamp) -> Outcome<Utime> {
    timestamp(context, "modify_timestamp")
}

pub(super) fn set_access_timestamp(context: &mut Context<'_>, _: SetAccessTimestamp) -> Outcome<()> {
    context.must_exist()?;
    let now = context.now;
    context.set("access_timestamp", &now);
    Ok(())
}

pub(super) fn set_modify_timestamp(context: &mut Context<'_>, _: SetModifyTimestamp) -> Outcome<()> {
    context.must_exist()?;
    let now = context.now;
    context.set("modify_timestamp", &now);
    Ok(())
}

pub(super) fn metadata_list(context: &mut Context<'_>, call: MetadataList) -> Outcome<Metadata> {
    let max = if call.max == 0 { DEFAULT_MAX } else { call.max };
    let entries = context.entries(METADATA, &call.after).map(|(key, value)| (key, value.to_vec()));
    Ok(entries.take(max as usize).collect())
}

pub(super) fn metadata_get(context: &mut Context<'_>, call: MetadataGet) -> Outcome<Vec<u8>> {
    context.raw(&[METADATA, &call.key].concat()).map(<[u8]>::to_vec)
}

pub(super) fn metadata_set(context: &mut Context<'_>, call: MetadataSet) -> Outcome<()> {
    for (key, value) in call.entries {
        context.set_raw(&[METADATA, &key].concat(), value);
    }
    Ok(())
}

pub(super) fn metadata_remove(context: &mut Context<'_>, call: MetadataRemove) -> Outcome<()> {
    context.unset(&[METADATA, &call.key].concat())
}

pub(super) fn get_id(context: &mut Context<'_>, _: GetId) -> Outcome<String> {
    let data = context.read_all();
    if data.is_empty() {
        return Err(Errno::NOENT);
    }
    String::decode(&mut Reader::new(&data)).map_err(|_| Errno::IO)
}

pub(super) fn set_id(context: &mut Context<'_>, call: SetId) -> Outcome<()> {
    context.must_exist()?;
    if !is_valid_id(&call.id) {
        return Err(Errno::INVAL);
    }
    if context.state.size != 0 {
        return Err(Errno::EXIST);
    }
    context.write_all(onego_msgr::encoding::Encode::to_bytes(&call.id));
    Ok(())
}
