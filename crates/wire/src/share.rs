/// Fewer bytes are not worth a send of their own.
const LEAST: usize = 4 << 10;

/// How many of the `bytes` of `requests` requests to send first, to a peer that owes `unanswered` answers, these among them.
/// `None`: all of them.
///
/// If the peer has nothing else to do, half of the bytes go first. The peer answers that half while the other half arrives, and
/// this side handles the answers to one half while the peer works on the other. Otherwise each side would wait for all of the
/// other's work.
pub fn first_share(bytes: usize, requests: usize, unanswered: usize) -> Option<usize> {
    let idle = requests >= unanswered;
    (idle && requests > 1).then_some(bytes / 2).filter(|half| *half >= LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_with_nothing_to_do_is_sent_half_first() {
        assert_eq!(first_share(8 * LEAST, 8, 8), Some(4 * LEAST));
        assert_eq!(first_share(4 * LEAST, 0, 8), None, "then comes the other half");
    }

    #[test]
    fn all_is_sent_to_who_is_busy_and_what_is_little() {
        assert_eq!(first_share(8 * LEAST, 8, 9), None);
        assert_eq!(first_share(8 * LEAST, 1, 1), None, "it is of no use to have half of a request");
        assert_eq!(first_share(LEAST, 8, 8), None);
    }
}
