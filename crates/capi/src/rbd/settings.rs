//! What the configuration of a program says of its images.

/// What the program's configuration says of a setting.
pub(super) type Settings = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A switch of the configuration.
pub(super) fn is_true(value: &str) -> bool {
    matches!(value, "true" | "yes" | "on" | "1")
}

/// Bytes that discards give up as a whole or not at all: as the configuration says, and no more than lie in one object one behind
/// the other (`piece`).
pub(super) fn discard_grain(settings: &Settings, piece: u64) -> u64 {
    let setting = |name| settings(name).unwrap_or_default();
    if !is_true(&setting("rbd_skip_partial_discard")) {
        return 1;
    }
    let grain = setting("rbd_discard_granularity_bytes").parse().unwrap_or(1_u64);
    grain.min(piece).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grain_is_as_the_configuration_says_and_no_larger_than_a_piece() {
        let grain = |skip: &'static str, bytes: &'static str, piece| {
            let setting = move |name: &str| {
                Some(if name == "rbd_skip_partial_discard" { skip } else { bytes }.to_owned())
            };
            let settings: Settings = Box::new(setting);
            discard_grain(&settings, piece)
        };
        assert_eq!(grain("true", "65536", 4 << 20), 65536);
        assert_eq!(grain("true", "65536", 4096), 4096);
        assert_eq!(
            (grain("false", "65536", 4096), grain("true", "0", 4096), grain("true", "x", 4096)),
            (1, 1, 1)
        );
    }
}
