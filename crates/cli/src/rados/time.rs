//! Points in time as Ceph prints them.

use std::time::{Duration, SystemTime};

/// Up to ten years after 1970 are printed in seconds, as Ceph does.
const RELATIVE: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 10);

/// A point in time: "2026-11-24T14:00:14.926243+0000".
pub(super) fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if since < RELATIVE {
        return format!("{}.{:06}", since.as_secs(), since.subsec_micros());
    }
    let utc = humantime::format_rfc3339_micros(time).to_string();
    format!("{}+0000", utc.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_ceph_prints_them() {
        let after = |micros| SystemTime::UNIX_EPOCH + Duration::from_micros(micros);
        assert_eq!(stamp(after(100_000_000)), "100.000000");
        assert_eq!(stamp(after(1_795_528_814_926_243)), "2026-11-24T14:00:14.926243+0000");
    }
}
