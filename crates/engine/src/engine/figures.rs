//! Metrics of an engine.

use super::Stats;
use onego_metrics::Families;

impl Stats {
    /// Adds the counters to `families`, labelled with the name of the engine's thread.
    pub fn collect(&self, thread: &str, families: &mut Families) {
        let with = |label: Option<(&'static str, &str)>| {
            let thread = ("thread", thread.to_owned());
            [thread].into_iter().chain(label.map(|(name, value)| (name, value.to_owned()))).collect()
        };
        let mut counter =
            |name, help, label, value: u64| families.counter(name, help, with(label), value as f64);
        let help = "System calls that wait, receive, send and accept";
        counter("onego_engine_system_calls_total", help, None, self.system_calls);
        let help = "Calls that wait for events";
        counter("onego_engine_waits_total", help, None, self.waits);
        let help = "Receives and sends";
        counter("onego_engine_transfers_total", help, Some(("direction", "received")), self.recvs);
        counter("onego_engine_transfers_total", help, Some(("direction", "sent")), self.sends);
        let help = "Bytes received and sent";
        counter("onego_engine_bytes_total", help, Some(("direction", "received")), self.received_bytes);
        counter("onego_engine_bytes_total", help, Some(("direction", "sent")), self.sent_bytes);
        let help = "Connections that were accepted";
        counter("onego_engine_accepts_total", help, None, self.accepts);
        let help = "Sends by what was decided of copies: sent without a copy (uncopied), those of them that the kernel copied \
                    after all (completed_as_copied), copied because they were small (too_small) or because copies were made \
                    before (declined), and trials (probe)";
        let sends = &self.zero_copy;
        for (decision, value) in [
            ("uncopied", sends.zero_copy),
            ("completed_as_copied", sends.copied),
            ("too_small", sends.too_small),
            ("declined", sends.declined),
            ("probe", sends.probes),
        ] {
            counter("onego_zero_copy_sends_total", help, Some(("decision", decision)), value);
        }
    }
}
