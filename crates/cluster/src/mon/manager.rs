//! The manager, which programs ask about placement groups and OSDs: librados sends `rados_mgr_command` to it, and waits
//! for ever where there is none. Here it is the monitor under another name, at an address of its own.
//!
//! Source: ceph `src/mgr/MgrClient.cc`, `src/messages/{MMgrCommand,MMgrCommandReply}.h`.

use super::command::Audience;
use super::monitor::{Mon, Outgoing};
use super::usage::Usage;
use onego_ceph::messages::{CommandReply, MonCommand, Tell, TellReply, kind};
use onego_msgr::Message;
use onego_wire::{ConnId, Decoded, Time};

impl Mon {
    /// A message to the manager came in.
    pub(in crate::mon) fn manager_message(
        &mut self,
        now: Time,
        session: ConnId,
        message: &mut Message,
        usage: &Usage,
    ) -> Decoded<()> {
        if self.service_message(now, session, message) {
            return Ok(());
        }
        // Clients take the answer in the form of the question.
        let answer_kind = match message.header.kind {
            kind::COMMAND => kind::COMMAND_REPLY,
            kind::MGR_COMMAND => kind::MGR_COMMAND_REPLY,
            other => {
                tracing::debug!(kind = other, "the manager passes over a message");
                return Ok(());
            }
        };
        let tid = message.header.tid;
        message.header.kind = kind::COMMAND;
        let Tell { command, input, .. } = message.decode()?;
        // Clients leave out which cluster they mean.
        let command = MonCommand { fsid: self.fsid, command, input };
        let reply = self.command(now, usage, session, command, Audience::Manager, message.discarded);
        let CommandReply { result, status, output, .. } = reply;
        let mut answer = Message::of(tid, &TellReply { result, status, output });
        answer.header.kind = answer_kind;
        self.out.push_back((session, Outgoing::Message(answer)));
        Ok(())
    }
}
