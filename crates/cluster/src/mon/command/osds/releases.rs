//! Which releases of clients the cluster is for.
//!
//! Source: ceph `src/mon/OSDMonitor.cc` ("osd set-require-min-compat-client"), `src/common/ceph_releases.cc`.

use crate::errno::EPERM;
use crate::mon::command::call::{Call, CommandOutcome, Reply};
use crate::mon::monitor::Mon;
use crate::mon::refusal::Refusal;
use onego_ceph::osdmap::release;
use serde_json::json;

/// The names of releases, from [`release::JEWEL`] on.
const NAMES: [&str; 11] = [
    "jewel", "kraken", "luminous", "mimic", "nautilus", "octopus", "pacific", "quincy", "reef", "squid",
    "tentacle",
];

/// The oldest release whose clients know everything that maps say.
const OLDEST: u8 = release::JEWEL;

/// The name of a release, which is not older than [`release::JEWEL`].
pub(crate) fn name(number: u8) -> &'static str {
    let known = number.checked_sub(OLDEST).and_then(|at| NAMES.get(usize::from(at)));
    known.copied().unwrap_or("unknown")
}

pub(crate) fn min_compat_client(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let name = name(mon.osdmap().require_min_compat_client);
    Ok(call.show(&json!(name), format!("{name}\n")))
}

pub(crate) fn set_min_compat_client(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let version = call.text("version");
    let Some(number) = (OLDEST..).zip(NAMES).find(|(_, name)| *name == version).map(|(number, _)| number)
    else {
        return Err(Refusal::invalid(format!("version {version} is not recognized")));
    };
    let map = mon.osdmap();
    // Upmaps came with Luminous (OSDMap::get_min_compat_client).
    let has_upmaps = !map.pg_upmap.is_empty() || !map.pg_upmap_items.is_empty();
    if has_upmaps && number < release::LUMINOUS {
        let text = format!(
            "osdmap current utilizes features that require luminous; cannot set require_min_compat_client below that to {version}"
        );
        return Err(Refusal::new(EPERM, text));
    }
    mon.set_min_compat_client(call.now, number);
    Ok(Reply::done(format!("set require_min_compat_client to {version}")))
}
