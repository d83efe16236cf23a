use super::core::{CallOutcome, FileCommand, NfsCommand, ReplyTo};
use crate::mailbox::{Closed, Mailbox};
use crate::pending::{Asker, Pending};
use crate::waiting::Report;
use futures_channel::oneshot;
use onego_buf::Pool;
use onego_nfs::client::{Call, CallFigures, Error as CallError, Waiting};
use onego_nfs::rpc::Procedure;
use onego_nfs::v3::Handle;
use onego_wire::LocalPort;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Channel for requests to the reactor. It closes when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Requests {
    shared: Arc<Shared>,
    pub(super) pool: Pool,
    pub(super) report: Report<Waiting>,
    pub(super) figures: CallFigures,
}

struct Shared {
    mailbox: Arc<Mailbox<NfsCommand>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.mailbox.close();
    }
}

impl Requests {
    pub(super) fn new(
        mailbox: Arc<Mailbox<NfsCommand>>,
        pool: Pool,
        report: Report<Waiting>,
        figures: CallFigures,
    ) -> Self {
        Self { shared: Arc::new(Shared { mailbox }), pool, report, figures }
    }

    #[cfg(feature = "block")]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(super) async fn send(&self, command: NfsCommand) -> Result<(), Closed> {
        self.shared.mailbox.send(command).await
    }

    pub(super) async fn call<P: Procedure>(&self, call: Call) -> Result<P::Results, CallError> {
        self.ask::<P>(|done| NfsCommand::Call { call, patience: None, done }).await
    }

    /// Calls the procedure `P` of another server, with a time limit.
    pub(super) async fn call_to<P: Procedure>(
        &self,
        addr: SocketAddr,
        local: LocalPort,
        patience: Duration,
        args: &P::Args,
    ) -> Result<P::Results, CallError> {
        let call = Call::new::<P>(args);
        self.ask::<P>(|done| NfsCommand::CallTo { addr, local, patience, call, done }).await
    }

    pub(super) async fn ask<P: Procedure>(
        &self,
        command: impl FnOnce(oneshot::Sender<CallOutcome>) -> NfsCommand,
    ) -> Result<P::Results, CallError> {
        let (done, answer) = oneshot::channel();
        self.send(command(done)).await.map_err(|Closed| CallError::Closed)?;
        let reply = self.answer(answer).await.map_err(|Closed| CallError::Closed)??;
        Ok(reply.read::<P>()?)
    }

    pub(super) async fn file<T>(
        &self,
        file: Handle,
        command: impl FnOnce(ReplyTo<T>) -> FileCommand,
    ) -> Result<T, Closed> {
        let answer = self.begin(file, command).await?;
        self.answer(answer).await
    }

    /// Starts a file command. Dropping the receiver cancels it at the next [sweep](Self::sweep).
    pub(super) async fn begin<T>(
        &self,
        file: Handle,
        command: impl FnOnce(ReplyTo<T>) -> FileCommand,
    ) -> Result<oneshot::Receiver<T>, Closed> {
        let (done, answer) = oneshot::channel();
        self.send(NfsCommand::File { file, command: command(ReplyTo::Future(done)) }).await?;
        Ok(answer)
    }

    fn answer<T>(&self, answer: oneshot::Receiver<T>) -> Pending<'_, T, Self> {
        Pending::new(self, answer)
    }

    /// Requests a sweep of abandoned requests by the reactor.
    pub(super) fn sweep(&self) {
        self.shared.mailbox.ask_sweep();
    }
}

impl<T> Asker<T> for Requests {
    fn abandoned(&self, _: Option<T>) {
        self.sweep();
    }
}
