//! Requests in flight on a connection that answers in order.

use hdrhistogram::Histogram;
use onego_wire::Time;
use std::collections::VecDeque;

/// Requests in flight by send time: one entry per reading of the clock, not per request.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    runs: VecDeque<(Time, usize)>,
}

impl InFlight {
    pub(crate) fn sent(&mut self, now: Time, n: usize) {
        if n > 0 {
            self.runs.push_back((now, n));
        }
    }

    pub(crate) fn answered(&mut self, now: Time, mut n: usize, latency: &mut Histogram<u64>) {
        while let Some((sent, left)) = self.runs.front_mut() {
            let done = n.min(*left);
            latency.saturating_record_n(now.since(*sent).as_nanos() as u64, done as u64);
            n -= done;
            *left -= done;
            if *left > 0 {
                break;
            }
            self.runs.pop_front();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|(_, n)| n).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::latency_histogram;
    use onego_engine::now;
    use std::time::Duration;

    #[test]
    fn each_reply_completes_the_oldest_request() {
        let (start, mut latency, mut in_flight) = (now(), latency_histogram(), InFlight::default());
        let at = |micros| start + Duration::from_micros(micros);
        in_flight.sent(at(0), 3);
        in_flight.sent(at(10), 2);
        in_flight.sent(at(11), 0);
        in_flight.answered(at(20), 4, &mut latency);
        assert_eq!((in_flight.len(), latency.len()), (1, 4));
        assert_eq!(latency.count_between(19_900, 20_100), 3);
        in_flight.answered(at(30), 1, &mut latency);
        assert_eq!((in_flight.len(), latency.count_between(19_900, 20_100)), (0, 4));
    }
}
