/// Minimum size that is worth a separate send, in bytes.
const LEAST: usize = 4 << 10;

/// Returns how many of the `bytes` of `requests` requests to send first to a peer that owes `unanswered` answers,
/// including these. Returns `None` to send all of them.
///
/// If the peer is otherwise idle, half of the bytes go first. The peer answers that half while the other half arrives,
/// and this side handles those answers while the peer works on the other half. Otherwise each side would wait for all
/// of the other's work.
pub fn first_share(bytes: usize, requests: usize, unanswered: usize) -> Option<usize> {
    let idle = requests >= unanswered;
    (idle && requests > 1).then_some(bytes / 2).filter(|half| *half >= LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_peer_gets_half_first() {
        assert_eq!(first_share(8 * LEAST, 8, 8), Some(4 * LEAST));
        assert_eq!(first_share(4 * LEAST, 0, 8), None, "then the other half");
    }

    #[test]
    fn a_busy_peer_gets_everything_and_small_batches_are_not_split() {
        assert_eq!(first_share(8 * LEAST, 8, 9), None);
        assert_eq!(first_share(8 * LEAST, 1, 1), None, "half a request is useless");
        assert_eq!(first_share(LEAST, 8, 8), None);
    }
}
