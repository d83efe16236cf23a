//! The manager, which programs ask about placement groups and OSDs: librados sends `rados_mgr_command` to it, and waits
//! for ever where there is none. Here it is the monitor under another name, at an address of its own.
//!
//! Source: ceph `src/mgr/MgrClient.cc`, `src/messages/{MMgrCommand,MMgrCommandReply}.h`.

use super::command::Audience;
use super::first_map::MGR_NAME;
use super::stats::{Tell, TellReply};
use super::{Mon, Usage};
use onego_ceph::messages::{CommandReply, MonCommand, kind};
use onego_ceph::mgrmap::MgrMap;
use onego_ceph::types::{Epoch, Utime};
use onego_msgr::addr::AddrVec;
use onego_msgr::{Message, features};
use onego_wire::{ConnId, Decoded, Time};

/// The manager's number among those who have come to the monitor.
pub(crate) const MGR_GLOBAL_ID: u64 = 4099;

/// Whom a client has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Monitor,
    Manager,
}

/// The map of a manager that is reached there; without an address there is none.
pub(super) fn map(epoch: Epoch, now: Utime, addrs: AddrVec) -> MgrMap {
    if addrs.0.is_empty() {
        return MgrMap { epoch, ..MgrMap::default() };
    }
    MgrMap {
        epoch,
        active_addrs: addrs,
        active_gid: MGR_GLOBAL_ID,
        available: true,
        active_name: MGR_NAME.into(),
        active_change: now,
        active_features: features::ALL,
        ..MgrMap::default()
    }
}

impl Mon {
    /// A message to the manager came in.
    pub(super) fn manager_message(
        &mut self,
        now: Time,
        session: ConnId,
        mut message: Message,
        usage: &Usage,
    ) -> Decoded<()> {
        // Clients take the answer in the form of the question.
        let answer_kind = match message.header.kind {
            kind::COMMAND => kind::COMMAND_REPLY,
            kind::MGR_COMMAND => kind::MGR_COMMAND_REPLY,
            // Daemons also open sessions, report and close. The cluster keeps no reports.
            other => {
                tracing::debug!(kind = other, "the manager passes over a message");
                return Ok(());
            }
        };
        let tid = message.header.tid;
        message.header.kind = kind::COMMAND;
        let Tell { command, .. } = message.decode()?;
        // Clients leave out which cluster they mean.
        let command = MonCommand { fsid: self.fsid, command, input: message.data };
        let reply = self.command(now, usage, session, command, Audience::Manager);
        let CommandReply { result, status, output, .. } = reply;
        let mut answer = Message::of(tid, &TellReply { result, status, output });
        answer.header.kind = answer_kind;
        self.out.push_back((session, answer));
        Ok(())
    }
}
