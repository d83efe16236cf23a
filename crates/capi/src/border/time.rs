//! Times as people read them where the program runs.

/// A time of the wall clock with its zone, as Ceph writes it: `2026-11-23T10:02:03.000123+0000`.
pub(crate) fn local_time(seconds: i64, nanoseconds: u32) -> String {
    // SAFETY: all of it are numbers and a pointer, which may be zero.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are of this call.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
    let (sign, zone) = (if parts.tm_gmtoff < 0 { '-' } else { '+' }, parts.tm_gmtoff.abs() / 60);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}{sign}{:02}{:02}",
        i64::from(parts.tm_year) + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec,
        nanoseconds / 1000,
        zone / 60,
        zone % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_zone() {
        // The zone is the machine's: the same moment in all of them has these minutes or those of half an hour.
        let time = local_time(1_795_600_923, 123_456);
        assert_eq!(time.len(), "2026-11-25T10:02:03.000123+0000".len());
        assert!(time.starts_with("2026-11-2") && &time[19..26] == ".000123", "{time}");
    }
}
