//! Sessions of service daemons with the manager: registration, status reports and end (ceph
//! `src/messages/{MMgrOpen,MMgrConfigure,MMgrReport,MMgrClose}.h`).

use onego_buf::List;
use onego_msgr::encoding::{Decode, Encode, envelope};
use onego_msgr::types::Payload;
use onego_wire::{Decoded, Reader, Writer};
use std::collections::BTreeMap;

/// Names and values reported by a daemon.
pub type Properties = BTreeMap<String, String>;

/// Opens a daemon's session with the manager (`MMgrOpen`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceOpen {
    /// Name of the daemon within the service.
    pub daemon: String,
    /// Service; empty for Ceph's own daemons.
    pub service: String,
    /// Metadata and initial status of the daemon; `None`: it is not a service daemon.
    pub registration: Option<(Properties, Properties)>,
}

impl Payload for ServiceOpen {
    const KIND: u16 = 0x700;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        w.string(&self.daemon);
        w.string(&self.service);
        w.bool(self.registration.is_some());
        if let Some((metadata, status)) = &self.registration {
            metadata.encode(w);
            status.encode(w);
        }
        // Settings, and their defaults.
        w.blob(b"");
        w.blob(b"");
    }

    fn decode(version: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        let daemon = r.string("daemon")?;
        if version < 2 {
            return Ok(Self { daemon, ..Self::default() });
        }
        let (service, registers) = (r.string("service")?, r.bool("registration")?);
        let registration = match registers {
            true => Some((Decode::decode(r)?, Decode::decode(r)?)),
            false => None,
        };
        Ok(Self { daemon, service, registration })
    }
}

/// Manager's answer: the interval of reports (`MMgrConfigure`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReportConfig {
    /// Interval in seconds.
    pub period: u32,
    /// Lowest priority of reported counters.
    pub threshold: u32,
}

impl Payload for ReportConfig {
    const KIND: u16 = 0x701;
    const VERSION: u16 = 2;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        w.u32(self.period);
        w.u32(self.threshold);
    }

    fn decode(version: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        let period = r.u32("period")?;
        Ok(Self { period, threshold: if version >= 2 { r.u32("threshold")? } else { 0 } })
    }
}

/// Report of a daemon (`MMgrReport`), without its counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceReport {
    /// Daemon.
    pub daemon: String,
    /// Service of the daemon.
    pub service: String,
    /// Status, if it has changed.
    pub status: Option<Properties>,
}

impl Payload for ServiceReport {
    const KIND: u16 = 0x702;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        w.string(&self.daemon);
        // Types of counters, their values, and undeclared types.
        w.count(0);
        w.blob(b"");
        w.count(0);
        w.string(&self.service);
        w.bool(self.status.is_some());
        self.status.iter().for_each(|status| status.encode(w));
    }

    fn decode(version: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        let daemon = r.string("daemon")?;
        for _ in 0..r.count(6, "kinds of counters")? {
            envelope(r, 3, "kind of a counter", |_, _| Ok(()))?;
        }
        r.blob("counters")?;
        if version < 3 {
            return Ok(Self { daemon, ..Self::default() });
        }
        for _ in 0..r.count(4, "kinds of counters")? {
            r.blob("kind of a counter")?;
        }
        let service = r.string("service")?;
        let status = if r.bool("status")? { Some(Decode::decode(r)?) } else { None };
        Ok(Self { daemon, service, status })
    }
}

/// Ends a daemon's session; the manager answers with the same message (`MMgrClose`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceClose {
    /// Daemon.
    pub daemon: String,
    /// Service of the daemon.
    pub service: String,
}

impl Payload for ServiceClose {
    const KIND: u16 = 0x708;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        w.string(&self.daemon);
        w.string(&self.service);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self { daemon: r.string("daemon")?, service: r.string("service")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_daemons_and_managers_survive_the_wire() {
        fn there_and_back<P: Payload + PartialEq + std::fmt::Debug>(payload: &P) {
            let (mut front, mut data) = (Writer::new(), List::new());
            payload.encode(&mut front, &mut data);
            assert_eq!(P::decode(P::VERSION, front.as_slice(), data).as_ref(), Ok(payload));
        }
        let properties = Properties::from([("key".to_owned(), "value".to_owned())]);
        let (daemon, service) = ("gw1".to_owned(), "iscsi".to_owned());
        let registration = Some((properties.clone(), Properties::new()));
        there_and_back(&ServiceOpen { daemon: daemon.clone(), service: service.clone(), registration });
        there_and_back(&ServiceOpen { daemon: "0".into(), ..ServiceOpen::default() });
        there_and_back(&ReportConfig { period: 5, threshold: 7 });
        there_and_back(&ServiceReport {
            daemon: daemon.clone(),
            service: service.clone(),
            status: Some(properties),
        });
        there_and_back(&ServiceClose { daemon, service });
    }
}
